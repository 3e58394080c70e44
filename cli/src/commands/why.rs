//! `why`: the reasons for which a group is not ready, each with the command that helps.

use std::collections::BTreeMap;

use contract::api::{Node, Pod, PodGroupLine, PodGroupWithSpec, Quarantined};
use contract::rollout_view::{RolloutStatus, RolloutView};
use contract::state::{HealthState, RunState, TargetState};
use contract::time::Timestamp;

use crate::api::{self, Api, Config};
use crate::commands::rollout::outcome::advice;
use crate::output::table::{self, bytes, is_ready, node_of};

/// What the API knows about a group.
#[derive(Debug, Default)]
struct Facts {
    group: PodGroupWithSpec,
    /// None when the list does not show the group.
    line: Option<PodGroupLine>,
    /// None when the API does not tell.
    rollout: Option<RolloutView>,
    nodes: Vec<Node>,
    quarantined: Option<Quarantined>,
    is_scheduling: bool,
    config: Config,
}

/// A reason, and the command that helps; empty when only time helps.
#[derive(Debug, PartialEq, Eq)]
struct Reason {
    text: String,
    remedy: String,
}

/// `deployctl why`; returns whether the group is ready.
pub async fn why(api: &Api, name: &str) -> Result<bool, api::Error> {
    let facts = facts(api, name).await?;
    let reasons = reasons(&facts, table::now());
    let (ready, wanted) = (facts.ready(), facts.group.spec.num_instances);
    if reasons.is_empty() && facts.is_ready() {
        println!("{name} is ready: {ready} of {wanted} instances");
        return Ok(true);
    }
    println!("{name}: {ready} of {wanted} instances are ready");
    for Reason { text, remedy } in &reasons {
        println!("- {text}");
        if !remedy.is_empty() {
            println!("  {remedy}");
        }
    }
    Ok(facts.is_ready())
}

async fn facts(api: &Api, name: &str) -> Result<Facts, api::Error> {
    let group = api.group(name).await?.ok_or_else(|| api::Error::no_group(name))?;
    let line = api.line(&group.spec.namespace, name).await?;
    // A user of one namespace may not read the rest; what is unknown is no reason.
    let cluster = api.cluster().await.unwrap_or_default();
    let quarantined = cluster.quarantined.into_iter().find(|object| object.kind == "group" && object.name == name);
    Ok(Facts {
        group,
        line,
        rollout: api.rollout(name).await.ok(),
        nodes: api.nodes().await.unwrap_or_default(),
        quarantined,
        is_scheduling: api.started().await.unwrap_or(true),
        config: api.config().await.unwrap_or_default(),
    })
}

impl Facts {
    fn ready(&self) -> usize {
        self.group.pods.iter().filter(|pod| is_ready(pod)).count()
    }

    fn is_ready(&self) -> bool {
        let wanted = usize::try_from(self.group.spec.num_instances).unwrap_or(0);
        self.ready() >= wanted && self.line.as_ref().is_none_or(|line| line.overdue.is_empty())
    }
}

/// All reasons, those of the cluster first.
fn reasons(facts: &Facts, now: Timestamp) -> Vec<Reason> {
    let mut found = of_the_cluster(facts);
    found.extend(of_the_group(facts));
    found.extend(of_the_rollout(facts));
    if !facts.is_ready() {
        found.extend(of_the_instances(facts, now));
    }
    found
}

fn reason(text: impl Into<String>, remedy: impl Into<String>) -> Reason {
    Reason { text: text.into(), remedy: remedy.into() }
}

/// Switches stop the group only while it needs a change.
fn of_the_cluster(facts: &Facts) -> Vec<Reason> {
    let mut found = Vec::new();
    if let Some(Quarantined { reason: why, since, .. }) = &facts.quarantined {
        let remedy = "a new spec (`deployctl apply`) or its removal (`deployctl delete`) ends the quarantine";
        found.push(reason(format!("it is quarantined since {since} and left alone: {why}"), remedy));
    }
    if facts.is_ready() {
        return found;
    }
    if !facts.is_scheduling {
        found.push(reason("scheduling is stopped", "`deployctl engine start` starts it"));
    }
    if facts.config.maintenance {
        let text = "the cluster is in maintenance: exited instances are not restarted";
        found.push(reason(text, "`deployctl engine config --maintenance false` ends it"));
    }
    found
}

