//! Computes the status that the API shows for a group and its instances: state, health and last error.
//!
//! The original shows the last instance with a problem. Here the worst state wins, so the result does not depend on instance
//! numbers.

use contract::query::Liveness;
use contract::record::Instance;
use contract::report::PodFacts;
use contract::state::{HealthState, RunState};

use crate::placement::Candidate;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupStatus {
    pub state: RunState,
    pub health: HealthState,
    /// Empty if there is no error.
    pub last_error: String,
    /// Running instances.
    pub running: u32,
}

/// The facts of one instance: the report of its node, completed by the reasons stored in its instance.
pub fn pod_facts(instance: &Instance, observed: Option<&PodFacts>, candidate: Option<&Candidate>) -> PodFacts {
    let mut facts = observed.filter(|observed| !observed.leaving).cloned().unwrap_or_default();
    if let Some(node) =
        instance.node.as_ref().filter(|_| candidate.is_some_and(|candidate| candidate.liveness == Liveness::Lost))
    {
        facts.state = RunState::Error;
        facts.last_error = if instance.why.is_empty() { format!("node {node} is lost") } else { instance.why.clone() };
    }
    if facts.last_error.is_empty() && facts.state != RunState::Success {
        facts.last_error.clone_from(&instance.why);
    } else if facts.state == RunState::Missing && !instance.why.is_empty() {
        // The report says that the container is gone, the instance why it is not recreated.
        facts.last_error = format!("{}; {}", facts.last_error, instance.why);
    }
    if facts.last_error.is_empty() {
        facts.last_error.clone_from(&instance.not_moved);
    }
    facts
}

/// The status of a group from its instances.
pub fn group_status<'a>(pods: impl IntoIterator<Item = &'a PodFacts>) -> GroupStatus {
    let mut whole =
        GroupStatus { state: RunState::Success, health: HealthState::Healthy, last_error: String::new(), running: 0 };
    let mut loudest = severity(RunState::Success);
    for pod in pods {
        whole.running += u32::from(pod.state == RunState::Success);
        if badness(pod.health) > badness(whole.health) {
            whole.health = pod.health;
        }
        if severity(pod.state) > severity(whole.state) {
            whole.state = pod.state;
        }
        // The first error text among the instances with the worst state.
        if severity(pod.state) > loudest && !pod.last_error.is_empty() {
            loudest = severity(pod.state);
            whole.last_error.clone_from(&pod.last_error);
        }
    }
    whole
}

fn severity(state: RunState) -> u8 {
    match state {
        RunState::Success => 0,
        RunState::Pending | RunState::Drift | RunState::Inconsistent => 1,
        RunState::Paused => 2,
        RunState::Exit => 3,
        RunState::Removed | RunState::Missing => 4,
        RunState::Fail => 5,
        RunState::Error => 6,
    }
}

fn badness(health: HealthState) -> u8 {
    match health {
        HealthState::Healthy => 0,
        HealthState::None => 1,
        HealthState::Starting => 2,
        HealthState::Unhealthy => 3,
    }
}

#[cfg(test)]
mod tests {
    use contract::name::NodeName;

    use super::*;

    fn pod(state: RunState, last_error: &str) -> PodFacts {
        PodFacts { state, last_error: last_error.to_owned(), ..Default::default() }
    }

    #[test]
    fn a_failed_move_is_shown_at_the_instance_and_not_at_the_group() {
        let instance = Instance { not_moved: "it stays on a: no node fits".to_owned(), ..Instance::default() };
        let facts = pod_facts(&instance, Some(&pod(RunState::Success, "")), None);
        assert_eq!(facts.last_error, instance.not_moved);
        assert_eq!(group_status([&facts]).last_error, "");
    }

    #[test]
    fn a_group_without_instances_is_successful_and_healthy() {
        let whole = group_status([]);
        assert_eq!(
            (whole.state, whole.health, whole.last_error.as_str()),
            (RunState::Success, HealthState::Healthy, "")
        );
    }

    #[test]
    fn the_worst_instance_determines_the_status() {
        let pods = [pod(RunState::Success, "old"), pod(RunState::Error, "no image"), pod(RunState::Exit, "")];
        let forward = group_status(&pods);
        let backward = group_status(pods.iter().rev());
        assert_eq!((forward.state, forward.last_error.as_str(), forward.running), (RunState::Error, "no image", 1));
        assert_eq!(forward, backward);
    }

    #[test]
    fn an_unschedulable_instance_shows_the_reason() {
        let instance = Instance { why: "no node fits: there is no node".to_owned(), ..Default::default() };
        let facts = pod_facts(&instance, None, None);
        assert_eq!((facts.state, facts.last_error.as_str()), (RunState::Pending, "no node fits: there is no node"));
        assert_eq!(group_status([&facts]).last_error, instance.why);
    }

    #[test]
    fn a_missing_instance_shows_why_it_is_not_recreated() {
        let instance = Instance { why: "the guard sleeps".to_owned(), ..Default::default() };
        let facts = pod_facts(&instance, Some(&pod(RunState::Missing, "no such container")), None);
        assert_eq!(facts.last_error, "no such container; the guard sleeps");
        let soon = pod_facts(&Instance::default(), Some(&pod(RunState::Missing, "no such container")), None);
        assert_eq!(soon.last_error, "no such container");
    }

    #[test]
    fn an_instance_on_a_lost_node_is_in_error_whatever_was_reported_last() {
        let node: NodeName = "a".parse().expect("a name");
        let instance = Instance { node: Some(node), ..Default::default() };
        let candidate = Candidate { liveness: Liveness::Lost, ..Candidate::alive(Default::default()) };
        let facts = pod_facts(&instance, Some(&pod(RunState::Success, "")), Some(&candidate));
        assert_eq!((facts.state, facts.last_error.as_str()), (RunState::Error, "node a is lost"));
    }
}
