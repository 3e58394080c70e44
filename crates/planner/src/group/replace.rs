//! Decides what to do about an instance that is not as it should be, and finds places for those that need one.
//!
//! An instance that is made anew keeps its version: only an upgrade changes it. The surprise: an instance on a lost node that
//! fits nowhere else keeps its node, because that node may come back with it.

use std::sync::Arc;
use std::time::Duration;

use contract::name::NodeName;
use contract::notice::Incident;
use contract::record::Filling;
use contract::state::TargetState;
use contract::time::Timestamp;

use super::reservations::{ExtraConstraint, PlacementRequest};
use super::{InstanceStatus, Planning, forget_pod, number};
use crate::placement::NodePreference;

/// First wait after a failed attempt; doubled by each further one.
const FIRST_WAIT: Duration = Duration::from_secs(10);
/// Longest wait between two attempts.
const LONGEST_WAIT: Duration = Duration::from_secs(300);

/// How long to wait after the `failures`th failure in a row.
pub fn wait_after(failures: u32) -> Duration {
    FIRST_WAIT.saturating_mul(1 << failures.saturating_sub(1).min(10)).min(LONGEST_WAIT)
}

impl Planning<'_> {
    pub(super) fn reconcile_instance(&mut self, index: usize) {
        let status = self.status(index);
        self.plan.statuses.push(status);
        match self.plan.slots[index].filling {
            Filling::Pod => {}
            Filling::Retired | Filling::Nothing => return,
        }
        match status {
            InstanceStatus::Unplaced | InstanceStatus::NodeLost => self.to_place.push(index),
            InstanceStatus::Moving => self.leaving(index),
            InstanceStatus::Starting => {
                self.unsettled = true;
                if self.plan.slots[index].failures == 0 {
                    self.plan.slots[index].why.clear();
                }
            }
            InstanceStatus::Running => self.note_running(index),
            InstanceStatus::Exited => {}
            InstanceStatus::CreateFailed => {
                let error = self.observed(index).map_or("", |observed| observed.last_error.as_str());
                self.failed(index, error);
            }
            InstanceStatus::Missing => self.missing(index),
            InstanceStatus::LeftAlone => self.note_left_alone(index),
            // Suspect or engine trouble settles an operation; a node not heard yet may still answer.
            InstanceStatus::Unreachable => self.unsettled |= self.may_still_answer(index),
        }
    }

    fn leaving(&mut self, index: usize) {
        let left = self.plan.slots[index].leaves.clone();
        let Some(left) = left.filter(|left| self.is_lost(left)) else {
            self.unsettled = true;
            return self.plan.slots[index].why.clear();
        };
        // A lost node may not answer for days: that does not hold the lock of an operation.
        self.plan.slots[index].why =
            format!("node {left}, which it leaves, is lost; the instance is stateful and waits for it");
    }

    /// What runs has no failures behind it, once the wait after the last attempt is over.
    fn note_running(&mut self, index: usize) {
        self.note_addresses(index);
        let slot = &mut self.plan.slots[index];
        if slot.retry_at.happened() && self.now < slot.retry_at {
            let at = slot.retry_at;
            self.wake(at);
        } else if slot.failures > 0 || slot.retry_at.happened() || !slot.why.is_empty() {
            slot.failures = 0;
            slot.retry_at = Timestamp::NEVER;
            slot.why.clear();
        }
    }

    /// A container without an address keeps the last one it had.
    fn note_addresses(&mut self, index: usize) {
        let Some(observed) = self.observed(index) else { return };
        let failure_detail = &mut self.plan.slots[index].addresses;
        if observed.containers.iter().all(|container| container.ip.is_empty()) {
            return;
        }
        failure_detail.resize(observed.containers.len(), String::new());
        for (failure_detail, container) in
            failure_detail.iter_mut().zip(&observed.containers).filter(|(_, c)| !c.ip.is_empty())
        {
            failure_detail.clone_from(&container.ip);
        }
    }

    fn failed(&mut self, index: usize, error: &str) {
        if self.has_predecessor(index) {
            return error.clone_into(&mut self.plan.slots[index].why);
        }
        let slot = &mut self.plan.slots[index];
        if !slot.retry_at.happened() {
            slot.failures = slot.failures.saturating_add(1);
            slot.retry_at = self.now + wait_after(slot.failures);
            error.clone_into(&mut slot.why);
        }
        self.retry_when_due(index);
    }

    /// Whether the pod that this one replaces still stands. Its node keeps it until this one can be made; if this one moved
    /// to another node, the old one would be removed.
    pub(super) fn has_predecessor(&self, index: usize) -> bool {
        let leaving = self.facts.leaving.get(index).copied().unwrap_or(0);
        self.instance(index) == index && leaving > 0
    }

    /// The first disappearance is repaired at once, a further one after the wait.
    fn missing(&mut self, index: usize) {
        self.retry_when_due(index);
        if self.to_place.last() == Some(&index) {
            self.plan.incidents.push((number(self.instance(index)), Incident::Missing));
        }
    }

    fn retry_when_due(&mut self, index: usize) {
        let retry_at = self.plan.slots[index].retry_at;
        if retry_at.happened() && self.now < retry_at {
            self.wake(retry_at);
        } else {
            self.to_place.push(index);
        }
    }

    fn note_left_alone(&mut self, index: usize) {
        let slot = &self.plan.slots[index];
        let Some(node) = &slot.node else { return };
        let why = if self.is_lost(node) {
            format!("node {node} is lost; the instance is stateful and waits for it")
        } else if slot.target == TargetState::Stop {
            return;
        } else if self.revision(slot.version).pod.stateful {
            format!("its container on node {node} is missing; a stateful instance is not made anew")
        } else {
            format!("its container on node {node} is missing and the guard sleeps")
        };
        self.plan.slots[index].why = why;
    }

    /// Finds a place for every pod that needs one, in the order of their numbers.
    ///
    /// A pod that a surge pod replaces does not count as a sibling, because it leaves: 3 nodes with one instance each count
    /// 0, 1 and 1 for the surge pod of the first, so it starts surge the pod it replaces and the group stays spread.
    pub(super) fn place(&mut self) {
        let to_place = std::mem::take(&mut self.to_place);
        for owner in self.surge_owners.iter().filter(|owner| !to_place.contains(owner)) {
            if let Some(node) = &self.plan.slots[*owner].node {
                self.reservations.uncount(node);
            }
        }
        for node in to_place.iter().filter_map(|index| self.plan.slots[*index].node.as_ref()) {
            self.reservations.uncount(node);
        }
        for index in to_place {
            self.place_one(index);
        }
    }

    fn place_one(&mut self, index: usize) {
        let status = self.plan.statuses[index];
        let slot = &self.plan.slots[index];
        let (old, leaves, version) = (slot.node.clone(), slot.leaves.clone(), slot.version);
        let revision = self.revision(version).clone();
        // Who is still leaving another node has nothing on this one yet.
        let has_node = old.as_ref().is_some_and(|old| !self.is_decommissioned(old));
        let stays = leaves.is_none() && has_node && revision.pod.is_stateful();
        // A surge pod avoids the node that its instance still has to leave: the two pods could not be told apart there. Any
        // pod avoids a node that could not create it. A container that vanished is no fault of its node.
        let owner = Some(self.instance(index)).filter(|owner| *owner != index);
        let left = owner.and_then(|owner| self.plan.slots[owner].leaves.clone());
        let at_fault = old.as_ref().filter(|_| status != InstanceStatus::Missing);
        let avoid = left.as_ref().or(at_fault);
        let wish = if stays {
            NodePreference { pin: old.as_ref(), ..NodePreference::default() }
        } else {
            NodePreference { avoid, ..NodePreference::default() }
        };
        // Its own room is free only while it looks for a place: who finds none keeps it.
        if let Some(old) = &old {
            self.reservations.release(old, revision.need);
        }
        let extra = if stays { ExtraConstraint::Pinned } else { ExtraConstraint::None };
        let request =
            PlacementRequest { version, extra, unit_constraint: self.unit_constraint(&self.plan.slots[index]) };
        match self.reservations.place(&request, &revision, wish) {
            Ok(node) => self.placed(index, status, node),
            Err(unplaceable) => {
                if let Some(old) = &old {
                    self.reservations.keep(old, revision.need);
                }
                self.note_unplaced(index, status, &unplaceable.sentence());
                self.unschedulable.insert(self.instance(index), Arc::clone(&unplaceable));
                self.plan.unplaced = Some(unplaceable);
            }
        }
    }

    fn placed(&mut self, index: usize, status: InstanceStatus, node: NodeName) {
        self.unsettled = true;
        self.touched.insert(index);
        let now = self.now;
        if self.record.spec.has_strategy() {
            // The conductor decided before it was moved; now it may be the one to turn to.
            self.wake(now);
        }
        let slot = &self.plan.slots[index];
        // A place that nothing was ordered at has used no name.
        let had_place = slot.node.is_some() && slot.leaves.is_none();
        if slot.node.as_ref() != Some(&node) {
            self.plan.slots[index].reserved_addresses.clear();
        }
        if status == InstanceStatus::CreateFailed && self.instance(index) == index {
            // Its agent goes on trying: it may just have made it after all.
            self.move_to(index, node);
        } else {
            self.plan.slots[index].node = Some(node);
        }
        let drift = if had_place { self.next_drift(index) } else { self.plan.slots[index].drift };
        let slot = &mut self.plan.slots[index];
        slot.drift = drift;
        slot.unplaced_since = Timestamp::NEVER;
        forget_pod(slot);
        slot.retry_at = Timestamp::NEVER;
        if status == InstanceStatus::Missing {
            slot.failures = slot.failures.saturating_add(1);
            slot.retry_at = now + wait_after(slot.failures);
        }
        if status == InstanceStatus::NodeLost && slot.since.happened() {
            // That its node was lost is not held against its version.
            slot.since = slot.since.max(now);
        }
        if status != InstanceStatus::CreateFailed {
            slot.why.clear();
        }
    }

    fn note_unplaced(&mut self, index: usize, status: InstanceStatus, sentence: &str) {
        self.plan.waiting = true;
        let now = self.now;
        let has_strategy = self.record.spec.has_strategy();
        let slot = &mut self.plan.slots[index];
        if has_strategy && slot.node.is_none() && !slot.unplaced_since.happened() {
            slot.unplaced_since = now;
        }
        slot.why = match (&slot.node, status) {
            (Some(node), InstanceStatus::NodeLost) => format!("node {node} is lost; {sentence}"),
            _ => sentence.to_owned(),
        };
        if matches!(status, InstanceStatus::CreateFailed | InstanceStatus::Missing) {
            slot.failures = slot.failures.saturating_add(1);
            slot.retry_at = now + wait_after(slot.failures);
            let at = slot.retry_at;
            self.wake(at);
        }
    }
}
