//! Knows when a node has let go of what it must not run any more.
//!
//! An answer to an order is not enough: the node must obey, in its own report, the newest order there is, and report nothing
//! of the instance. The surprise: a desk only knows stored decisions, so a decision that is still on its way into the store
//! counts as one the node has not heard.

use std::ops::RangeInclusive;

use contract::command::Operation;
use contract::name::{GroupName, NodeName};
use contract::pod_id::PodId;
use contract::query::Liveness;
use contract::record::Slot;
use contract::report::EngineState;

use super::io::Mutant;
use super::leader::Leading;
use super::state::{Group, pods_of};

/// Every instance of a group.
const ALL: RangeInclusive<u32> = 0..=u32::MAX;

impl Leading<'_> {
    /// For each slot, whether the node it leaves has let go of it.
    pub(super) fn vacated(&self, name: &GroupName, slots: &[Slot]) -> Vec<bool> {
        (1..).zip(slots).map(|(instance, slot)| self.has_vacated(name, instance, slot)).collect()
    }

    fn has_vacated(&self, name: &GroupName, instance: u32, slot: &Slot) -> bool {
        let Some(node) = slot.leaves.as_ref().filter(|_| !self.has_mutant(Mutant::NoLettingGo)) else { return true };
        // An engine that does not answer says nothing about its containers, and a node that is lost says nothing at all:
        // who need not wait for it is for the plan to say.
        let blind = |node| self.state.hosts.get(node).is_some_and(|host| host.engine != EngineState::Up);
        // The pod beside it may well run where its own one leaves.
        let beside = slot.next.as_deref().filter(|next| next.node.as_ref() == Some(node));
        let beside = beside.map(|next| PodId {
            group: name.clone(),
            instance,
            version: next.named_version(),
            drift: next.drift,
        });
        self.has_let_go(node, pods_of(name, instance..=instance), beside.as_ref())
            && !blind(node)
            && !self.is_lost(node)
    }

    /// Whether the node runs none of these pods and was ordered none of them, but for one.
    fn has_let_go(&self, node: &NodeName, pods: RangeInclusive<PodId>, but: Option<&PodId>) -> bool {
        let is_other = |pod: &PodId| Some(pod) != but;
        let ordered = self.lead.desks.get(node).is_some_and(|desk| desk.ordered(pods.clone()).any(is_other));
        self.obeys(node) && !ordered && !self.ears.pods(node, pods).any(|(pod, _)| is_other(pod))
    }

    /// Whether the node says that it obeys its newest order, and no newer one is on its way.
    pub(super) fn obeys(&self, node: &NodeName) -> bool {
        let Some(desk) = self.lead.desks.get(node).filter(|_| !self.lead.undelivered.contains_key(node)) else {
            return false;
        };
        let report = self.ears.get(node).and_then(|ear| ear.report.as_ref());
        report.is_some_and(|report| desk.is_obeyed_in(&report.head))
    }

    pub(super) fn is_lost(&self, node: &NodeName) -> bool {
        self.state.hosts.get(node).is_some_and(|host| host.liveness == Liveness::Lost)
    }

    /// Sees to it that the group is planned again when a node it waits for has news.
    pub(super) fn expect_vacancies(&mut self, name: &GroupName, left_before: &[Option<NodeName>]) {
        let Some(group) = self.state.groups.get(name) else { return };
        let leaving = |slot: &Slot| slot.leaves.clone();
        let nodes: Vec<NodeName> = group.slots().iter().filter_map(leaving).chain(group.draining.clone()).collect();
        // A node that had nothing to let go of will have no news.
        let before = left_before.iter().map(Option::as_ref).chain(std::iter::repeat(None));
        let at_once = (1..).zip(group.slots()).zip(before).any(|((instance, slot), before)| {
            slot.leaves.is_some() && slot.leaves.as_ref() != before && self.has_vacated(name, instance, slot)
        });
        for node in nodes {
            self.lead.draining.entry(node).or_default().insert(name.clone());
        }
        if at_once {
            self.lead.dirty.insert(name.clone());
        }
    }

    /// The node told something or took its order: whoever waits for it looks again.
    pub(super) fn look_at_vacancies(&mut self, node: &NodeName) {
        self.look_at_removals(node);
        for group in self.lead.draining.remove(node).unwrap_or_default() {
            self.reported(group);
        }
    }

    /// The nodes that have let go of a group that is being removed are not waited for any longer.
    pub(super) fn note_drained(&mut self, name: &GroupName) {
        let Some(group) = self.state.groups.get(name) else { return };
        let drains = |node: &&NodeName| !self.is_lost(node) && !self.has_let_go(node, pods_of(name, ALL), None);
        let draining = group.draining.iter().filter(drains).cloned().collect();
        if let Some(group) = self.state.groups.get_mut(name) {
            group.draining = draining;
        }
    }

    /// Whether a node that is not lost still has, or may still get, pods of the group that must go. Only a group that loses
    /// instances waits for that: nobody else's nodes are all looked at.
    pub(super) fn lingers(&self, name: &GroupName, group: &Group) -> bool {
        match group.record.operation.as_ref().map(|operation| operation.kind) {
            Some(Operation::Scheduling | Operation::Removing) => {}
            Some(
                Operation::Deploying
                | Operation::Upgrading
                | Operation::Drifting
                | Operation::Starting
                | Operation::Stopping
                | Operation::Restarting,
            )
            | None => return false,
        }
        let wanted = u32::try_from(group.record.spec.num_instances).unwrap_or(0);
        let known = |node: &&NodeName| self.state.hosts.contains_key(*node) && !self.is_lost(node);
        let mut nodes = self.ears.sightings(name).filter(known);
        if group.is_removing() {
            return nodes.next().is_some() || !group.draining.is_empty();
        }
        nodes.any(|node| self.ears.pods(node, pods_of(name, wanted.saturating_add(1)..=u32::MAX)).next().is_some())
    }
}
