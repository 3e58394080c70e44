//! Decides whether the operation on a group is over, and what remains of it.
//!
//! An operation gives its lock back when it is done or at its limit, whichever is first. What the group ran before is forgotten
//! only when no instance runs it and no rollback may need it.

use std::borrow::Cow;
use std::collections::BTreeSet;

use contract::command::Operation;
use contract::record::{OperationRecord, Slot};
use contract::state::TargetState;

use super::{Bucket, GroupPlan, Planning};

impl Planning<'_> {
    pub(super) fn conclude(mut self) -> GroupPlan {
        match self.record.operation.clone() {
            Some(operation) => self.conclude_operation(&operation),
            None => self.note_reached(),
        }
        if let Cow::Owned(mut record) = self.record {
            let slots = self.facts.slots.iter().chain(&self.plan.slots).flat_map(Slot::pods);
            // Whether a removed instance had data is read from its spec until its node confirms that it is gone.
            let removed = self.plan.slots.iter().chain(&self.tombstones).filter(|slot| slot.leaves.is_some());
            let versions = slots.chain(removed).map(|slot| slot.version);
            let used: BTreeSet<u32> = versions.chain(record.proven).collect();
            let present = record.spec.version;
            record.former.retain(|version, _| used.contains(version) && *version != present);
            self.plan.record = (record != *self.facts.record).then_some(record);
        }
        for (index, why) in self.stuck {
            let slot = &mut self.plan.slots[index];
            if slot.why.is_empty() {
                slot.why = why;
            }
        }
        self.plan.slots.append(&mut self.tombstones);
        let before = self.facts.slots;
        let same = before.len() == self.plan.slots.len() && before.iter().zip(&self.plan.slots).all(same_but_why);
        self.plan.store = !same;
        self.plan
    }

    fn conclude_operation(&mut self, operation: &OperationRecord) {
        let limit = operation.since + self.facts.patience.operation;
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
        let all_turned_to = self.next_turn().is_none();
        match operation.kind {
            Operation::Deploying => !self.unsettled,
            Operation::Scheduling => !self.unsettled && !self.facts.lingers,
            Operation::Upgrading => self.has_reached(),
            Operation::Starting => all_turned_to && !(0..self.plan.slots.len()).any(|index| self.is_starting(index)),
            Operation::Stopping => all_turned_to && !(0..self.plan.slots.len()).any(|index| self.is_stopping(index)),
            Operation::Restarting | Operation::Drifting => {
                let turned_to = self.turned_to();
                all_turned_to && turned_to.into_iter().all(|index| self.has_settled(index))
            }
            Operation::Removing => false,
        }
    }

    /// Whether no instance is left to be upgraded and the last one that was is done.
    fn has_reached(&mut self) -> bool {
        if self.outdated().next().is_some() || self.plan.slots.iter().any(|slot| slot.leaves.is_some()) {
            return false;
        }
        let present = self.record.spec.version;
        let upgraded = |slot: &Slot| slot.version == present && slot.target == TargetState::Run;
        let reached = self.plan.slots.iter().rposition(upgraded).is_none_or(|last| self.is_done(last));
        if reached && !self.touched.is_empty() {
            // What this plan replaces can be forgotten only by the next one.
            self.wake(self.now);
            return false;
        }
        reached
    }

    /// Whether every instance that shall run does, in the present version.
    fn runs_whole(&self) -> bool {
        let mut slots = self.plan.slots.iter().enumerate();
        slots.all(|(index, slot)| slot.target == TargetState::Stop || self.bucket(index) == Bucket::Running)
    }

    /// An upgrade that lost its lock, or a deploy that took long, arrives all the same.
    fn note_reached(&mut self) {
        if self.record.spec.is_conducted() {
            return;
        }
        let present = self.record.spec.version;
        if self.record.proven != Some(present) && self.runs_whole() && self.has_reached() {
            self.record.to_mut().proven = Some(present);
        }
    }

    fn note_unfinished(&mut self, operation: &OperationRecord) {
        let word = match operation.kind {
            Operation::Restarting => "restart",
            Operation::Drifting => "drift",
            Operation::Deploying
            | Operation::Scheduling
            | Operation::Upgrading
            | Operation::Starting
            | Operation::Stopping
            | Operation::Removing => return,
        };
        let done = operation.next.saturating_sub(1);
        let text = format!("the {word} ended at its time limit: it came to instance {done} of {}", operation.last);
        self.record.to_mut().last_error = text;
    }

    fn end(&mut self, operation: &OperationRecord) {
        let (now, present) = (self.now, self.record.spec.version);
        let reached = operation.kind == Operation::Upgrading && self.has_reached();
        let record = self.record.to_mut();
        record.operation = None;
        if reached {
            record.proven = Some(present);
        }
        if operation.kind == Operation::Drifting {
            record.drifts.drain(..record.drifts.len().min(1));
        } else {
            // The original does not count a drift as a change of the group.
            record.updated_at = now;
        }
        self.begin_drift();
        let unproven = self.outdated().next().is_some() || self.way_back().is_some();
        let has_conductor = self.record.spec.is_conducted();
        if self.record.operation.is_some() || has_conductor || (unproven && operation.kind != Operation::Upgrading) {
            // A drift, an upgrade or the conductor waited for the lock.
            self.wake(now);
        } else {
            self.note_reached();
        }
    }
}

/// The text alone is not worth a write: it changes with every byte of free memory, and the next leader finds it again. Nor
/// are addresses: the node reports them again.
fn same_but_why((a, b): (&Slot, &Slot)) -> bool {
    if a == b {
        return true;
    }
    let unsaid = |slot: &Slot| Slot { why: String::new(), addresses: Vec::new(), next: None, ..slot.clone() };
    let same_beside = match (&a.next, &b.next) {
        (Some(a), Some(b)) => unsaid(a) == unsaid(b),
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    };
    same_beside && unsaid(a) == unsaid(b)
}
