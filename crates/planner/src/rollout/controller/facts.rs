//! The input of the controller: one group as the leader knows it.
//!
//! A `Instance` is an instance. It has a `main` pod and, while it surges or moves, a second one (`next`). These pods are *desired*;
//! `created` shows whether one exists. Terminating pods are only a number (`leaving`). `group` repairs dead pods at the
//! instance's revision; the controller does not.

use std::collections::BTreeSet;
use std::time::Duration;

pub use contract::rollout::{FailBack, FailureAction};

use super::state::RolloutState;
use crate::rollout::availability::{self, Ready};
use crate::rollout::batches::Spread;
use crate::rollout::failure::Signs;
use crate::rollout::limits::PodReplacement;
use crate::rollout::moment::Moment;
use crate::rollout::numbers::Amount;
use crate::rollout::ranking::PodPhase;
use crate::rollout::ranking::{self, Readiness};

/// How instances come to another revision. The serial upgrade has its own planner in `group`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RolloutStrategy {
    Rolling {
        surge: Option<Amount>,
        unavailable: Option<Amount>,
    },
    /// All old pods stop before the first new one starts.
    Recreate,
    Batches(BatchStrategy),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchStrategy {
    pub batch_size: Amount,
    /// The first batch is one pod of each unit.
    pub beta: bool,
    pub spread: Spread,
    /// A user confirms each batch but the last.
    pub needs_confirm: bool,
    /// Most unavailable pods of a unit at a time.
    pub window: Option<i64>,
}

/// Moves the quota of unschedulable pods to another unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AutoReschedule {
    /// The time that a pod waits for room in its unit.
    pub delay: Duration,
    pub fail_back: FailBack,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RolloutSettings {
    pub strategy: RolloutStrategy,
    /// A pod that is ready for this time is available.
    pub min_ready: Duration,
    /// The progress deadline; `None` is unlimited.
    pub deadline: Option<Duration>,
    /// Until when a terminating pod counts; `None` is the default of R-3.
    pub replacement: Option<PodReplacement>,
    /// Instances keep their addresses, which two pods cannot share.
    pub keeps_addresses: bool,
    pub failure_action: FailureAction,
    pub fail_fast_restarts: i64,
    /// Pods that may be unavailable at the deadline; a percentage is of the pods that the rollout has started to update.
    pub failure_threshold: Amount,
    /// A new pod that is unschedulable for this time is a failure; `None` is never.
    pub placement_patience: Option<Duration>,
    pub auto_reschedule: Option<AutoReschedule>,
}

/// A deployment unit. A group without units has one with an empty name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnitFacts {
    /// Identifies the unit when the declaration order changes.
    pub name: String,
    /// `None` shares the remaining replicas evenly.
    pub preference: Option<Amount>,
    /// Pods that it has room for; `None` when this is unknown.
    pub free_capacity: Option<i64>,
}

/// Whether the node of a pod pulls the image of its replacement; meanwhile the pod serves and counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Fetch {
    #[default]
    Unasked,
    /// The node pulls the image or has it.
    Coming,
    /// The image cannot be pulled.
    Hopeless,
}

/// A desired pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RolloutPod {
    pub revision: u32,
    /// Empty without a node.
    pub node: String,
    pub phase: PodPhase,
    /// Readiness, including gates.
    pub ready: Ready,
    /// `None` only while the pod certainly does not exist, so that nothing has to terminate.
    pub created: Option<Moment>,
    /// It starts when another pod of its instance has terminated.
    pub follows: bool,
    /// The deletion cost that its owner set.
    pub cost: i32,
    pub signs: Signs,
    /// The client did not declare it drained in time.
    pub is_hook_overdue: bool,
    /// It is healthy, but no user set one of its readiness gates to true in time.
    pub is_gate_overdue: bool,
    /// Its drain for the update has started.
    pub is_preparing: bool,
    pub fetch: Fetch,
    /// No node fits it, or its replacement, since this time.
    pub unschedulable_since: Option<Moment>,
}

impl RolloutPod {
    /// A pod that does not exist yet.
    pub fn ordered(revision: u32) -> Self {
        Self {
            revision,
            node: String::new(),
            phase: PodPhase::Pending,
            ready: Ready { ready: false, since: None },
            created: None,
            follows: false,
            cost: 0,
            signs: Signs::default(),
            is_hook_overdue: false,
            is_gate_overdue: false,
            is_preparing: false,
            fetch: Fetch::Unasked,
            unschedulable_since: None,
        }
    }
}

/// The second pod of an instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SurgePod {
    /// Differs from the instance's unit while the instance moves.
    pub unit: usize,
    pub pod: RolloutPod,
}

/// An instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    /// From 1.
    pub number: u32,
    /// The unit of its main pod.
    pub unit: usize,
    /// The user stopped it: it changes its revision without running and is not counted.
    pub is_stopped: bool,
    /// It has local data and never moves to another unit.
    pub is_bound: bool,
    /// `None` during a Recreate rollout, until the old pods are gone.
    pub main: Option<RolloutPod>,
    /// The pod that will replace the main pod.
    pub next: Option<SurgePod>,
    /// Its terminating pods.
    pub leaving: i64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RolloutFacts {
    pub settings: RolloutSettings,
    /// Desired instances.
    pub replicas: i64,
    /// The target revision.
    pub target: u32,
    /// Revisions equal to the target: a rollback keeps pods that still run the revision it returns to.
    pub equals: BTreeSet<u32>,
    /// The last completed revision; `None` until the first rollout completes.
    pub proven: Option<u32>,
    pub is_rollback: bool,
    /// A completed revision that differs from the target exists, so a failure may start a rollback.
    pub can_roll_back: bool,
    /// In declaration order.
    pub units: Vec<UnitFacts>,
    pub instances: Vec<Instance>,
    /// Terminating pods of removed instances.
    pub terminating_removed: i64,
    /// A node has not reported yet, so there may be more terminating pods than known.
    pub is_blind: bool,
    /// The stored state.
    pub state: RolloutState,
    pub now: Moment,
}

impl RolloutFacts {
    pub fn is_target(&self, revision: u32) -> bool {
        revision == self.target || self.equals.contains(&revision)
    }

    pub fn is_available(&self, pod: &RolloutPod) -> bool {
        availability::is_available(pod.ready, self.settings.min_ready, self.now)
    }

    /// The pod for the ranking. The instance number is its uid: of equal pods, the lower number goes first.
    pub(super) fn ranked(&self, number: u32, pod: &RolloutPod) -> ranking::RankedPod {
        let readiness = match (pod.ready.ready, self.is_available(pod)) {
            (false, _) => Readiness::NotReady,
            (true, false) => Readiness::Ready,
            (true, true) => Readiness::Available,
        };
        ranking::RankedPod {
            uid: format!("{number:010}"),
            node: pod.node.clone(),
            phase: pod.phase,
            readiness,
            ready_since: pod.ready.since,
            created: pod.created,
            cost: pod.cost,
            restarts: pod.signs.restarts,
            is_active: !pod.phase.is_finished(),
        }
    }
}
