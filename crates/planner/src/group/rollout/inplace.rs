//! Gives an instance the present revision: live, with the same address, or as a new pod.
//!
//! An unschedulable instance keeps its old pod, shows the reason and is tried again. So does an instance on a silent node.

use std::sync::Arc;

use contract::name::NodeName;
use contract::rollout::UpdatePolicy;
use contract::time::Timestamp;

use super::super::last_error::is_about_stuck;
use super::super::reservations::{ExtraConstraint, PlacementRequest};
use super::super::update_method::{UpdateMethod, update_method};
use super::super::{Planning, PodStatus};
use crate::placement::NodePreference;

impl Planning<'_> {
    /// How an instance gets the present revision. Updating in place needs an existing container.
    pub(in super::super) fn method(&self, index: usize) -> UpdateMethod {
        let before = &self.revision(self.plan.instances[index].version).pod;
        let method = update_method(self.record.spec.update_policy, before, &self.present.pod);
        match (self.status(index), method) {
            (PodStatus::Running | PodStatus::Exited | PodStatus::Starting | PodStatus::Unreachable, method) => method,
            (
                PodStatus::Unplaced
                | PodStatus::Moving
                | PodStatus::CreateFailed
                | PodStatus::Missing
                | PodStatus::NodeLost
                | PodStatus::LeftAlone,
                _,
            ) => UpdateMethod::Recreate,
        }
    }

    /// Gives the instance the current revision by the method that its change allows. False if it is not possible now.
    pub(super) fn renew_instance(&mut self, index: usize) -> bool {
        if self.status(index) == PodStatus::Unreachable {
            self.note_stuck(index, "its node does not answer");
            self.plan.instances[index].unplaced_since = Timestamp::NEVER;
            return false;
        }
        let is_done = match (self.method(index), self.plan.instances[index].node.clone()) {
            (UpdateMethod::Refused { fields }, _) => {
                let text = format!("UpdatePolicy InPlaceOnly does not allow a change of {}", fields.join(", "));
                self.note_stuck(index, &text);
                false
            }
            (method @ (UpdateMethod::Live | UpdateMethod::SameAddress), Some(node)) => {
                self.renew_in_place(index, &node, &method)
            }
            (UpdateMethod::Live | UpdateMethod::SameAddress | UpdateMethod::Recreate, _) => self.renew(index),
        };
        // A refused update or a silent node is no lack of resources.
        let is_unschedulable = !is_done && self.unschedulable.contains_key(&index);
        if is_unschedulable && !self.plan.instances[index].unplaced_since.happened() {
            self.plan.instances[index].unplaced_since = self.now;
        }
        is_done
    }

    fn renew_in_place(&mut self, index: usize, node: &NodeName, method: &UpdateMethod) -> bool {
        let before = self.revision(self.plan.instances[index].version).need;
        let after = self.present.clone();
        self.reservations.release(node, before);
        self.reservations.uncount(node);
        let request = PlacementRequest {
            version: self.record.spec.version,
            extra: ExtraConstraint::Pinned,
            unit_constraint: String::new(),
        };
        match self.reservations.place(&request, &after, NodePreference { pin: Some(node), ..NodePreference::default() })
        {
            Ok(_) => self.update_in_place(index, method),
            Err(unplaceable) => {
                self.reservations.keep(node, before);
                if self.record.spec.update_policy == UpdatePolicy::InPlaceIfPossible {
                    return self.renew(index);
                }
                self.plan.waiting = true;
                self.note_stuck(index, &unplaceable.sentence());
                self.unschedulable.insert(index, Arc::clone(&unplaceable));
                self.plan.unplaced = Some(unplaceable);
                return false;
            }
        }
        true
    }

    fn update_in_place(&mut self, index: usize, method: &UpdateMethod) {
        let (version, now) = (self.record.spec.version, self.now);
        if *method == UpdateMethod::Live {
            let instance = &mut self.plan.instances[index];
            instance.created_from = Some(instance.named_version());
            instance.version = version;
            instance.since = now;
            instance.unplaced_since = Timestamp::NEVER;
            // It serves during the update, so an earlier drain ends.
            instance.draining = None;
            instance.fetching = None;
            return;
        }
        let reserved_addresses = self.plan.instances[index].addresses.clone();
        self.take_version(index);
        self.plan.instances[index].reserved_addresses = reserved_addresses;
    }

    /// Clears the state and text of instances that are no longer stuck.
    pub(super) fn clear_stuck(&mut self) {
        let stuck = &self.stuck;
        let placed = self.plan.instances.iter_mut().enumerate().filter(|(_, instance)| instance.node.is_some());
        for (_, instance) in placed.filter(|(index, _)| !stuck.contains_key(index)) {
            instance.unplaced_since = Timestamp::NEVER;
        }
        if self.stuck.is_empty() && is_about_stuck(&self.record.last_error) {
            self.record.to_mut().last_error.clear();
        }
    }
}
