//! Turns surge pods into instances of their own while pods are replaced and placed, and back.
//!
//! [`super::super::replace`] handles one pod per instance. Meanwhile surge pods follow the instances: instances 1, 2 and 3 with a
//! surge pod of 2 become the instances 1, 2, 3, 2'.

use contract::record::{Instance, Presence};

use super::super::Planning;

impl Planning<'_> {
    /// The index of the instance that an instance belongs to, also while surge pods are instances of their own.
    pub(in super::super) fn instance(&self, index: usize) -> usize {
        let instances = self.plan.instances.len() - self.surge_owners.len();
        index.checked_sub(instances).and_then(|at| self.surge_owners.get(at).copied()).unwrap_or(index)
    }

    /// The drift counter for the next pod of an instance: higher than those of its pods, so names are unique.
    pub(in super::super) fn next_drift(&self, index: usize) -> u32 {
        let instance = self.instance(index);
        let instances = self.plan.instances.len() - self.surge_owners.len();
        let flattened = self.surge_owners.iter().position(|owner| *owner == instance);
        let main = &self.plan.instances[instance];
        let surge = flattened.map(|at| &self.plan.instances[instances + at]).or(main.next.as_deref());
        surge.map_or(main.drift, |surge| surge.drift.max(main.drift)) + 1
    }

    /// Appends the surge pods to the instances.
    pub(in super::super) fn flatten_surge(&mut self) {
        let instances = self.plan.instances.len();
        self.observed.resize(instances, None);
        let taken = |(index, instance): (usize, &mut Instance)| {
            let mut next = *instance.next.take()?;
            // Requests apply to both pods: the surge pod must not lose them when it takes over.
            next.target = instance.target;
            (next.starts_requested, next.restarts_requested) = (instance.starts_requested, instance.restarts_requested);
            Some((index, next))
        };
        let pods: Vec<(usize, Instance)> = self.plan.instances.iter_mut().enumerate().filter_map(taken).collect();
        for (index, pod) in pods {
            self.surge_owners.push(index);
            self.plan.instances.push(pod);
            self.observed.push(self.observed_surge.get(index).copied().flatten());
        }
    }

    /// Moves the surge pods back to their instances and drops trailing free numbers.
    pub(in super::super) fn unflatten_surge(&mut self) {
        let instances = self.plan.instances.len() - self.surge_owners.len();
        let pods = self.plan.instances.split_off(instances);
        for (index, pod) in std::mem::take(&mut self.surge_owners).into_iter().zip(pods) {
            self.plan.instances[index].next = Some(Box::new(pod));
        }
        if self.record.spec.has_strategy() {
            self.assign_units();
            self.wake_for_placement_timeout();
        }
        // The drift counter of a free number is kept while a pod of it may exist on a node.
        let is_free = |instance: &Instance| instance.presence == Presence::Free && instance.leaves.is_none();
        while self.facts.terminating_removed == 0 && self.plan.instances.last().is_some_and(is_free) {
            self.plan.instances.pop();
        }
        self.plan.statuses.truncate(self.plan.instances.len());
    }
}
