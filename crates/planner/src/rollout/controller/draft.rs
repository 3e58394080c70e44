//! The working copy of a decision: the instances, and the effect of each action on them.
//!
//! A decision takes several steps, and each must see the actions of the steps before; so the draft performs an action as soon as
//! it is decided. A dry run performs actions in the same way. A step may take a main pod before it is known whether a replacement
//! follows: the two become one `Renew`, or else a `Retire`.

use std::collections::BTreeSet;

use super::decision::RolloutAction;
use super::facts::{Instance, RolloutFacts, RolloutPod, SurgePod};
use super::state::{Excuse, RolloutState};
use crate::rollout::limits::PodReplacement;
use crate::rollout::numbers::sum;
use crate::rollout::progress::Counts;

pub(super) struct Draft<'a> {
    pub facts: &'a RolloutFacts,
    /// Sorted by number.
    pub instances: Vec<Instance>,
    /// Terminating pods of removed instances, including those that this decision removes.
    pub terminating_removed: i64,
    pub state: RolloutState,
    pub actions: Vec<RolloutAction>,
    /// Instances whose main pod was taken and whose replacement is not decided yet.
    vacated: BTreeSet<u32>,
}

impl<'a> Draft<'a> {
    pub(super) fn of(facts: &'a RolloutFacts) -> Self {
        let mut instances = facts.instances.clone();
        instances.sort_by_key(|instance| instance.number);
        let (terminating_removed, state) = (facts.terminating_removed, facts.state.clone());
        Self { facts, instances, terminating_removed, state, actions: Vec::new(), vacated: BTreeSet::new() }
    }

    pub(super) fn perform(&mut self, action: RolloutAction) {
        self.terminating_removed += perform(&mut self.instances, self.facts.target, action);
        self.actions.push(action);
    }

    /// Takes the main pod of an instance; its replacement is decided later.
    pub(super) fn vacate(&mut self, number: u32) {
        perform(&mut self.instances, self.facts.target, RolloutAction::Retire(number));
        self.vacated.insert(number);
    }

    /// Gives an instance without a pod one of the target revision.
    pub(super) fn fill(&mut self, number: u32) {
        let Some(unit) = self.instance(number).map(|instance| instance.unit) else { return };
        let action = RolloutAction::Create { instance: number, unit, revision: self.facts.target };
        perform(&mut self.instances, self.facts.target, action);
        self.actions.push(if self.vacated.remove(&number) { RolloutAction::Renew(number) } else { action });
    }

    /// Instances that lost their main pod and got no replacement.
    pub(super) fn settle(&mut self) {
        let open = std::mem::take(&mut self.vacated);
        self.actions.extend(open.into_iter().map(RolloutAction::Retire));
    }

    pub(super) fn instance(&self, number: u32) -> Option<&Instance> {
        self.instances.binary_search_by_key(&number, |instance| instance.number).ok().map(|at| &self.instances[at])
    }

    /// Instances that the user has not stopped.
    pub(super) fn running(&self) -> impl Iterator<Item = &Instance> {
        self.instances.iter().filter(|instance| !instance.is_stopped)
    }

    pub(super) fn is_old(&self, pod: &RolloutPod) -> bool {
        !self.facts.is_target(pod.revision)
    }

    /// The instance has a pod of the target revision, running or only desired.
    pub(super) fn is_updated(&self, instance: &Instance) -> bool {
        pods(instance).any(|pod| !self.is_old(pod))
    }

    pub(super) fn is_available(&self, instance: &Instance) -> bool {
        pods(instance).any(|pod| self.facts.is_available(pod))
    }

    pub(super) fn is_updated_available(&self, instance: &Instance) -> bool {
        pods(instance).any(|pod| !self.is_old(pod) && self.facts.is_available(pod))
    }

    /// The rollout continues without this instance.
    pub(super) fn is_skipped(&self, instance: &Instance) -> bool {
        self.state.excused.get(&instance.number) == Some(&Excuse::Skipped)
    }

    /// Counts instances of each unit in one pass: a decision about 1,000 instances in 64 units counts them 10,000 times.
    pub(super) fn by_unit(&self, is_so: impl Fn(&Instance) -> bool) -> Vec<i64> {
        let mut counts = vec![0; self.units()];
        self.instances.iter().filter(|instance| is_so(instance)).for_each(|instance| counts[instance.unit] += 1);
        counts
    }

    pub(super) fn count(&self, unit: usize, is_so: impl Fn(&Instance) -> bool) -> i64 {
        count(self.instances.iter().filter(|instance| instance.unit == unit && is_so(instance)))
    }

    pub(super) fn updated(&self, unit: usize) -> i64 {
        self.count(unit, |instance| !instance.is_stopped && self.is_updated(instance))
    }

    pub(super) fn updated_by_unit(&self) -> Vec<i64> {
        self.by_unit(|instance| !instance.is_stopped && self.is_updated(instance))
    }

    /// Declared units and units that still have instances.
    pub(super) fn units(&self) -> usize {
        let highest =
            |instance: &Instance| instance.next.as_ref().map_or(instance.unit, |next| next.unit.max(instance.unit));
        self.instances.iter().fold(self.facts.units.len().max(1), |units, instance| units.max(highest(instance) + 1))
    }

