//! Computes a plan apart from the decisions: an immutable copy of what the plan needs, and nothing else of the state.
//!
//! The core copies one group, what is reported of its pods, and the nodes; a worker computes the plan from that. So a plan
//! that takes a second delays no decision and no other answer.

use std::collections::BTreeMap;
use std::sync::Arc;

use contract::command::Refusal;
use contract::name::NodeName;
use contract::pod_id::PodId;
use contract::query::Answer;
use contract::record::{GroupRecord, Slot};
use contract::report::PodFacts;
use contract::rollout_view::PlanView;
use contract::spec::{ContainerSpec, PodSpec};
use contract::time::Timestamp;
use planner::group::dry_run::{Budget, Stopped, dry_run};
use planner::group::{GroupFacts, Patience, Revision};
use planner::placement::{Candidate, Standings, Tenants};
use planner::rollout::controller::RolloutState;

/// A plan that is to be computed.
#[derive(Debug, Clone, PartialEq)]
pub struct DryRun {
    is_new: bool,
    now: Timestamp,
    record: GroupRecord,
    revisions: BTreeMap<u32, Revision>,
    slots: Vec<Slot>,
    release: Option<RolloutState>,
    seen: Vec<Option<PodFacts>>,
    beside: Vec<Option<PodFacts>>,
    vacated: Vec<bool>,
    leaving: Vec<u32>,
    strays: u32,
    patience: Patience,
    guarding: bool,
    constraints: Vec<String>,
    hosts: BTreeMap<NodeName, Candidate>,
    neighbours: Neighbours,
}

/// The pods on each node, for affinity expressions.
#[derive(Debug, Clone, Default, PartialEq)]
struct Neighbours(BTreeMap<NodeName, Vec<(PodId, Arc<PodSpec>)>>);

impl Tenants for Neighbours {
    fn visit(&self, node: &NodeName, see: &mut dyn FnMut(&PodId, &PodSpec)) {
        self.0.get(node).into_iter().flatten().for_each(|(pod, spec)| see(pod, spec));
    }
}

impl DryRun {
    /// Copies what the plan of a group is computed from.
    pub(super) fn of(facts: &GroupFacts<'_>, now: Timestamp, is_new: bool) -> Self {
        let owned = |pods: &[Option<&PodFacts>]| pods.iter().map(|pod| pod.cloned()).collect();
        Self {
            is_new,
            now,
            record: facts.record.clone(),
            revisions: facts.revisions.clone(),
            slots: facts.slots.to_vec(),
            release: facts.release.cloned(),
            seen: owned(facts.seen),
            beside: owned(facts.beside),
            vacated: facts.vacated.to_vec(),
            leaving: facts.leaving.to_vec(),
            strays: facts.strays,
            patience: facts.patience,
            guarding: facts.guarding,
            constraints: facts.constraints.to_vec(),
            hosts: facts.hosts.clone(),
            neighbours: neighbours(facts),
        }
    }

    /// Computes the plan. None when the client does not wait for it any longer, which `is_expired` says.
    pub fn answer(&self, is_expired: &dyn Fn() -> bool) -> Option<Answer> {
        let planned = match self.compute(Budget::new(is_expired)) {
            Ok(view) => Ok(Box::new(view)),
            Err(Stopped::Expired) => return None,
            Err(Stopped::Costly) => Err(Refusal::Unfit { reason: TOO_COSTLY.to_owned() }),
        };
        Some(Answer::Plan(planned))
    }

    fn compute(&self, budget: Budget<'_>) -> Result<PlanView, Stopped> {
        // One order of the nodes serves every unit.
        let mut standings = Standings::default();
        let need = self.revisions.get(&self.record.spec.version).map(|revision| revision.need);
        standings.prepare(&self.hosts, need.unwrap_or_default());
        let seen: Vec<Option<&PodFacts>> = self.seen.iter().map(Option::as_ref).collect();
        let beside: Vec<Option<&PodFacts>> = self.beside.iter().map(Option::as_ref).collect();
        let facts = GroupFacts {
            record: &self.record,
            revisions: &self.revisions,
            patience: self.patience,
            slots: &self.slots,
            seen: &seen,
            vacated: &self.vacated,
            lingers: false,
            beside: &beside,
            leaving: &self.leaving,
            strays: self.strays,
            stored: &BTreeMap::new(),
            release: self.release.as_ref(),
            guarding: self.guarding,
            constraints: &self.constraints,
            hosts: &self.hosts,
            standings: Some(&standings),
            tenants: &self.neighbours,
        };
        let view = dry_run(&facts, self.now, budget)?;
        Ok(PlanView { is_new: self.is_new, ..view })
    }
}

const TOO_COSTLY: &str = "the plan takes too many steps to compute; choose a larger BatchSize, MaxSurge or MaxUnavailable, \
                          or plan fewer instances or units";

/// The pods on every node, if a filter asks for them: most groups have no affinity.
fn neighbours(facts: &GroupFacts<'_>) -> Neighbours {
    let own = facts.revisions.values().flat_map(|revision| &revision.pod.filters);
    if !own.chain(facts.constraints).any(|filter| filter.contains("affinity:")) {
        return Neighbours::default();
    }
    // Pods of one group and version share their spec, and so do the copies.
    let mut copies: BTreeMap<*const PodSpec, Arc<PodSpec>> = BTreeMap::new();
    let mut on = |node: &NodeName| {
        let mut pods = Vec::new();
        facts.tenants.visit(node, &mut |pod, spec| {
            let copy = copies.entry(spec).or_insert_with(|| Arc::new(seen_by_affinity(spec)));
            pods.push((pod.clone(), Arc::clone(copy)));
        });
        (node.clone(), pods)
    };
    Neighbours(facts.hosts.keys().map(&mut on).collect())
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
