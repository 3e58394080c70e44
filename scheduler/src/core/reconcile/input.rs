//! The input of the planner for one group: used by the leader to decide, and by queries to explain.
//!
//! [`Terminating`] counts the pods that must go and may still run. A pod counts while a node that is not lost reports it, or
//! while an agent may still create it: its removal is not committed, or the agent has not reported the order without it. A
//! rollout waits for them where its rules say so.
//!
//! [`confirmed_gone`] decides whether a node has confirmed that an instance is gone. The answer to an order is not enough: the
//! agent must report the newest order as applied and no pod of the instance. A removal that is decided but not committed yet
//! counts as an order that the agent does not have.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use contract::command::Operation;
use contract::name::{GroupName, NodeName};
use contract::pod_id::PodId;
use contract::query::Liveness;
use contract::record::{GroupRecord, Instance, Presence};
use contract::report::{EngineState, PodFacts};
use contract::state::RunState;
use contract::switches::Constraint;
use contract::time::Timestamp;
use planner::group::GroupFacts;
use planner::placement::LoadRanking;
use planner::rollout::controller::RolloutState;

use crate::core::io::{Mutant, Settings};
use crate::core::leader::Leading;
use crate::core::observe::reports::ReportCache;
use crate::core::state::{Group, State, pod_id, pods_of};

/// Everything around one group that the planner reads. The leader knows more than a standby, which has only reports.
pub(in crate::core) struct GroupInput<'a> {
    pub(in crate::core) state: &'a State,
    pub(in crate::core) settings: &'a Settings,
    pub(in crate::core) sight: ReportedPods<'a>,
    pub(in crate::core) terminating: &'a Terminating,
    /// For each instance that leaves a node, whether the node confirmed that the pod is gone.
    pub(in crate::core) vacated: Vec<bool>,
    /// A node that is not lost still runs pods that the group no longer has.
    pub(in crate::core) has_leftovers: bool,
    /// Commit time of each decision.
    pub(in crate::core) known: &'a BTreeMap<Timestamp, Timestamp>,
    /// The nodes sorted for placement, if the caller has them.
    pub(in crate::core) ranking: Option<&'a LoadRanking>,
}

impl GroupInput<'_> {
    /// Calls `plan` with the planner's input for a group that has this record.
    pub(in crate::core) fn plan_with<T>(
        &self,
        group: &Group,
        record: &GroupRecord,
        plan: impl FnOnce(&GroupFacts<'_>) -> T,
    ) -> T {
        let constraints: Vec<String> = self.state.cluster.constraints().values().map(Constraint::expression).collect();
        plan(&GroupFacts {
            record,
            revisions: &group.revisions,
            timeouts: self.settings.patience(),
            instances: group.instances(),
            observed: &self.sight.seen,
            vacated: &self.vacated,
            has_leftovers: self.has_leftovers,
            observed_surge: &self.sight.beside,
            leaving: &self.terminating.leaving,
            terminating_removed: self.terminating.terminating_removed,
            committed: self.known,
            release: group.release.as_ref(),
            guard_enabled: self.state.cluster.switches().guarding,
            constraints: &constraints,
            nodes: &self.state.nodes,
            ranking: self.ranking,
            placed_pods: self.state,
        })
    }
}

/// Every instance of a group.
pub(in crate::core) const ALL: RangeInclusive<u32> = 0..=u32::MAX;

/// Pods that still stop: no longer ordered, but reported by a node.
#[derive(Debug, Default)]
pub(in crate::core) struct Terminating {
    /// By instance.
    pub(super) leaving: Vec<u32>,
    /// Pods with a number that is no instance of the group.
    pub(super) terminating_removed: u32,
    /// Where they are.
    pub(super) nodes: BTreeSet<NodeName>,
}

/// The pods of a group that terminate. For a group without a strategy, only those that a replacement waits for.
pub(super) fn terminating(leading: &Leading<'_>, name: &GroupName, group: &Group) -> Terminating {
    if !group.record.spec.has_strategy() {
        return Terminating { leaving: predecessors(leading, name, group), ..Terminating::default() };
    }
    let all = || pods_of(name, ALL);
    let ordered = leading.lead.dispatch.queues().flat_map(|(node, queue)| {
        let withdrawn = queue.withdrawn(all()).filter(|_| !has_applied_order(leading, node));
        queue.ordered(all()).chain(withdrawn).map(move |pod| (node, pod))
    });
    let reported = leading
        .reports
        .sightings(name)
        .flat_map(|node| leading.reports.pods(node, all()).map(move |(pod, _)| (node, pod)));
    let is_counted =
        |(node, _): &(&NodeName, &PodId)| leading.state.nodes.contains_key(*node) && !is_lost(leading, node);
    let mut terminating = counted(name, group, ordered.chain(reported).filter(is_counted));
    terminating.nodes.extend(unreported(leading, group));
    terminating
}