    /// The lowest unused number.
    pub(super) fn free_number(&self) -> u32 {
        self.instances.iter().fold(1, |free, instance| if instance.number == free { free + 1 } else { free })
    }

    /// Terminating pods that count. A pod that waits for another pod of its instance to terminate counts as one with it.
    pub(super) fn terminating(&self, replacement: PodReplacement) -> i64 {
        let beyond = |instance: &Instance| {
            let waits = instance.main.as_ref().is_none_or(|main| main.follows && main.created.is_none());
            (instance.leaving - i64::from(waits)).max(0)
        };
        replacement.counted(sum(self.instances.iter().map(beyond).chain([self.terminating_removed])))
    }

    /// Counts for the progress condition. Ready and available pods are those at the target revision: they start from 0, so the
    /// highest count shows how far the rollout came, and an old pod that recovers is no progress.
    pub(super) fn counts(&self) -> Counts {
        let all = || self.running().flat_map(pods);
        let new = || all().filter(|pod| !self.is_old(pod));
        Counts {
            replicas: count(all()),
            updated: count(self.running().filter(|instance| self.is_updated(instance))),
            ready: count(new().filter(|pod| pod.ready.ready)),
            available: count(self.running().filter(|instance| self.is_updated_available(instance))),
        }
    }
}

/// The pods of an instance, the main pod first.
pub(super) fn pods(instance: &Instance) -> impl Iterator<Item = &RolloutPod> {
    instance.main.iter().chain(instance.next.iter().map(|next| &next.pod))
}

pub(super) fn count<T>(items: impl Iterator<Item = T>) -> i64 {
    i64::try_from(items.count()).unwrap_or(i64::MAX)
}

/// Applies an action to the desired state; it creates no pods. Returns the terminating pods that a removed instance leaves
/// behind.
pub(super) fn perform(instances: &mut Vec<Instance>, target: u32, action: RolloutAction) -> i64 {
    match action {
        RolloutAction::Create { instance, unit, revision } => create(instances, instance, unit, revision),
        RolloutAction::Remove(number) => return remove(instances, number),
        RolloutAction::Surge(number) => change(instances, number, |instance| {
            instance.next = Some(SurgePod { unit: instance.unit, pod: RolloutPod::ordered(target) });
        }),
        RolloutAction::Promote(number) => change(instances, number, |instance| {
            if let Some(next) = instance.next.take() {
                instance.unit = next.unit;
                let main = instance.main.replace(next.pod);
                leave(instance, main);
            }
        }),
        RolloutAction::Renew(number) => change(instances, number, |instance| {
            let main = instance.main.replace(RolloutPod::ordered(target));
            leave(instance, main);
            follow(instance);
        }),
        RolloutAction::Drop(number) => change(instances, number, |instance| {
            let next = instance.next.take().map(|next| next.pod);
            leave(instance, next);
        }),
        RolloutAction::Retire(number) => change(instances, number, |instance| {
            let main = instance.main.take();
            leave(instance, main);
        }),
        RolloutAction::Move { instance, unit } => change(instances, instance, |instance| {
            instance.next =
                instance.main.as_ref().map(|main| SurgePod { unit, pod: RolloutPod::ordered(main.revision) });
        }),
        RolloutAction::Reassign { instance, unit } => change(instances, instance, |instance| {
            instance.unit = unit;
            let ordered = instance.main.as_ref().map(|main| RolloutPod::ordered(main.revision));
            let main = std::mem::replace(&mut instance.main, ordered);
            leave(instance, main);
            follow(instance);
        }),
        RolloutAction::Divert { instance, unit } => change(instances, instance, |instance| {
            let ordered =
                instance.next.as_ref().map(|next| SurgePod { unit, pod: RolloutPod::ordered(next.pod.revision) });
            let next = std::mem::replace(&mut instance.next, ordered).map(|next| next.pod);
            leave(instance, next);
        }),
    }
    0
}

fn remove(instances: &mut Vec<Instance>, number: u32) -> i64 {
    let is_it = |instance: &mut Instance| instance.number == number;
    let left = |instance: Instance| instance.leaving + count(pods(&instance).filter(|pod| pod.created.is_some()));
    sum(instances.extract_if(.., is_it).map(left))
}

fn change(instances: &mut [Instance], number: u32, how: impl FnOnce(&mut Instance)) {
    if let Some(instance) = instances.iter_mut().find(|instance| instance.number == number) {
        how(instance);
    }
}

/// A pod that was never created has nothing to terminate.
fn leave(instance: &mut Instance, pod: Option<RolloutPod>) {
    instance.leaving += i64::from(pod.is_some_and(|pod| pod.created.is_some()));
}

/// The new main pod starts when the terminating one is gone. A promoted pod already has a node and does not wait.
fn follow(instance: &mut Instance) {
    let has_left = instance.leaving > 0;
    if let Some(main) = &mut instance.main {
        main.follows = has_left;
    }
}

fn create(instances: &mut Vec<Instance>, number: u32, unit: usize, revision: u32) {
    let main = Some(RolloutPod::ordered(revision));
    match instances.binary_search_by_key(&number, |instance| instance.number) {
        Ok(at) => {
            instances[at].main = main;
            follow(&mut instances[at]);
        }
        Err(at) => instances
            .insert(at, Instance { number, unit, is_stopped: false, is_bound: false, main, next: None, leaving: 0 }),
    }
}
