//! Ends operations and computes the difference to the previous state.
//!
//! An operation releases its lock when it is complete or at its time limit. The lock of a serial upgrade ends when the last
//! instance is created; whether the revision completed is decided later, without the lock. An earlier revision is forgotten
//! when no instance runs it and no rollback may need it.

use std::borrow::Cow;
use std::collections::BTreeSet;

use contract::command::Operation;
use contract::record::{GroupRecord, Instance, OperationRecord};
use contract::state::TargetState;
use contract::time::Timestamp;

use super::last_error::{UNFINISHED, is_planner_text};
use super::readiness::InstanceReadiness;
use super::{GroupPlan, Planning};

impl Planning<'_> {
    pub(super) fn finish(mut self) -> GroupPlan {
        match self.record.operation.clone() {
            Some(operation) => self.finish_operation(&operation),
            None => self.note_completed_serial(),
        }
        if let Cow::Owned(mut record) = self.record {
            let instances = self.facts.instances.iter().chain(&self.plan.instances).flat_map(Instance::pods);
            // The spec of a removed instance says whether it has data, so it is kept until its node confirms the removal.
            let removed =
                self.plan.instances.iter().chain(&self.tombstones).filter(|instance| instance.leaves.is_some());
            let versions = instances.chain(removed).map(|instance| instance.version);
            let present = record.spec.version;
            let used: BTreeSet<u32> = versions.chain(kept_for_rollback(&record)).collect();
            record.former.retain(|version, _| used.contains(version) && *version != present);
            self.plan.record = (record != *self.facts.record).then_some(record);
        }
        for (index, why) in self.stuck {
            let instance = &mut self.plan.instances[index];
            if instance.why.is_empty() {
                instance.why = why;
            }
        }
        self.plan.instances.append(&mut self.tombstones);
        let before = self.facts.instances;
        let same =
            before.len() == self.plan.instances.len() && before.iter().zip(&self.plan.instances).all(same_but_why);
        self.plan.store = !same;
        self.plan
    }

    fn finish_operation(&mut self, operation: &OperationRecord) {
        let limit = operation.since + self.facts.timeouts.operation;
        if self.is_complete(operation) {
            self.end(operation);
        } else if self.now < limit {
            self.wake(limit);
        } else {
            self.note_unfinished(operation);
            self.end(operation);
        }
    }

    fn is_complete(&mut self, operation: &OperationRecord) -> bool {
        let all_processed = self.next_instance().is_none();
        match operation.kind {
            Operation::Deploying => !self.unsettled,
            Operation::Scheduling => !self.unsettled && !self.facts.has_leftovers,
            Operation::Upgrading => self.paused_at.is_some() || self.is_deployed(),
            Operation::Starting => {
                all_processed && !(0..self.plan.instances.len()).any(|index| self.is_starting(index))
            }
            Operation::Stopping => {
                all_processed && !(0..self.plan.instances.len()).any(|index| self.is_stopping(index))
            }
            Operation::Restarting | Operation::Drifting => {
                let processed = self.processed();
                all_processed && processed.into_iter().all(|index| self.has_settled(index))
            }
            Operation::Removing => false,
        }
    }

    /// Whether every instance has the present revision and the last one was created or could not be. Its health does not
    /// matter.
    fn is_deployed(&mut self) -> bool {
        if !self.has_replaced_all() {
            return false;
        }
        self.upgraded().last().is_none_or(|last| match self.readiness_of(*last) {
            InstanceReadiness::InProgress => false,
            InstanceReadiness::Unreachable { .. } => !self.may_still_answer(*last),
            InstanceReadiness::Ready
            | InstanceReadiness::Unready { .. }
            | InstanceReadiness::Down { .. }
            | InstanceReadiness::NotExpected => true,
        })
    }

    /// Whether all instances have the present revision.
    fn has_replaced_all(&mut self) -> bool {
        if self.outdated().next().is_some() || self.plan.instances.iter().any(|instance| instance.leaves.is_some()) {
            return false;
        }
        if !self.touched.is_empty() {
            // The next plan forgets the revision that this plan replaces.
            self.wake(self.now);
        }
        self.touched.is_empty()
    }

    /// A revision of a group without a strategy completes when every running instance has it, is ready, and has run for
    /// longer than the early-exit time. Plans a wake-up for that time.
    fn note_completed_serial(&mut self) {
        let present = self.record.spec.version;
        if self.record.spec.has_strategy() || self.record.proven == Some(present) || !self.has_replaced_all() {
            return;
        }
        let mut completes_at = Timestamp::NEVER;
        for index in 0..self.plan.instances.len() {
            if self.plan.instances[index].target == TargetState::Stop {
                continue;
            }
            let works_at = match self.readiness_of(index) {
                InstanceReadiness::Ready => self.early_until(index),
                InstanceReadiness::Unready { recheck_at, .. } if recheck_at > self.now => Some(recheck_at),
                InstanceReadiness::Unready { .. }
                | InstanceReadiness::InProgress
                | InstanceReadiness::Down { .. }
                | InstanceReadiness::NotExpected
                | InstanceReadiness::Unreachable { .. } => None,
            };
            let Some(works_at) = works_at else { return };
            completes_at = completes_at.max(works_at);
        }
        if completes_at > self.now {
            return self.wake(completes_at);
        }
        let record = self.record.to_mut();
        record.proven = Some(present);
        if is_planner_text(&record.last_error) {
            record.last_error.clear();
        }
    }

    fn note_unfinished(&mut self, operation: &OperationRecord) {
        let word = match operation.kind {
            Operation::Restarting => "restart",
            Operation::Drifting => "drift",
            Operation::Upgrading => return self.note_unfinished_upgrade(),
            Operation::Deploying
            | Operation::Scheduling
            | Operation::Starting
            | Operation::Stopping
            | Operation::Removing => return,
        };
        let done = operation.next.saturating_sub(1);
        let text = format!("the {word} ended at its time limit: it reached instance {done} of {}", operation.last);
        self.record.to_mut().last_error = text;
    }

    /// The upgrade continues without its lock.
    fn note_unfinished_upgrade(&mut self) {
        if !self.record.last_error.is_empty() {
            return;
        }
        let (version, instances) = (self.record.spec.version, self.plan.instances.len());
        let updated = instances - self.outdated().count();
        let text = format!("{UNFINISHED}{version} ended at its time limit: {updated} of {instances} instances have it");
        self.record.to_mut().last_error = text;
    }

    fn end(&mut self, operation: &OperationRecord) {
        let now = self.now;
        let record = self.record.to_mut();
        record.operation = None;
        if operation.kind == Operation::Drifting {
            record.drifts.drain(..record.drifts.len().min(1));
        } else {
            // As in the original, a move is no change of the group.
            record.updated_at = now;
        }
        self.start_next_move();
        let unproven = self.outdated().next().is_some() || self.on_trial().is_some();
        let has_controller = self.record.spec.has_strategy();
        if self.record.operation.is_some() || has_controller || (unproven && operation.kind != Operation::Upgrading) {
            // A move, an upgrade or the rollout waited for the lock.
            self.wake(now);
        } else {
            self.note_completed_serial();
        }
    }
}

/// The revision that a rollback may return to. Until a first revision has completed, that is the newest earlier one.
fn kept_for_rollback(record: &GroupRecord) -> Option<u32> {
    let may_need_former = record.proven.is_none() && record.equals.is_empty() && !record.spec.has_strategy();
    record.proven.or_else(|| record.former.keys().next_back().copied().filter(|_| may_need_former))
}

/// Whether two instances differ only in texts and addresses. Those are not worth a write: texts change with every byte of free
/// memory and the next leader computes them again, and nodes report addresses again.
fn same_but_why((a, b): (&Instance, &Instance)) -> bool {
    if a == b {
        return true;
    }
    let unsaid =
        |instance: &Instance| Instance { why: String::new(), addresses: Vec::new(), next: None, ..instance.clone() };
    let same_beside = match (&a.next, &b.next) {
        (Some(a), Some(b)) => unsaid(a) == unsaid(b),
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    };
    same_beside && unsaid(a) == unsaid(b)
}
