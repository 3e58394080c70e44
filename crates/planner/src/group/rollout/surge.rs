//! Makes slots of the pods surge others while places are sought, and puts them back.
//!
//! Whoever repairs knows slots and nothing of instances with two pods. So the second pods come after all the instances for
//! that time, and only this file knows whose they are.

use contract::record::{Filling, Slot};

use super::super::Planning;

impl Planning<'_> {
    /// The instance a slot stands for, also while pods surge others are slots of their own.
    pub(in super::super) fn instance(&self, index: usize) -> usize {
        let instances = self.plan.slots.len() - self.surge_owners.len();
        index.checked_sub(instances).and_then(|at| self.surge_owners.get(at).copied()).unwrap_or(index)
    }

    /// What the next pod of an instance is told apart by: neither of those it has is called so.
    pub(in super::super) fn next_drift(&self, index: usize) -> u32 {
        let instance = self.instance(index);
        let instances = self.plan.slots.len() - self.surge_owners.len();
        let flattened = self.surge_owners.iter().position(|owner| *owner == instance);
        let main = &self.plan.slots[instance];
        let surge = flattened.map(|at| &self.plan.slots[instances + at]).or(main.next.as_deref());
        surge.map_or(main.drift, |surge| surge.drift.max(main.drift)) + 1
    }

    /// Makes slots of the pods surge others, so that they are kept alive like all.
    pub(in super::super) fn flatten_surge(&mut self) {
        let instances = self.plan.slots.len();
        self.observed.resize(instances, None);
        let taken = |(index, slot): (usize, &mut Slot)| {
            let mut next = *slot.next.take()?;
            // What is asked of an instance is asked of both its pods: the second must not forget it by taking over.
            next.target = slot.target;
            (next.starts_requested, next.restarts_requested) = (slot.starts_requested, slot.restarts_requested);
            Some((index, next))
        };
        let pods: Vec<(usize, Slot)> = self.plan.slots.iter_mut().enumerate().filter_map(taken).collect();
        for (index, pod) in pods {
            self.surge_owners.push(index);
            self.plan.slots.push(pod);
            self.observed.push(self.observed_surge.get(index).copied().flatten());
        }
    }

    /// Puts them back surge their instances; numbers beyond the last instance are given up.
    pub(in super::super) fn unflatten_surge(&mut self) {
        let instances = self.plan.slots.len() - self.surge_owners.len();
        let pods = self.plan.slots.split_off(instances);
        for (index, pod) in std::mem::take(&mut self.surge_owners).into_iter().zip(pods) {
            self.plan.slots[index].next = Some(Box::new(pod));
        }
        if self.record.spec.has_strategy() {
            self.assign_units();
            self.wake_for_placement_timeout();
        }
        // As long as something of it may be somewhere, what its next pod must not be called is remembered.
        let is_done_waiting = |slot: &Slot| slot.filling == Filling::Nothing && slot.leaves.is_none();
        while self.facts.strays == 0 && self.plan.slots.last().is_some_and(is_done_waiting) {
            self.plan.slots.pop();
        }
        self.plan.statuses.truncate(self.plan.slots.len());
    }
}
