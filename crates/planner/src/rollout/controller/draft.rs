//! The working copy of a decision: the instances, and the effect of each action on them.
//!
//! A decision takes several steps, and each must see the actions of the steps before; so the draft performs an action as soon as
//! it is decided. A dry run performs actions in the same way. A step may take a main pod before it is known whether a replacement
//! follows: the two become one `Renew`, or else a `Retire`.

use std::collections::BTreeSet;

use super::decision::RolloutAction;
use super::facts::{RolloutFacts, RolloutPod, Slot, SurgePod};
use super::state::{Excuse, RolloutState};
use crate::rollout::limits::PodReplacement;
use crate::rollout::numbers::sum;
use crate::rollout::progress::Counts;

pub(super) struct Draft<'a> {
    pub facts: &'a RolloutFacts,
    /// Sorted by number.
    pub slots: Vec<Slot>,
    /// Terminating pods of removed instances, including those that this decision removes.
    pub strays: i64,
    pub state: RolloutState,
    pub actions: Vec<RolloutAction>,
    /// Instances whose main pod was taken and whose replacement is not decided yet.
    vacated: BTreeSet<u32>,
}

impl<'a> Draft<'a> {
    pub(super) fn of(facts: &'a RolloutFacts) -> Self {
        let mut slots = facts.slots.clone();
        slots.sort_by_key(|slot| slot.number);
        let (strays, state) = (facts.strays, facts.state.clone());
        Self { facts, slots, strays, state, actions: Vec::new(), vacated: BTreeSet::new() }
    }

    pub(super) fn perform(&mut self, action: RolloutAction) {
        self.strays += perform(&mut self.slots, self.facts.target, action);
        self.actions.push(action);
    }

    /// Takes the main pod of an instance; its replacement is decided later.
    pub(super) fn vacate(&mut self, number: u32) {
        perform(&mut self.slots, self.facts.target, RolloutAction::Retire(number));
        self.vacated.insert(number);
    }

    /// Gives an instance without a pod one of the target revision.
    pub(super) fn fill(&mut self, number: u32) {
        let Some(unit) = self.slot(number).map(|slot| slot.unit) else { return };
        let action = RolloutAction::Create { slot: number, unit, revision: self.facts.target };
        perform(&mut self.slots, self.facts.target, action);
        self.actions.push(if self.vacated.remove(&number) { RolloutAction::Renew(number) } else { action });
    }

    /// Instances that lost their main pod and got no replacement.
    pub(super) fn settle(&mut self) {
        let open = std::mem::take(&mut self.vacated);
        self.actions.extend(open.into_iter().map(RolloutAction::Retire));
    }

    pub(super) fn slot(&self, number: u32) -> Option<&Slot> {
        self.slots.binary_search_by_key(&number, |slot| slot.number).ok().map(|at| &self.slots[at])
    }

    /// Instances that the user has not stopped.
    pub(super) fn running(&self) -> impl Iterator<Item = &Slot> {
        self.slots.iter().filter(|slot| !slot.is_stopped)
    }

    pub(super) fn is_old(&self, pod: &RolloutPod) -> bool {
        !self.facts.is_target(pod.revision)
    }

    /// The instance has a pod of the target revision, running or only desired.
    pub(super) fn is_updated(&self, slot: &Slot) -> bool {
        pods(slot).any(|pod| !self.is_old(pod))
    }

    pub(super) fn is_available(&self, slot: &Slot) -> bool {
        pods(slot).any(|pod| self.facts.is_available(pod))
    }

    pub(super) fn is_updated_available(&self, slot: &Slot) -> bool {
        pods(slot).any(|pod| !self.is_old(pod) && self.facts.is_available(pod))
    }

    /// The rollout continues without this instance.
    pub(super) fn is_skipped(&self, slot: &Slot) -> bool {
        self.state.excused.get(&slot.number) == Some(&Excuse::Skipped)
    }

    /// Counts instances of each unit in one pass: a decision about 1,000 instances in 64 units counts them 10,000 times.
    pub(super) fn by_unit(&self, is_so: impl Fn(&Slot) -> bool) -> Vec<i64> {
        let mut counts = vec![0; self.units()];
        self.slots.iter().filter(|slot| is_so(slot)).for_each(|slot| counts[slot.unit] += 1);
        counts
    }

    pub(super) fn count(&self, unit: usize, is_so: impl Fn(&Slot) -> bool) -> i64 {
        count(self.slots.iter().filter(|slot| slot.unit == unit && is_so(slot)))
    }

    pub(super) fn updated(&self, unit: usize) -> i64 {
        self.count(unit, |slot| !slot.is_stopped && self.is_updated(slot))
    }

    pub(super) fn updated_by_unit(&self) -> Vec<i64> {
        self.by_unit(|slot| !slot.is_stopped && self.is_updated(slot))
    }

    /// Declared units and units that still have instances.
    pub(super) fn units(&self) -> usize {
        let highest = |slot: &Slot| slot.next.as_ref().map_or(slot.unit, |next| next.unit.max(slot.unit));
        self.slots.iter().fold(self.facts.units.len().max(1), |units, slot| units.max(highest(slot) + 1))
    }

    /// The lowest unused number.
    pub(super) fn free_number(&self) -> u32 {
        self.slots.iter().fold(1, |free, slot| if slot.number == free { free + 1 } else { free })
    }

