//! Answers of the fake leader to queries.

use std::sync::atomic::Ordering;

use contract::fence::Term;
use contract::history::{ContainerEvent, Happened};
use contract::policy::{NamespacePolicy, Policy};
use contract::ports;
use contract::query::{
    Answer, ClusterView, DependencyView, GroupLine, GroupView, Liveness, NodeView, PodView, PortClaim, QuarantinedKind,
    QuarantinedView, Query,
};
use contract::report::{ContainerFacts, EngineState, NodeFacts, PodFacts};
use contract::spec::{PodGroupSpec, PodSpec};
use contract::state::{HealthState, RunState, TargetState};
use contract::time::Timestamp;

use super::{State, access, backups, nodes, rollouts};

impl State {
    pub(super) fn answer(&self, query: &Query) -> Answer {
        match query {
            Query::Group { name, refresh } => {
                self.refreshed.fetch_add(usize::from(*refresh), Ordering::Relaxed);
                Answer::Group(self.groups.get(name.as_str()).map(|spec| Box::new(group(spec))))
            }
            Query::Rollout { name } => Answer::Rollout(self.groups.get(name.as_str()).map(rollouts::rollout)),
            Query::Revisions { name } => Answer::Revisions(self.groups.get(name.as_str()).map(rollouts::revisions)),
            Query::Plan { spec, .. } => Answer::Plan(rollouts::plan(spec, self.groups.get(&spec.name))),
            Query::Dependency { name } => Answer::Dependency(self.dependencies.get(name.as_str()).map(dependency)),
            Query::Groups { namespace, after, limit } => {
                let lines = self.groups.values().filter(|spec| namespace.as_ref().is_none_or(|n| *n == spec.namespace));
                let lines = lines.filter(|spec| after.as_ref().is_none_or(|after| spec.name.as_str() > after.as_str()));
                Answer::Groups(lines.take(usize::try_from(*limit).unwrap()).map(line).collect())
            }
            Query::Nodes => Answer::Nodes(vec![node("n2"), node("n1")]),
            Query::Node { name } => Answer::Node(nodes::page(node(name.as_str()))),
            Query::Cluster => Answer::Cluster(ClusterView {
                scheduler: "scheduler-1".to_owned(),
                term: Some(Term(7)),
                groups: 1,
                instances: 2,
                running: 2,
                nodes_alive: 2,
                nodes: 2,
                foreign_store: 0,
                restored: None,
                quarantined: self
                    .groups
                    .keys()
                    .filter(|name| name.starts_with("locked"))
                    .map(|name| quarantined(name))
                    .collect(),
                warnings: Vec::new(),
            }),
            Query::Operation { id } => Answer::Operation(self.outcomes.get(id.as_str()).cloned()),
            Query::Engine => Answer::Engine(self.engine),
            Query::Constraints => Answer::Constraints(self.constraints.values().cloned().collect()),
            Query::Policies => {
                let row = |(namespace, policy): (&String, &Policy)| NamespacePolicy {
                    namespace: namespace.clone(),
                    policy: policy.clone(),
                };
                Answer::Policies(self.policies.iter().map(row).collect())
            }
            Query::Callbacks => Answer::Callbacks(self.callbacks.iter().cloned().collect()),
            Query::Access { known } => Answer::Access(access::news(&self.access.0, known.as_deref())),
            Query::Audit { after, limit, .. } => Answer::Audit(Ok(Box::new(access::audit(*after, *limit)))),
            Query::JoinTokens => Answer::JoinTokens(self.joins.tokens()),
            Query::Joined { node } => Answer::Joined(self.joins.joined(node)),
            Query::Ports => Answer::Ports(self.groups.values().flat_map(claims).collect()),
            Query::History { name, instance } => Answer::History(history(name.as_str(), *instance)),
            Query::Backup { revision, after } => Answer::Backup(backups::page(*revision, after.as_deref())),
        }
    }
}

