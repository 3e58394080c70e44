//! Runs the rollout of a group with a strategy.
//!
//! The rollout controller ([`crate::rollout::controller`]) decides from counts, units and revisions; this folder translates
//! reports into its input ([`facts`]) and applies its actions to the instances ([`apply`]). It acts only while no operation holds
//! the lock. An action may be impossible for now, because the pod must be drained first or its successor is unschedulable.
//! Then the instance stays unchanged and the controller, which sees only instances, decides the same again.

mod apply;
mod drain;
mod facts;
mod failure;
mod inplace;
mod prefetch;
mod readiness;
mod settings;
mod surge;
mod units;

use std::collections::BTreeSet;

use contract::command::Operation;
use contract::record::Instance;
use contract::report::PodFacts;
use contract::time::Timestamp;

use self::apply::Applied;
pub(super) use self::apply::adds;
use super::{GroupFacts, Planning};
use crate::rollout::availability::Ready;
use crate::rollout::controller::{
    self, Decision, FailureResponse, RolloutAction, RolloutReport, RolloutState, RolloutStatus,
};
use crate::rollout::limits::RolloutLimits;
use crate::rollout::moment::Moment;
use crate::rollout::progress::Reason;
use crate::rollout::transition::RolloutPhase;

/// Whether a pod is ready, and since when: it runs, is healthy, has all gates open, is not draining and has its desired spec.
pub fn readiness(facts: &GroupFacts<'_>, instance: &Instance, observed: Option<&PodFacts>, now: Timestamp) -> Ready {
    Planning::new(facts, now).ready(instance, observed)
}

/// The resolved budget of a RollingUpdate: minimum available instances and maximum pods. Batch and Beta rollouts have none.
pub fn limits(facts: &GroupFacts<'_>, now: Timestamp) -> RolloutLimits {
    let spec = &facts.record.spec;
    let mut planning = Planning::new(facts, now);
    planning.plan.instances = facts.instances.to_vec();
    let style = settings::settings(spec, planning.surge_rule(), false).strategy;
    RolloutLimits::of(controller::budget_strategy(style), spec.num_instances)
}

/// The number of the instance that an action is about.
pub(super) fn instance_of(action: RolloutAction) -> u32 {
    drain::drained_pods(action).0
}

