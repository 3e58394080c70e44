//! Converts answers of the scheduler and the agents to the bodies of the original API. Pure.
//!
//! Clients index without checks, so every field is present: each instance has at least one container, and when a node does
//! not answer, [`synthetic_inspect`] builds Docker's view from the report and the spec.

use std::collections::{BTreeMap, BTreeSet};

use contract::api;
use contract::callback_url;
use contract::command::{Decision, Outcome};
use contract::docker_inspect::ContainerDetail;
use contract::history::ContainerEvent;
use contract::name::NodeName;
use contract::node::{NodePage, NodePod};
use contract::node_view::{NodeStatus, PodOnNode};
use contract::pod_id::PodId;
use contract::query::{ClusterView, GroupLine, GroupView, Liveness, NodeView, PodView, PortClaim, QuarantinedView};
use contract::report::{ContainerFacts, EngineState};
use contract::spec::{PodSpec, PrevState};
use contract::time::Timestamp;

use crate::synthetic_inspect;

mod depends;
pub use depends::dependency;

/// Docker's inspect documents, by pod; containers in index order.
pub type Inspected = BTreeMap<PodId, Vec<ContainerDetail>>;

/// The pods to inspect, by node.
pub fn inspect_requests<'a>(pods: impl IntoIterator<Item = &'a PodView>) -> BTreeMap<NodeName, Vec<PodId>> {
    let mut requests: BTreeMap<NodeName, Vec<PodId>> = BTreeMap::new();
    for pod in pods {
        if let Some(node) = &pod.node {
            requests.entry(node.clone()).or_default().push(pod.id.clone());
        }
    }
    requests
}

/// The body of `GET /api/podgroups`.
pub fn pod_group(view: GroupView, mut inspected: Inspected) -> api::PodGroupWithSpec {
    let known: BTreeMap<u32, PodView> = view.pods.into_iter().map(|pod| (pod.id.instance, pod)).collect();
    let last = known.keys().next_back().copied().unwrap_or(0);
    // Clients take Pods[k-1] for instance k, so an unknown instance gets an empty entry.
    let pods = (1..=last).map(|instance| match known.get(&instance) {
        Some(pod) => one_pod(&view.spec.pod, pod, inspected.remove(&pod.id).unwrap_or_default()),
        None => api::Pod { instance_no: instance, containers: vec![api::Container::default()], ..Default::default() },
    });
    let pods: Vec<api::Pod> = pods.collect();
    api::PodGroupWithSpec {
        prev_state: pods.iter().map(|pod| prev_state(pod, known.get(&pod.instance_no))).collect(),
        pods,
        healthst: view.health,
        state: view.state,
        oom_killed: false,
        last_error: view.last_error,
        updated_at: view.updated_at,
        spec: view.spec,
    }
}

/// Its last known node and addresses, also while it is down.
fn prev_state(pod: &api::Pod, known: Option<&PodView>) -> PrevState {
    let remembered = |index: usize| known?.addresses.get(index).cloned();
    let address = |(index, container): (usize, &api::Container)| match container.container_ip.as_str() {
        "" => remembered(index).unwrap_or_default(),
        present => present.to_owned(),
    };
    PrevState {
        node_name: pod.containers.first().map(|container| container.node_name.clone()).unwrap_or_default(),
        ips: pod.containers.iter().enumerate().map(address).collect(),
    }
}

fn one_pod(spec: &PodSpec, pod: &PodView, inspected: Vec<ContainerDetail>) -> api::Pod {
    let facts = &pod.facts;
    let count = spec.containers.len().max(facts.containers.len()).max(1);
    let mut details = inspected.into_iter();
    api::Pod {
        instance_no: pod.id.instance,
        containers: (0..count).map(|index| one_container(spec, pod, index, details.next())).collect(),
        healthst: facts.health,
        state: facts.state,
        oom_killed: facts.containers.iter().any(|container| container.oom_killed),
        last_error: facts.last_error.clone(),
        updated_at: facts.updated_at,
        target_state: pod.target,
        drift_count: pod.id.drift,
        restart_count: facts.restarts,
        restart_at: facts.restarted_at,
        exit: facts.present_exit(),
    }
}

fn one_container(spec: &PodSpec, pod: &PodView, index: usize, inspected: Option<ContainerDetail>) -> api::Container {
    let node_name = pod.node.as_ref().map(NodeName::to_string).unwrap_or_default();
    let placed = api::Container { node_name, node_ip: pod.node_ip.clone(), ..Default::default() };
    let facts = pod.facts.containers.get(index).filter(|facts| !facts.id.is_empty());
    let inspected = inspected.filter(|detail| !detail.id.is_empty());
    if facts.is_none() && inspected.is_none() {
        // No container was created yet.
        return placed;
    }
    let network = spec.network_name();
    let seen = inspected.as_ref().map(|detail| synthetic_inspect::facts(detail, network)).unwrap_or_default();
    let facts = facts.unwrap_or(&seen);
    let expose = spec.containers.get(index).map_or(0, |container| container.expose);
    let mut runtime = inspected.unwrap_or_else(|| synthetic_inspect::from_facts(spec, pod, index, facts));
    synthetic_inspect::on_node(&mut runtime, &placed.node_name, &placed.node_ip);
    synthetic_inspect::checked(&mut runtime, pod);
    api::Container {
        id: facts.id.clone(),
        runtime,
        container_ip: first_of(&facts.ip, facts, &seen),
        node_port: if facts.node_port == 0 { seen.node_port } else { facts.node_port },
        container_port: expose,
        protocol: "tcp".to_owned(),
        ..placed
    }
}

