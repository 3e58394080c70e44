//! Checks of the cluster through its API.

use std::time::{Duration, Instant};

use contract::api::{ClusterStatus, Node, PodGroupLine};

use super::Check;
use crate::api::{Api, Deadline};
use crate::args::Endpoint;
use crate::endpoint;
use crate::output::table::ready;

/// All requests together.
const PATIENCE: Duration = Duration::from_secs(15);
/// A slower answer is felt in every command.
const SLOW: Duration = Duration::from_secs(1);
/// Names that a detail lists.
const MOST_NAMES: usize = 5;

pub(super) async fn checks(endpoint: &Endpoint) -> Vec<Check> {
    let api = match endpoint::api(endpoint) {
        Ok(api) => api.until(Deadline::after(PATIENCE)),
        Err(error) => return vec![Check::fail("API", Err(error.to_string()))],
    };
    let mut found = vec![Check::fail("API", Ok(api.target().describe()))];
    let started = Instant::now();
    let cluster = match api.cluster().await {
        Ok(cluster) => cluster,
        Err(error) => {
            found.push(Check::fail("answer", Err(error.to_string())));
            return found;
        }
    };
    found.push(Check::warn("answer", in_time(started.elapsed())));
    found.extend(of_the_control_plane(&cluster));
    found.extend(of_access(&api).await);
    found.extend(of_the_switches(&api).await);
    match api.nodes().await {
        Ok(nodes) => found.extend(of_the_nodes(&nodes, &cluster.version)),
        Err(error) => found.push(Check::warn("nodes", Err(error.to_string()))),
    }
    match api.groups().await {
        Ok(groups) => found.extend(of_the_groups(&groups)),
        Err(error) => found.push(Check::warn("PodGroups", Err(error.to_string()))),
    }
    let letters = api.dead_letters(1).await.map_err(|error| error.to_string());
    found.push(Check::warn(
        "dead letters",
        letters.and_then(|letters| none(&letters, "`deployctl dead-letters` shows them")),
    ));
    found
}

fn in_time(took: Duration) -> Result<String, String> {
    let text = format!("after {} ms", took.as_millis());
    if took <= SLOW { Ok(text) } else { Err(format!("{text}: slow")) }
}

fn of_the_control_plane(cluster: &ClusterStatus) -> Vec<Check> {
    let own = env!("CARGO_PKG_VERSION");
    let version = match cluster.version.as_str() {
        same if same == own => Ok(format!("{own} everywhere")),
        other => Err(format!("deployctl is {own}, apiserver {} is {other}", cluster.apiserver)),
    };
    let leader = match cluster.leader.as_str() {
        "" => Err("no scheduler leads; changes wait".to_owned()),
        leader => Ok(format!("{leader}, term {}", cluster.term)),
    };
    let quarantined: Vec<&str> = cluster.quarantined.iter().map(|object| object.name.as_str()).collect();
    let foreign = match cluster.foreign_store {
        0 => Ok("all nodes belong to this store".to_owned()),
        nodes => Err(format!("{nodes} nodes belong to another store: restore a backup with `deployctl restore FILE`")),
    };
    vec![
        Check::warn("versions", version),
        Check::fail("leader", leader),
        Check::fail("control plane", none(&cluster.warnings, &cluster.warnings.join("; "))),
        Check::fail("quarantine", none(&quarantined, &format!("{}; `deployctl status` says why", named(&quarantined)))),
        Check::fail("store of the nodes", foreign),
    ]
}

async fn of_access(api: &Api) -> Vec<Check> {
    match api.access().await {
        Ok(view) => {
            let open = "every client that reaches the API may do everything; `deployctl auth enforce` asks for tokens";
            let enforced = if view.enforced { Ok("enforced".to_owned()) } else { Err(open.to_owned()) };
            vec![
                Check::fail("you", Ok(crate::output::access::principal(&view.principal, &view.bindings))),
                Check::warn("access control", enforced),
            ]
        }
        Err(error) => vec![Check::warn("access control", Err(error.to_string()))],
    }
}

async fn of_the_switches(api: &Api) -> Vec<Check> {
    let on = |is_on: Result<bool, crate::api::Error>, remedy: &str| match is_on {
        Ok(true) => Ok("on".to_owned()),
        Ok(false) => Err(format!("off: {remedy}")),
        Err(error) => Err(error.to_string()),
    };
    let mut found = vec![
        Check::warn("scheduling", on(api.started().await, "`deployctl engine start` starts it")),
        Check::warn("guard", on(api.guarding().await, "`deployctl guard work` replaces missing containers again")),
    ];
    let config = api.config().await.map_err(|error| error.to_string());
    let off = |is_on: bool, name: &str| match is_on {
        false => Ok("off".to_owned()),
        true => Err(format!("on: changes are refused; `deployctl engine config --{name} false` ends it")),
    };
    found.push(Check::warn("read-only", config.clone().and_then(|config| off(config.readonly, "readonly"))));
    found.push(Check::warn("maintenance", config.and_then(|config| off(config.maintenance, "maintenance"))));
    found
}