/// For each instance of a group without a strategy, the running pods on its node that it replaces. Only an upgrade that
/// has not completed replaces pods.
fn predecessors(leading: &Leading<'_>, name: &GroupName, group: &Group) -> Vec<u32> {
    if group.record.proven == Some(group.record.spec.version) {
        return Vec::new();
    }
    let replaced = |(index, instance): (usize, &Instance)| {
        let node = instance.node.as_ref().filter(|_| instance.since.happened() && instance.leaves.is_none())?;
        let own = pod_id(name, index, instance);
        let others =
            leading.reports.pods(node, pods_of(name, own.instance..=own.instance)).filter(|(pod, _)| **pod != own);
        u32::try_from(others.filter(|(_, facts)| facts.state == RunState::Success).count()).ok()
    };
    group.instances().iter().enumerate().map(|it| replaced(it).unwrap_or(0)).collect()
}

/// For a group with an open rollout: a node that has not reported to this leader yet. The group is reconciled again when it
/// does. One is enough, because that plan finds the next one.
fn unreported(leading: &Leading<'_>, group: &Group) -> Option<NodeName> {
    let is_done = |release: &RolloutState| release.is_completed(group.record.spec.version);
    let mut hosts = leading.state.nodes.iter().filter(|_| !group.release.as_ref().is_some_and(is_done));
    hosts.find(|(_, host)| host.liveness == Liveness::Unknown).map(|(node, _)| node.clone())
}

pub(in crate::core) fn counted<'a>(
    name: &GroupName,
    group: &Group,
    found: impl Iterator<Item = (&'a NodeName, &'a PodId)>,
) -> Terminating {
    let settled = group.placed(name).filter(|(_, _, instance)| instance.leaves.is_none());
    let wanted: BTreeSet<(&NodeName, PodId)> = settled.map(|(node, pod, _)| (node, pod)).collect();
    let going: BTreeSet<(&NodeName, PodId)> = found.map(|(node, pod)| (node, pod.clone())).collect();
    let mut terminating = Terminating { leaving: vec![0; group.instances().len()], ..Terminating::default() };
    for (node, pod) in going.difference(&wanted) {
        terminating.nodes.insert((*node).clone());
        let index = usize::try_from(pod.instance).unwrap_or(0).checked_sub(1);
        let is_instance =
            |index: &usize| group.instances().get(*index).is_some_and(|instance| instance.presence != Presence::Free);
        match index.filter(is_instance) {
            Some(index) => terminating.leaving[index] += 1,
            None => terminating.terminating_removed += 1,
        }
    }
    terminating
}

/// For each instance, whether the node that it leaves confirmed that its pod is gone.
pub(super) fn confirmed_gone(leading: &Leading<'_>, name: &GroupName, instances: &[Instance]) -> Vec<bool> {
    (1..).zip(instances).map(|(number, instance)| is_confirmed_gone(leading, name, number, instance)).collect()
}

fn is_confirmed_gone(leading: &Leading<'_>, name: &GroupName, number: u32, instance: &Instance) -> bool {
    let Some(node) = instance.leaves.as_ref().filter(|_| !leading.has_mutant(Mutant::MovesBeforeRemoval)) else {
        return true;
    };
    // Docker that does not answer proves nothing about containers, nor does a lost node. The planner decides which instances
    // need not wait.
    let blind = |node| leading.state.nodes.get(node).is_some_and(|host| host.engine != EngineState::Up);
    // The surge pod may run on the node that the current pod leaves.
    let beside = instance.next.as_deref().filter(|next| next.node.as_ref() == Some(node));
    let beside = beside.map(|next| PodId {
        group: name.clone(),
        instance: number,
        version: next.named_version(),
        drift: next.drift,
    });
    has_none_of(leading, node, pods_of(name, number..=number), beside.as_ref())
        && !blind(node)
        && !is_lost(leading, node)
}

