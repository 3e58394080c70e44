//! The dry run: what a spec would do, without changing anything.
//!
//! [`Queries::dry_run`] computes the record as the commands would. For an existing group the spec stands for three commands: the
//! strategy, then the number of instances, then the pod spec. [`DryRun`] is a copy of everything that the plan needs: one group,
//! the reports of its pods, and the nodes. A worker thread computes the plan from it, so a plan that takes a second delays no
//! decision and no other answer.

use std::collections::BTreeMap;
use std::sync::Arc;

use contract::command::{Operation, Refusal};
use contract::name::{GroupName, NodeName};
use contract::pod_id::PodId;
use contract::query::Answer;
use contract::record::{GroupRecord, Instance};
use contract::report::PodFacts;
use contract::rollout_view::PlanView;
use contract::spec::{ContainerSpec, PodGroupSpec, PodSpec};
use contract::time::Timestamp;
use planner::group::dry_run::{Aborted, WorkLimit, dry_run};
use planner::group::{GroupFacts, GroupTimeouts, Revision};
use planner::placement::{Candidate, LoadRanking, PlacedPods};
use planner::rollout::controller::RolloutState;

use crate::core::commands::admission::{Admission, malformed};
use crate::core::commands::spec::SpecChange;
use crate::core::commands::strategy::past_new_gates;
use crate::core::reconcile::input::{ALL, GroupInput, ReportedPods, Terminating, counted};
use crate::core::state::{Group, pods_of};

use super::Queries;

