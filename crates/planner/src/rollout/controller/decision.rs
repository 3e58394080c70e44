//! The answer of the controller: actions on instances, the state to store and a report.

use super::state::{Cause, RolloutState};
use crate::rollout::batches::BatchKind;
use crate::rollout::moment::Moment;
use crate::rollout::progress::{Counts, ProgressCondition};
use crate::rollout::units::Warning;

/// A change of one instance. The next decision starts from the result of all actions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RolloutAction {
    /// Creates an instance with a pod of this revision, or a pod for an instance without one.
    Create { instance: u32, unit: usize, revision: u32 },
    /// Starts a pod of the target revision beside the main pod.
    Surge(u32),
    /// Stops the main pod; the surge pod becomes the main pod.
    Promote(u32),
    /// Stops the main pod and starts one of the target revision in its place; under `PodReplacement::Complete` only when the old
    /// pod is gone.
    Renew(u32),
    /// Stops the surge pod.
    Drop(u32),
    /// Stops the main pod; its replacement is created later.
    Retire(u32),
    /// Removes the instance and its pods.
    Remove(u32),
    /// Starts a pod of the same revision in another unit; `Promote` then moves the instance there.
    Move { instance: u32, unit: usize },
    /// Places the unschedulable main pod in another unit.
    Reassign { instance: u32, unit: usize },
    /// Places the unschedulable surge pod in another unit; `Promote` then moves the instance there.
    Divert { instance: u32, unit: usize },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureResponse {
    Fine,
    /// The rollout waits for a user.
    Hold(Cause),
    /// The caller starts a rollout back to the last completed revision.
    Rollback(Cause),
    /// The rollout continues without the failed instances.
    Continue(Cause),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RolloutStatus {
    Progressing,
    Complete,
    /// No progress within the deadline.
    Stuck,
    /// A failure waits for a user.
    Held(Cause),
    /// A batch is done and waits for its confirmation.
    WaitingForConfirm {
        batch: u64,
    },
    Paused,
    Frozen,
    Aborted,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UnitCount {
    pub target: i64,
    /// Pods that the batches so far bring to the target revision.
    pub committed: i64,
    /// Pods desired at the target revision.
    pub updated: i64,
    pub updated_available: i64,
    pub available: i64,
    /// Unschedulable pods that no unit has room for: condition `InsufficientCapacity`.
    pub unplaced: i64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RolloutReport {
    pub status: RolloutStatus,
    /// The kind of the current batch.
    pub kind: Option<BatchKind>,
    /// Instances that the rollout waits for.
    pub waits_for: Vec<u32>,
    pub units: Vec<UnitCount>,
    /// Wishes of units that could not be met.
    pub warnings: Vec<Warning>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    pub actions: Vec<RolloutAction>,
    /// Stored in one transaction with the changed instances.
    pub state: RolloutState,
    pub response: FailureResponse,
    /// The time of the next decision, if nothing happens before.
    pub wake_at: Option<Moment>,
    pub report: RolloutReport,
    /// Counts and progress before the actions. The caller stores these instead when it cannot perform all actions.
    pub watched: (Counts, Option<ProgressCondition>),
}
