//! Gives an instance the present version: live, with the same address, or as another pod.
//!
//! Unlike in a serial upgrade nothing is lost when there is no place for it: the old pod goes on, the slot says why, and it
//! is tried again. An instance on a node that does not answer is left alone for the same reason.

use std::sync::Arc;

use contract::name::NodeName;
use contract::rollout::UpdatePolicy;
use contract::time::Timestamp;

use super::super::inplace::{Way, update_way};
use super::super::rooms::{Ask, Extra};
use super::super::saying::is_about_stuck;
use super::super::{Bucket, Planning};
use crate::placement::Wish;

impl Planning<'_> {
    /// How an instance comes to the present version. In place needs something that stands there.
    pub(in super::super) fn way(&self, index: usize) -> Way {
        let before = &self.revision(self.plan.slots[index].version).pod;
        let way = update_way(self.record.spec.update_policy, before, &self.present.pod);
        match (self.bucket(index), way) {
            (Bucket::Running | Bucket::Ended | Bucket::Pending | Bucket::Unheard, way) => way,
            (Bucket::Waiting | Bucket::Leaving | Bucket::Failed | Bucket::Missing | Bucket::Lost | Bucket::Held, _) => {
                Way::Anew
            }
        }
    }

    /// False when it cannot be done now.
    pub(super) fn renew_instance(&mut self, index: usize) -> bool {
        if self.bucket(index) == Bucket::Unheard {
            self.stuck(index, "its node does not answer");
            self.plan.slots[index].unplaced_since = Timestamp::NEVER;
            return false;
        }
        let is_done = match (self.way(index), self.plan.slots[index].node.clone()) {
            (Way::Refused { fields }, _) => {
                let text = format!("UpdatePolicy InPlaceOnly does not allow a change of {}", fields.join(", "));
                self.stuck(index, &text);
                false
            }
            (way @ (Way::Live | Way::SameAddress), Some(node)) => self.renew_in_place(index, &node, &way),
            (Way::Live | Way::SameAddress | Way::Anew, _) => self.renew(index),
        };
        // Who is refused, or whose node does not answer, does not lack a place.
        let is_homeless = !is_done && self.unschedulable.contains_key(&index);
        if is_homeless && !self.plan.slots[index].unplaced_since.happened() {
            self.plan.slots[index].unplaced_since = self.now;
        }
        is_done
    }

    fn renew_in_place(&mut self, index: usize, node: &NodeName, way: &Way) -> bool {
        let before = self.revision(self.plan.slots[index].version).need;
        let after = self.present.clone();
        self.rooms.release(node, before);
        self.rooms.uncount(node);
        let ask = Ask { version: self.record.spec.version, extra: Extra::Pinned, within: String::new() };
        match self.rooms.place(&ask, &after, Wish { pin: Some(node), ..Wish::default() }) {
            Ok(_) => self.stay(index, way),
            Err(unplaceable) => {
                self.rooms.keep(node, before);
                if self.record.spec.update_policy == UpdatePolicy::InPlaceIfPossible {
                    return self.renew(index);
                }
                self.plan.waiting = true;
                self.stuck(index, &unplaceable.sentence());
                self.unschedulable.insert(index, Arc::clone(&unplaceable));
                self.plan.unplaced = Some(unplaceable);
                return false;
            }
        }
        true
    }

    fn stay(&mut self, index: usize, way: &Way) {
        let (version, now) = (self.record.spec.version, self.now);
        if *way == Way::Live {
            let slot = &mut self.plan.slots[index];
            slot.created_from = Some(slot.named_version());
            slot.version = version;
            slot.since = now;
            slot.unplaced_since = Timestamp::NEVER;
            // It serves all the while, whatever it was to be drained for before.
            slot.draining = None;
            slot.fetching = None;
            return;
        }
        let reserved_addresses = self.plan.slots[index].addresses.clone();
        self.take_version(index);
        self.plan.slots[index].reserved_addresses = reserved_addresses;
    }

    /// Nobody is stuck any more who is not stuck now.
    pub(super) fn forgive_stuck(&mut self) {
        let stuck = &self.stuck;
        let placed = self.plan.slots.iter_mut().enumerate().filter(|(_, slot)| slot.node.is_some());
        for (_, slot) in placed.filter(|(index, _)| !stuck.contains_key(index)) {
            slot.unplaced_since = Timestamp::NEVER;
        }
        if self.stuck.is_empty() && is_about_stuck(&self.record.last_error) {
            self.record.to_mut().last_error.clear();
        }
    }
}