/// The reported address, or the inspected one when the report is older than the address.
fn first_of(reported: &str, facts: &ContainerFacts, seen: &ContainerFacts) -> String {
    let same = facts.id == seen.id;
    if reported.is_empty() && same { seen.ip.clone() } else { reported.to_owned() }
}

/// One page of groups. A full page (`limit` lines) has a `next`.
pub fn group_list(lines: Vec<GroupLine>, limit: usize) -> api::PodGroupList {
    let next = match lines.last() {
        Some(last) if lines.len() >= limit => last.name.to_string(),
        Some(_) | None => String::new(),
    };
    let line = |line: GroupLine| api::PodGroupLine {
        name: line.name.to_string(),
        namespace: line.namespace,
        version: line.version,
        num_instances: line.wanted,
        running: line.running,
        state: line.state,
        operation: line.operation.map_or_else(String::new, |operation| operation.word().to_owned()),
        last_error: line.last_error,
        ready: line.ready,
        overdue: line.overdue,
        images: line.images,
        created_at: line.created_at,
    };
    api::PodGroupList { pod_groups: lines.into_iter().map(line).collect(), next }
}

/// The body of `GET /api/nodes`, in name order.
pub fn nodes(mut views: Vec<NodeView>) -> Vec<api::Node> {
    views.sort_by(|a, b| a.name.cmp(&b.name));
    views.into_iter().map(node).collect()
}

fn node(view: NodeView) -> api::Node {
    api::Node {
        name: view.name.to_string(),
        address: view.facts.address,
        containers: view.containers,
        cpus: view.facts.cores,
        used_cpus: view.used_cpu_millis.div_ceil(1000),
        memory: view.facts.memory,
        used_memory: view.used_memory,
        state: match view.liveness {
            Liveness::Alive => "alive",
            Liveness::Suspect => "suspect",
            Liveness::Lost => "lost",
            Liveness::Unknown => "unknown",
        }
        .to_owned(),
        engine: match view.engine {
            EngineState::Up => "up",
            EngineState::Hung => "hung",
            EngineState::Down => "down",
        }
        .to_owned(),
        labels: view.facts.labels,
        instances: view.instances,
        cordon: view.cordon,
        pending: view.pending,
        engine_version: view.facts.engine_version,
        agent_version: view.facts.agent_version,
    }
}

/// The body of `GET /api/nodes/{name}`.
pub fn node_status(page: NodePage) -> NodeStatus {
    let pod = |pod: NodePod| PodOnNode {
        name: pod.pod.to_string(),
        pod_group: pod.pod.group.to_string(),
        instance: pod.pod.instance,
        state: pod.state,
        health: pod.health,
        bound: pod.bound,
        leaving: pod.leaving,
        why: pod.why,
    };
    NodeStatus {
        ip: page.node.facts.ip.clone(),
        node: node(page.node),
        identity: page.identity,
        heard_at: page.heard_at.unwrap_or(Timestamp::NEVER),
        said_labels: page.said,
        removing: page.removing,
        pods: page.pods.into_iter().map(pod).collect(),
        duplicate_agent: page.duplicate_agent,
    }
}

/// The callbacks, sorted, without duplicates; users and passwords of URLs that earlier versions accepted are masked.
pub fn callbacks(urls: &[String]) -> Vec<String> {
    urls.iter().map(|url| callback_url::without_userinfo(url)).collect::<BTreeSet<_>>().into_iter().collect()
}

/// The body of `GET /api/operations`.
pub fn operation(outcome: &Outcome) -> api::OperationStatus {
    let (state, message) = match &outcome.decision {
        Decision::Accepted => ("accepted", String::new()),
        Decision::Refused(refusal) => ("refused", refusal.to_string()),
    };
    api::OperationStatus { operation: outcome.id.to_string(), state: state.to_owned(), message, decided_at: outcome.at }
}

/// The body of `GET /api/cluster`.
pub fn cluster(apiserver: &str, view: ClusterView) -> api::ClusterStatus {
    api::ClusterStatus {
        apiserver: apiserver.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        leader: if view.term.is_some() { view.scheduler.clone() } else { String::new() },
        term: view.term.map_or(0, |term| term.0),
        answered_by: view.scheduler,
        groups: view.groups,
        instances: view.instances,
        running: view.running,
        nodes: view.nodes,
        nodes_alive: view.nodes_alive,
        foreign_store: view.foreign_store,
        restored: view.restored.map(|restore| restore.to_string()).unwrap_or_default(),
        quarantined: view.quarantined.into_iter().map(quarantined).collect(),
        warnings: view.warnings,
    }
}

fn quarantined(view: QuarantinedView) -> api::Quarantined {
    let QuarantinedView { kind, name, reason, since } = view;
    api::Quarantined { kind: kind.word().to_owned(), name, reason, since }
}

/// The body of `GET /api/ports`.
pub fn stream_procs(claims: Vec<PortClaim>) -> Vec<api::StreamProc> {
    let row = |claim: PortClaim| api::StreamProc {
        srcport: claim.port.srcport,
        dstport: claim.port.dstport,
        proto: claim.port.proto,
        namespace: claim.namespace,
        proc_name: claim.group.to_string(),
    };
    claims.into_iter().map(row).collect()
}

/// The body of `GET /api/cntstatushistory`.
pub fn history(events: Vec<ContainerEvent>) -> Vec<api::StatusMessage> {
    let row = |event: ContainerEvent| api::StatusMessage {
        status: event.happened.word().to_owned(),
        from: event.from,
        time: event.at.as_millis().div_euclid(1000),
        action: event.happened.word().to_owned(),
    };
    events.into_iter().map(row).collect()
}

#[cfg(test)]
mod tests;
