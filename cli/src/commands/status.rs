//! `deployctl status`: shows processes, leader, nodes and groups, and their problems.

use std::path::Path;

use contract::api::{Node, PodGroupLine, Quarantined};
use contract::state::RunState;
use serde::Serialize;

use crate::api::{self, Api};
use crate::args::{ListOutput, Output};
use crate::output::{self, access, lists, table};

use crate::commands::up;
use devcluster::state::{Child, Cluster};
use devcluster::{child, probe};

/// What `status` found.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Found {
    well: bool,
    problems: Vec<String>,
    /// Empty while no scheduler leads.
    leader: String,
    term: u64,
    /// Every client may do everything; none when the API does not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    open: Option<bool>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    processes: Vec<Process>,
    nodes: Vec<Node>,
    pod_groups: Vec<PodGroupLine>,
}

/// A process of the local cluster.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Process {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    ready: bool,
    restarts: u32,
    listens: String,
}

/// Prints everything; returns whether there are no problems.
pub async fn status(dir: &Path, api: &Api, output: Output) -> Result<bool, up::Error> {
    let mut found = Found::default();
    if let Some(cluster) = Cluster::load(dir)?.filter(|cluster| cluster.supervisor.is_some()) {
        processes(&cluster, &mut found).await;
    }
    let is_answered = match over_api(api, &mut found).await {
        Ok(()) => true,
        Err(error) if found.problems.is_empty() => return Err(error.into()),
        Err(error) => {
            found.problems.push(error.to_string());
            false
        }
    };
    found.well = found.problems.is_empty();
    match output {
        Output::Table => print(&found, is_answered),
        Output::Json => output::print_json(&found),
        Output::Yaml => output::print_yaml(&found),
    }
    Ok(found.well)
}

fn print(found: &Found, is_answered: bool) {
    if !found.processes.is_empty() {
        let mut table = table::plain(&["process", "pid", "ready", "restarts", "listens"]);
        for Process { name, pid, ready, restarts, listens } in &found.processes {
            let pid = pid.map_or_else(|| "-".to_owned(), |pid| pid.to_string());
            let ready = if *ready { "yes" } else { "no" };
            table.add_row([name.clone(), pid, ready.to_owned(), restarts.to_string(), listens.clone()]);
        }
        table.print();
        println!("");
    }
    if is_answered {
        match found.leader.as_str() {
            "" => println!("leader: none\n"),
            leader => println!("leader: {leader} (term {})\n", found.term),
        }
        for list in [output::node::list(&found.nodes), lists::groups(&found.pod_groups)] {
            list.print(ListOutput::Table);
            println!("");
        }
        if found.open == Some(true) {
            println!("note: {}", access::OPEN);
        }
    }
    for problem in &found.problems {
        println!("not well: {problem}");
    }
    if found.well {
        println!("all is well");
    }
}

async fn processes(cluster: &Cluster, found: &mut Found) {
    if !cluster.supervisor.as_ref().is_some_and(child::runs) {
        found.problems.push(
            "the supervisor is gone, so crashed processes are not restarted; `deployctl up` starts it again".to_owned(),
        );
    }
    let not_ready = probe::not_ready(&probe::client(), &cluster.children).await;
    found.processes.extend(cluster.children.iter().map(|Child { name, pid, restarts, listen, .. }| Process {
        name: name.clone(),
        pid: *pid,
        ready: !not_ready.iter().any(|(other, _)| other == name),
        restarts: *restarts,
        listens: listen.clone(),
    }));
    found.problems.extend(not_ready.into_iter().map(|(name, reason)| format!("{name}: {reason}")));
}

