//! How things are shown to people.

use std::collections::BTreeMap;

use comfy_table::{Table, presets};
use contract::api::{Letter, Node, Pod, PodGroupLine, PodGroupWithSpec};
use contract::state::{HealthState, RunState};

/// Labels every agent adds from what its engine says; true, matched by constraints, and too long for a table.
const OF_THE_ENGINE: [&str; 4] = ["kernelversion", "name", "operatingsystem", "storagedriver"];

/// A table without lines: it reads well and `grep` and `awk` take it.
pub fn plain(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header.iter().map(|word| word.to_uppercase()));
    table
}

/// The table as text, without the blanks around each line.
pub fn text(table: &Table) -> String {
    table
        .to_string()
        .lines()
        .map(|line| line.strip_prefix(' ').unwrap_or(line).trim_end())
        .collect::<Vec<_>>()
        .join("\n")
}

/// The instances of a group.
pub fn instances(group: &PodGroupWithSpec) -> String {
    let mut table = plain(&["instance", "state", "node", "container", "address", "restarts", "error"]);
    for pod in &group.pods {
        let first = pod.containers.first();
        let node = first.map_or("", |container| container.node_name.as_str());
        let id: String = first.map_or("", |container| container.id.as_str()).chars().take(12).collect();
        table.add_row([
            pod.instance_no.to_string(),
            state_of(pod),
            dash(node),
            dash(&id),
            dash(&address(pod)),
            pod.restart_count.to_string(),
            one_line(&pod.last_error),
        ]);
    }
    text(&table)
}

/// Groups in a list.
pub fn groups(lines: &[PodGroupLine]) -> String {
    let mut table = plain(&["podgroup", "namespace", "instances", "state", "version", "error"]);
    for line in lines {
        table.add_row([
            line.name.clone(),
            line.namespace.clone(),
            format!("{}/{}", line.running, line.num_instances),
            word(line.state).to_owned(),
            line.version.to_string(),
            one_line(&line.last_error),
        ]);
    }
    text(&table)
}

/// Where a dependency pod runs, by the namespace it serves.
pub fn dependency(pods: &BTreeMap<String, Vec<Pod>>) -> String {
    let mut table = plain(&["serves", "node", "state", "container", "address", "restarts", "error"]);
    for (namespace, pod) in pods.iter().flat_map(|(namespace, pods)| pods.iter().map(move |pod| (namespace, pod))) {
        let first = pod.containers.first();
        let id: String = first.map_or("", |container| container.id.as_str()).chars().take(12).collect();
        table.add_row([
            namespace.clone(),
            dash(first.map_or("", |container| container.node_name.as_str())),
            state_of(pod),
            dash(&id),
            dash(&address(pod)),
            pod.restart_count.to_string(),
            one_line(&pod.last_error),
        ]);
    }
    text(&table)
}

/// Messages that could not be delivered.
pub fn dead_letters(letters: &[Letter]) -> String {
    let mut table = plain(&["at", "subject", "reason", "payload"]);
    for letter in letters {
        let (reason, payload) = (one_line(&letter.reason), one_line(&letter.payload));
        table.add_row([letter.at.to_string(), letter.subject.clone(), reason, payload]);
    }
    text(&table)
}

/// Whether a node is heard, and whether it takes new work.
pub fn node_state(node: &Node) -> String {
    if node.cordon.is_some() { format!("{},cordoned", node.state) } else { node.state.clone() }
}