/// Whether the node runs none of these pods and was ordered none of them, but for one.
fn has_none_of(leading: &Leading<'_>, node: &NodeName, pods: RangeInclusive<PodId>, but: Option<&PodId>) -> bool {
    let is_other = |pod: &PodId| Some(pod) != but;
    let ordered = leading.lead.dispatch.orders_any(node, pods.clone(), but);
    has_applied_order(leading, node) && !ordered && !leading.reports.pods(node, pods).any(|(pod, _)| is_other(pod))
}

/// Whether the agent reports its newest order as applied, and no newer one is on its way.
pub(super) fn has_applied_order(leading: &Leading<'_>, node: &NodeName) -> bool {
    let report = leading.reports.get(node).and_then(|observed| observed.report.as_ref());
    report.is_some_and(|report| leading.lead.dispatch.is_applied(node, &report.head))
}

pub(super) fn is_lost(leading: &Leading<'_>, node: &NodeName) -> bool {
    leading.state.nodes.get(node).is_some_and(|host| host.liveness == Liveness::Lost)
}

/// Makes sure that the group is reconciled again when a node that it waits for reports.
pub(super) fn await_confirmations(leading: &mut Leading<'_>, name: &GroupName, left_before: &[Option<NodeName>]) {
    let Some(group) = leading.state.groups.get(name) else { return };
    let leaving = |instance: &Instance| instance.leaves.clone();
    let nodes: Vec<NodeName> =
        group.instances().iter().filter_map(leaving).chain(group.unconfirmed_nodes.clone()).collect();
    // A node that had nothing to remove will not report a change.
    let before = left_before.iter().map(Option::as_ref).chain(std::iter::repeat(None));
    let at_once = (1..).zip(group.instances()).zip(before).any(|((number, instance), before)| {
        instance.leaves.is_some()
            && instance.leaves.as_ref() != before
            && is_confirmed_gone(leading, name, number, instance)
    });
    for node in nodes {
        leading.lead.queue.wait_for(node, name);
    }
    if at_once {
        leading.lead.queue.mark(name.clone());
    }
}

/// The node reported or acknowledged an order: the groups that wait for it are reconciled.
pub(in crate::core) fn recheck_waiting(leading: &mut Leading<'_>, node: &NodeName) {
    leading.state.dependencies.mark_removals_from(node);
    for group in leading.lead.queue.take_waiting_on(node) {
        leading.reconcile_soon(group);
    }
}

/// Stops waiting for nodes that confirmed that nothing of a removed group is left.
pub(super) fn note_confirmed(leading: &mut Leading<'_>, name: &GroupName) {
    let Some(group) = leading.state.groups.get(name) else { return };
    let drains = |node: &&NodeName| !is_lost(leading, node) && !has_none_of(leading, node, pods_of(name, ALL), None);
    let draining = group.unconfirmed_nodes.iter().filter(drains).cloned().collect();
    if let Some(group) = leading.state.groups.get_mut(name) {
        group.unconfirmed_nodes = draining;
    }
}

/// Whether a node that is not lost still runs, or may still start, pods of the group that must go. Only a removal or a scale-in
/// waits for that, so the nodes of other groups are not searched.
pub(super) fn is_lingering(leading: &Leading<'_>, name: &GroupName, group: &Group) -> bool {
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
    let known = |node: &&NodeName| leading.state.nodes.contains_key(*node) && !is_lost(leading, node);
    let mut nodes = leading.reports.sightings(name).filter(known);
    if group.is_removing() {
        return nodes.next().is_some() || !group.unconfirmed_nodes.is_empty();
    }
    nodes.any(|node| leading.reports.pods(node, pods_of(name, wanted.saturating_add(1)..=u32::MAX)).next().is_some())
}

/// What is reported of exactly the pods of a group's instances.
pub(in crate::core) struct ReportedPods<'a> {
    pub(in crate::core) seen: Vec<Option<&'a PodFacts>>,
    /// The surge pods of the same instances.
    pub(in crate::core) beside: Vec<Option<&'a PodFacts>>,
}

impl<'a> ReportedPods<'a> {
    pub(in crate::core) fn of(reports: &'a ReportCache, name: &GroupName, group: &Group) -> Self {
        let facts_of = |index: usize, pod: Option<&Instance>| {
            let pod = pod.filter(|pod| pod.presence == Presence::Pod)?;
            reports.pod(pod.node.as_ref()?, &pod_id(name, index, pod))
        };
        let instances = || group.instances().iter().enumerate();
        Self {
            seen: instances().map(|(index, instance)| facts_of(index, Some(instance))).collect(),
            beside: instances().map(|(index, instance)| facts_of(index, instance.next.as_deref())).collect(),
        }
    }
}
