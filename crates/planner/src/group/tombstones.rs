//! Remembers removed stateful instances until their node confirms the removal.
//!
//! A removed stateful instance leaves a tombstone: a slot without a pod that names the node. A scale-up that uses its number
//! again treats the new instance as moving away from that node, so no second copy starts while the first one may still run.
//! The tombstone goes when the node no longer reports the instance, or when an operator removes the node from the cluster.
//! Groups with a strategy keep tombstones among their slots (`rollout::apply`); this file handles the others.

use contract::record::{Filling, Slot};

use super::Planning;

impl Planning<'_> {
    /// Creates tombstones for the removed instances from index `first` on.
    pub(super) fn make_tombstones(&mut self, first: usize) {
        let removed = self.facts.slots.iter().enumerate().skip(first);
        self.tombstones = trimmed(removed.map(|(index, slot)| self.tombstone(index, slot)));
    }

    fn tombstone(&self, index: usize, slot: &Slot) -> Option<Slot> {
        let tombstone = of(slot, |version| self.revision(version).pod.is_stateful())?;
        let node = tombstone.leaves.as_ref()?;
        let is_confirmed = || self.facts.vacated.get(index).copied().unwrap_or(false);
        let has_let_go = slot.leaves.as_ref() == Some(node) && is_confirmed();
        (!self.is_given_up(node, tombstone.version) && !has_let_go).then_some(tombstone)
    }
}

/// The tombstone of an instance; none if it has no data on any node.
pub fn of(slot: &Slot, is_stateful: impl Fn(u32) -> bool) -> Option<Slot> {
    let is_pod = slot.filling == Filling::Pod;
    let pods = std::iter::once(slot).chain(slot.next.as_deref());
    let mut with_data = pods.filter(|pod| !is_pod || is_stateful(pod.version));
    // The node with the data: the one that the pod is leaving, or the one that it is on.
    let (node, pod) = with_data.find_map(|pod| Some((pod.leaves.as_ref().or(pod.node.as_ref())?, pod)))?;
    // The next pod of that number gets a new name.
    let drift = pod.drift + u32::from(pod.node.is_some() && pod.leaves.is_none());
    let (version, leaves) = (pod.version, Some(node.clone()));
    Some(Slot { filling: Filling::Nothing, version, drift, leaves, ..Slot::default() })
}

/// The slots of these tombstones; numbers without a tombstone are free, trailing ones are dropped.
pub fn trimmed(tombstones: impl Iterator<Item = Option<Slot>>) -> Vec<Slot> {
    let free = Slot { filling: Filling::Nothing, ..Slot::default() };
    let mut slots: Vec<Slot> = tombstones.map(|tombstone| tombstone.unwrap_or_else(|| free.clone())).collect();
    slots.truncate(slots.iter().rposition(|slot| *slot != free).map_or(0, |last| last + 1));
    slots
}
