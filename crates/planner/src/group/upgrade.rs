//! Upgrades a group without a strategy: one instance after another, from the lowest number.
//!
//! The next instance follows when the previous one is ready. An instance that does not run is not ready: the original
//! continued and could take a whole group down, here the upgrade waits. The progress is in the revisions of the instances, so a
//! new leader, or a plan without the lock, continues where the upgrade stopped: revisions 2, 1, 1 mean that instance 2 is
//! next.

use std::sync::Arc;
use std::time::Duration;

use contract::command::Operation;
use contract::name::NodeName;
use contract::record::Instance;
use contract::rollout::StrategyType;
use contract::state::TargetState;
use contract::time::Timestamp;

use super::last_error::{is_planner_text, stuck_prefix};
use super::readiness::InstanceReadiness;
use super::reservations::{ExtraConstraint, PlacementRequest};
use super::{Planning, PodStatus, forget_pod};
use crate::placement::NodePreference;

impl Planning<'_> {
    pub(super) fn upgrade(&mut self) {
        self.roll_back_if_bad();
        self.pause_if_failing();
        let outdated: Vec<usize> = self.outdated().collect();
        let waits_for = outdated.first().and_then(|first| self.last_unfinished(first + 1));
        let mut looked_at = 0;
        for index in outdated {
            if self.paused_at.is_some_and(|failing| failing < index) {
                return;
            }
            let alone = waits_for.is_none_or(|last| last <= index);
            let may = alone && !(looked_at..index).any(|lower| self.is_coming(lower)) && self.is_next(index);
            looked_at = index;
            // A silent node proves nothing: the old container runs until the node answers or is lost.
            if !may || self.status(index) == PodStatus::Unreachable || self.pulls_first(index) || !self.renew(index) {
                return;
            }
            if self.plan.instances[index].target == TargetState::Run {
                return;
            }
        }
    }

    /// The instances that run neither the present revision nor one with the same content.
    pub(super) fn outdated(&self) -> impl Iterator<Item = usize> + '_ {
        let instances = self.plan.instances.iter().enumerate();
        instances.filter(|(_, instance)| self.is_outdated(instance)).map(|(index, _)| index)
    }

    pub(super) fn is_outdated(&self, instance: &Instance) -> bool {
        instance.version != self.record.spec.version && !self.record.equals.contains(&instance.version)
    }

    /// The first running instance: it tries a revision for the others.
    pub(super) fn first(&self) -> Option<usize> {
        self.plan.instances.iter().position(|instance| instance.target == TargetState::Run)
    }

    /// Whether the previous running instance is done; stopped ones are skipped.
    fn is_next(&mut self, index: usize) -> bool {
        let before = self.plan.instances[..index].iter().rposition(|instance| instance.target == TargetState::Run);
        before.is_none_or(|before| self.is_done(before))
    }

    /// The highest instance from there on that the previous patch took down and that is not up yet. The upgrade waits for it
    /// as long as the previous one would have; plans a wake-up for that time.
    fn last_unfinished(&mut self, from: usize) -> Option<usize> {
        let last = (from..self.plan.instances.len()).rev().find(|index| self.comes_up_until(*index).is_some())?;
        let until = self.comes_up_until(last)?;
        self.wake(until);
        Some(last)
    }

    /// Until when others wait for an instance that was taken down; none if it is up.
    pub(super) fn comes_up_until(&self, index: usize) -> Option<Timestamp> {
        let instance = &self.plan.instances[index];
        let until = self.waited_since(index) + self.ready_timeout(index);
        if instance.target == TargetState::Stop || !instance.since.happened() || self.now >= until {
            return None;
        }
        match self.readiness_of(index) {
            // A pod that is about to be restarted does not count as up.
            InstanceReadiness::Ready if !self.has_restarted(index) => Some(until),
            InstanceReadiness::Ready | InstanceReadiness::NotExpected => None,
            InstanceReadiness::InProgress | InstanceReadiness::Down { .. } | InstanceReadiness::Unreachable { .. } => {
                Some(until)
            }
            // Its time starts with the container, not with the commit of the decision.
            InstanceReadiness::Unready { limit, .. } if self.now >= limit => None,
            InstanceReadiness::Unready { recheck_at, .. } => Some(recheck_at.min(until)),
        }
    }

    /// Whether a running instance is being created or is unschedulable: meanwhile no other instance is taken down.
    fn is_coming(&self, index: usize) -> bool {
        let comes = matches!(self.status(index), PodStatus::Starting | PodStatus::Moving | PodStatus::Unplaced);
        comes && self.plan.instances[index].target == TargetState::Run
    }

    /// Whether the upgrade may continue after this running instance; otherwise plans a wake-up for when that changes by
    /// itself.
    pub(super) fn is_done(&mut self, index: usize) -> bool {
        let tries = self.first() == Some(index) && self.plan.instances[index].version == self.record.spec.version;
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

    /// Gives one instance the present revision; false if it is unschedulable.
    pub(super) fn renew(&mut self, index: usize) -> bool {
        let (old, version) = (self.plan.instances[index].node.clone(), self.plan.instances[index].version);
        let Some(old) = old else {
            self.take_version(index);
            return true;
        };
        let (before, after) = (self.revision(version).clone(), self.present.clone());
        // A pod that has not left its old node yet has no data on this one.
        let has_data = before.pod.is_stateful() && self.plan.instances[index].leaves.is_none();
        let pinned = has_data && after.pod.is_stateful();
        let (preference, extra) = if pinned {
            (NodePreference { pin: Some(&old), ..NodePreference::default() }, ExtraConstraint::Pinned)
        } else {
            (NodePreference { prefer: Some(&old), ..NodePreference::default() }, ExtraConstraint::None)
        };
        self.reservations.release(&old, before.need);
        self.reservations.uncount(&old);
        let unit_constraint = self.unit_constraint(&self.plan.instances[index]);
        let request = PlacementRequest { version: self.record.spec.version, extra, unit_constraint };
        match self.reservations.place(&request, &after, preference) {
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

    /// With a pause, the new pod is ordered only after the old one is gone.
    fn leave_first(&mut self, index: usize, old: NodeName) {
        let is_there = !self.is_lost(&old) && self.plan.instances[index].target == TargetState::Run;
        if self.pause() > Duration::ZERO && is_there {
            self.plan.instances[index].leaves.get_or_insert(old);
        }
    }

    /// Whether an instance whose old pod is gone waits for the upgrade pause. Moves do not pause.
    pub(super) fn is_pausing(&mut self, index: usize) -> bool {
        let is_drift = self.record.operation.as_ref().is_some_and(|operation| operation.kind == Operation::Drifting);
        let (pause, now) = (self.pause(), self.now);
        let instance = &mut self.plan.instances[index];
        if pause == Duration::ZERO || is_drift || instance.leaves.is_none() {
            return false;
        }
        if !instance.pause_until.happened() {
            instance.pause_until = now + pause;
        }
        let until = instance.pause_until;
        if now < until {
            self.wake(until);
        }
        now < until
    }

    /// The pause between the old pod and the new one; only serial upgrades have it.
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
        let instance = &mut self.plan.instances[index];
        instance.version = version;
        instance.since = self.now;
        instance.failures = 0;
        instance.retry_at = Timestamp::NEVER;
        instance.unplaced_since = Timestamp::NEVER;
        instance.reserved_addresses.clear();
        instance.why.clear();
        forget_pod(instance);
    }

    /// Orders an instance on another node; it starts there once its old node has removed it. An instance that is already
    /// moving was never ordered on its present node.
    pub(super) fn move_to(&mut self, index: usize, node: NodeName) {
        let instance = &self.plan.instances[index];
        let left = instance.node.clone().filter(|old| *old != node && instance.leaves.is_none());
        let left = left.filter(|old| !self.is_lost(old));
        let instance = &mut self.plan.instances[index];
        instance.leaves = instance.leaves.take().or(left);
        instance.node = Some(node);
        if self.skips_old_node(index) {
            self.plan.instances[index].leaves = None;
        }
    }

    /// The instance keeps its revision. The instance shows why, and so does the group unless its last error is the outcome of
    /// a command.
    pub(super) fn note_stuck(&mut self, index: usize, sentence: &str) {
        let version = self.record.spec.version;
        self.stuck.insert(index, format!("it is not upgraded to version {version}: {sentence}"));
        // The reasons change with every byte of free memory; the first ones are kept.
        let (start, last_error) = (stuck_prefix(index), &self.record.last_error);
        if !last_error.starts_with(&start) && is_planner_text(last_error) {
            self.record.to_mut().last_error = format!("{start} to version {version}: {sentence}");
        }
    }
}