/// The labels somebody gave a node.
pub fn given_labels(node: &Node) -> BTreeMap<String, String> {
    let given = node.labels.iter().filter(|(key, _)| !OF_THE_ENGINE.contains(&key.as_str()));
    given.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// Nodes.
pub fn nodes(nodes: &[Node]) -> String {
    let mut table = plain(&["node", "state", "engine", "containers", "memory", "cpus", "labels"]);
    for node in nodes {
        let labels: Vec<String> = given_labels(node).iter().map(|(key, value)| format!("{key}={value}")).collect();
        table.add_row([
            node.name.clone(),
            node_state(node),
            node.engine.clone(),
            node.containers.to_string(),
            format!("{}/{}", bytes(node.used_memory), bytes(node.memory)),
            format!("{}/{}", node.used_cpus, node.cpus),
            labels.join(","),
        ]);
    }
    text(&table)
}

/// The word for a state.
pub fn word(state: RunState) -> &'static str {
    match state {
        RunState::Pending => "pending",
        RunState::Drift => "drifting",
        RunState::Success => "running",
        RunState::Exit => "exited",
        RunState::Fail => "failed",
        RunState::Inconsistent => "inconsistent",
        RunState::Missing => "missing",
        RunState::Removed => "removed",
        RunState::Paused => "paused",
        RunState::Error => "error",
    }
}

fn state_of(pod: &Pod) -> String {
    let health = match pod.healthst {
        HealthState::None => "",
        HealthState::Starting => " (starting)",
        HealthState::Healthy => " (healthy)",
        HealthState::Unhealthy => " (unhealthy)",
    };
    format!("{}{health}", word(pod.state))
}

/// Where to reach an instance: the published port if there is one, else its own address.
pub fn address(pod: &Pod) -> String {
    match pod.containers.first() {
        Some(container) if container.node_port != 0 => format!("{}:{}", container.node_ip, container.node_port),
        Some(container) if container.container_port != 0 && !container.container_ip.is_empty() => {
            format!("{}:{}", container.container_ip, container.container_port)
        }
        Some(container) => container.container_ip.clone(),
        None => String::new(),
    }
}

/// The text, or a dash where there is none.
pub fn dash(text: &str) -> String {
    if text.is_empty() { "-".to_owned() } else { text.to_owned() }
}

/// The text in one line that is not too long.
pub fn one_line(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let short: String = line.chars().take(80).collect();
    if short.len() < line.len() { format!("{short}...") } else { short }
}

/// Bytes for people.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    let mut unit = "B";
    let mut whole = count;
    for next in UNITS {
        if whole < 10 * 1024 {
            break;
        }
        whole /= 1024;
        unit = next;
    }
    format!("{whole}{unit}")
}

#[cfg(test)]
mod tests {
    use contract::api::Container;

    use super::*;

    #[test]
    fn an_instance_shows_where_it_can_be_reached() {
        let container = Container {
            id: "0123456789abcdef".to_owned(),
            node_name: "node-1".to_owned(),
            node_ip: "127.0.0.1".to_owned(),
            node_port: 32768,
            container_ip: "172.18.0.2".to_owned(),
            container_port: 8080,
            ..Container::default()
        };
        let pod = Pod { instance_no: 1, state: RunState::Success, containers: vec![container], ..Pod::default() };
        assert_eq!(address(&pod), "127.0.0.1:32768");
        let group =
            PodGroupWithSpec { pods: vec![pod, Pod { instance_no: 2, ..Pod::default() }], ..Default::default() };
        let table = instances(&group);
        let row = |n: usize| table.lines().nth(n).unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(row(1), "1 running node-1 0123456789ab 127.0.0.1:32768 0");
        assert_eq!(row(2), "2 pending - - - 0");
    }

    #[test]
    fn without_a_published_port_the_own_address_is_shown() {
        let container =
            Container { container_ip: "172.18.0.2".to_owned(), container_port: 8080, ..Container::default() };
        let pod = Pod { containers: vec![container], ..Pod::default() };
        assert_eq!(address(&pod), "172.18.0.2:8080");
    }

    #[test]
    fn bytes_are_short() {
        assert_eq!(bytes(512), "512B");
        assert_eq!(bytes(32 << 20), "32MiB");
        assert_eq!(bytes(20 << 30), "20GiB");
    }

    #[test]
    fn errors_stay_on_one_line() {
        assert_eq!(one_line("a\n  b"), "a b");
        assert_eq!(one_line(&"x".repeat(200)).len(), 83);
    }
}
