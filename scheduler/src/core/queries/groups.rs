//! Answers questions about groups: one with its pods, or a list of lines.

use std::collections::BTreeSet;
use std::ops::Bound;

use contract::name::{GroupName, NodeName};
use contract::query::{GroupLine, GroupView, MOST_OVERDUE, Overdue, PodView};
use contract::record::{Instance, Presence};
use contract::report::PodFacts;
use contract::state::RunState;
use planner::overdue::ReadinessCheck;
use planner::ports;
use planner::view::{self, GroupStatus};

use crate::core::state::{Group, pod_id};

use super::Queries;

/// Lines of one list, at most; a client continues after the last name.
const MOST_LINES: u32 = 1_000;
/// Nodes that the reason of one wait names.
const MOST_NODES_SHOWN: usize = 3;

impl Queries<'_> {
    pub(super) fn group(&self, name: &GroupName) -> Option<GroupView> {
        let group = self.state.groups.get(name).filter(|group| group.is_present())?;
        let pods = self.pods(name, group);
        let GroupStatus { state, health, last_error, running: _ } = self.standing(name, group, &pods);
        Some(GroupView {
            spec: group.record.spec.clone(),
            state,
            health,
            last_error,
            updated_at: group.record.updated_at,
            operation: group.record.operation.as_ref().map(|operation| operation.kind),
            pods,
        })
    }

    /// One pod for each desired instance, without surge pods.
    fn pods(&self, name: &GroupName, group: &Group) -> Vec<PodView> {
        let wanted = usize::try_from(group.record.spec.num_instances).unwrap_or(0);
        let pending = Instance { version: group.record.spec.version, ..Instance::default() };
        // Instances that are not planned yet are shown as pending, so a client that scaled a group sees its own write. Gaps are
        // filled first.
        let held = group.instances().iter().filter(|instance| instance.presence != Presence::Free).count();
        let mut missing = wanted.saturating_sub(held);
        let mut pods = Vec::with_capacity(wanted);
        for index in 0.. {
            match group.instances().get(index) {
                _ if pods.len() >= wanted => break,
                Some(instance) if instance.presence == Presence::Pod => pods.push(self.pod(name, index, instance)),
                Some(instance) if instance.presence == Presence::Vacant => {
                    pods.push(self.pod(name, index, &Instance { why: instance.why.clone(), ..pending.clone() }));
                }
                Some(_) if missing == 0 => {}
                Some(_) | None => {
                    missing = missing.saturating_sub(1);
                    pods.push(self.pod(name, index, &pending));
                }
            }
        }
        pods
    }

    fn pod(&self, name: &GroupName, index: usize, instance: &Instance) -> PodView {
        let id = pod_id(name, index, instance);
        let host = instance.node.as_ref().and_then(|node| self.state.nodes.get(node));
        let seen = instance.node.as_ref().and_then(|node| self.reports.pod(node, &id));
        let node_ip = host.map(|host| host.facts.ip.clone()).unwrap_or_default();
        let facts = view::pod_facts(instance, seen, host);
        let addresses = addresses(instance, &facts);
        PodView { id, node: instance.node.clone(), node_ip, target: instance.target, facts, addresses }
    }

    pub(super) fn groups(&self, namespace: Option<&str>, after: Option<GroupName>, limit: u32) -> Vec<GroupLine> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let groups = self.state.groups.range((from, Bound::Unbounded));
        let seen = groups.filter(|(_, group)| group.is_listed());
        let chosen = seen.filter(|(_, group)| namespace.is_none_or(|wanted| group.record.spec.namespace == wanted));
        let limit = usize::try_from(limit.min(MOST_LINES)).unwrap_or(usize::MAX);
        chosen.take(limit).map(|(name, group)| self.line(name, group)).collect()
    }

    fn line(&self, name: &GroupName, group: &Group) -> GroupLine {
        let pods = self.pods(name, group);
        let standing = self.standing(name, group, &pods);
        let (ready, overdue) = self.readiness(name, group);
        let spec = &group.record.spec;
        GroupLine {
            name: name.clone(),
            namespace: spec.namespace.clone(),
            version: spec.version,
            wanted: u32::try_from(spec.num_instances).unwrap_or(0),
            running: standing.running,
            state: standing.state,
            operation: group.record.operation.as_ref().map(|operation| operation.kind),
            last_error: waits_of_removal(group).unwrap_or(standing.last_error),
            ready: Some(ready),
            overdue,
            images: spec.pod.containers.iter().map(|container| container.image.clone()).collect(),
            created_at: spec.created_at,
        }
    }

    fn standing(&self, name: &GroupName, group: &Group, pods: &[PodView]) -> GroupStatus {
        let standing = standing(group, pods);
        match self.state.quarantine.reason_of_group(name) {
            Some(last_error) => GroupStatus { last_error, ..standing },
            None => standing,
        }
    }

    /// How many instances are ready, and which have not been for too long. An instance is ready when one of its pods is.
    fn readiness(&self, name: &GroupName, group: &Group) -> (u32, Vec<Overdue>) {
        let (mut ready, mut overdue) = (0, Vec::new());
        for (index, instance) in
            group.instances().iter().enumerate().filter(|(_, instance)| instance.presence == Presence::Pod)
        {
            let looks: Vec<_> =
                instance.pods().map(|instance| (instance, self.pod(name, index, instance).facts)).collect();
            let looks = looks.iter().filter_map(|(instance, facts)| {
                let pod = group.pod(instance.version)?;
                Some(ReadinessCheck { group: &group.record.spec, pod, instance, facts, now: self.now })
            });
            if looks.clone().any(ReadinessCheck::is_ready) {
                ready += 1;
            }
            let why = looks.map(ReadinessCheck::overdue).collect::<Option<Vec<String>>>().and_then(|mut why| why.pop());
            if let Some(why) = why.filter(|_| overdue.len() < MOST_OVERDUE) {
                overdue.push(Overdue { instance: pod_id(name, index, instance).instance, why });
            }
        }
        (ready, overdue)
    }
}

/// Where an instance is reached, or was when it last ran.
fn addresses(instance: &Instance, facts: &PodFacts) -> Vec<String> {
    let seen: Vec<String> = facts.containers.iter().map(|container| container.ip.clone()).collect();
    if seen.iter().all(String::is_empty) { instance.addresses.clone() } else { seen }
}

/// The state of a group from its instances. A group that waits for stream ports has failed until it gets them.
///
/// The error of the last operation hides the errors of instances until the next operation.
fn standing(group: &Group, pods: &[PodView]) -> GroupStatus {
    let mut standing = view::group_status(pods.iter().map(|pod| &pod.facts));
    if !group.record.taken_ports.is_empty() {
        standing.state = RunState::Fail;
        standing.last_error = ports::sentence(&group.record.spec.name, &group.record.taken_ports);
    }
    if !group.record.last_error.is_empty() {
        standing.last_error.clone_from(&group.record.last_error);
    }
    standing
}

/// What a group that is being removed waits for.
fn waits_of_removal(group: &Group) -> Option<String> {
    let named = group.instances().iter().filter_map(|instance| instance.leaves.as_ref());
    let nodes: BTreeSet<&str> = named.chain(&group.unconfirmed_nodes).map(NodeName::as_str).collect();
    if !group.is_removing() || nodes.is_empty() {
        return None;
    }
    let shown: Vec<&str> = nodes.iter().copied().take(MOST_NODES_SHOWN).collect();
    let more = if nodes.len() > shown.len() { ", …" } else { "" };
    Some(format!("is being removed: waits until {}{more} confirmed that its containers are gone", shown.join(", ")))
}
