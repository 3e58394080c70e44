//! Tables and small texts.

use std::collections::BTreeMap;

use contract::api::{Node, Pod, PodGroupLine, PodGroupWithSpec};
use contract::state::{HealthState, RunState};
use contract::time::Timestamp;

pub use crate::output::columns::{Table, plain, text};

/// Labels that every agent adds from its Docker engine; too long for a table.
const OF_THE_ENGINE: [&str; 4] = ["kernelversion", "name", "operatingsystem", "storagedriver"];

/// Longest description of an exit, in characters: the facts, and most of the last log line.
const LONGEST_EXIT: usize = 160;

/// The instances of a group.
pub fn instances(group: &PodGroupWithSpec) -> Table {
    instances_at(group, now())
}

fn instances_at(group: &PodGroupWithSpec, now: Timestamp) -> Table {
    let mut table = plain(&["instance", "state", "node", "container", "address", "restarts", "age", "error"]);
    for pod in &group.pods {
        table.add_row([
            pod.instance_no.to_string(),
            state_of(pod),
            dash(node_of(pod)),
            dash(&container_of(pod)),
            dash(&address(pod)),
            pod.restart_count.to_string(),
            age_of(pod, now),
            problem(pod, now),
        ]);
    }
    table
}

/// The node of an instance; empty while it has none.
pub fn node_of(pod: &Pod) -> &str {
    pod.containers.first().map_or("", |container| container.node_name.as_str())
}

/// Docker's short id of the first container.
pub fn container_of(pod: &Pod) -> String {
    pod.containers.first().map_or("", |container| container.id.as_str()).chars().take(12).collect()
}

/// How long the first container has run.
pub fn age_of(pod: &Pod, now: Timestamp) -> String {
    pod.containers.first().map_or_else(|| age(Timestamp::NEVER, now), |first| age(first.runtime.state.started_at, now))
}

/// The time since `since` in one unit, `12s`, `5m`, `3h` or `4d`; a dash for never.
pub fn age(since: Timestamp, now: Timestamp) -> String {
    if !since.happened() {
        return "-".to_owned();
    }
    match now.since(since).as_secs() {
        seconds @ 0..120 => format!("{seconds}s"),
        seconds @ 120..7_200 => format!("{}m", seconds / 60),
        seconds @ 7_200..172_800 => format!("{}h", seconds / 3_600),
        seconds => format!("{}d", seconds / 86_400),
    }
}

/// The problem of an instance in one line: its exit if it is down, otherwise its last error.
pub fn problem(pod: &Pod, now: Timestamp) -> String {
    match &pod.exit {
        Some(exit) => cut(&exit.describe(now), LONGEST_EXIT),
        None => one_line(&pod.last_error),
    }
}

/// Whether an instance runs and its health check, if it has one, passes.
pub fn is_ready(pod: &Pod) -> bool {
    pod.state == RunState::Success && matches!(pod.healthst, HealthState::None | HealthState::Healthy)
}

/// An instance that is not ready, and why: `instance 6 exited (3) 12 s ago` or `instance 2 is running (unhealthy)`.
pub fn unready(pod: &Pod, now: Timestamp) -> String {
    let problem = problem(pod, now);
    match (&pod.exit, problem.is_empty()) {
        (Some(_), _) => format!("instance {} {problem}", pod.instance_no),
        (None, true) => format!("instance {} is {}", pod.instance_no, state_of(pod)),
        (None, false) => format!("instance {} is {}: {problem}", pod.instance_no, state_of(pod)),
    }
}

pub fn now() -> Timestamp {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(now.as_millis()).unwrap_or(i64::MAX))
}

/// Ready instances of a group; older schedulers report only running ones.
pub fn ready(line: &PodGroupLine) -> u32 {
    line.ready.unwrap_or(line.running)
}

/// Where a dependency pod runs, by the namespace it serves.
pub fn dependency(pods: &BTreeMap<String, Vec<Pod>>) -> String {
    let mut table = plain(&["serves", "node", "state", "container", "address", "restarts", "error"]);
    for (namespace, pod) in pods.iter().flat_map(|(namespace, pods)| pods.iter().map(move |pod| (namespace, pod))) {
        table.add_row([
            namespace.clone(),
            dash(node_of(pod)),
            state_of(pod),
            dash(&container_of(pod)),
            dash(&address(pod)),
            pod.restart_count.to_string(),
            problem(pod, now()),
        ]);
    }
    text(&table)
}

/// State of a node, and whether it is cordoned; a node that waits for approval has no other.
pub fn node_state(node: &Node) -> String {
    if node.pending {
        return "pending".to_owned();
    }
    if node.cordon.is_some() { format!("{},cordoned", node.state) } else { node.state.clone() }
}

/// The labels of a node that an operator or the agent's settings gave it.
pub fn given_labels(node: &Node) -> BTreeMap<String, String> {
    let given = node.labels.iter().filter(|(key, _)| !OF_THE_ENGINE.contains(&key.as_str()));
    given.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// The word for a state.
pub fn word(state: RunState) -> &'static str {
    match state {
        RunState::Pending => "pending",
        RunState::Drift => "moving",
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

pub fn state_of(pod: &Pod) -> String {
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
    cut(text, 80)
}

/// The text in one line of at most `most` characters.
pub fn cut(text: &str, most: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let short: String = line.chars().take(most).collect();
    if short.len() < line.len() { format!("{short}...") } else { short }
}

/// Bytes with a unit.
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
        let table = text(&instances(&group));
        let row = |n: usize| table.lines().nth(n).unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(row(1), "1 running node-1 0123456789ab 127.0.0.1:32768 0 -");
        assert_eq!(row(2), "2 pending - - - 0 -");
    }

    #[test]
    fn without_a_published_port_the_own_address_is_shown() {
        let container =
            Container { container_ip: "172.18.0.2".to_owned(), container_port: 8080, ..Container::default() };
        let pod = Pod { containers: vec![container], ..Pod::default() };
        assert_eq!(address(&pod), "172.18.0.2:8080");
    }

    #[test]
    fn an_instance_that_is_down_shows_exit_code_age_restarts_next_attempt_and_last_log_line() {
        let at = |seconds: i64| Timestamp::from_millis(1_800_000_000_000 + seconds * 1000);
        let exit = contract::exit::Exit {
            code: 3,
            at: at(0),
            restarts: 5,
            next_attempt: at(20),
            last_line: "cannot open /etc/app.conf".to_owned(),
            ..Default::default()
        };
        let pod = Pod { instance_no: 6, state: RunState::Exit, exit: Some(exit), ..Pod::default() };
        let words = "exited (3) 12 s ago, 5 restarts, next attempt in 8 s: cannot open /etc/app.conf";
        assert_eq!(unready(&pod, at(12)), format!("instance 6 {words}"));
        let table = text(&instances_at(&PodGroupWithSpec { pods: vec![pod], ..Default::default() }, at(12)));
        assert!(table.lines().nth(1).is_some_and(|row| row.ends_with(words)), "{table}");
    }

    #[test]
    fn an_age_has_one_unit() {
        let now = Timestamp::from_millis(1_800_000_000_000);
        let ages = [5, 119, 120, 7_200, 172_800].map(|seconds| age(now - std::time::Duration::from_secs(seconds), now));
        assert_eq!(ages, ["5s", "119s", "2m", "2h", "2d"]);
        assert_eq!(age(Timestamp::NEVER, now), "-");
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
