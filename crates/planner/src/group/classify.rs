//! Determines the status of one pod from its instance, the report of its node and the node itself.
//!
//! A silent node gives a status of its own (`Unreachable`), because silence proves nothing about the pod.

use contract::query::Liveness;
use contract::record::Instance;
use contract::report::{EngineState, PodFacts};
use contract::spec::PodSpec;
use contract::state::{RunState, TargetState};

use super::Planning;
use crate::placement::Candidate;

/// The observed status of one pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PodStatus {
    /// It has no node.
    Unplaced,
    /// It has a node, but the node that it leaves still has its old pod.
    Moving,
    /// Its node is creating or starting it.
    Starting,
    Running,
    /// Its containers exited; the restart policy of the agent decides what follows.
    Exited,
    /// The agent could not create it.
    CreateFailed,
    /// Its container vanished from the node.
    Missing,
    NodeLost,
    /// The planner does not recreate it: its data could be lost, it is stopped by order, or the guard is off.
    LeftAlone,
    /// Its node or the engine there does not answer, which proves nothing about the pod.
    Unreachable,
}

impl Planning<'_> {
    /// The status of the current pod of an instance.
    pub(super) fn status(&self, index: usize) -> PodStatus {
        self.status_of(&self.plan.instances[index], self.observed(index))
    }

    /// The status of a pod with this report.
    pub(super) fn status_of(&self, instance: &Instance, observed: Option<&PodFacts>) -> PodStatus {
        let Some(node) = &instance.node else { return PodStatus::Unplaced };
        let pod = &self.revision(instance.version).pod;
        let candidate = self.candidate(node);
        if instance.leaves.is_some() {
            // The pod was never ordered on `node`, so it has no data there.
            return if self.is_lost(node) { PodStatus::NodeLost } else { PodStatus::Moving };
        }
        match candidate.map(|candidate| (candidate.liveness, candidate.engine)) {
            Some((Liveness::Lost, _)) if pod.is_stateful() && !self.is_decommissioned(node) => PodStatus::LeftAlone,
            Some((Liveness::Lost, _)) => PodStatus::NodeLost,
            Some((Liveness::Alive, EngineState::Up)) => match observed {
                None => PodStatus::Starting,
                // The node does not know yet that the pod is desired again; it may still serve.
                Some(observed) if observed.leaving => PodStatus::Unreachable,
                Some(observed) => reported(instance, observed, pod, self.facts.guard_enabled),
            },
            Some((Liveness::Suspect | Liveness::Unknown, _))
            | Some((Liveness::Alive, EngineState::Hung | EngineState::Down))
            | None => PodStatus::Unreachable,
        }
    }

    /// Whether this leader has not heard the instance's node yet: it may still report.
    pub(super) fn may_still_answer(&self, index: usize) -> bool {
        let candidate = self.plan.instances[index].node.as_ref().and_then(|node| self.candidate(node));
        candidate.is_none_or(|candidate: &Candidate| candidate.liveness == Liveness::Unknown)
    }
}

fn reported(instance: &Instance, observed: &PodFacts, pod: &PodSpec, guard_enabled: bool) -> PodStatus {
    match observed.state {
        RunState::Success => PodStatus::Running,
        RunState::Exit | RunState::Fail | RunState::Paused => PodStatus::Exited,
        RunState::Error if instance.target == TargetState::Stop || observed.containers.iter().any(|c| c.running) => {
            PodStatus::Exited
        }
        RunState::Error => PodStatus::CreateFailed,
        RunState::Missing if instance.target == TargetState::Stop || pod.stateful || !guard_enabled => {
            PodStatus::LeftAlone
        }
        RunState::Missing => PodStatus::Missing,
        RunState::Pending | RunState::Drift | RunState::Inconsistent | RunState::Removed => PodStatus::Starting,
    }
}
