//! Tells the conductor what it decides from: slots and reports, translated.
//!
//! A number that is a hole is no instance and is left out. A pod whose node does not answer is not ready, and nothing more is
//! concluded from that. A pod that waits for another to leave was never ordered, so nothing of it exists.

use std::collections::BTreeSet;

use contract::query::Liveness;
use contract::record::{Filling, Slot};
use contract::report::{ContainerFacts, EngineState, PodFacts};
use contract::state::{HealthState, TargetState};
use contract::time::Timestamp;

use super::super::inplace::{Way, update_way};
use super::super::{Bucket, Planning, number};
use super::settings::{self, Doubling};
use crate::placement::{Candidate, Need};
use crate::restart;
use crate::rollout::availability::is_available;
use crate::rollout::controller::{self, RolloutFacts, RolloutPod, RolloutState, SurgePod, UnitFacts};
use crate::rollout::failure::Signs;
use crate::rollout::moment::Moment;
use crate::rollout::recreate::PodPhase;

/// A release that leads nowhere yet: whatever is wanted is another revision.
const NOWHERE: u32 = u32::MAX;

impl Planning<'_> {
    /// What the conductor is told, and the names of its units.
    pub(in super::super) fn conductor_facts(&mut self) -> (RolloutFacts, Vec<String>) {
        let units = self.all_units();
        let spec = &self.record.spec;
        let slots = (0..self.plan.slots.len()).filter_map(|index| self.instance_facts(index, &units)).collect();
        let release = self.facts.release.cloned().unwrap_or_else(|| RolloutState::toward(NOWHERE));
        let facts = RolloutFacts {
            settings: settings::settings(spec, self.doubling(), self.is_first_deployment()),
            replicas: spec.num_instances,
            target: spec.version,
            equals: self.record.equals.clone(),
            proven: self.record.proven,
            is_rollback: !self.record.equals.is_empty(),
            can_roll_back: self.way_back().is_some(),
            units: self.units(),
            slots,
            strays: i64::from(self.facts.strays).max(self.removed_and_leaving()),
            is_blind: self.is_blind(),
            state: RolloutState { is_paused: spec.paused, ..release },
            now: Moment::from(self.now),
        };
        self.look_again();
        (facts, units)
    }

    /// Removed instances whose node has not let go of them. A lost node may never answer and does not count.
    fn removed_and_leaving(&self) -> i64 {
        let is_leaving = |slot: &&Slot| {
            slot.filling == Filling::Nothing && slot.leaves.as_ref().is_some_and(|node| !self.is_lost(node))
        };
        i64::try_from(self.plan.slots.iter().filter(is_leaving).count()).unwrap_or(i64::MAX)
    }

    /// A node has not told this leader yet what it has. Only asked while something is to be replaced: it means looking at
    /// every node.
    fn is_blind(&self) -> bool {
        let is_done = |release: &RolloutState| release.is_completed(self.record.spec.version);
        let is_unheard = |host: &Candidate| host.liveness == Liveness::Unknown;
        !self.facts.release.is_some_and(is_done) && self.facts.hosts.values().any(is_unheard)
    }

    fn instance_facts(&self, index: usize, units: &[String]) -> Option<controller::Slot> {
        let slot = &self.plan.slots[index];
        let unit = |name: &String| units.iter().position(|unit| unit == name).unwrap_or(0);
        let main = match slot.filling {
            Filling::Nothing => return None,
            Filling::Retired => None,
            Filling::Pod => Some(self.pod_facts(slot, self.seen(index))),
        };
        let next = slot.next.as_deref().map(|next| SurgePod {
            unit: unit(&next.unit),
            pod: self.pod_facts(next, self.beside.get(index).copied().flatten()),
        });
        let seen_leaving = self.facts.leaving.get(index).copied().unwrap_or(0);
        Some(controller::Slot {
            number: number(index),
            unit: unit(&slot.unit),
            is_stopped: slot.target == TargetState::Stop,
            is_bound: slot.node.is_some() && self.revision(slot.version).pod.is_stateful(),
            main,
            next,
            leaving: i64::from(seen_leaving.max(u32::from(slot.leaves.is_some()))),
        })
    }

    fn pod_facts(&self, slot: &Slot, seen: Option<&PodFacts>) -> RolloutPod {
        let bucket = self.bucket_of(slot, seen);
        let is_hook_overdue = slot.draining.as_ref().is_some_and(|draining| self.is_overdue(draining));
        RolloutPod {
            revision: slot.version,
            node: slot.node.as_ref().map(ToString::to_string).unwrap_or_default(),
            phase: self.phase(bucket, seen),
            ready: self.ready(slot, seen),
            created: is_made(bucket).then(|| Moment::from(slot.since.min(self.now).max(Timestamp::from_millis(0)))),
            follows: bucket == Bucket::Leaving,
            cost: 0,
            signs: self.signs(slot, seen),
            is_hook_overdue,
            is_gate_overdue: self.gates_limit(slot, seen).is_some_and(|limit| limit <= self.now),
            is_preparing: slot.draining.is_some() || slot.fetching.is_some(),
            fetch: self.fetch_facts(slot, seen),
            unschedulable_since: Some(slot.unplaced_since).filter(|since| since.happened()).map(Moment::from),
        }
    }

    fn phase(&self, bucket: Bucket, seen: Option<&PodFacts>) -> PodPhase {
        match bucket {
            Bucket::Waiting | Bucket::Leaving | Bucket::Pending | Bucket::Failed | Bucket::Missing => PodPhase::Pending,
            Bucket::Running => PodPhase::Running,
            Bucket::Ended if seen.is_some_and(|seen| seen.is_crash_looping) => PodPhase::Failed,
            Bucket::Ended if seen.is_some_and(|seen| self.stays_down(seen)) => PodPhase::Succeeded,
            Bucket::Ended => PodPhase::Pending,
            Bucket::Lost | Bucket::Held | Bucket::Unheard => PodPhase::Unknown,
        }
    }

    /// A container of it ended as its policy wants it: the pod is not whole again by itself.
    fn stays_down(&self, seen: &PodFacts) -> bool {
        let policy = self.record.spec.restart_policy;
        let mut ended = seen.containers.iter().filter(|it| !it.running && it.finished_at.happened());
        ended.any(|container| !restart::is_wanted(policy, container.exit_code, !container.error.is_empty()))
    }

    fn signs(&self, slot: &Slot, seen: Option<&PodFacts>) -> Signs {
        let Some(seen) = seen else { return Signs { restarts: i64::from(slot.failures), ..Signs::default() } };
        if slot.created_from.is_some() && seen.restarted_at < slot.since {
            // What happened before it was updated live is not held against what it is now.
            return Signs::default();
        }
        Signs {
            // An attempt to make it that failed says as much as one to start it.
            restarts: i64::from(seen.restarts.max(slot.failures)),
            image_is_hopeless: seen.image_is_hopeless,
            early_exits: self.early_exits(slot, seen),
            stays_failed: self.stays_failed(slot, seen),
        }
    }

    /// Its program failed and the restart policy starts nothing again: waiting for the deadline would not change that.
    fn stays_failed(&self, slot: &Slot, seen: &PodFacts) -> bool {
        let policy = self.record.spec.restart_policy;
        let has_failed = |it: &ContainerFacts| {
            let is_error = !it.error.is_empty();
            let failed = it.exit_code != 0 || is_error;
            !it.running && it.finished_at.happened() && failed && !restart::is_wanted(policy, it.exit_code, is_error)
        };
        self.bucket_of(slot, Some(seen)) == Bucket::Ended && seen.containers.iter().any(has_failed)
    }

    /// No revision of the group has completed, and no instance runs another revision than the wanted one.
    fn is_first_deployment(&self) -> bool {
        let mut pods = self.plan.slots.iter().flat_map(Slot::pods);
        self.record.proven.is_none() && pods.all(|pod| pod.version == self.record.spec.version)
    }

    /// Times it ended before it counted. How long earlier runs lasted is not reported: they are taken for as long as the
    /// last one, and who counts now has none.
    fn early_exits(&self, slot: &Slot, seen: &PodFacts) -> i64 {
        let min_ready = self.record.spec.min_ready();
        let has_ended = self.bucket_of(slot, Some(seen)) == Bucket::Ended;
        if is_available(self.ready(slot, Some(seen)), min_ready, self.now.into()) {
            return 0;
        }
        let needed = match seen.health {
            HealthState::None => min_ready + self.revision(slot.version).pod.setup(),
            HealthState::Starting | HealthState::Healthy | HealthState::Unhealthy => min_ready,
        };
        let lasted = |it: &ContainerFacts| it.finished_at.since(it.started_at) >= needed;
        let has_counted = has_ended && seen.containers.iter().filter(|it| !it.running).all(lasted);
        if has_counted { 0 } else { i64::from(seen.restarts) + i64::from(has_ended) }
    }

    /// Whether an instance may have two pods: not where a pod keeps data or is changed in place.
    pub(super) fn doubling(&self) -> Doubling {
        let pods = self.plan.slots.iter().flat_map(Slot::pods);
        let versions: BTreeSet<u32> = pods.filter(|pod| self.is_outdated(pod)).map(|pod| pod.version).collect();
        let is_stateful = |version: &u32| self.revision(*version).pod.is_stateful();
        let in_place = |version: &u32| match update_way(
            self.record.spec.update_policy,
            &self.revision(*version).pod,
            &self.present.pod,
        ) {
            Way::Live | Way::SameAddress => true,
            Way::Anew | Way::Refused { .. } => false,
        };
        if self.present.pod.is_stateful() || versions.iter().any(is_stateful) {
            Doubling::Stateful
        } else if versions.iter().any(in_place) {
            Doubling::InPlace
        } else {
            Doubling::Allowed
        }
    }

    /// The units the group declares. Those it does not declare any more are to have none, which needs no saying.
    fn units(&self) -> Vec<UnitFacts> {
        let topology = self.record.spec.topology.as_ref();
        let auto = topology.and_then(|topology| topology.auto_reschedule.as_ref()).is_some_and(|auto| auto.enable);
        let is_short = auto && self.plan.slots.iter().flat_map(Slot::pods).any(|pod| pod.unplaced_since.happened());
        let unit = |name: &str| UnitFacts {
            name: name.to_owned(),
            wish: topology.and_then(|topology| topology.unit_replicas.get(name).copied()),
            // Asked for only when somebody finds no room: it means looking at every node.
            free_slots: is_short.then(|| self.free_slots(name)),
        };
        self.declared_units().into_iter().map(unit).collect()
    }

    /// Pods of the present version that the nodes of a unit have room for.
    fn free_slots(&self, unit: &str) -> i64 {
        let Some(topology) = &self.record.spec.topology else { return 0 };
        let is_in = |host: &&Candidate| {
            host.facts.labels.get(topology.label()).is_some_and(|value| value == unit)
                && (host.liveness, host.engine) == (Liveness::Alive, EngineState::Up)
                && host.cordon.is_none()
        };
        let free = |host: &Candidate| {
            let Need { memory, cpu_millis } = self.present.need;
            let by_memory = host.facts.memory.saturating_sub(host.used.memory) / memory.max(1);
            by_memory.min(host.facts.cpu_millis.saturating_sub(host.used.cpu_millis) / cpu_millis.max(1))
        };
        let pods = self.facts.hosts.values().filter(is_in).map(free).fold(0, u64::saturating_add);
        i64::try_from(pods).unwrap_or(i64::MAX)
    }

    /// Who has no place is waited for so long; whom only this plan found without one, the next may already act on.
    pub(super) fn wait_for_places(&mut self) {
        let settings = settings::settings(&self.record.spec, Doubling::Allowed, self.is_first_deployment());
        let waits = [settings.placement_patience, settings.auto_reschedule.map(|auto| auto.delay)];
        let known: BTreeSet<Timestamp> = homeless_since(self.facts.slots).collect();
        let mut limits = Vec::new();
        for since in homeless_since(&self.plan.slots) {
            let at = waits.into_iter().flatten().map(|wait| self.waits_from(since) + wait);
            limits.extend(at.filter(|at| *at > self.now || !known.contains(&since)));
        }
        if let Some(at) = limits.into_iter().min() {
            self.wake(at.max(self.now));
        }
    }

    /// A pod without a health check becomes ready by time alone, and a gate becomes overdue.
    fn look_again(&mut self) {
        let mains = self.plan.slots.iter().enumerate().map(|(index, slot)| (slot, self.seen(index)));
        let nexts =
            self.plan.slots.iter().zip(&self.beside).filter_map(|(slot, seen)| Some((slot.next.as_deref()?, *seen)));
        let later = |(slot, seen)| [self.serves_since(slot, seen), self.gates_limit(slot, seen)];
        let later = mains.chain(nexts).flat_map(later).flatten();
        if let Some(at) = later.filter(|at| *at > self.now).min() {
            self.wake(at);
        }
    }
}

/// Since when pods are without a place.
fn homeless_since(slots: &[Slot]) -> impl Iterator<Item = Timestamp> + '_ {
    slots.iter().flat_map(Slot::pods).map(|pod| pod.unplaced_since).filter(|since| since.happened())
}

/// Something of it may exist: it was ordered somewhere.
fn is_made(bucket: Bucket) -> bool {
    match bucket {
        Bucket::Waiting | Bucket::Leaving => false,
        Bucket::Pending
        | Bucket::Running
        | Bucket::Ended
        | Bucket::Failed
        | Bucket::Missing
        | Bucket::Lost
        | Bucket::Held
        | Bucket::Unheard => true,
    }
}