impl Planning<'_> {
    /// Takes the instances unchanged: the controller adds and removes instances.
    pub(super) fn load_instances(&mut self) {
        self.plan.instances = self.facts.instances.to_vec();
        self.observed_surge.resize(self.plan.instances.len(), None);
        for node in self.facts.instances.iter().flat_map(Instance::pods).filter_map(|pod| pod.node.as_ref()) {
            self.reservations.count(node);
        }
        self.assign_units();
        self.free_lock();
    }

    /// A rollout needs no lock: releases one that a serial upgrade left behind.
    fn free_lock(&mut self) {
        let is_left = match self.record.operation.as_ref().map(|operation| operation.kind) {
            Some(Operation::Deploying | Operation::Scheduling | Operation::Upgrading) => true,
            Some(
                Operation::Starting
                | Operation::Stopping
                | Operation::Restarting
                | Operation::Drifting
                | Operation::Removing,
            )
            | None => false,
        };
        if is_left {
            self.record.to_mut().operation = None;
        }
    }

    /// When a wait starts: at `since`, or at the user's last resume if that was later.
    fn waits_from(&self, since: Timestamp) -> Timestamp {
        let resumed = self.facts.release.and_then(|release| release.resumed_at);
        resumed.map_or(since, |resumed| timestamp(resumed).max(since))
    }

    /// Advances the rollout; while an operation holds the lock, it only reports.
    pub(super) fn run_rollout(&mut self, may_act: bool) {
        let surge_rule = self.surge_rule();
        let (facts, units) = self.controller_facts();
        let mut decision = controller::controller(&facts);
        self.explain(&mut decision.state);
        self.plan.report = Some(decision.report.clone());
        if !may_act {
            return self.report_current_state(&decision);
        }
        if let Some(at) = decision.wake_at {
            self.wake(timestamp(at));
        }
        match decision.response {
            FailureResponse::Rollback(_) => return self.start_rollback(&decision.state),
            FailureResponse::Hold(_) => self.set_paused_error(&decision.state),
            FailureResponse::Fine | FailureResponse::Continue(_) => self.clear_paused_error(),
        }
        let applied = self.apply(&decision, &units);
        self.keep_undrained_that_left();
        let decision = match applied {
            Applied::All => decision,
            Applied::Partial | Applied::Nothing => self.without_unapplied(decision),
            Applied::AwaitingScaleDown => return self.pause_for_scale_down(&decision),
        };
        let step = |release: &RolloutState| (release.target, release.phase, release.batch);
        let is_moved = self.facts.release.is_none_or(|before| step(before) != step(&decision.state));
        if applied == Applied::Partial || (applied == Applied::Nothing && is_moved) {
            // The next plan determines the new progress.
            self.wake(self.now);
        }
        self.note_completed(&decision.state);
        self.forget_former();
        if surge_rule != self.surge_rule() {
            // The last instance is being updated: from now on the budget of the spec applies.
            self.wake(self.now);
        }
        self.plan.release = Some(decision.state).filter(|release| self.facts.release != Some(release));
    }

    /// Pauses the rollout until scale-down has finished. Only the failure is stored, so that a later `resume` or `skip` finds
    /// it.
    fn pause_for_scale_down(&mut self, decision: &Decision) {
        self.report_current_state(decision);
        let RolloutState { target, failure, excused, .. } = decision.state.clone();
        let before = self.facts.release.filter(|before| before.target == target);
        let after = before.map(|before| RolloutState { failure, excused, ..before.clone() });
        self.plan.release = after.filter(|after| before != Some(after));
    }

    /// The decision without the progress of actions that were not applied; it completes nothing.
    fn without_unapplied(&mut self, mut decision: Decision) -> Decision {
        let before = self.facts.release;
        let release = &mut decision.state;
        let is_completed =
            |before: &RolloutState| before.phase == RolloutPhase::Completed && before.target == release.target;
        let was_complete = before.is_some_and(is_completed);
        if release.phase == RolloutPhase::Completed && !was_complete {
            release.phase = RolloutPhase::Running;
        }
        release.seen = decision.watched.0;
        // A batch that starts has its own deadline, even if its first actions must wait.
        if before.is_some_and(|before| before.batch == release.batch) {
            release.progress.clone_from(&decision.watched.1);
        }
        self.report_current_state(&decision);
        decision
    }

    /// Reports the counts without actions that were not applied.
    fn report_current_state(&mut self, decision: &Decision) {
        let (mut facts, _) = self.controller_facts();
        facts.state = RolloutState { is_frozen: true, ..decision.state.clone() };
        let RolloutReport { waits_for, units, .. } = controller::controller(&facts).report;
        let progress = decision.watched.1.as_ref();
        let is_late = progress.is_some_and(|it| it.reason == Reason::ProgressDeadlineExceeded);
        let status = match decision.report.status {
            RolloutStatus::Progressing | RolloutStatus::Complete if is_late => RolloutStatus::Stuck,
            RolloutStatus::Complete if decision.state.is_open() => RolloutStatus::Progressing,
            status @ (RolloutStatus::Progressing
            | RolloutStatus::Complete
            | RolloutStatus::Stuck
            | RolloutStatus::Held(_)
            | RolloutStatus::WaitingForConfirm { .. }
            | RolloutStatus::Paused
            | RolloutStatus::Frozen
            | RolloutStatus::Aborted) => status,
        };
        self.plan.report = Some(RolloutReport { status, waits_for, units, ..decision.report.clone() });
    }

    /// Forgets a revision that no pod runs, one plan after its last pod was replaced.
    fn forget_former(&mut self) {
        let used = |instances: &[Instance]| -> BTreeSet<u32> {
            instances.iter().flat_map(Instance::pods).map(|pod| pod.version).chain(self.record.proven).collect()
        };
        let (before, after) = (used(self.facts.instances), used(&self.plan.instances));
        let unused = self.record.former.keys().filter(|version| !after.contains(version));
        let (later, at_once): (Vec<u32>, Vec<u32>) = unused.partition(|version| before.contains(version));
        if !at_once.is_empty() {
            // `finish` forgets it in every record that changes.
            let _ = self.record.to_mut();
        }
        if !later.is_empty() {
            self.wake(self.now);
        }
    }

    /// A rollback returns to the revision that all instances reached.
    fn note_completed(&mut self, release: &RolloutState) {
        let version = self.record.spec.version;
        let is_done = release.phase == RolloutPhase::Completed && release.target == version;
        if is_done && self.record.proven != Some(version) {
            let now = self.now;
            let record = self.record.to_mut();
            record.proven = Some(version);
            record.updated_at = now;
        }
    }
}

/// Rounded up, so that a wake-up is never too early.
fn timestamp(moment: Moment) -> Timestamp {
    let nanos = moment.as_nanos();
    Timestamp::from_millis(nanos.div_euclid(1_000_000) + i64::from(nanos.rem_euclid(1_000_000) > 0))
}
