//! Starts, stops and restarts instances.
//!
//! Starts and stops apply to all instances immediately, restarts to one after another. They are counters: the instance says how
//! many were requested, the report how many are done. The operation stores only the next number; the instances that it has
//! processed are those with `instance.since >= operation.since`.

use contract::command::Operation;
use contract::record::OperationRecord;
use contract::state::{RunState, TargetState};
use contract::time::Timestamp;

use super::readiness::InstanceReadiness;
use super::{Planning, PodStatus, index_of, number};

/// How long an operation waits for an instance that it has processed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OperationWait {
    Over,
    /// Until that time or the next report.
    Until(Timestamp),
    /// Until the next report.
    Indefinitely,
}

impl Planning<'_> {
    /// Sets the target state of every instance of a start or stop.
    pub(super) fn retarget(&mut self) {
        while let Some((operation, index)) = self.next_instance() {
            let now = self.now;
            let instance = &mut self.plan.instances[index];
            instance.not_moved.clear();
            if operation.kind == Operation::Stopping {
                instance.target = TargetState::Stop;
            } else {
                instance.target = TargetState::Run;
                instance.starts_requested = instance.starts_requested.saturating_add(1);
                // A requested start does not wait for the back-off.
                if instance.retry_at.happened() {
                    instance.retry_at = instance.retry_at.min(now);
                }
                self.report_missing(index, "started");
            }
            self.advance();
        }
    }

    /// Reports an instance that cannot be started because its container is gone and a stateful instance is not created again.
    fn report_missing(&mut self, index: usize, verb: &str) {
        let instance = &self.plan.instances[index];
        let is_missing = self.observed(index).is_some_and(|observed| observed.state == RunState::Missing);
        if let Some(node) =
            instance.node.as_ref().filter(|_| is_missing && self.revision(instance.version).pod.stateful)
        {
            let number = number(index);
            let last_error = format!(
                "instance {number} cannot be {verb}: its container on node {node} is missing, and a stateful instance is \
                 not created again by itself; deploy it again with a spec patch (cmd=spec)"
            );
            self.record.to_mut().last_error = last_error;
        }
    }

    /// Restarts the next instance when the previous one is done.
    pub(super) fn restart(&mut self) {
        if !self.may_proceed() {
            return;
        }
        while let Some((operation, index)) = self.next_instance() {
            let instance = &mut self.plan.instances[index];
            instance.target = TargetState::Run;
            instance.not_moved.clear();
            instance.restarts_requested = instance.restarts_requested.saturating_add(1);
            instance.since = self.now.max(operation.since);
            self.report_missing(index, "restarted");
            self.advance();
            if !self.is_done_waiting(index) {
                return;
            }
        }
    }

    /// The operation and the index of the instance that is next.
    pub(super) fn next_instance(&self) -> Option<(OperationRecord, usize)> {
        let operation = self.record.operation.as_ref()?;
        let next = operation.next.max(1);
        let index = index_of(next)?;
        (next <= operation.last && index < self.plan.instances.len()).then(|| (operation.clone(), index))
    }

    /// Marks the next instance as processed.
    pub(super) fn advance(&mut self) {
        if let Some(operation) = &mut self.record.to_mut().operation {
            operation.next = operation.next.max(1).saturating_add(1);
        }
    }

    /// Whether the operation need not wait for an instance that it has processed, nor for one that an earlier operation took
    /// down.
    pub(super) fn may_proceed(&mut self) -> bool {
        let processed = self.processed();
        self.others_are_up(&processed) && processed.into_iter().all(|index| self.is_done_waiting(index))
    }

    /// Whether all other instances are up or have timed out: an earlier operation may have reached its time limit just after
    /// it took an instance down. This applies to groups with a strategy too: a rollout's budget counts only its own pods, and
    /// it pauses while an operation holds the lock.
    fn others_are_up(&mut self, processed: &[usize]) -> bool {
        let others = (0..self.plan.instances.len()).filter(|index| processed.binary_search(index).is_err());
        let Some(until) = others.filter_map(|index| self.comes_up_until(index)).min() else { return true };
        self.wake(until);
        false
    }

    pub(super) fn processed(&self) -> Vec<usize> {
        let Some(since) = self.record.operation.as_ref().map(|operation| operation.since) else { return Vec::new() };
        let instances = self.plan.instances.iter().enumerate();
        instances.filter(|(_, instance)| instance.since >= since).map(|(index, _)| index).collect()
    }

    pub(super) fn is_done_waiting(&mut self, index: usize) -> bool {
        match self.wait_for(index) {
            OperationWait::Over => true,
            OperationWait::Until(at) => {
                self.wake(at);
                false
            }
            OperationWait::Indefinitely => false,
        }
    }

    /// How long the next instance waits for this one.
    fn wait_for(&self, index: usize) -> OperationWait {
        let instance = &self.plan.instances[index];
        if instance.target == TargetState::Stop {
            return OperationWait::Over;
        }
        let until = |at: Timestamp, limit: Timestamp| {
            if self.now >= limit { OperationWait::Over } else { OperationWait::Until(at) }
        };
        match self.readiness_of(index) {
            InstanceReadiness::NotExpected => OperationWait::Over,
            InstanceReadiness::InProgress => OperationWait::Indefinitely,
            InstanceReadiness::Ready | InstanceReadiness::Unready { .. } if !self.has_restarted(index) => {
                OperationWait::Indefinitely
            }
            InstanceReadiness::Ready => OperationWait::Over,
            InstanceReadiness::Unready { recheck_at, limit } => until(recheck_at, limit),
            InstanceReadiness::Down { limit } | InstanceReadiness::Unreachable { limit } => until(limit, limit),
        }
    }

    /// Whether the operation is finished with an instance that it has processed. No other instance waits for it, so it need
    /// not be ready.
    pub(super) fn has_settled(&mut self, index: usize) -> bool {
        match self.readiness_of(index) {
            InstanceReadiness::Ready | InstanceReadiness::Unready { .. } | InstanceReadiness::Down { .. }
                if self.has_restarted(index) =>
            {
                true
            }
            InstanceReadiness::Ready
            | InstanceReadiness::Unready { .. }
            | InstanceReadiness::Down { .. }
            | InstanceReadiness::InProgress
            | InstanceReadiness::NotExpected
            | InstanceReadiness::Unreachable { .. } => self.is_done_waiting(index),
        }
    }

    pub(super) fn has_restarted(&self, index: usize) -> bool {
        self.observed(index)
            .is_some_and(|observed| observed.restarts_done >= self.plan.instances[index].restarts_requested)
    }

    /// Whether a requested start of the instance is not done yet.
    pub(super) fn is_starting(&self, index: usize) -> bool {
        let instance = &self.plan.instances[index];
        if instance.target == TargetState::Stop {
            return false;
        }
        match self.status(index) {
            PodStatus::Starting | PodStatus::Moving => true,
            PodStatus::Running | PodStatus::Exited => {
                self.observed(index).is_none_or(|observed| observed.starts_done < instance.starts_requested)
            }
            PodStatus::Unplaced
            | PodStatus::CreateFailed
            | PodStatus::Missing
            | PodStatus::NodeLost
            | PodStatus::LeftAlone => false,
            PodStatus::Unreachable => self.may_still_answer(index),
        }
    }

    /// Whether a requested stop of the instance is not done yet.
    pub(super) fn is_stopping(&self, index: usize) -> bool {
        if self.plan.instances[index].target == TargetState::Run {
            return false;
        }
        let observed = self.observed(index);
        match self.status(index) {
            PodStatus::Moving | PodStatus::Running => true,
            PodStatus::Starting => {
                observed.is_none_or(|observed| observed.leaving || observed.containers.iter().any(|c| c.running))
            }
            PodStatus::Exited | PodStatus::CreateFailed | PodStatus::Missing => {
                observed.is_some_and(|observed| observed.containers.iter().any(|c| c.running))
            }
            PodStatus::Unplaced | PodStatus::NodeLost | PodStatus::LeftAlone => false,
            PodStatus::Unreachable => self.may_still_answer(index),
        }
    }
}
