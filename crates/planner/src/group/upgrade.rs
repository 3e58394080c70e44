//! Decides what happens to the next instance of a group that is being upgraded.
//!
//! One instance at a time, from the lowest number, and only when the one before it is done. An instance that does not run is
//! not done: the original continued and could take a whole group down, here the upgrade waits. Progress is in the slots'
//! versions, so a new leader, and a plan without the lock, continue where it stopped.

use std::sync::Arc;
use std::time::Duration;

use contract::command::Operation;
use contract::name::NodeName;
use contract::record::Slot;
use contract::rollout::StrategyType;
use contract::state::TargetState;
use contract::time::Timestamp;

use super::last_error::{is_planner_text, stuck_prefix};
use super::readiness::InstanceReadiness;
use super::reservations::{ExtraConstraint, PlacementRequest};
use super::{InstanceStatus, Planning, forget_pod};
use crate::placement::NodePreference;

impl Planning<'_> {
    pub(super) fn upgrade(&mut self) {
        self.roll_back_if_bad();
        self.pause_if_failing();
        let outdated: Vec<usize> = self.outdated().collect();
        let waits_for = outdated.first().and_then(|first| self.last_under_way(first + 1));
        let mut looked_at = 0;
        for index in outdated {
            if self.paused_at.is_some_and(|failing| failing < index) {
                return;
            }
            let alone = waits_for.is_none_or(|last| last <= index);
            let may = alone && !(looked_at..index).any(|lower| self.is_coming(lower)) && self.is_next(index);
            looked_at = index;
            // Nothing is concluded from silence: the old container runs until its node answers or is lost.
            if !may
                || self.status(index) == InstanceStatus::Unreachable
                || self.pulls_first(index)
                || !self.renew(index)
            {
                return;
            }
            if self.plan.slots[index].target == TargetState::Run {
                return;
            }
        }
    }

    /// The slots that neither run the present version nor one that counts as it.
    pub(super) fn outdated(&self) -> impl Iterator<Item = usize> + '_ {
        let slots = self.plan.slots.iter().enumerate();
        slots.filter(|(_, slot)| self.is_outdated(slot)).map(|(index, _)| index)
    }

    pub(super) fn is_outdated(&self, slot: &Slot) -> bool {
        slot.version != self.record.spec.version && !self.record.equals.contains(&slot.version)
    }

    /// The first instance that shall run: the one that tries a version out for the others.
    pub(super) fn first(&self) -> Option<usize> {
        self.plan.slots.iter().position(|slot| slot.target == TargetState::Run)
    }

    /// Whether the instance before it is done; those that shall not run are passed over.
    fn is_next(&mut self, index: usize) -> bool {
        let before = self.plan.slots[..index].iter().rposition(|slot| slot.target == TargetState::Run);
        before.is_none_or(|before| self.is_done(before))
    }

    /// The highest instance from there on that the patch before this one took down and that is not up yet; it is waited for
    /// as long as that upgrade would have. Wakes for when that is over.
    fn last_under_way(&mut self, from: usize) -> Option<usize> {
        let last = (from..self.plan.slots.len()).rev().find(|index| self.comes_up_until(*index).is_some())?;
        let until = self.comes_up_until(last)?;
        self.wake(until);
        Some(last)
    }

    /// Until when an instance that was taken down is waited for; none when it is up.
    pub(super) fn comes_up_until(&self, index: usize) -> Option<Timestamp> {
        let slot = &self.plan.slots[index];
        let until = self.waited_since(index) + self.ready_timeout(index);
        if slot.target == TargetState::Stop || !slot.since.happened() || self.now >= until {
            return None;
        }
        match self.readiness_of(index) {
            // What it is to be restarted from does not count as up.
            InstanceReadiness::Ready if !self.has_restarted(index) => Some(until),
            InstanceReadiness::Ready | InstanceReadiness::NotExpected => None,
            InstanceReadiness::InProgress | InstanceReadiness::Down { .. } | InstanceReadiness::Unreachable { .. } => {
                Some(until)
            }
            // It had its time from when it started, whenever that it was turned to is known to be stored.
            InstanceReadiness::Unready { limit, .. } if self.now >= limit => None,
            InstanceReadiness::Unready { recheck_at, .. } => Some(recheck_at.min(until)),
        }
    }

    /// Whether an instance that shall run is being made or has no place: whoever it is, no other is taken down meanwhile.
    fn is_coming(&self, index: usize) -> bool {
        let comes =
            matches!(self.status(index), InstanceStatus::Starting | InstanceStatus::Moving | InstanceStatus::Unplaced);
        comes && self.plan.slots[index].target == TargetState::Run
    }

    /// Whether the upgrade may continue after this instance, which shall run; wakes for when that changes by itself.
    pub(super) fn is_done(&mut self, index: usize) -> bool {
        let tries = self.first() == Some(index) && self.plan.slots[index].version == self.record.spec.version;
        match self.readiness_of(index) {
            InstanceReadiness::Ready => {
                let until = self.early_until(index).filter(|until| *until > self.now && !self.is_healthy(index));
                until.into_iter().for_each(|until| self.wake(until));
                until.is_none()
            }
            InstanceReadiness::Unready { limit, .. } if self.now >= limit => !tries,
            InstanceReadiness::Unready { recheck_at, .. } => {
                self.wake(recheck_at);
                false
            }
            InstanceReadiness::InProgress
            | InstanceReadiness::Down { .. }
            | InstanceReadiness::NotExpected
            | InstanceReadiness::Unreachable { .. } => false,
        }
    }

    /// Gives one instance the present version; false when there is no place for it.
    pub(super) fn renew(&mut self, index: usize) -> bool {
        let (old, version) = (self.plan.slots[index].node.clone(), self.plan.slots[index].version);
        let Some(old) = old else {
            self.take_version(index);
            return true;
        };
        let (before, after) = (self.revision(version).clone(), self.present.clone());
        // Who is still leaving another node has no data on this one yet.
        let has_data = before.pod.is_stateful() && self.plan.slots[index].leaves.is_none();
        let pinned = has_data && after.pod.is_stateful();
        let (wish, extra) = if pinned {
            (NodePreference { pin: Some(&old), ..NodePreference::default() }, ExtraConstraint::Pinned)
        } else {
            (NodePreference { prefer: Some(&old), ..NodePreference::default() }, ExtraConstraint::None)
        };
        self.reservations.release(&old, before.need);
        self.reservations.uncount(&old);
        let unit_constraint = self.unit_constraint(&self.plan.slots[index]);
        let request = PlacementRequest { version: self.record.spec.version, extra, unit_constraint };
        match self.reservations.place(&request, &after, wish) {
            Ok(node) => {
                self.take_version(index);
                self.move_to(index, node);
                self.leave_first(index, old);
                true
            }
            Err(unplaceable) => {
                self.reservations.keep(&old, before.need);
                self.plan.waiting = true;
                self.note_stuck(index, &unplaceable.sentence());
                self.unschedulable.insert(index, Arc::clone(&unplaceable));
                self.plan.unplaced = Some(unplaceable);
                false
            }
        }
    }

    /// With a pause between the two, nothing of the new pod is ordered while something of the old one is there.
    fn leave_first(&mut self, index: usize, old: NodeName) {
        let is_there = !self.is_lost(&old) && self.plan.slots[index].target == TargetState::Run;
        if self.pause() > Duration::ZERO && is_there {
            self.plan.slots[index].leaves.get_or_insert(old);
        }
    }

    /// Whether an instance that left pauses before it comes: from when its node let go of it, not during a drift.
    pub(super) fn is_pausing(&mut self, index: usize) -> bool {
        let is_drift = self.record.operation.as_ref().is_some_and(|operation| operation.kind == Operation::Drifting);
        let (pause, now) = (self.pause(), self.now);
        let slot = &mut self.plan.slots[index];
        if pause == Duration::ZERO || is_drift || slot.leaves.is_none() {
            return false;
        }
        if !slot.pause_until.happened() {
            slot.pause_until = now + pause;
        }
        let until = slot.pause_until;
        if now < until {
            self.wake(until);
        }
        now < until
    }

    /// Seconds between the end of an old pod and the start of the new one; only a serial upgrade has them.
    fn pause(&self) -> Duration {
        let strategy = self.record.spec.strategy.as_ref().filter(|strategy| strategy.kind == StrategyType::Serial);
        Duration::from_secs(strategy.and_then(|it| u64::try_from(it.upgrade_pause).ok()).unwrap_or(0))
    }

    pub(super) fn take_version(&mut self, index: usize) {
        let version = self.record.spec.version;
        if self.record.last_error.starts_with(&stuck_prefix(index)) {
            self.record.to_mut().last_error.clear();
        }
        self.touched.insert(index);
        let slot = &mut self.plan.slots[index];
        slot.version = version;
        slot.since = self.now;
        slot.failures = 0;
        slot.retry_at = Timestamp::NEVER;
        slot.unplaced_since = Timestamp::NEVER;
        slot.reserved_addresses.clear();
        slot.why.clear();
        forget_pod(slot);
    }

    /// Sends an instance to a node, to start there once the one it leaves has let go of it. Who is already leaving a node was
    /// never ordered anywhere else.
    pub(super) fn move_to(&mut self, index: usize, node: NodeName) {
        let slot = &self.plan.slots[index];
        let left = slot.node.clone().filter(|old| *old != node && slot.leaves.is_none());
        let left = left.filter(|old| !self.is_lost(old));
        let slot = &mut self.plan.slots[index];
        slot.leaves = slot.leaves.take().or(left);
        slot.node = Some(node);
        if self.skips_old_node(index) {
            self.plan.slots[index].leaves = None;
        }
    }

    /// The instance keeps its version, and the group says so, unless it has to say what became of a command: the instance says it too.
    pub(super) fn note_stuck(&mut self, index: usize, sentence: &str) {
        let version = self.record.spec.version;
        self.stuck.insert(index, format!("it is not upgraded to version {version}: {sentence}"));
        // The reasons change with every byte of free memory; the first ones are kept.
        let (start, said) = (stuck_prefix(index), &self.record.last_error);
        if !said.starts_with(&start) && is_planner_text(said) {
            self.record.to_mut().last_error = format!("{start} to version {version}: {sentence}");
        }
    }
}