fn of_the_group(facts: &Facts) -> Vec<Reason> {
    let (spec, mut found) = (&facts.group.spec, Vec::new());
    let name = &spec.name;
    if spec.num_instances == 0 {
        found.push(reason("it is scaled to 0 instances", format!("`deployctl scale {name} 1` starts one")));
    }
    if let Some(line) = facts.line.as_ref().filter(|line| !line.operation.is_empty()) {
        found.push(reason(format!("an operation is in progress: {}", line.operation.to_lowercase()), ""));
    }
    if !facts.group.last_error.is_empty() {
        let remedy = format!("`deployctl events --group {name}` shows what happened");
        found.push(reason(format!("the last operation failed: {}", facts.group.last_error), remedy));
    }
    found
}

fn of_the_rollout(facts: &Facts) -> Option<Reason> {
    let view = facts.rollout.as_ref()?;
    let what = match view.status {
        RolloutStatus::Complete => return None,
        RolloutStatus::Degraded if facts.is_ready() => return None,
        RolloutStatus::Progressing => "is in progress",
        RolloutStatus::Degraded => "is complete, and instances became unavailable afterwards",
        RolloutStatus::Stuck => "is stuck",
        RolloutStatus::Held => "is paused by a failure",
        RolloutStatus::WaitingForConfirm => "waits for approval",
        RolloutStatus::Paused => "is paused by a user",
        RolloutStatus::Frozen => "is frozen by a user",
        RolloutStatus::Aborted => "was aborted",
    };
    let message = if view.message.is_empty() { String::new() } else { format!(": {}", view.message) };
    Some(reason(format!("the rollout to revision {} {what}{message}", view.release), advice(view).join("; ")))
}

/// Instances with the same problem share a reason.
fn of_the_instances(facts: &Facts, now: Timestamp) -> Vec<Reason> {
    let mut found: BTreeMap<(String, String), Vec<u32>> = BTreeMap::new();
    for pod in facts.group.pods.iter().filter(|pod| !is_ready(pod)) {
        found.entry(of_instance(facts, pod, now)).or_default().push(pod.instance_no);
    }
    let mut reasons: Vec<(Vec<u32>, Reason)> =
        found.into_iter().map(|((text, remedy), numbers)| (numbers, Reason { text, remedy })).collect();
    reasons.sort_by_key(|(numbers, _)| numbers.first().copied());
    let numbered = |(numbers, it): (Vec<u32>, Reason)| {
        let word = if numbers.len() == 1 { "instance" } else { "instances" };
        let numbers: Vec<String> = numbers.iter().map(u32::to_string).collect();
        reason(format!("{word} {}: {}", numbers.join(", "), it.text), it.remedy)
    };
    reasons.into_iter().map(numbered).collect()
}

/// The problem of an instance, and the command that helps.
fn of_instance(facts: &Facts, pod: &Pod, now: Timestamp) -> (String, String) {
    let spec = &facts.group.spec;
    let name = &spec.name;
    let is_known = |node: &&Node| node.name == node_of(pod) && node.state != "alive";
    if pod.target_state == TargetState::Stop {
        return ("stopped by a user".to_owned(), format!("`deployctl start {name}` starts it"));
    }
    if let Some(node) = facts.nodes.iter().find(is_known) {
        let remedy = format!("it moves when the node is lost; `deployctl describe node {}` shows more", node.name);
        return (format!("its node {} is {}", node.name, node.state), remedy);
    }
    if let Some(exit) = &pod.exit {
        let limit: u64 = spec.pod.memory();
        let remedy = match exit.out_of_memory {
            true => format!("it used more than its MemoryLimit ({}): raise it with `deployctl apply`", bytes(limit)),
            false => format!("correct the program or its settings, or `deployctl rollout undo {name}`"),
        };
        return (exit.describe(now), remedy);
    }
    let error = pod.last_error.as_str();
    match (pod.state, pod.healthst) {
        (RunState::Pending, _) if !error.is_empty() => {
            (error.to_owned(), "`deployctl get nodes` shows what is free on each node".to_owned())
        }
        (RunState::Success, HealthState::Unhealthy) => {
            let check =
                if spec.pod.health_config.cmd.is_empty() { "of the image" } else { &spec.pod.health_config.cmd };
            let error = if error.is_empty() { String::new() } else { format!(": {error}") };
            (
                format!("it runs, and its health check fails ({check}){error}"),
                "correct the program or the check".to_owned(),
            )
        }
        (RunState::Success, HealthState::Starting) => {
            ("it runs, and its health check has not passed yet".to_owned(), String::new())
        }
        (state, _) if error.is_empty() => (table::word(state).to_owned(), String::new()),
        (state, _) => {
            (format!("{}: {error}", table::word(state)), format!("`deployctl events --group {name}` shows more"))
        }
    }
}

