//! Translates instances and reports into the input of the rollout controller.
//!
//! Free numbers are left out. A pod on a silent node is not ready; nothing else follows from silence. A pod that waits for
//! the removal of another one was never ordered, so it does not exist yet.

use std::collections::BTreeSet;

use contract::query::Liveness;
use contract::record::{Instance, Presence};
use contract::report::{ContainerFacts, PodFacts};
use contract::state::{HealthState, TargetState};
use contract::time::Timestamp;

use super::super::update_method::{UpdateMethod, update_method};
use super::super::{Planning, PodStatus, number};
use super::settings::{self, SurgeRule};
use crate::capacity;
use crate::placement::Candidate;
use crate::restart;
use crate::rollout::availability::is_available;
use crate::rollout::controller::{self, RolloutFacts, RolloutPod, RolloutState, SurgePod, UnitFacts};
use crate::rollout::failure::Signs;
use crate::rollout::moment::Moment;
use crate::rollout::ranking::PodPhase;

/// The target of a group without a rollout: every revision differs from it.
const NOWHERE: u32 = u32::MAX;

impl Planning<'_> {
    /// The input of the controller and the names of its units.
    pub(in super::super) fn controller_facts(&mut self) -> (RolloutFacts, Vec<String>) {
        let units = self.all_units();
        let spec = &self.record.spec;
        let instances = (0..self.plan.instances.len()).filter_map(|index| self.instance_facts(index, &units)).collect();
        let release = self.facts.release.cloned().unwrap_or_else(|| RolloutState::toward(NOWHERE));
        let facts = RolloutFacts {
            settings: settings::settings(spec, self.surge_rule(), self.is_first_deployment()),
            replicas: spec.num_instances,
            target: spec.version,
            equals: self.record.equals.clone(),
            proven: self.record.proven,
            is_rollback: !self.record.equals.is_empty(),
            can_roll_back: self.completed_version().is_some(),
            units: self.units(),
            instances,
            terminating_removed: i64::from(self.facts.terminating_removed).max(self.removed_and_leaving()),
            is_blind: self.is_blind(),
            state: RolloutState { is_paused: spec.paused, ..release },
            now: Moment::from(self.now),
        };
        self.wake_for_readiness();
        (facts, units)
    }

    /// Removed instances that their node still has. Lost nodes do not count: they may never answer.
    fn removed_and_leaving(&self) -> i64 {
        let is_leaving = |instance: &&Instance| {
            instance.presence == Presence::Free && instance.leaves.as_ref().is_some_and(|node| !self.is_lost(node))
        };
        i64::try_from(self.plan.instances.iter().filter(is_leaving).count()).unwrap_or(i64::MAX)
    }

    /// A node has not reported to this leader yet. Checked only while pods are to be replaced, because it examines every
    /// node.
    fn is_blind(&self) -> bool {
        let is_done = |release: &RolloutState| release.is_completed(self.record.spec.version);
        let is_unreachable = |candidate: &Candidate| candidate.liveness == Liveness::Unknown;
        !self.facts.release.is_some_and(is_done) && self.facts.nodes.values().any(is_unreachable)
    }

    fn instance_facts(&self, index: usize, units: &[String]) -> Option<controller::Instance> {
        let instance = &self.plan.instances[index];
        let unit = |name: &String| units.iter().position(|unit| unit == name).unwrap_or(0);
        let main = match instance.presence {
            Presence::Free => return None,
            Presence::Vacant => None,
            Presence::Pod => Some(self.pod_facts(instance, self.observed(index))),
        };
        let next = instance.next.as_deref().map(|next| SurgePod {
            unit: unit(&next.unit),
            pod: self.pod_facts(next, self.observed_surge.get(index).copied().flatten()),
        });
        let seen_leaving = self.facts.leaving.get(index).copied().unwrap_or(0);
        Some(controller::Instance {
            number: number(index),
            unit: unit(&instance.unit),
            is_stopped: instance.target == TargetState::Stop,
            is_bound: instance.node.is_some() && self.revision(instance.version).pod.is_stateful(),
            main,
            next,
            leaving: i64::from(seen_leaving.max(u32::from(instance.leaves.is_some()))),
        })
    }

    fn pod_facts(&self, instance: &Instance, observed: Option<&PodFacts>) -> RolloutPod {
        let status = self.status_of(instance, observed);
        let is_hook_overdue = instance.draining.as_ref().is_some_and(|draining| self.is_overdue(draining));
        RolloutPod {
            revision: instance.version,
            node: instance.node.as_ref().map(ToString::to_string).unwrap_or_default(),
            phase: self.phase(status, observed),
            ready: self.ready(instance, observed),
            created: is_made(status).then(|| Moment::from(instance.since.min(self.now).max(Timestamp::from_millis(0)))),
            follows: status == PodStatus::Moving,
            cost: 0,
            signs: self.signs(instance, observed),
            is_hook_overdue,
            is_gate_overdue: self.gates_limit(instance, observed).is_some_and(|limit| limit <= self.now),
            is_preparing: instance.draining.is_some() || instance.fetching.is_some(),
            fetch: self.fetch_facts(instance, observed),
            unschedulable_since: Some(instance.unplaced_since).filter(|since| since.happened()).map(Moment::from),
        }
    }

    fn phase(&self, status: PodStatus, observed: Option<&PodFacts>) -> PodPhase {
        match status {
            PodStatus::Unplaced
            | PodStatus::Moving
            | PodStatus::Starting
            | PodStatus::CreateFailed
            | PodStatus::Missing => PodPhase::Pending,
            PodStatus::Running => PodPhase::Running,
            PodStatus::Exited if observed.is_some_and(|observed| observed.is_crash_looping) => PodPhase::Failed,
            PodStatus::Exited if observed.is_some_and(|observed| self.stays_down(observed)) => PodPhase::Succeeded,
            PodStatus::Exited => PodPhase::Pending,
            PodStatus::NodeLost | PodStatus::LeftAlone | PodStatus::Unreachable => PodPhase::Unknown,
        }
    }

    /// A container exited as its policy expects: the pod will not be complete again by itself.
    fn stays_down(&self, observed: &PodFacts) -> bool {
        let policy = self.record.spec.restart_policy;
        let mut ended = observed.containers.iter().filter(|it| !it.running && it.finished_at.happened());
        ended.any(|container| !restart::is_wanted(policy, container.exit_code, !container.error.is_empty()))
    }

    fn signs(&self, instance: &Instance, observed: Option<&PodFacts>) -> Signs {
        let Some(observed) = observed else {
            return Signs { restarts: i64::from(instance.failures), ..Signs::default() };
        };
        if instance.created_from.is_some() && observed.restarted_at < instance.since {
            // Restarts before a live update do not count against the new revision.
            return Signs::default();
        }
        Signs {
            // A failed attempt to create the pod counts like a failed start.
            restarts: i64::from(observed.restarts.max(instance.failures)),
            image_is_hopeless: observed.image_is_hopeless,
            early_exits: self.early_exits(instance, observed),
            stays_failed: self.stays_failed(instance, observed),
        }
    }

    /// The program failed and the policy does not restart it: waiting for the deadline would not help.
    fn stays_failed(&self, instance: &Instance, observed: &PodFacts) -> bool {
        let policy = self.record.spec.restart_policy;
        let has_failed = |it: &ContainerFacts| {
            let is_error = !it.error.is_empty();
            let failed = it.exit_code != 0 || is_error;
            !it.running && it.finished_at.happened() && failed && !restart::is_wanted(policy, it.exit_code, is_error)
        };
        self.status_of(instance, Some(observed)) == PodStatus::Exited && observed.containers.iter().any(has_failed)
    }

    /// No revision of the group has completed, and no instance runs another revision than the desired one.
    fn is_first_deployment(&self) -> bool {
        let mut pods = self.plan.instances.iter().flat_map(Instance::pods);
        self.record.proven.is_none() && pods.all(|pod| pod.version == self.record.spec.version)
    }

    /// Exits before the pod was available. Reports do not contain the length of earlier runs: they count like the last one,
    /// and an available pod has none.
    fn early_exits(&self, instance: &Instance, observed: &PodFacts) -> i64 {
        let min_ready = self.record.spec.min_ready();
        let has_ended = self.status_of(instance, Some(observed)) == PodStatus::Exited;
        if is_available(self.ready(instance, Some(observed)), min_ready, self.now.into()) {
            return 0;
        }
        let needed = match observed.health {
            HealthState::None => min_ready + self.revision(instance.version).pod.setup(),
            HealthState::Starting | HealthState::Healthy | HealthState::Unhealthy => min_ready,
        };
        let lasted = |it: &ContainerFacts| it.finished_at.since(it.started_at) >= needed;
        let has_counted = has_ended && observed.containers.iter().filter(|it| !it.running).all(lasted);
        if has_counted { 0 } else { i64::from(observed.restarts) + i64::from(has_ended) }
    }

    /// Whether an instance may have two pods: not if the pod is stateful or updated in place.
    pub(super) fn surge_rule(&self) -> SurgeRule {
        let pods = self.plan.instances.iter().flat_map(Instance::pods);
        let versions: BTreeSet<u32> = pods.filter(|pod| self.is_outdated(pod)).map(|pod| pod.version).collect();
        let is_stateful = |version: &u32| self.revision(*version).pod.is_stateful();
        let in_place = |version: &u32| match update_method(
            self.record.spec.update_policy,
            &self.revision(*version).pod,
            &self.present.pod,
        ) {
            UpdateMethod::Live | UpdateMethod::SameAddress => true,
            UpdateMethod::Recreate | UpdateMethod::Refused { .. } => false,
        };
        if self.present.pod.is_stateful() || versions.iter().any(is_stateful) {
            SurgeRule::Stateful
        } else if versions.iter().any(in_place) {
            SurgeRule::InPlace
        } else {
            SurgeRule::Allowed
        }
    }

    /// The units that the group declares; units that it no longer declares get no instances.
    fn units(&self) -> Vec<UnitFacts> {
        let topology = self.record.spec.topology.as_ref();
        let auto = topology.and_then(|topology| topology.auto_reschedule.as_ref()).is_some_and(|auto| auto.enable);
        let is_short =
            auto && self.plan.instances.iter().flat_map(Instance::pods).any(|pod| pod.unplaced_since.happened());
        let unit = |name: &str| UnitFacts {
            name: name.to_owned(),
            preference: topology.and_then(|topology| topology.unit_replicas.get(name).copied()),
            // Needed only if an instance is unschedulable, because it examines every node.
            free_capacity: is_short.then(|| self.free_capacity(name)),
        };
        self.declared_units().into_iter().map(unit).collect()
    }

    /// Pods of the present revision that fit on the nodes of a unit.
    fn free_capacity(&self, unit: &str) -> i64 {
        let Some(topology) = &self.record.spec.topology else { return 0 };
        let is_in =
            |candidate: &&Candidate| candidate.facts.labels.get(topology.label()).is_some_and(|value| value == unit);
        let free = |candidate: &Candidate| capacity::room_on(candidate, self.present.need);
        let pods = self.facts.nodes.values().filter(is_in).map(free).fold(0, u64::saturating_add);
        i64::try_from(pods).unwrap_or(i64::MAX)
    }

    /// Plans wake-ups for the placement timeouts. For a pod that only this plan found unschedulable, the next plan may act
    /// immediately.
    pub(super) fn wake_for_placement_timeout(&mut self) {
        let settings = settings::settings(&self.record.spec, SurgeRule::Allowed, self.is_first_deployment());
        let waits = [settings.placement_patience, settings.auto_reschedule.map(|auto| auto.delay)];
        let known_before: BTreeSet<Timestamp> = times_unplaced(self.facts.instances).collect();
        let mut limits = Vec::new();
        for since in times_unplaced(&self.plan.instances) {
            let at = waits.into_iter().flatten().map(|wait| self.waits_from(since) + wait);
            limits.extend(at.filter(|at| *at > self.now || !known_before.contains(&since)));
        }
        if let Some(at) = limits.into_iter().min() {
            self.wake(at.max(self.now));
        }
    }

    /// Plans a wake-up for when a pod becomes ready by time alone, or a gate is overdue.
    fn wake_for_readiness(&mut self) {
        let mains = self.plan.instances.iter().enumerate().map(|(index, instance)| (instance, self.observed(index)));
        let nexts = self
            .plan
            .instances
            .iter()
            .zip(&self.observed_surge)
            .filter_map(|(instance, observed)| Some((instance.next.as_deref()?, *observed)));
        let later =
            |(instance, observed)| [self.serves_since(instance, observed), self.gates_limit(instance, observed)];
        let later = mains.chain(nexts).flat_map(later).flatten();
        if let Some(at) = later.filter(|at| *at > self.now).min() {
            self.wake(at);
        }
    }
}

fn times_unplaced(instances: &[Instance]) -> impl Iterator<Item = Timestamp> + '_ {
    instances.iter().flat_map(Instance::pods).map(|pod| pod.unplaced_since).filter(|since| since.happened())
}

/// Whether the pod may exist on a node.
fn is_made(status: PodStatus) -> bool {
    match status {
        PodStatus::Unplaced | PodStatus::Moving => false,
        PodStatus::Starting
        | PodStatus::Running
        | PodStatus::Exited
        | PodStatus::CreateFailed
        | PodStatus::Missing
        | PodStatus::NodeLost
        | PodStatus::LeftAlone
        | PodStatus::Unreachable => true,
    }
}
