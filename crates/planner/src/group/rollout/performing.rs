//! Does to the slots what the conductor says.
//!
//! Places are found afterwards, with those of pods that are made anew: here a pod that comes has no node yet. A pod that
//! goes is gone from the plan at once; the node it was on is remembered where another pod of that name could come before it
//! has let go. Names must never meet: a pod is called after its version and drift, so who comes again gets another drift.

use std::collections::BTreeSet;

use contract::command::Drift;
use contract::record::{Filling, Slot};
use contract::state::TargetState;

use super::super::rooms::{Ask, Extra};
use super::super::{Planning, forget_pod};
use super::draining::taken_out;
use crate::placement::Wish;
use crate::rollout::controller::{Action, Decision, RolloutState};

/// How much of a decision was performed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Performed {
    /// All of it.
    Wholly,
    /// Some of it; the rest has to wait.
    Partly,
    /// Nothing: all of it has to wait.
    NotAtAll,
    /// Instances that are to go for good are waited for: what is decided after that is not known yet.
    Shrinking,
}

impl Planning<'_> {
    /// Performs what can be performed now.
    pub(super) fn perform(&mut self, decision: &Decision, units: &[String]) -> Performed {
        let removes = |action: &&Action| matches!(action, Action::Remove(_));
        let removed: Vec<Action> = decision.actions.iter().filter(removes).copied().collect();
        let waiting = self.waiting(&removed, &decision.state);
        if waiting.is_empty() {
            return self.perform_all(decision, units);
        }
        self.end_draining(&removed);
        self.end_fetching(&removed);
        for action in removed.iter().filter(|action| !waiting.contains(&taken_out(**action).0)) {
            self.act(*action, units);
        }
        Performed::Shrinking
    }

    fn perform_all(&mut self, decision: &Decision, units: &[String]) -> Performed {
        let mut waiting = self.waiting(&decision.actions, &decision.state);
        self.end_draining(&decision.actions);
        self.end_fetching(&decision.actions);
        // What comes was weighed against what goes: while some of that is still there, it would be too many.
        let is_full = decision.actions.iter().any(|it| waiting.contains(&taken_out(*it).0) && frees(*it));
        let mut done = 0;
        for action in &decision.actions {
            let (number, _) = taken_out(*action);
            let has_to_wait = waiting.contains(&number) || (is_full && adds(*action));
            if !has_to_wait && self.act(*action, units) {
                done += 1;
            } else {
                // What follows for the same instance was decided for what it would have been.
                waiting.insert(number);
            }
        }
        self.forgive_stuck();
        match done {
            all if all == decision.actions.len() => Performed::Wholly,
            0 => Performed::NotAtAll,
            _ => Performed::Partly,
        }
    }

    /// The instances these actions are about whose successors cannot be made yet, or that are not drained yet; that is being
    /// done from now on.
    fn waiting(&mut self, actions: &[Action], release: &RolloutState) -> BTreeSet<u32> {
        let fetching = self.fetching_first(actions, release);
        let waits =
            |action: &&Action| fetching.contains(&taken_out(**action).0) || !self.may_perform(**action, release);
        actions.iter().filter(waits).map(|action| taken_out(*action).0).collect()
    }

    /// Performs one action; false when it cannot be done now.
    pub(in super::super) fn act(&mut self, action: Action, units: &[String]) -> bool {
        let at = |number: u32| usize::try_from(number.saturating_sub(1)).unwrap_or(usize::MAX);
        let named = |unit: usize| units.get(unit).cloned().unwrap_or_default();
        let (number, _) = taken_out(action);
        if !matches!(action, Action::Create { .. }) && at(number) >= self.plan.slots.len() {
            return true;
        }
        match action {
            Action::Create { slot, unit, revision } => self.create(at(slot), named(unit), revision),
            Action::Surge(number) => self.surge(at(number)),
            Action::Move { slot, unit } => return self.begin_move(at(slot), named(unit)),
            Action::Divert { slot, unit } => self.divert(at(slot), named(unit)),
            Action::Promote(number) => self.promote(at(number)),
            Action::Renew(number) => return self.renew_instance(at(number)),
            Action::Drop(number) => self.drop_beside(at(number)),
            Action::Retire(number) => self.clear(at(number), Filling::Retired),
            Action::Remove(number) => self.clear(at(number), Filling::Nothing),
            Action::Reassign { slot, unit } => return self.reassign(at(slot), named(unit)),
        }
        true
    }

    fn create(&mut self, index: usize, unit: String, version: u32) {
        let hole = Slot { filling: Filling::Nothing, ..Slot::default() };
        let slots = self.plan.slots.len().max(index + 1);
        self.plan.slots.resize(slots, hole);
        self.beside.resize(slots, None);
        let before = &self.plan.slots[index];
        // A number that was free is a new instance; one whose pod went is the same as before.
        let kept = match before.filling {
            Filling::Nothing => Slot { drift: before.drift, leaves: before.leaves.clone(), ..Slot::default() },
            Filling::Pod | Filling::Retired => before.clone(),
        };
        let drift = kept.drift + u32::from(kept.filling == Filling::Retired && kept.version == version);
        let mut slot = Slot { filling: Filling::Pod, unit, version, drift, since: self.now, next: None, ..kept };
        forget_pod(&mut slot);
        if slot.leaves.is_some() {
            // What goes there was nobody's, and is this instance's now: it may be waited for by one pod less.
            self.wake(self.now);
        }
        self.plan.slots[index] = slot;
        self.touched.insert(index);
    }

    fn surge(&mut self, index: usize) {
        let version = self.record.spec.version;
        let main = &self.plan.slots[index];
        // Pods of the instance that still go may be called like this one.
        let leaving = self.facts.leaving.get(index).copied().unwrap_or(0);
        let next = self.beside_slot(index, version, main.drift + leaving, main.unit.clone());
        self.plan.slots[index].next = Some(Box::new(next));
        self.beside[index] = None;
    }

    /// Data cannot move by a second pod; false then.
    fn begin_move(&mut self, index: usize, unit: String) -> bool {
        let main = &self.plan.slots[index];
        if self.revision(main.version).pod.is_stateful() {
            return false;
        }
        let leaving = self.facts.leaving.get(index).copied().unwrap_or(0);
        let next = self.beside_slot(index, main.version, main.drift + 1 + leaving, unit);
        self.plan.slots[index].next = Some(Box::new(next));
        self.beside[index] = None;
        true
    }

    fn beside_slot(&self, index: usize, version: u32, drift: u32, unit: String) -> Slot {
        let main = &self.plan.slots[index];
        Slot {
            version,
            drift,
            unit,
            target: main.target,
            starts_requested: main.starts_requested,
            restarts_requested: main.restarts_requested,
            since: self.now,
            ..Slot::default()
        }
    }

    fn divert(&mut self, index: usize, unit: String) {
        let Some(mut next) = self.plan.slots[index].next.take() else { return };
        next.drift += u32::from(next.node.is_some());
        self.give_back(&next);
        let next = Slot { unit, node: None, why: String::new(), ..*next };
        self.plan.slots[index].next = Some(Box::new(afresh(next)));
        self.beside[index] = None;
    }

    fn promote(&mut self, index: usize) {
        let Some(next) = self.plan.slots[index].next.take() else { return };
        let main = std::mem::replace(&mut self.plan.slots[index], *next);
        self.give_back(&main);
        self.plan.slots[index].target = main.target;
        if self.plan.slots[index].node.is_none() {
            // It has no place of its own, so it comes in this one: whatever it becomes then is no pod more.
            let left = main.node.clone().filter(|node| main.leaves.is_none() && !self.is_lost(node));
            self.plan.slots[index].leaves = main.leaves.clone().or(left);
        }
        let seen = std::mem::take(&mut self.beside[index]);
        self.seen.resize(self.seen.len().max(index + 1), None);
        self.seen[index] = seen;
    }

    fn drop_beside(&mut self, index: usize) {
        if let Some(next) = self.plan.slots[index].next.take() {
            self.give_back(&next);
        }
        self.beside[index] = None;
    }

    /// The pods of an instance go; what is left remembers what they were called and where the main one was.
    fn clear(&mut self, index: usize, filling: Filling) {
        let highest = self.plan.slots[index].next.as_ref().map_or(0, |next| next.drift + 1);
        self.drop_beside(index);
        let slot = self.plan.slots[index].clone();
        self.give_back(&slot);
        // A stateful pod on a lost node may still run there: the next pod of that number waits for the node.
        let left = slot.node.clone().filter(|node| slot.leaves.is_none() && !self.is_given_up(node, slot.version));
        let had_pod = u32::from(slot.node.is_some() && slot.leaves.is_none());
        let drift = match filling {
            // Another version follows, and with it another name.
            Filling::Pod | Filling::Retired => slot.drift,
            Filling::Nothing => highest.max(slot.drift + had_pod),
        };
        let target = if filling == Filling::Nothing { TargetState::Run } else { slot.target };
        let mut left = Slot { filling, target, drift, node: None, leaves: slot.leaves.clone().or(left), ..slot };
        left.reserved_addresses.clear();
        left.why.clear();
        forget_pod(&mut left);
        self.plan.slots[index] = afresh(left);
        self.touched.insert(index);
    }

    /// The main pod, which has no place or is stopped, gets one elsewhere; false when its data binds it.
    fn reassign(&mut self, index: usize, unit: String) -> bool {
        let slot = self.plan.slots[index].clone();
        if slot.node.is_some() && self.revision(slot.version).pod.is_stateful() {
            return false;
        }
        self.give_back(&slot);
        let left = slot.node.clone().filter(|node| slot.leaves.is_none() && !self.is_lost(node));
        let drift = slot.drift + u32::from(left.is_some());
        let mut slot = Slot { unit, node: None, drift, leaves: slot.leaves.clone().or(left), ..slot };
        slot.reserved_addresses.clear();
        slot.why.clear();
        forget_pod(&mut slot);
        self.plan.slots[index] = afresh(slot);
        self.touched.insert(index);
        true
    }

    /// The pod beside an instance that is to leave a node leaves it too, if there is another place.
    pub(in super::super) fn drift_beside(&mut self, index: usize, drift: &Drift) {
        let Some(next) = self.plan.slots[index].next.clone() else { return };
        let Some(old) = next.node.clone().filter(|node| *node == drift.from) else { return };
        let revision = self.revision(next.version).clone();
        self.rooms.release(&old, revision.need);
        self.rooms.uncount(&old);
        let extra = Extra::Also(format!("constraint:node!={}", drift.from));
        let ask = Ask { version: next.version, extra, within: self.within(&next) };
        let Ok(node) = self.rooms.place(&ask, &revision, Wish::default()) else {
            return self.rooms.keep(&old, revision.need);
        };
        let mut moved = Slot { node: Some(node), drift: self.next_drift(index), why: String::new(), ..*next };
        forget_pod(&mut moved);
        self.plan.slots[index].next = Some(Box::new(moved));
        self.beside[index] = None;
    }

    fn give_back(&mut self, pod: &Slot) {
        if let Some(node) = &pod.node {
            let need = self.revision(pod.version).need;
            self.rooms.release(node, need);
            self.rooms.uncount(node);
        }
    }
}

/// What earlier attempts led to does not count where it is tried anew.
fn afresh(slot: Slot) -> Slot {
    let fresh = Slot::default();
    Slot { failures: 0, retry_at: fresh.retry_at, unplaced_since: fresh.unplaced_since, addresses: Vec::new(), ..slot }
}

/// The action makes room for others.
fn frees(action: Action) -> bool {
    match action {
        Action::Promote(_) | Action::Retire(_) | Action::Remove(_) | Action::Drop(_) => true,
        Action::Create { .. }
        | Action::Surge(_)
        | Action::Renew(_)
        | Action::Move { .. }
        | Action::Reassign { .. }
        | Action::Divert { .. } => false,
    }
}

/// There is one more pod after the action.
fn adds(action: Action) -> bool {
    match action {
        Action::Create { .. } | Action::Surge(_) | Action::Move { .. } => true,
        Action::Promote(_)
        | Action::Renew(_)
        | Action::Drop(_)
        | Action::Retire(_)
        | Action::Remove(_)
        | Action::Reassign { .. }
        | Action::Divert { .. } => false,
    }
}
