//! Remembers removed stateful instances until their node confirms the removal.
//!
//! A removed stateful instance leaves a tombstone: an instance without a pod that names the node. A scale-up that uses its number
//! again treats the new instance as moving away from that node, so no second copy starts while the first one may still run.
//! The tombstone goes when the node no longer reports the instance, or when an operator removes the node from the cluster.
//! Groups with a strategy keep tombstones among their instances (`rollout::apply`); this file handles the others.

use contract::record::{Instance, Presence};

use super::Planning;

impl Planning<'_> {
    /// Creates tombstones for the removed instances from index `first` on.
    pub(super) fn make_tombstones(&mut self, first: usize) {
        let removed = self.facts.instances.iter().enumerate().skip(first);
        self.tombstones = trimmed(removed.map(|(index, instance)| self.tombstone(index, instance)));
    }

    fn tombstone(&self, index: usize, instance: &Instance) -> Option<Instance> {
        let tombstone = of(instance, |version| self.revision(version).pod.is_stateful())?;
        let node = tombstone.leaves.as_ref()?;
        let is_confirmed = || self.facts.vacated.get(index).copied().unwrap_or(false);
        let has_let_go = instance.leaves.as_ref() == Some(node) && is_confirmed();
        (!self.is_given_up(node, tombstone.version) && !has_let_go).then_some(tombstone)
    }
}

/// The tombstone of an instance; none if it has no data on any node.
pub fn of(instance: &Instance, is_stateful: impl Fn(u32) -> bool) -> Option<Instance> {
    let is_pod = instance.presence == Presence::Pod;
    let pods = std::iter::once(instance).chain(instance.next.as_deref());
    let mut with_data = pods.filter(|pod| !is_pod || is_stateful(pod.version));
    // The node with the data: the one that the pod is leaving, or the one that it is on.
    let (node, pod) = with_data.find_map(|pod| Some((pod.leaves.as_ref().or(pod.node.as_ref())?, pod)))?;
    // The next pod of that number gets a new name.
    let drift = pod.drift + u32::from(pod.node.is_some() && pod.leaves.is_none());
    let (version, leaves) = (pod.version, Some(node.clone()));
    Some(Instance { presence: Presence::Free, version, drift, leaves, ..Instance::default() })
}

/// The instances of these tombstones; numbers without a tombstone are free, trailing ones are dropped.
pub fn trimmed(tombstones: impl Iterator<Item = Option<Instance>>) -> Vec<Instance> {
    let free = Instance { presence: Presence::Free, ..Instance::default() };
    let mut instances: Vec<Instance> = tombstones.map(|tombstone| tombstone.unwrap_or_else(|| free.clone())).collect();
    instances.truncate(instances.iter().rposition(|instance| *instance != free).map_or(0, |last| last + 1));
    instances
}