async fn over_api(api: &Api, found: &mut Found) -> Result<(), api::Error> {
    let cluster = api.cluster().await?;
    (found.leader, found.term) = (cluster.leader, cluster.term);
    if found.leader.is_empty() {
        found.problems.push("no scheduler leads".to_owned());
    }
    found.problems.extend(foreign_store(cluster.foreign_store));
    found.problems.extend(cluster.quarantined.iter().map(quarantined));
    found.problems.extend(cluster.warnings);
    found.nodes = api.nodes().await?;
    found.problems.extend(node_flaws(&found.nodes));
    found.pod_groups = api.groups().await?;
    found.problems.extend(group_flaws(&found.pod_groups));
    // An open cluster works: scripts that check it during an upgrade must not fail.
    found.open = api.access().await.ok().map(|view| !view.enforced);
    Ok(())
}

/// Nodes that belong to another store than the scheduler's.
fn foreign_store(nodes: u64) -> Option<String> {
    (nodes > 0).then(|| {
        format!(
            "{nodes} nodes belong to another store: etcd was wiped or rewound, and their containers are left alone; restore a \
             backup with `deployctl restore FILE`"
        )
    })
}

/// An object that the leader does not reconcile.
fn quarantined(object: &Quarantined) -> String {
    let Quarantined { kind, name, reason, since } = object;
    format!(
        "{kind} {name} is quarantined since {since} and its containers are left alone: {reason}; its removal ends the \
         quarantine, and so does a new spec if its record can be read"
    )
}

fn node_flaws(nodes: &[Node]) -> Vec<String> {
    let mut flaws = Vec::new();
    if nodes.is_empty() {
        flaws.push("there are no nodes".to_owned());
    }
    for node in nodes {
        if node.state != "alive" {
            flaws.push(format!("{} is {}", node.name, node.state));
        } else if node.engine != "up" {
            flaws.push(format!("the Docker engine of {} is {}", node.name, node.engine));
        }
    }
    flaws
}

/// A group is well when all its instances run and none has been unready for longer than its grace period.
fn group_flaws(groups: &[PodGroupLine]) -> Vec<String> {
    let unwell = |group: &&PodGroupLine| {
        let is_down = group.num_instances > 0 && group.state != RunState::Success;
        group.running != group.num_instances || is_down || !group.overdue.is_empty()
    };
    let describe = |group: &PodGroupLine| {
        let mut text = format!("PodGroup {}: {} of {}", group.name, table::ready(group), group.num_instances);
        text += " instances are ready";
        if group.state != RunState::Success {
            text += &format!(" ({})", table::word(group.state));
        }
        for overdue in &group.overdue {
            text += &format!("; instance {}: {}", overdue.instance, overdue.why);
        }
        text
    };
    groups.iter().filter(unwell).map(describe).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_without_heartbeat_or_engine_is_a_problem() {
        let node = |name: &str, state: &str, engine: &str| Node {
            name: name.to_owned(),
            state: state.to_owned(),
            engine: engine.to_owned(),
            ..Node::default()
        };
        let nodes = [node("a", "alive", "up"), node("b", "lost", "up"), node("c", "alive", "hung")];
        assert_eq!(node_flaws(&nodes), ["b is lost", "the Docker engine of c is hung"]);
        assert_eq!(node_flaws(&[]), ["there are no nodes"]);
    }

    #[test]
    fn a_quarantined_object_is_named_with_its_reason() {
        let object = Quarantined {
            kind: "group".to_owned(),
            name: "web".to_owned(),
            reason: "the store refused to store it".to_owned(),
            ..Quarantined::default()
        };
        let text = quarantined(&object);
        assert!(text.starts_with("group web is quarantined") && text.contains("the store refused"), "{text}");
    }

    #[test]
    fn a_group_with_missing_instances_is_a_problem() {
        let group = |running, num_instances, state| PodGroupLine {
            name: "g".to_owned(),
            running,
            num_instances,
            state,
            ..PodGroupLine::default()
        };
        assert!(group_flaws(&[group(3, 3, RunState::Success), group(0, 0, RunState::Pending)]).is_empty());
        let flaws = group_flaws(&[group(1, 3, RunState::Exit)]);
        assert_eq!(flaws, ["PodGroup g: 1 of 3 instances are ready (exited)"]);
    }
}