fn of_the_nodes(nodes: &[Node], version: &str) -> Vec<Check> {
    let which = |is_so: &dyn Fn(&Node) -> bool| {
        nodes.iter().filter(|node| is_so(node)).map(|node| node.name.as_str()).collect::<Vec<&str>>()
    };
    let silent = which(&|node| !node.pending && node.state != "alive");
    let without_engine = which(&|node| node.state == "alive" && node.engine != "up");
    let pending = which(&|node| node.pending);
    let cordoned = which(&|node| node.cordon.is_some());
    let other = which(&|node| !node.agent_version.is_empty() && node.agent_version != version);
    // Nine tenths of the memory are allocated: the loss of another node may leave its instances without a place.
    let full = which(&|node| node.used_memory.saturating_mul(10) > node.memory.saturating_mul(9));
    let count = if nodes.is_empty() { Err("there are none".to_owned()) } else { Ok(format!("{} known", nodes.len())) };
    let list = |names: &[&str], text: &str| none(names, &format!("{}: {text}", named(names)));
    vec![
        Check::fail("nodes", count),
        Check::fail("nodes alive", list(&silent, "no report; look at the agent and the network of the node")),
        Check::fail("engines", list(&without_engine, "Docker does not answer there")),
        Check::warn("nodes to approve", list(&pending, "`deployctl node approve NODE` accepts it")),
        Check::warn("cordoned nodes", list(&cordoned, "no new instances; `deployctl node uncordon NODE` ends it")),
        Check::warn("versions of agents", list(&other, "upgrade the agent")),
        Check::warn("room on the nodes", list(&full, "more than 90 % of the memory is allocated")),
    ]
}

fn of_the_groups(groups: &[PodGroupLine]) -> Vec<Check> {
    let which = |is_so: &dyn Fn(&PodGroupLine) -> bool| {
        groups.iter().filter(|line| is_so(line)).map(|line| line.name.as_str()).collect::<Vec<&str>>()
    };
    let unready = which(&|line| ready(line) < line.num_instances);
    let overdue = which(&|line| !line.overdue.is_empty());
    let failed = which(&|line| !line.last_error.is_empty());
    let busy = which(&|line| !line.operation.is_empty());
    let list = |names: &[&str], text: &str| none(names, &format!("{}: {text}", named(names)));
    vec![
        Check::warn("PodGroups", Ok(format!("{} known", groups.len()))),
        Check::warn("ready PodGroups", list(&unready, "instances are missing; `deployctl why NAME` says why")),
        Check::fail("overdue PodGroups", list(&overdue, "not ready for too long; `deployctl why NAME` says why")),
        Check::warn("failed operations", list(&failed, "`deployctl why NAME` says why")),
        Check::warn("operations", list(&busy, "in progress")),
    ]
}

/// Passes when there are none.
fn none<T>(items: &[T], otherwise: &str) -> Result<String, String> {
    if items.is_empty() { Ok("none".to_owned()) } else { Err(otherwise.to_owned()) }
}

/// The first names, and how many more there are.
fn named(names: &[&str]) -> String {
    let shown = names.iter().take(MOST_NAMES).copied().collect::<Vec<_>>().join(", ");
    let more = names.len().saturating_sub(MOST_NAMES);
    if more == 0 { shown } else { format!("{shown} and {more} more") }
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;

    fn verdicts(checks: &[Check], verdict: Verdict) -> Vec<(&str, &str)> {
        checks
            .iter()
            .filter(|check| check.verdict == verdict)
            .map(|check| (check.name, check.detail.as_str()))
            .collect()
    }

    #[test]
    fn nodes_that_are_silent_full_or_waiting_are_named() {
        let node = |name: &str, state: &str| Node {
            name: name.to_owned(),
            state: state.to_owned(),
            engine: "up".to_owned(),
            memory: 100,
            ..Node::default()
        };
        let full = Node { used_memory: 95, agent_version: "0.0.1".to_owned(), ..node("n2", "alive") };
        let checks = of_the_nodes(&[node("n1", "alive"), full, node("n3", "lost")], "1.0.0");
        let failed = [("nodes alive", "n3: no report; look at the agent and the network of the node")];
        assert_eq!(verdicts(&checks, Verdict::Failed), failed);
        let warned: Vec<&str> = verdicts(&checks, Verdict::Warning).into_iter().map(|(name, _)| name).collect();
        assert_eq!(warned, ["versions of agents", "room on the nodes"]);
        assert_eq!(verdicts(&of_the_nodes(&[], ""), Verdict::Failed), [("nodes", "there are none")]);
    }

    #[test]
    fn a_cluster_without_leader_fails() {
        let checks = of_the_control_plane(&ClusterStatus::default());
        assert_eq!(verdicts(&checks, Verdict::Failed), [("leader", "no scheduler leads; changes wait")]);
    }

    #[test]
    fn many_names_are_counted() {
        assert_eq!(named(&["a"; 7]), "a, a, a, a, a and 2 more");
    }
}
