//! Remembers removed stateful instances until their node confirms that they are gone.
//!
//! A stateful instance that is removed by scale-in leaves a tombstone: a slot without a pod that names the node. Its number is
//! taken by the next scale-out only as an instance that leaves that node, so no second copy starts while the first one may
//! still run. The tombstone goes when the node reports nothing of the instance, or when an operator removes the node from the
//! cluster. Groups with a strategy keep such slots among their numbers (`releasing::performing`); here are those without.

use contract::name::NodeName;
use contract::record::{Filling, Slot};

use super::Planning;

impl Planning<'_> {
    /// Makes tombstones of the instances from `first` on, which are removed.
    pub(super) fn bury(&mut self, first: usize) {
        let removed = self.facts.slots.iter().enumerate().skip(first);
        let mut tombstones: Vec<Slot> = removed.map(|(index, slot)| self.tombstone(index, slot)).collect();
        let length = tombstones.iter().rposition(|tombstone| tombstone.leaves.is_some()).map_or(0, |last| last + 1);
        tombstones.truncate(length);
        self.tombstones = tombstones;
    }

    fn tombstone(&self, index: usize, slot: &Slot) -> Slot {
        let is_pod = slot.filling == Filling::Pod;
        let pods = std::iter::once(slot).chain(slot.next.as_deref());
        let has_data = |pod: &&Slot| !is_pod || self.revision(pod.version).pod.is_stateful();
        // The node with the data: the one that the pod still leaves, or the one that it is on.
        let held = pods.filter(has_data).find_map(|pod| Some((pod.leaves.as_ref().or(pod.node.as_ref())?, pod)));
        let has_let_go = |node: &NodeName| {
            slot.leaves.as_ref() == Some(node) && self.facts.vacated.get(index).copied().unwrap_or(false)
        };
        let held = held.filter(|(node, pod)| !self.is_given_up(node, pod.version) && !has_let_go(node));
        let Some((node, pod)) = held else { return Slot { filling: Filling::Nothing, ..Slot::default() } };
        // The next pod of that number gets a name of its own.
        let drift = pod.drift + u32::from(pod.node.is_some() && pod.leaves.is_none());
        let (version, leaves) = (pod.version, Some(node.clone()));
        Slot { filling: Filling::Nothing, version, drift, leaves, ..Slot::default() }
    }
}