impl Queries<'_> {
    /// The input of a dry run, or why the spec would be refused. A plan changes nothing, so an operation that holds the group
    /// does not refuse it: the plan shows what the commands do when they are accepted, and notes the operation.
    pub(super) fn dry_run(&self, spec: PodGroupSpec) -> Result<DryRun, Refusal> {
        let unnamed = |error: contract::name::Error| Refusal::Malformed { reason: format!("Name: {error}") };
        let name: GroupName = spec.name.parse().map_err(unnamed)?;
        let present = self.state.groups.get(&name).filter(|group| group.is_present());
        let group = match present {
            Some(group) => self.changed(&name, group, spec)?,
            None => {
                let (created, cores) = (self.admission().created(spec)?, self.settings.quota_cores);
                match self.state.groups.get(&name).filter(|_| created.adopts) {
                    Some(adopted) => adopted.with_record(created.record, cores),
                    None => Group::new(created.record, cores),
                }
            }
        };
        let is_new = present.is_none();
        let operation = self.state.groups.get(&name).and_then(|group| group.record.operation.as_ref());
        let notes = operation.map(|operation| in_progress(operation.kind)).into_iter().collect();
        Ok(self.with_facts(&name, &group, |facts| DryRun { is_new, notes, ..DryRun::of(facts, self.now) }))
    }

    pub(super) fn admission(&self) -> Admission<'_> {
        Admission { state: self.state, settings: self.settings, now: self.now, assumes_finished: true }
    }

    /// The group after the three commands; each is judged on the result of the one before.
    fn changed(&self, name: &GroupName, group: &Group, spec: PodGroupSpec) -> Result<Group, Refusal> {
        spec.validate().map_err(|flaws| malformed(&flaws))?;
        let admission = self.admission();
        let cores = self.settings.quota_cores;
        let mut group = group.with_record(GroupRecord { operation: None, ..group.record.clone() }, cores);
        if let Some(record) = admission.with_strategy_of(&group, &spec)? {
            let before = group.record.spec.clone();
            group = group.with_record(record, cores);
            group = past_new_gates(&group, &before)
                .map_or_else(|| group.clone(), |instances| group.with_instances(instances));
        }
        let wanted = u32::try_from(spec.num_instances).unwrap_or(0);
        let asked = (spec.num_instances, spec.restart_policy);
        if asked != (group.record.spec.num_instances, group.record.spec.restart_policy)
            && let Some(record) = admission.resized(&group, wanted, Some(spec.restart_policy))?
        {
            group = group.with_record(record, cores);
        }
        let is_new = !group.record.spec.pod.patched(spec.pod.clone(), self.now).asks_the_same(&group.record.spec.pod);
        if is_new {
            group = match admission.patched(name, &group, spec.pod)? {
                SpecChange::Next(record) => group.with_record(*record, cores),
                SpecChange::Rejected(reason) => return Err(Refusal::Unfit { reason }),
            };
        }
        Ok(group)
    }

    /// Calls `plan` with the planner's input for a group, as far as reports show it.
    pub(super) fn with_facts<T>(&self, name: &GroupName, group: &Group, plan: impl FnOnce(&GroupFacts<'_>) -> T) -> T {
        let terminating = self.terminating(name, group);
        let input = GroupInput {
            state: self.state,
            settings: self.settings,
            sight: ReportedPods::of(self.reports, name, group),
            terminating: &terminating,
            vacated: group.instances().iter().map(|instance| instance.leaves.is_none()).collect(),
            has_leftovers: false,
            known: &BTreeMap::new(),
            ranking: None,
        };
        input.plan_with(group, &group.record, plan)
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct DryRun {
    is_new: bool,
    notes: Vec<String>,
    now: Timestamp,
    record: GroupRecord,
    revisions: BTreeMap<u32, Revision>,
    instances: Vec<Instance>,
    release: Option<RolloutState>,
    seen: Vec<Option<PodFacts>>,
    beside: Vec<Option<PodFacts>>,
    vacated: Vec<bool>,
    leaving: Vec<u32>,
    terminating_removed: u32,
    patience: GroupTimeouts,
    guarding: bool,
    constraints: Vec<String>,
    hosts: BTreeMap<NodeName, Candidate>,
    neighbours: Neighbours,
}

/// The pods on each node, for affinity expressions.
#[derive(Debug, Clone, Default, PartialEq)]
struct Neighbours(BTreeMap<NodeName, Vec<(PodId, Arc<PodSpec>)>>);

impl PlacedPods for Neighbours {
    fn visit(&self, node: &NodeName, see: &mut dyn FnMut(&PodId, &PodSpec)) {
        self.0.get(node).into_iter().flatten().for_each(|(pod, spec)| see(pod, spec));
    }
}

impl DryRun {
    /// Copies the input of a plan.
    pub(super) fn of(facts: &GroupFacts<'_>, now: Timestamp) -> Self {
        let owned = |pods: &[Option<&PodFacts>]| pods.iter().map(|pod| pod.cloned()).collect();
        Self {
            is_new: false,
            notes: Vec::new(),
            now,
            record: facts.record.clone(),
            revisions: facts.revisions.clone(),
            instances: facts.instances.to_vec(),
            release: facts.release.cloned(),
            seen: owned(facts.observed),
            beside: owned(facts.observed_surge),
            vacated: facts.vacated.to_vec(),
            leaving: facts.leaving.to_vec(),
            terminating_removed: facts.terminating_removed,
            patience: facts.timeouts,
            guarding: facts.guard_enabled,
            constraints: facts.constraints.to_vec(),
            hosts: facts.nodes.clone(),
            neighbours: neighbours(facts),
        }
    }

    /// Computes the plan. None when `is_expired` returns true because the client has stopped waiting.
    pub fn answer(&self, is_expired: &dyn Fn() -> bool) -> Option<Answer> {
        let planned = match self.compute(WorkLimit::new(is_expired)) {
            Ok(view) => Ok(Box::new(view)),
            Err(Aborted::Expired) => return None,
            Err(Aborted::Costly) => Err(Refusal::Unfit { reason: TOO_COSTLY.to_owned() }),
        };
        Some(Answer::Plan(planned))
    }

    fn compute(&self, budget: WorkLimit<'_>) -> Result<PlanView, Aborted> {
        // One order of the nodes serves every unit.
        let mut ranking = LoadRanking::default();
        let need = self.revisions.get(&self.record.spec.version).map(|revision| revision.need);
        ranking.prepare(&self.hosts, need.unwrap_or_default());
        let seen: Vec<Option<&PodFacts>> = self.seen.iter().map(Option::as_ref).collect();
        let beside: Vec<Option<&PodFacts>> = self.beside.iter().map(Option::as_ref).collect();
        let facts = GroupFacts {
            record: &self.record,
            revisions: &self.revisions,
            timeouts: self.patience,
            instances: &self.instances,
            observed: &seen,
            vacated: &self.vacated,
            has_leftovers: false,
            observed_surge: &beside,
            leaving: &self.leaving,
            terminating_removed: self.terminating_removed,
            committed: &BTreeMap::new(),
            release: self.release.as_ref(),
            guard_enabled: self.guarding,
            constraints: &self.constraints,
            nodes: &self.hosts,
            ranking: Some(&ranking),
            placed_pods: &self.neighbours,
        };
        let view = dry_run(&facts, self.now, budget)?;
        Ok(PlanView { is_new: self.is_new, notes: self.notes.clone(), ..view })
    }
}

fn in_progress(operation: Operation) -> String {
    format!("another operation is in progress: {}; the plan assumes it has finished", operation.word())
}

const TOO_COSTLY: &str = "the plan takes too many steps to compute; choose a larger BatchSize, MaxSurge or MaxUnavailable, \
                          or plan fewer instances or units";

/// The pods on every node, if a filter needs them: most groups have no affinity.
fn neighbours(facts: &GroupFacts<'_>) -> Neighbours {
    let own = facts.revisions.values().flat_map(|revision| &revision.pod.filters);
    if !own.chain(facts.constraints).any(|filter| filter.contains("affinity:")) {
        return Neighbours::default();
    }
    // Pods of one group and version share their spec, and so do the copies.
    let mut copies: BTreeMap<*const PodSpec, Arc<PodSpec>> = BTreeMap::new();
    let mut on = |node: &NodeName| {
        let mut pods = Vec::new();
        facts.placed_pods.visit(node, &mut |pod, spec| {
            let copy = copies.entry(spec).or_insert_with(|| Arc::new(seen_by_affinity(spec)));
            pods.push((pod.clone(), Arc::clone(copy)));
        });
        (node.clone(), pods)
    };
    Neighbours(facts.nodes.keys().map(&mut on).collect())
}

/// The fields of a spec that affinity expressions read.
fn seen_by_affinity(spec: &PodSpec) -> PodSpec {
    let image =
        |container: &ContainerSpec| ContainerSpec { image: container.image.clone(), ..ContainerSpec::default() };
    PodSpec {
        labels: spec.labels.clone(),
        containers: spec.containers.iter().map(image).collect(),
        ..PodSpec::default()
    }
}

impl Queries<'_> {
    /// The terminating pods of a group with a strategy, as far as reports show them.
    pub(super) fn terminating(&self, name: &GroupName, group: &Group) -> Terminating {
        let pods = |node| self.reports.pods(node, pods_of(name, ALL)).map(move |(pod, _)| (node, pod));
        counted(name, group, self.reports.sightings(name).flat_map(pods))
    }
}