    /// Terminating pods that count. A pod that waits for another pod of its instance to terminate counts as one with it.
    pub(super) fn terminating(&self, replacement: PodReplacement) -> i64 {
        let beyond = |slot: &Slot| {
            let waits = slot.main.as_ref().is_none_or(|main| main.follows && main.created.is_none());
            (slot.leaving - i64::from(waits)).max(0)
        };
        replacement.counted(sum(self.slots.iter().map(beyond).chain([self.strays])))
    }

    /// Counts for the progress condition. Ready and available pods are those at the target revision: they start from 0, so the
    /// highest count shows how far the rollout came, and an old pod that recovers is no progress.
    pub(super) fn counts(&self) -> Counts {
        let all = || self.running().flat_map(pods);
        let new = || all().filter(|pod| !self.is_old(pod));
        Counts {
            replicas: count(all()),
            updated: count(self.running().filter(|slot| self.is_updated(slot))),
            ready: count(new().filter(|pod| pod.ready.ready)),
            available: count(self.running().filter(|slot| self.is_updated_available(slot))),
        }
    }
}

/// The pods of an instance, the main pod first.
pub(super) fn pods(slot: &Slot) -> impl Iterator<Item = &RolloutPod> {
    slot.main.iter().chain(slot.next.iter().map(|next| &next.pod))
}

pub(super) fn count<T>(items: impl Iterator<Item = T>) -> i64 {
    i64::try_from(items.count()).unwrap_or(i64::MAX)
}

/// Applies an action to the desired state; it creates no pods. Returns the terminating pods that a removed instance leaves
/// behind.
pub(super) fn perform(slots: &mut Vec<Slot>, target: u32, action: RolloutAction) -> i64 {
    match action {
        RolloutAction::Create { slot, unit, revision } => create(slots, slot, unit, revision),
        RolloutAction::Remove(number) => return remove(slots, number),
        RolloutAction::Surge(number) => change(slots, number, |slot| {
            slot.next = Some(SurgePod { unit: slot.unit, pod: RolloutPod::ordered(target) });
        }),
        RolloutAction::Promote(number) => change(slots, number, |slot| {
            if let Some(next) = slot.next.take() {
                slot.unit = next.unit;
                let main = slot.main.replace(next.pod);
                leave(slot, main);
            }
        }),
        RolloutAction::Renew(number) => change(slots, number, |slot| {
            let main = slot.main.replace(RolloutPod::ordered(target));
            leave(slot, main);
            follow(slot);
        }),
        RolloutAction::Drop(number) => change(slots, number, |slot| {
            let next = slot.next.take().map(|next| next.pod);
            leave(slot, next);
        }),
        RolloutAction::Retire(number) => change(slots, number, |slot| {
            let main = slot.main.take();
            leave(slot, main);
        }),
        RolloutAction::Move { slot, unit } => change(slots, slot, |slot| {
            slot.next = slot.main.as_ref().map(|main| SurgePod { unit, pod: RolloutPod::ordered(main.revision) });
        }),
        RolloutAction::Reassign { slot, unit } => change(slots, slot, |slot| {
            slot.unit = unit;
            let ordered = slot.main.as_ref().map(|main| RolloutPod::ordered(main.revision));
            let main = std::mem::replace(&mut slot.main, ordered);
            leave(slot, main);
            follow(slot);
        }),
        RolloutAction::Divert { slot, unit } => change(slots, slot, |slot| {
            let ordered = slot.next.as_ref().map(|next| SurgePod { unit, pod: RolloutPod::ordered(next.pod.revision) });
            let next = std::mem::replace(&mut slot.next, ordered).map(|next| next.pod);
            leave(slot, next);
        }),
    }
    0
}

fn remove(slots: &mut Vec<Slot>, number: u32) -> i64 {
    let is_it = |slot: &mut Slot| slot.number == number;
    let left = |slot: Slot| slot.leaving + count(pods(&slot).filter(|pod| pod.created.is_some()));
    sum(slots.extract_if(.., is_it).map(left))
}

fn change(slots: &mut [Slot], number: u32, how: impl FnOnce(&mut Slot)) {
    if let Some(slot) = slots.iter_mut().find(|slot| slot.number == number) {
        how(slot);
    }
}

/// A pod that was never created has nothing to terminate.
fn leave(slot: &mut Slot, pod: Option<RolloutPod>) {
    slot.leaving += i64::from(pod.is_some_and(|pod| pod.created.is_some()));
}

/// The new main pod starts when the terminating one is gone. A promoted pod already has a node and does not wait.
fn follow(slot: &mut Slot) {
    let has_left = slot.leaving > 0;
    if let Some(main) = &mut slot.main {
        main.follows = has_left;
    }
}

fn create(slots: &mut Vec<Slot>, number: u32, unit: usize, revision: u32) {
    let main = Some(RolloutPod::ordered(revision));
    match slots.binary_search_by_key(&number, |slot| slot.number) {
        Ok(at) => {
            slots[at].main = main;
            follow(&mut slots[at]);
        }
        Err(at) => {
            slots.insert(at, Slot { number, unit, is_stopped: false, is_bound: false, main, next: None, leaving: 0 })
        }
    }
}
