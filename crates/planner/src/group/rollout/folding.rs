//! Makes slots of the pods beside others while places are sought, and puts them back.
//!
//! Whoever repairs knows slots and nothing of instances with two pods. So the second pods come after all the instances for
//! that time, and only this file knows whose they are.

use contract::record::{Filling, Slot};

use super::super::Planning;

impl Planning<'_> {
    /// The instance a slot stands for, also while pods beside others are slots of their own.
    pub(in super::super) fn instance(&self, index: usize) -> usize {
        let instances = self.plan.slots.len() - self.owners.len();
        index.checked_sub(instances).and_then(|at| self.owners.get(at).copied()).unwrap_or(index)
    }

    /// What the next pod of an instance is told apart by: neither of those it has is called so.
    pub(in super::super) fn next_drift(&self, index: usize) -> u32 {
        let instance = self.instance(index);
        let instances = self.plan.slots.len() - self.owners.len();
        let unfolded = self.owners.iter().position(|owner| *owner == instance);
        let main = &self.plan.slots[instance];
        let beside = unfolded.map(|at| &self.plan.slots[instances + at]).or(main.next.as_deref());
        beside.map_or(main.drift, |beside| beside.drift.max(main.drift)) + 1
    }

    /// Makes slots of the pods beside others, so that they are kept alive like all.
    pub(in super::super) fn unfold(&mut self) {
        let instances = self.plan.slots.len();
        self.seen.resize(instances, None);
        let taken = |(index, slot): (usize, &mut Slot)| {
            let mut next = *slot.next.take()?;
            // What is asked of an instance is asked of both its pods: the second must not forget it by taking over.
            next.target = slot.target;
            (next.starts_requested, next.restarts_requested) = (slot.starts_requested, slot.restarts_requested);
            Some((index, next))
        };
        let pods: Vec<(usize, Slot)> = self.plan.slots.iter_mut().enumerate().filter_map(taken).collect();
        for (index, pod) in pods {
            self.owners.push(index);
            self.plan.slots.push(pod);
            self.seen.push(self.beside.get(index).copied().flatten());
        }
    }

    /// Puts them back beside their instances; numbers beyond the last instance are given up.
    pub(in super::super) fn fold(&mut self) {
        let instances = self.plan.slots.len() - self.owners.len();
        let pods = self.plan.slots.split_off(instances);
        for (index, pod) in std::mem::take(&mut self.owners).into_iter().zip(pods) {
            self.plan.slots[index].next = Some(Box::new(pod));
        }
        if self.record.spec.has_strategy() {
            self.settle_units();
            self.wait_for_places();
        }
        // As long as something of it may be somewhere, what its next pod must not be called is remembered.
        let is_over = |slot: &Slot| slot.filling == Filling::Nothing && slot.leaves.is_none();
        while self.facts.strays == 0 && self.plan.slots.last().is_some_and(is_over) {
            self.plan.slots.pop();
        }
        self.plan.buckets.truncate(self.plan.slots.len());
    }
}