/// Instance k runs on node n<k>; the last instance of a group of three or more was not created yet.
fn group(spec: &PodGroupSpec) -> GroupView {
    let count = u32::try_from(spec.num_instances).unwrap();
    GroupView {
        spec: spec.clone(),
        state: RunState::Success,
        health: if count == 0 { HealthState::Healthy } else { HealthState::None },
        last_error: String::new(),
        updated_at: Timestamp::from_millis(1_700_000_000_000),
        operation: None,
        // In another order than clients want.
        pods: (1..=count).rev().map(|instance| pod(spec, instance, instance > 2 && instance == count)).collect(),
    }
}

fn pod(spec: &PodGroupSpec, instance: u32, pending: bool) -> PodView {
    let running = ContainerFacts {
        id: format!("{instance:064}"),
        running: true,
        ip: format!("172.20.0.{instance}"),
        node_port: 30_000,
        started_at: Timestamp::from_millis(1_700_000_001_000),
        ..Default::default()
    };
    PodView {
        id: format!("{}.v0-i{instance}-d0", spec.name).parse().unwrap(),
        node: (!pending).then(|| format!("n{instance}").parse().unwrap()),
        node_ip: if pending { String::new() } else { format!("10.0.0.{instance}") },
        target: TargetState::Run,
        facts: PodFacts {
            state: if pending { RunState::Pending } else { RunState::Success },
            containers: if pending { Vec::new() } else { vec![running] },
            updated_at: Timestamp::from_millis(1_700_000_001_000),
            ..Default::default()
        },
        addresses: if pending { Vec::new() } else { vec![format!("172.20.0.{instance}")] },
    }
}

/// Runs beside the instances of namespace `hello` on node n1; no instance needs those of namespace `row`.
fn dependency(spec: &PodSpec) -> Box<DependencyView> {
    let group = PodGroupSpec { name: format!("{}-n1-hello", spec.name), pod: spec.clone(), ..Default::default() };
    let id = format!("{}.v{}-i0-d0", group.name, spec.version).parse().unwrap();
    let beside = PodView { id, ..pod(&group, 1, false) };
    let pods = [("hello".to_owned(), vec![beside])];
    let pods = pods.into_iter().filter(|_| spec.namespace != "row").collect();
    Box::new(DependencyView { spec: spec.clone(), pods })
}

fn claims(spec: &PodGroupSpec) -> Vec<PortClaim> {
    let claim = |port| PortClaim { port, namespace: spec.namespace.clone(), group: spec.name.parse().unwrap() };
    ports::declared(&spec.pod.annotation).into_iter().map(claim).collect()
}

/// Instance 1 of any group named `hello...` or `locked...` started and stopped.
fn history(name: &str, instance: u32) -> Vec<ContainerEvent> {
    let event = |second: i64, happened| ContainerEvent {
        at: Timestamp::from_millis(second * 1000 + 630),
        happened,
        container: 0,
        from: "registry/hello:1 node:n1".to_owned(),
    };
    match (name.starts_with("hello") || name.starts_with("locked"), instance) {
        (true, 1) => vec![event(1_794_794_630, Happened::Start), event(1_794_794_640, Happened::Stop)],
        _ => Vec::new(),
    }
}

fn quarantined(name: &str) -> QuarantinedView {
    let (kind, reason) = (QuarantinedKind::Group, "cannot be read".to_owned());
    QuarantinedView { kind, name: name.to_owned(), reason, since: Timestamp::NEVER }
}

fn line(spec: &PodGroupSpec) -> GroupLine {
    GroupLine {
        name: spec.name.parse().unwrap(),
        namespace: spec.namespace.clone(),
        version: 0,
        wanted: u32::try_from(spec.num_instances).unwrap(),
        running: 0,
        state: RunState::Pending,
        operation: None,
        last_error: String::new(),
        ready: None,
        overdue: Vec::new(),
        images: Vec::new(),
        created_at: Timestamp::NEVER,
    }
}

fn node(name: &str) -> NodeView {
    NodeView {
        name: name.parse().unwrap(),
        liveness: Liveness::Alive,
        engine: EngineState::Up,
        facts: NodeFacts { address: "10.0.0.1:2375".to_owned(), cores: 4, memory: 8 << 30, ..Default::default() },
        used_cpu_millis: 1500,
        used_memory: 1 << 30,
        containers: 3,
        instances: 2,
        cordon: None,
        pending: false,
    }
}
