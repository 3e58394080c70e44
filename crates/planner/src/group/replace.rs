//! Replaces pods that are lost, missing or could not be created, and places pods without a node.
//!
//! A replaced pod keeps its revision: only an upgrade or rollout changes it. An instance on a lost node that fits on no other
//! node keeps its node, because the node may return with it. Example: a container that vanishes is recreated immediately; if
//! it vanishes again, after 10 s, then 20 s, at most 300 s.

use std::sync::Arc;
use std::time::Duration;

use contract::name::NodeName;
use contract::notice::Incident;
use contract::record::Presence;
use contract::state::TargetState;
use contract::time::Timestamp;

use super::reservations::{ExtraConstraint, PlacementRequest};
use super::{Planning, PodStatus, forget_pod, number};
use crate::placement::NodePreference;
use crate::restart;

const FIRST_WAIT: Duration = Duration::from_secs(10);
const LONGEST_WAIT: Duration = Duration::from_secs(300);

/// The back-off after this many failures in a row.
pub(super) fn wait_after(failures: u32) -> Duration {
    restart::back_off(FIRST_WAIT, failures.saturating_sub(1), LONGEST_WAIT)
}

impl Planning<'_> {
    pub(super) fn reconcile_instance(&mut self, index: usize) {
        let status = self.status(index);
        self.plan.statuses.push(status);
        match self.plan.instances[index].presence {
            Presence::Pod => {}
            Presence::Vacant | Presence::Free => return,
        }
        match status {
            PodStatus::Unplaced | PodStatus::NodeLost => self.to_place.push(index),
            PodStatus::Moving => self.leaving(index),
            PodStatus::Starting => {
                self.unsettled = true;
                if self.plan.instances[index].failures == 0 {
                    self.plan.instances[index].why.clear();
                }
            }
            PodStatus::Running => self.note_running(index),
            PodStatus::Exited => {}
            PodStatus::CreateFailed => {
                let error = self.observed(index).map_or("", |observed| observed.last_error.as_str());
                self.failed(index, error);
            }
            PodStatus::Missing => self.missing(index),
            PodStatus::LeftAlone => self.note_left_alone(index),
            // A suspect node or a broken engine does not delay the end of an operation; a node that this leader has not heard
            // yet does.
            PodStatus::Unreachable => self.unsettled |= self.may_still_answer(index),
        }
    }

    fn leaving(&mut self, index: usize) {
        let left = self.plan.instances[index].leaves.clone();
        let Some(left) = left.filter(|left| self.is_lost(left)) else {
            self.unsettled = true;
            return self.plan.instances[index].why.clear();
        };
        // A lost node may be silent for days and must not hold the lock of an operation.
        self.plan.instances[index].why =
            format!("node {left}, which it leaves, is lost; the instance is stateful and waits for it");
    }

    /// A running pod has no failures once its last back-off is over.
    fn note_running(&mut self, index: usize) {
        self.note_addresses(index);
        let instance = &mut self.plan.instances[index];
        if instance.retry_at.happened() && self.now < instance.retry_at {
            let at = instance.retry_at;
            self.wake(at);
        } else if instance.failures > 0 || instance.retry_at.happened() || !instance.why.is_empty() {
            instance.failures = 0;
            instance.retry_at = Timestamp::NEVER;
            instance.why.clear();
        }
    }

    /// A container that reports no address keeps its last one.
    fn note_addresses(&mut self, index: usize) {
        let Some(observed) = self.observed(index) else { return };
        let addresses = &mut self.plan.instances[index].addresses;
        if observed.containers.iter().all(|container| container.ip.is_empty()) {
            return;
        }
        addresses.resize(observed.containers.len(), String::new());
        for (address, container) in addresses.iter_mut().zip(&observed.containers).filter(|(_, c)| !c.ip.is_empty()) {
            address.clone_from(&container.ip);
        }
    }

    fn failed(&mut self, index: usize, error: &str) {
        if self.has_predecessor(index) {
            return error.clone_into(&mut self.plan.instances[index].why);
        }
        let instance = &mut self.plan.instances[index];
        if !instance.retry_at.happened() {
            instance.failures = instance.failures.saturating_add(1);
            instance.retry_at = self.now + wait_after(instance.failures);
            error.clone_into(&mut instance.why);
        }
        self.retry_when_due(index);
    }

    /// Whether the node still has the pod that this one replaces. The node keeps it until this one can be created; if this
    /// one moved to another node, the old pod would be removed.
    pub(super) fn has_predecessor(&self, index: usize) -> bool {
        let leaving = self.facts.leaving.get(index).copied().unwrap_or(0);
        self.instance(index) == index && leaving > 0
    }

    /// The first disappearance is repaired immediately, further ones with back-off.
    fn missing(&mut self, index: usize) {
        self.retry_when_due(index);
        if self.to_place.last() == Some(&index) {
            self.plan.incidents.push((number(self.instance(index)), Incident::Missing));
        }
    }

    fn retry_when_due(&mut self, index: usize) {
        let retry_at = self.plan.instances[index].retry_at;
        if retry_at.happened() && self.now < retry_at {
            self.wake(retry_at);
        } else {
            self.to_place.push(index);
        }
    }

    fn note_left_alone(&mut self, index: usize) {
        let instance = &self.plan.instances[index];
        let Some(node) = &instance.node else { return };
        let why = if self.is_lost(node) {
            format!("node {node} is lost; the instance is stateful and waits for it")
        } else if instance.target == TargetState::Stop {
            return;
        } else if self.revision(instance.version).pod.stateful {
            format!("its container on node {node} is missing; a stateful instance is not recreated")
        } else {
            format!("its container on node {node} is missing and the guard sleeps")
        };
        self.plan.instances[index].why = why;
    }

    /// Places every pod that needs a node, in the order of their numbers.
    ///
    /// A pod that a surge pod replaces does not count as a sibling, because it will stop: 3 nodes with one instance each
    /// count 0, 1 and 1 for the surge pod of the first instance, so it starts on the node of the pod that it replaces and the
    /// group stays spread.
    pub(super) fn place(&mut self) {
        let to_place = std::mem::take(&mut self.to_place);
        for owner in self.surge_owners.iter().filter(|owner| !to_place.contains(owner)) {
            if let Some(node) = &self.plan.instances[*owner].node {
                self.reservations.uncount(node);
            }
        }
        for node in to_place.iter().filter_map(|index| self.plan.instances[*index].node.as_ref()) {
            self.reservations.uncount(node);
        }
        for index in to_place {
            self.place_one(index);
        }
    }

    fn place_one(&mut self, index: usize) {
        let status = self.plan.statuses[index];
        let instance = &self.plan.instances[index];
        let (old, leaves, version) = (instance.node.clone(), instance.leaves.clone(), instance.version);
        let revision = self.revision(version).clone();
        // A pod that has not left its old node yet has no data on this one.
        let has_node = old.as_ref().is_some_and(|old| !self.is_decommissioned(old));
        let stays = leaves.is_none() && has_node && revision.pod.is_stateful();
        // A surge pod avoids the node that its instance is still leaving: the two pods would have the same identity there.
        // Any pod avoids a node that could not create it; a vanished container is not the node's fault.
        let owner = Some(self.instance(index)).filter(|owner| *owner != index);
        let left = owner.and_then(|owner| self.plan.instances[owner].leaves.clone());
        let at_fault = old.as_ref().filter(|_| status != PodStatus::Missing);
        let avoid = left.as_ref().or(at_fault);
        let preference = if stays {
            NodePreference { pin: old.as_ref(), ..NodePreference::default() }
        } else {
            NodePreference { avoid, ..NodePreference::default() }
        };
        // The resources of the old pod count as free during the search; an unschedulable pod keeps them.
        if let Some(old) = &old {
            self.reservations.release(old, revision.need);
        }
        let extra = if stays { ExtraConstraint::Pinned } else { ExtraConstraint::None };
        let request =
            PlacementRequest { version, extra, unit_constraint: self.unit_constraint(&self.plan.instances[index]) };
        match self.reservations.place(&request, &revision, preference) {
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

    fn placed(&mut self, index: usize, status: PodStatus, node: NodeName) {
        self.unsettled = true;
        self.touched.insert(index);
        let now = self.now;
        if self.record.spec.has_strategy() {
            // The rollout decided before this placement: it may continue now.
            self.wake(now);
        }
        let instance = &self.plan.instances[index];
        // A pod that was never ordered on its node has not used its name.
        let had_place = instance.node.is_some() && instance.leaves.is_none();
        if instance.node.as_ref() != Some(&node) {
            self.plan.instances[index].reserved_addresses.clear();
        }
        if status == PodStatus::CreateFailed && self.instance(index) == index {
            // The agent of the old node keeps trying and may have created the pod meanwhile.
            self.move_to(index, node);
        } else {
            self.plan.instances[index].node = Some(node);
        }
        let drift = if had_place { self.next_drift(index) } else { self.plan.instances[index].drift };
        let instance = &mut self.plan.instances[index];
        instance.drift = drift;
        instance.unplaced_since = Timestamp::NEVER;
        forget_pod(instance);
        instance.retry_at = Timestamp::NEVER;
        if status == PodStatus::Missing {
            instance.failures = instance.failures.saturating_add(1);
            instance.retry_at = now + wait_after(instance.failures);
        }
        if status == PodStatus::NodeLost && instance.since.happened() {
            // The loss of its node does not count against its revision.
            instance.since = instance.since.max(now);
        }
        if status != PodStatus::CreateFailed {
            instance.why.clear();
        }
    }

    fn note_unplaced(&mut self, index: usize, status: PodStatus, sentence: &str) {
        self.plan.waiting = true;
        let now = self.now;
        let has_strategy = self.record.spec.has_strategy();
        let instance = &mut self.plan.instances[index];
        if has_strategy && instance.node.is_none() && !instance.unplaced_since.happened() {
            instance.unplaced_since = now;
        }
        instance.why = match (&instance.node, status) {
            (Some(node), PodStatus::NodeLost) => format!("node {node} is lost; {sentence}"),
            _ => sentence.to_owned(),
        };
        if matches!(status, PodStatus::CreateFailed | PodStatus::Missing) {
            instance.failures = instance.failures.saturating_add(1);
            instance.retry_at = now + wait_after(instance.failures);
            let at = instance.retry_at;
            self.wake(at);
        }
    }
}
