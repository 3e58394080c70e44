//! Builds `Runtime`, Docker's inspect document of a container, when the node does not answer. Pure.
//!
//! Sources are the report and the current spec; fields that neither contains (process id, paths on the node) stay zero.

use std::collections::BTreeMap;

use contract::docker_inspect::{
    Config, ContainerDetail, DockerLogConfig, Endpoint, Health, HostConfig, NetworkSettings, PortBinding, Ports, State,
};
use contract::labels::{self, Owner};
use contract::query::PodView;
use contract::report::ContainerFacts;
use contract::spec::{ContainerSpec, PodSpec};
use contract::state::HealthState;
use serde_json::json;

/// The document of container `index` of `pod`.
pub fn from_facts(spec: &PodSpec, pod: &PodView, index: usize, facts: &ContainerFacts) -> ContainerDetail {
    let nothing = ContainerSpec::default();
    let container = spec.containers.get(index).unwrap_or(&nothing);
    ContainerDetail {
        config: config(spec, container, pod, index),
        created: facts.started_at,
        host_config: host_config(spec, container),
        id: facts.id.clone(),
        name: format!("/{}", pod.id.container_name(index, spec.containers.len())),
        network_settings: network(spec, container, pod, facts),
        path: container.command.first().cloned().unwrap_or_default(),
        args: Some(container.command.iter().skip(1).cloned().collect()),
        restart_count: i64::from(pod.facts.restarts),
        state: state(pod, facts),
        ..Default::default()
    }
}

/// Fills in the node, as Swarm did; values from the node itself win.
pub fn on_node(detail: &mut ContainerDetail, name: &str, ip: &str) {
    let node = &mut detail.node;
    for (field, value) in [(&mut node.name, name), (&mut node.id, name), (&mut node.ip, ip)] {
        if field.is_empty() {
            value.clone_into(field);
        }
    }
}

/// The facts that the next report will contain, from an inspect document.
pub fn facts(detail: &ContainerDetail, network: &str) -> ContainerFacts {
    let published = detail.network_settings.ports.values().flatten().flatten();
    ContainerFacts {
        id: detail.id.clone(),
        running: detail.state.running,
        ip: detail.network_settings.networks.get(network).map(|e| e.ip_address.clone()).unwrap_or_default(),
        node_port: published.filter_map(|binding| binding.host_port.parse().ok()).next().unwrap_or(0),
        ..Default::default()
    }
}

fn config(pod_spec: &PodSpec, container: &ContainerSpec, pod: &PodView, index: usize) -> Config {
    Config {
        cmd: Some(container.command.clone()),
        entrypoint: container.entrypoint.clone(),
        env: Some(environment(pod_spec, container, pod)),
        exposed_ports: (container.expose > 0).then(|| BTreeMap::from([(port(container), json!({}))])),
        image: container.image.clone(),
        labels: Some(container_labels(pod_spec, pod, index)),
        user: container.user.clone(),
        volumes: Some(container.volumes.iter().map(|path| (path.clone(), json!({}))).collect()),
        working_dir: container.working_dir.clone(),
        ..Default::default()
    }
}

/// The spec's entries, then those that lainctl and archon read.
fn environment(pod_spec: &PodSpec, container: &ContainerSpec, pod: &PodView) -> Vec<String> {
    let ours = [
        format!("DEPLOYD_POD_INSTANCE_NO={}", pod.id.instance),
        format!("DEPLOYD_POD_NAME={}", pod.id.group),
        format!("DEPLOYD_POD_NAMESPACE={}", pod_spec.namespace),
    ];
    container.env.iter().cloned().chain(ours).collect()
}

fn container_labels(pod_spec: &PodSpec, pod: &PodView, index: usize) -> BTreeMap<String, String> {
    let Some(node) = pod.node.clone() else { return pod_spec.labels.clone() };
    let mut all = labels::of(&Owner { cluster: String::new(), node }, &pod.id, pod_spec, index);
    // Unknown here: the cluster id, and the digest of the spec the container was created from. Missing is better than wrong.
    all.remove(labels::CLUSTER);
    all.remove(labels::SPEC_DIGEST);
    all
}

fn host_config(pod_spec: &PodSpec, container: &ContainerSpec) -> HostConfig {
    let binding = PortBinding::default();
    HostConfig {
        dns_search: (!container.dns_search.is_empty()).then(|| container.dns_search.clone()),
        network_mode: pod_spec.network_name().to_owned(),
        port_bindings: ports(container, binding),
        log_config: DockerLogConfig {
            kind: container.log_config.kind.clone(),
            config: (!container.log_config.config.is_empty()).then(|| container.log_config.config.clone()),
        },
        memory: container.memory_limit,
        memory_swap: container.memory_limit,
        ..Default::default()
    }
}

fn network(pod_spec: &PodSpec, container: &ContainerSpec, pod: &PodView, facts: &ContainerFacts) -> NetworkSettings {
    let endpoint = Endpoint { gateway: String::new(), ip_address: facts.ip.clone() };
    let published = facts.node_port > 0;
    let binding = PortBinding { host_ip: pod.node_ip.clone(), host_port: facts.node_port.to_string() };
    NetworkSettings {
        ports: if published { ports(container, binding) } else { Ports::new() },
        networks: BTreeMap::from([(pod_spec.network_name().to_owned(), endpoint)]),
        ..Default::default()
    }
}

fn ports(container: &ContainerSpec, binding: PortBinding) -> Ports {
    if container.expose > 0 { Ports::from([(port(container), Some(vec![binding]))]) } else { Ports::new() }
}

fn port(container: &ContainerSpec) -> String {
    format!("{}/tcp", container.expose)
}

/// Gives a running container without a health check of Docker the health that the agent's checks found.
pub fn checked(detail: &mut ContainerDetail, pod: &PodView) {
    if detail.state.running && detail.state.health.is_none() {
        detail.state.health = health(pod);
    }
}

fn health(pod: &PodView) -> Option<Health> {
    let status = match pod.facts.health {
        HealthState::None => return None,
        HealthState::Starting => "starting",
        HealthState::Healthy => "healthy",
        HealthState::Unhealthy => "unhealthy",
    };
    Some(Health { status: status.to_owned(), failing_streak: 0 })
}

fn state(pod: &PodView, facts: &ContainerFacts) -> State {
    State {
        error: facts.error.clone(),
        exit_code: facts.exit_code,
        finished_at: facts.finished_at,
        oom_killed: facts.oom_killed,
        running: facts.running,
        started_at: facts.started_at,
        health: health(pod),
        ..Default::default()
    }
}
