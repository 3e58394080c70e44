//! Explains why instances that are to leave a node are still there.
//!
//! The planner moves one instance of a group at a time and waits for the others to be up, so a drain of one node can wait for
//! another node. The explanation is derived from the same state and changes nothing.

use contract::command::Operation;
use contract::name::{GroupName, NodeName};
use contract::query::Liveness;
use contract::record::{Instance, Presence};
use contract::report::EngineState;
use contract::state::{HealthState, RunState, TargetState};

use crate::core::observe::reports::ReportCache;
use crate::core::state::{Group, State, pod_id};

/// What the move of a group's instances waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::core) struct Wait {
    /// One sentence part: `waits for instance 2 on node-2, which is suspect`.
    pub(in crate::core) reason: String,
    /// It is caused by a node or by another operation, and not by a move that proceeds.
    pub(in crate::core) is_stalled: bool,
}

/// What the first pending move of the group waits for; none when no move is pending or it waits for nothing.
pub(in crate::core) fn of_moves(state: &State, reports: &ReportCache, name: &GroupName, group: &Group) -> Option<Wait> {
    group.record.drifts.first()?;
    if let Some(operation) = group.record.operation.as_ref().filter(|it| it.kind != Operation::Drifting) {
        let reason = format!("waits until the operation {} of PodGroup {name} is over", operation.kind.word());
        return Some(Wait { reason, is_stalled: true });
    }
    let is_kept = |instance: &Instance| instance.presence == Presence::Pod && instance.target == TargetState::Run;
    let kept = || (0..).zip(group.instances()).filter(|(_, instance)| is_kept(instance));
    let stalled = kept().find_map(|(index, instance)| {
        let node = [instance.leaves.as_ref(), instance.node.as_ref()]
            .into_iter()
            .flatten()
            .find(|node| node_problem(state, node).is_some())?;
        Some(format!("waits for instance {} on {node}, {}", index + 1, node_problem(state, node)?))
    });
    if let Some(reason) = stalled {
        return Some(Wait { reason, is_stalled: true });
    }
    let moving = kept().find_map(|(index, instance)| {
        Some(format!("waits for instance {} {}", index + 1, unfinished(reports, name, index, instance)?))
    });
    moving.map(|reason| Wait { reason, is_stalled: false })
}

/// Why nothing is concluded from what a node reports.
fn node_problem(state: &State, node: &NodeName) -> Option<&'static str> {
    let host = state.nodes.get(node)?;
    match (host.liveness, host.engine) {
        (Liveness::Suspect, _) => Some("which is suspect: it must report or become lost"),
        (Liveness::Unknown, _) => Some("which has not reported to this leader yet"),
        (Liveness::Alive, EngineState::Hung) => Some("whose engine hangs"),
        (Liveness::Alive, EngineState::Down) => Some("whose engine is down"),
        (Liveness::Alive, EngineState::Up) | (Liveness::Lost, _) => None,
    }
}

/// What an instance has yet to do before the next one moves.
fn unfinished(reports: &ReportCache, name: &GroupName, index: usize, instance: &Instance) -> Option<String> {
    let Some(node) = &instance.node else { return Some("to find a place".to_owned()) };
    if let Some(left) = &instance.leaves {
        return Some(format!("to leave {left}"));
    }
    let seen = reports.pod(node, &pod_id(name, index, instance));
    match seen.map(|seen| (seen.state, seen.health)) {
        Some((RunState::Success, HealthState::None | HealthState::Healthy)) => None,
        Some((RunState::Success, HealthState::Starting | HealthState::Unhealthy)) => {
            Some(format!("to be healthy on {node}"))
        }
        Some(_) | None => Some(format!("to run on {node}")),
    }
}