#[cfg(test)]
mod tests {
    use contract::exit::Exit;

    use super::*;

    fn facts(pods: Vec<Pod>) -> Facts {
        let mut group = PodGroupWithSpec { pods, ..PodGroupWithSpec::default() };
        (group.spec.name, group.spec.num_instances) = ("a.web.web".to_owned(), 2);
        Facts { group, is_scheduling: true, ..Facts::default() }
    }
    fn pod(number: u32, state: RunState) -> Pod {
        Pod { instance_no: number, state, ..Pod::default() }
    }
    fn texts(facts: &Facts) -> Vec<String> {
        let now = Timestamp::from_millis(12_000);
        reasons(facts, now).into_iter().map(|Reason { text, remedy }| format!("{text} | {remedy}")).collect()
    }

    #[test]
    fn a_ready_group_has_no_reason() {
        let ready = facts(vec![pod(1, RunState::Success), pod(2, RunState::Success)]);
        assert!(ready.is_ready());
        assert_eq!(texts(&ready), Vec::<String>::new());
    }

    #[test]
    fn a_crash_loop_shows_exit_code_and_last_log_line_and_out_of_memory_its_limit() {
        let exit = Exit { at: Timestamp::from_millis(0), ..Exit::default() };
        let first = Exit { code: 3, restarts: 5, last_line: "no such file".to_owned(), ..exit };
        let crashed = Pod { exit: Some(first), ..pod(1, RunState::Exit) };
        let exit = Exit { code: 137, out_of_memory: true, ..exit };
        let large = Pod { exit: Some(exit), ..pod(2, RunState::Exit) };
        let expected = [
            "instance 1: exited (3) 12 s ago, 5 restarts: no such file | correct the program or its settings, or \
             `deployctl rollout undo a.web.web`",
            "instance 2: exited (137, out of memory) 12 s ago | it used more than its MemoryLimit (0B): raise it with \
             `deployctl apply`",
        ];
        assert_eq!(texts(&facts(vec![crashed, large])), expected);
    }

    #[test]
    fn instances_with_the_same_problem_share_a_line() {
        let pending =
            |number| Pod { last_error: "no node fits: n1 is full".to_owned(), ..pod(number, RunState::Pending) };
        let expected =
            "instances 1, 2: no node fits: n1 is full | `deployctl get nodes` shows what is free on each node";
        assert_eq!(texts(&facts(vec![pending(1), pending(2)])), [expected]);
        let stopped = |number| Pod { target_state: TargetState::Stop, ..pod(number, RunState::Exit) };
        let expected = "instances 1, 2: stopped by a user | `deployctl start a.web.web` starts it";
        assert_eq!(texts(&facts(vec![stopped(1), stopped(2)])), [expected]);
    }

    #[test]
    fn switches_and_operations_come_first() {
        let line = PodGroupLine { operation: "Upgrading".to_owned(), ..PodGroupLine::default() };
        let unhealthy = Pod { healthst: HealthState::Unhealthy, ..pod(2, RunState::Success) };
        let mut facts = facts(vec![pod(1, RunState::Success), unhealthy]);
        (facts.is_scheduling, facts.config.maintenance, facts.line) = (false, true, Some(line));
        let expected = [
            "scheduling is stopped | `deployctl engine start` starts it",
            "the cluster is in maintenance: exited instances are not restarted | `deployctl engine config --maintenance false` \
             ends it",
            "an operation is in progress: upgrading | ",
            "instance 2: it runs, and its health check fails (of the image) | correct the program or the check",
        ];
        assert_eq!(texts(&facts), expected);
    }

    #[test]
    fn a_rollout_that_waits_for_a_user_is_a_reason_with_its_command() {
        let view = RolloutView {
            status: RolloutStatus::WaitingForConfirm,
            message: "batch 1 is ready".to_owned(),
            ..crate::output::rollout::tests::view()
        };
        let facts = Facts { rollout: Some(view), ..facts(vec![pod(1, RunState::Success), pod(2, RunState::Success)]) };
        let text = &texts(&facts)[0];
        assert!(text.contains("waits for approval: batch 1 is ready | `deployctl rollout confirm "), "{text}");
    }
}
