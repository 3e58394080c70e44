//! Decides what happens to a group that names a strategy: asks the conductor and does what it says.
//!
//! The conductor ([`crate::rollout::controller`]) knows counts, units and revisions; here its answers become slots, and what
//! nodes report becomes its facts. It acts only while no operation holds the lock. The surprise: it may be asked for
//! something that cannot be done now, because the pod must be drained first or its successor finds no place. Then the slot
//! stays as it is, and the conductor, which knows slots only, asks again.

mod draining;
mod facts;
mod fetching;
mod folding;
mod performing;
mod readiness;
mod renewing;
mod settings;
mod units;
mod verdict;

use std::collections::BTreeSet;

use contract::command::Operation;
use contract::record::Slot;
use contract::report::PodFacts;
use contract::time::Timestamp;

use self::performing::Performed;
use super::{GroupFacts, Planning};
use crate::rollout::availability::Ready;
use crate::rollout::controller::{self, Decision, FailureResponse, RolloutReport, RolloutState, RolloutStatus};
use crate::rollout::limits::RolloutLimits;
use crate::rollout::moment::Moment;
use crate::rollout::progress::Reason;
use crate::rollout::transition::RolloutPhase;

/// Whether the pod in a slot, or beside it, is ready, and since when: it runs and is well, every gate is true, it is not
/// being taken out of service, and it has the spec it is to have.
pub fn readiness(facts: &GroupFacts<'_>, slot: &Slot, seen: Option<&PodFacts>, now: Timestamp) -> Ready {
    Planning::new(facts, now).ready(slot, seen)
}

/// What a release within budgets keeps to: instances that stay available and pods there may be. By groups there are none, and
/// what a group takes is the group.
pub fn limits(facts: &GroupFacts<'_>, now: Timestamp) -> RolloutLimits {
    let spec = &facts.record.spec;
    let mut planning = Planning::new(facts, now);
    planning.plan.slots = facts.slots.to_vec();
    let style = settings::settings(spec, planning.doubling(), false).strategy;
    RolloutLimits::of(controller::budget_strategy(style), spec.num_instances)
}

impl Planning<'_> {
    /// Every slot as it is: who comes and goes is for the conductor to say.
    pub(super) fn enroll(&mut self) {
        self.plan.slots = self.facts.slots.to_vec();
        self.beside.resize(self.plan.slots.len(), None);
        for node in self.facts.slots.iter().flat_map(Slot::pods).filter_map(|pod| pod.node.as_ref()) {
            self.rooms.count(node);
        }
        self.settle_units();
        self.free_lock();
    }

    /// Releases need no lock; one that was left by a serial upgrade before is given back.
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

    /// From when on something is waited for that has been so since then: somebody may have looked past it.
    fn waits_from(&self, since: Timestamp) -> Timestamp {
        let resumed = self.facts.release.and_then(|release| release.resumed_at);
        resumed.map_or(since, |resumed| timestamp(resumed).max(since))
    }

    /// Lets the release go on as far as it can; while something else holds the lock it is only reported.
    pub(super) fn lead(&mut self, may_act: bool) {
        let doubling = self.doubling();
        let (facts, units) = self.conductor_facts();
        let mut decision = controller::controller(&facts);
        self.explain(&mut decision.state);
        self.plan.report = Some(decision.report.clone());
        if !may_act {
            return self.report_what_is(&decision);
        }
        if let Some(at) = decision.wake_at {
            self.wake(timestamp(at));
        }
        match decision.response {
            FailureResponse::Rollback(_) => return self.take_release_back(&decision.state),
            FailureResponse::Hold(_) => self.say_held(&decision.state),
            FailureResponse::Fine | FailureResponse::Continue(_) => self.say_not_held(),
        }
        let performed = self.perform(&decision, &units);
        self.forget_undrained_who_stay();
        let decision = match performed {
            Performed::Wholly => decision,
            Performed::Partly | Performed::NotAtAll => self.without_what_waits(decision),
            Performed::Shrinking => return self.stand_by(&decision),
        };
        let step = |release: &RolloutState| (release.target, release.phase, release.batch);
        let is_moved = self.facts.release.is_none_or(|before| step(before) != step(&decision.state));
        if performed == Performed::Partly || (performed == Performed::NotAtAll && is_moved) {
            // How far it is now is for the next plan to see.
            self.wake(self.now);
        }
        self.note_completed(&decision.state);
        self.forget_former();
        if doubling != self.doubling() {
            // The last one was turned to: budgets are those of the spec again.
            self.wake(self.now);
        }
        self.plan.release = Some(decision.state).filter(|release| self.facts.release != Some(release));
    }

    /// The release does not go on before those have gone that are to go for good. Only a failure is remembered: whoever
    /// answers it must find it.
    fn stand_by(&mut self, decision: &Decision) {
        self.report_what_is(decision);
        let RolloutState { target, failure, excused, .. } = decision.state.clone();
        let before = self.facts.release.filter(|before| before.target == target);
        let after = before.map(|before| RolloutState { failure, excused, ..before.clone() });
        self.plan.release = after.filter(|after| before != Some(after));
    }

    /// The decision when not all of it could be performed: what was not ordered is no progress, and completes nothing.
    fn without_what_waits(&mut self, mut decision: Decision) -> Decision {
        let before = self.facts.release;
        let release = &mut decision.state;
        let is_completed =
            |before: &RolloutState| before.phase == RolloutPhase::Completed && before.target == release.target;
        let was_complete = before.is_some_and(is_completed);
        if release.phase == RolloutPhase::Completed && !was_complete {
            release.phase = RolloutPhase::Running;
        }
        release.seen = decision.watched.0;
        // A group that starts has its own deadline, whatever becomes of its first orders.
        if before.is_some_and(|before| before.batch == release.batch) {
            release.progress.clone_from(&decision.watched.1);
        }
        self.report_what_is(&decision);
        decision
    }

    /// Counts without what was decided and not done.
    fn report_what_is(&mut self, decision: &Decision) {
        let (mut facts, _) = self.conductor_facts();
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

    /// A version nobody runs any more is forgotten, by the plan after the one that replaced its last pod.
    fn forget_former(&mut self) {
        let used = |slots: &[Slot]| -> BTreeSet<u32> {
            slots.iter().flat_map(Slot::pods).map(|pod| pod.version).chain(self.record.proven).collect()
        };
        let (before, after) = (used(self.facts.slots), used(&self.plan.slots));
        let unused = self.record.former.keys().filter(|version| !after.contains(version));
        let (later, at_once): (Vec<u32>, Vec<u32>) = unused.partition(|version| before.contains(version));
        if !at_once.is_empty() {
            // The conclusion does it for every record that changes.
            let _ = self.record.to_mut();
        }
        if !later.is_empty() {
            self.wake(self.now);
        }
    }

    /// What every instance reached is what a rollback goes back to.
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

/// The first moment of the process's clock that is not before.
fn timestamp(moment: Moment) -> Timestamp {
    let nanos = moment.as_nanos();
    Timestamp::from_millis(nanos.div_euclid(1_000_000) + i64::from(nanos.rem_euclid(1_000_000) > 0))
}
