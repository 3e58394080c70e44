//! What the conductor answers: what happens to which instance now, and what is said about the release.

use super::state::{Cause, RolloutState};
use crate::rollout::batches::BatchKind;
use crate::rollout::moment::Moment;
use crate::rollout::progress::{Counts, ProgressCondition};
use crate::rollout::units::Warning;

/// One change of one instance. Whoever performs them all has what the next decision starts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// A new instance with a pod of this revision, or a pod for one that has none.
    Create {
        /// Its number.
        slot: u32,
        /// Where it belongs.
        unit: usize,
        /// What it runs.
        revision: u32,
    },
    /// A pod of the target revision comes beside the main one.
    Surge(u32),
    /// The main pod goes and the one beside it takes its place.
    Promote(u32),
    /// The main pod goes and one of the target revision comes in its place. Under `PodReplacement::Complete` it comes when
    /// the main pod is gone.
    Renew(u32),
    /// The pod beside the main one goes.
    Drop(u32),
    /// The main pod goes and nothing comes yet.
    Retire(u32),
    /// The instance goes with everything it has.
    Remove(u32),
    /// A pod of the same revision comes in another unit; the instance follows when it is promoted.
    Move {
        /// Which instance.
        slot: u32,
        /// Where to.
        unit: usize,
    },
    /// The main pod, which found no room, is placed in another unit.
    Reassign {
        /// Which instance.
        slot: u32,
        /// Where to.
        unit: usize,
    },
    /// The pod beside the main one, which found no room, is placed in another unit; the instance follows when it is
    /// promoted.
    Divert {
        /// Which instance.
        slot: u32,
        /// Where to.
        unit: usize,
    },
}

/// What the caller does about a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureResponse {
    /// Nothing failed.
    Fine,
    /// Nothing more is touched until somebody says so.
    Hold(Cause),
    /// A release back to what completed last is wanted.
    Rollback(Cause),
    /// The failed pods were left behind.
    Continue(Cause),
}

/// Where the release stands, for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RolloutStatus {
    /// It goes on.
    Progressing,
    /// Every instance is at the target revision and available.
    Complete,
    /// No progress for too long.
    Stuck,
    /// A failure waits for an answer.
    Held(Cause),
    /// A group is done and waits to be confirmed.
    WaitingForConfirm {
        /// Which one.
        batch: u64,
    },
    /// Somebody paused it.
    Paused,
    /// Somebody froze it.
    Frozen,
    /// Somebody gave it up.
    Aborted,
}

/// One unit, for people.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UnitCount {
    /// Pods it is to have.
    pub target: i64,
    /// Pods committed to the target revision.
    pub committed: i64,
    /// Pods ordered at the target revision.
    pub updated: i64,
    /// Pods at the target revision that are available.
    pub updated_available: i64,
    /// Pods that are available.
    pub available: i64,
    /// Pods no unit has room for: condition `InsufficientCapacity`.
    pub unplaced: i64,
}

/// What is said about a release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RolloutReport {
    /// Where it stands.
    pub status: RolloutStatus,
    /// What the group under way is.
    pub kind: Option<BatchKind>,
    /// Instances at the target revision it waits for.
    pub waits_for: Vec<u32>,
    /// One for each unit.
    pub units: Vec<UnitCount>,
    /// What could not be honoured in dividing the replicas.
    pub warnings: Vec<Warning>,
}

/// What is to happen now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// In this order.
    pub actions: Vec<Action>,
    /// To be stored with what the actions lead to.
    pub state: RolloutState,
    /// What the caller does about a failure.
    pub response: FailureResponse,
    /// Look again then, if nothing happens before.
    pub wake_at: Option<Moment>,
    /// For people.
    pub report: RolloutReport,
    /// Counts and progress before any of the actions, for whoever cannot perform all of them: they are the release's then.
    pub watched: (Counts, Option<ProgressCondition>),
}
