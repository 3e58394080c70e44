//! Nodes as text. Pure.

use std::collections::BTreeMap;

use contract::api::Node;
use contract::event::Event;
use contract::node_view::NodeStatus;

use crate::output::event;
use crate::output::list::Column::{Usual, Wide};
use crate::output::list::{Column, List};
use crate::output::table::{self, bytes, dash, one_line};

const COLUMNS: [Column; 10] = [
    Usual("name"),
    Usual("status"),
    Usual("instances"),
    Wide("containers"),
    Usual("cpu"),
    Usual("memory"),
    Usual("engine"),
    Usual("agent"),
    Wide("address"),
    Usual("labels"),
];

/// All nodes.
pub(crate) fn list(nodes: &[Node]) -> List {
    let mut list = List::new(&COLUMNS, "no nodes");
    for node in nodes {
        let cells = [
            node.name.clone(),
            table::node_state(node),
            node.instances.to_string(),
            node.containers.to_string(),
            format!("{}/{}", node.used_cpus, node.cpus),
            format!("{}/{}", bytes(node.used_memory), bytes(node.memory)),
            engine(node),
            dash(&node.agent_version),
            dash(&node.address),
            labels(&table::given_labels(node)),
        ];
        list.add(&node.name, node, cells);
    }
    list
}

/// One node with its instances and recent events.
pub(crate) fn page(status_of: &NodeStatus, events: &[Event]) -> String {
    let (node, heard_at) = (&status_of.node, status_of.heard_at);
    let removing = if status_of.removing { ", being removed" } else { "" };
    let mut lines = vec![
        format!("{}: {}{removing}", node.name, table::node_state(node)),
        format!("  address    {}", dash(&status_of.ip)),
        format!("  agent      {} (identity {})", dash(&node.agent_version), dash(&status_of.identity)),
        format!("  engine     {}", engine(node)),
        format!("  heartbeat  {}", if heard_at.happened() { heard_at.to_string() } else { "-".to_owned() }),
        format!("  cpu        {} of {} cores allocated", node.used_cpus, node.cpus),
        format!("  memory     {} of {} allocated", bytes(node.used_memory), bytes(node.memory)),
        format!("  labels     {}", labels(&node.labels)),
    ];
    if !status_of.said_labels.is_empty() {
        lines.push(format!("  of these   {} set by operators", operator_labels(&status_of.said_labels)));
    }
    if let Some(cordon) = &node.cordon {
        let why = if cordon.why.is_empty() { String::new() } else { format!(": {}", cordon.why) };
        lines.push(format!("  cordoned   by {} at {}{why}", dash(&cordon.by), cordon.at));
    }
    if let Some(duplicate_agent) = &status_of.duplicate_agent {
        let duplicate =
            format!("{} at {} reports under this name too", duplicate_agent.identity, dash(&duplicate_agent.address));
        lines.push(format!("  ignored    {duplicate}; stop it or give it another --name"));
    }
    lines.push(format!("{} instances, {} containers", status_of.pods.len(), node.containers));
    lines.extend((!status_of.pods.is_empty()).then(|| pods(status_of)));
    if !events.is_empty() {
        lines.push("last events".to_owned());
        lines.extend(events.iter().map(|event| format!("  {}", event::text(event))));
    }
    lines.join("\n")
}

fn pods(status: &NodeStatus) -> String {
    let mut table = table::plain(&["pod", "state", "local data", "draining", "why"]);
    for pod in &status.pods {
        let word = |is: bool| if is { "yes" } else { "-" }.to_owned();
        let state = table::word(pod.state).to_owned();
        table.add_row([pod.name.clone(), state, word(pod.bound), word(pod.leaving), one_line(&pod.why)]);
    }
    table::text(&table)
}

fn engine(node: &Node) -> String {
    let version = dash(&node.engine_version);
    if node.engine == "up" { version } else { format!("{version} ({})", node.engine) }
}

/// Labels in one line.
pub(crate) fn labels(labels: &BTreeMap<String, String>) -> String {
    let pairs: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    dash(&pairs.join(","))
}

fn operator_labels(labels: &BTreeMap<String, Option<String>>) -> String {
    let word = |(key, value): (&String, &Option<String>)| match value {
        Some(value) => format!("{key}={value}"),
        None => format!("{key}-"),
    };
    labels.iter().map(word).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use contract::node::{Cordon, DuplicateAgent};
    use contract::node_view::PodOnNode;
    use contract::state::RunState;

    use super::*;

    fn node() -> Node {
        Node {
            name: "n1".to_owned(),
            state: "alive".to_owned(),
            engine: "up".to_owned(),
            engine_version: "28.1".to_owned(),
            agent_version: "0.1.0".to_owned(),
            instances: 2,
            cpus: 4,
            memory: 8 << 30,
            labels: BTreeMap::from([("rack".to_owned(), "3".to_owned()), ("name".to_owned(), "host".to_owned())]),
            ..Node::default()
        }
    }

    #[test]
    fn a_list_has_a_line_for_each_node() {
        let cordon = Some(Cordon { why: "disk".to_owned(), ..Cordon::default() });
        let down = Node { cordon, state: "lost".to_owned(), engine: "down".to_owned(), ..node() };
        let text = table::text(&list(&[node(), down]).table(false));
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[0], ["NAME", "STATUS", "INSTANCES", "CPU", "MEMORY", "ENGINE", "AGENT", "LABELS"]);
        assert_eq!(lines[1][..4], ["n1", "alive", "2", "0/4"]);
        assert_eq!(lines[1].last(), Some(&"rack=3"), "what every engine says is left out");
        assert!(lines[2][1] == "lost,cordoned" && lines[2].contains(&"(down)"), "{text}");
    }

    #[test]
    fn a_page_shows_everything_about_a_node() {
        let cordon = Cordon { by: "alice".to_owned(), why: "disk swap".to_owned(), ..Cordon::default() };
        let pod =
            PodOnNode { name: "db.v0-i1-d0".to_owned(), bound: true, state: RunState::Success, ..Default::default() };
        let status = NodeStatus {
            node: Node { cordon: Some(cordon), ..node() },
            said_labels: BTreeMap::from([("rack".to_owned(), Some("3".to_owned())), ("old".to_owned(), None)]),
            pods: vec![pod],
            duplicate_agent: Some(DuplicateAgent {
                identity: "01X".to_owned(),
                address: "10.0.0.9".to_owned(),
                ..DuplicateAgent::default()
            }),
            ..NodeStatus::default()
        };
        let text = page(&status, &[]);
        for part in
            ["alive,cordoned", "by alice", "disk swap", "old-,rack=3", "01X at 10.0.0.9", "db.v0-i1-d0", "--name"]
        {
            assert!(text.contains(part), "{part} is missing in\n{text}");
        }
    }
}
