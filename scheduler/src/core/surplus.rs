//! Counts the pods of a group that are to go and are still there, or may be.
//!
//! A release waits for them where its rules say so. A pod counts while a node that is not lost reports it, and while a node
//! may still make it: it is ordered there until the decision that drops it is stored, and may be made until the node says
//! that it obeys the order without it. What a node has that was not heard yet nobody knows; whoever waits for it looks again
//! when it is.

use std::collections::BTreeSet;

use contract::name::{GroupName, NodeName};
use contract::pod_id::PodId;
use contract::query::Liveness;
use contract::record::{Filling, Slot};
use contract::state::RunState;
use planner::rollout::controller::RolloutState;

use super::leader::Leading;
use super::queries::Library;
use super::state::{Group, pod_id, pods_of};

/// Every instance of a group.
const ALL: std::ops::RangeInclusive<u32> = 0..=u32::MAX;

/// Pods that are to go.
#[derive(Debug, Default)]
pub(super) struct Surplus {
    /// By slot.
    pub(super) leaving: Vec<u32>,
    /// Of numbers that stand for no instance.
    pub(super) strays: u32,
    /// Where they are.
    pub(super) nodes: BTreeSet<NodeName>,
}

impl Leading<'_> {
    /// The pods of a group that are to go. Of a group without a strategy, only those that a replacement waits for.
    pub(super) fn surplus(&self, name: &GroupName, group: &Group) -> Surplus {
        if !group.record.spec.has_strategy() {
            return Surplus { leaving: self.predecessors(name, group), ..Surplus::default() };
        }
        let all = || pods_of(name, ALL);
        let ordered = self.lead.desks.iter().flat_map(|(node, desk)| {
            let withdrawn = desk.withdrawn(all()).filter(|_| !self.obeys(node));
            desk.ordered(all()).chain(withdrawn).map(move |pod| (node, pod))
        });
        let told =
            self.ears.sightings(name).flat_map(|node| self.ears.pods(node, all()).map(move |(pod, _)| (node, pod)));
        let is_counted = |(node, _): &(&NodeName, &PodId)| self.state.hosts.contains_key(*node) && !self.is_lost(node);
        let mut surplus = counted(name, group, ordered.chain(told).filter(is_counted));
        surplus.nodes.extend(self.unheard(group));
        surplus
    }

    /// For each instance of a group without a strategy, the running pods on its node that it replaces. Only an upgrade that
    /// has not completed replaces pods.
    fn predecessors(&self, name: &GroupName, group: &Group) -> Vec<u32> {
        if group.record.proven == Some(group.record.spec.version) {
            return Vec::new();
        }
        let replaced = |(index, slot): (usize, &Slot)| {
            let node = slot.node.as_ref().filter(|_| slot.since.happened() && slot.leaves.is_none())?;
            let own = pod_id(name, index, slot);
            let others =
                self.ears.pods(node, pods_of(name, own.instance..=own.instance)).filter(|(pod, _)| **pod != own);
            u32::try_from(others.filter(|(_, facts)| facts.state == RunState::Success).count()).ok()
        };
        group.slots().iter().enumerate().map(|it| replaced(it).unwrap_or(0)).collect()
    }

    /// A node that has not told this leader yet what it has, for a group that is being released: it is looked at again when
    /// that node is heard. One is enough, since the next is asked for then.
    fn unheard(&self, group: &Group) -> Option<NodeName> {
        let is_done = |release: &RolloutState| release.is_completed(group.record.spec.version);
        let mut hosts = self.state.hosts.iter().filter(|_| !group.release.as_ref().is_some_and(is_done));
        hosts.find(|(_, host)| host.liveness == Liveness::Unknown).map(|(node, _)| node.clone())
    }
}

impl Library<'_> {
    /// The pods of a conducted group that are to go, as far as reports tell.
    pub(super) fn surplus(&self, name: &GroupName, group: &Group) -> Surplus {
        let pods = |node| self.ears.pods(node, pods_of(name, ALL)).map(move |(pod, _)| (node, pod));
        counted(name, group, self.ears.sightings(name).flat_map(pods))
    }
}

fn counted<'a>(name: &GroupName, group: &Group, found: impl Iterator<Item = (&'a NodeName, &'a PodId)>) -> Surplus {
    let settled = group.placed(name).filter(|(_, _, slot)| slot.leaves.is_none());
    let wanted: BTreeSet<(&NodeName, PodId)> = settled.map(|(node, pod, _)| (node, pod)).collect();
    let going: BTreeSet<(&NodeName, PodId)> = found.map(|(node, pod)| (node, pod.clone())).collect();
    let mut surplus = Surplus { leaving: vec![0; group.slots().len()], ..Surplus::default() };
    for (node, pod) in going.difference(&wanted) {
        surplus.nodes.insert((*node).clone());
        let index = usize::try_from(pod.instance).unwrap_or(0).checked_sub(1);
        let is_instance =
            |index: &usize| group.slots().get(*index).is_some_and(|slot| slot.filling != Filling::Nothing);
        match index.filter(is_instance) {
            Some(index) => surplus.leaving[index] += 1,
            None => surplus.strays += 1,
        }
    }
    surplus
}
