//! What the conductor is told of one group.
//!
//! Instances are slots: each has a `main` pod and, while it surges or moves, a `next` one beside it. A pod here is one that is
//! *ordered*; whether it exists yet is `created`. What was ordered before and still runs is only a number, `leaving`. Who
//! repairs a pod that died does so at the slot's revision and is not asked here.

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
use crate::rollout::ranking::{self, Readiness};
use crate::rollout::recreate::PodPhase;

/// How instances come to another revision. The serial upgrade is not among them: it has its own planner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RolloutStrategy {
    /// Within budgets.
    Rolling {
        /// How many more than wanted there may be.
        surge: Option<Amount>,
        /// How many of the wanted may be missing.
        unavailable: Option<Amount>,
    },
    /// Everything old goes before anything new comes.
    Recreate,
    /// By groups over units.
    Batches(BatchStrategy),
}

/// How a release by groups is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchStrategy {
    /// Pods of a batch.
    pub batch_size: Amount,
    /// The first group is one pod of every unit.
    pub beta: bool,
    /// How a batch is spread over units.
    pub spread: Spread,
    /// Somebody says after each group but the last whether to go on.
    pub needs_confirm: bool,
    /// At most this many pods of a unit are under way at a time.
    pub window: Option<i64>,
}

/// Moves the quota of pods that find no room in their unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AutoReschedule {
    /// A pod waits at least this long for room.
    pub delay: Duration,
    /// When its quota comes back.
    pub fail_back: FailBack,
}

/// The settings of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RolloutSettings {
    /// How instances come to another revision.
    pub strategy: RolloutStrategy,
    /// A pod counts after it has been ready for so long.
    pub min_ready: Duration,
    /// How long there may be no progress; none is for ever.
    pub deadline: Option<Duration>,
    /// When a pod that goes stops counting; none is the default of R-3.
    pub replacement: Option<PodReplacement>,
    /// The units keep addresses, which two pods cannot have at once.
    pub keeps_addresses: bool,
    /// What a failure leads to.
    pub failure_action: FailureAction,
    /// Restarts after which a new pod counts as failed.
    pub fail_fast_restarts: i64,
    /// How many pods may be missing at the deadline; a percentage is of those committed.
    pub failure_threshold: Amount,
    /// A new pod that finds no place for so long is a failure, beside the old one or in its place; none is never.
    pub placement_patience: Option<Duration>,
    /// Quota moves away from units without room.
    pub auto_reschedule: Option<AutoReschedule>,
}

/// A unit, in declaration order. A group without units has one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnitFacts {
    /// What it is called: a release knows its units again by that, whatever their order.
    pub name: String,
    /// How many it is to have; none shares what is left.
    pub wish: Option<Amount>,
    /// Pods it has room for, if somebody can tell.
    pub free_slots: Option<i64>,
}

/// Whether the node of a pod gets what is to take its place; meanwhile the pod serves and counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Fetch {
    /// Nobody asked.
    #[default]
    Unasked,
    /// It is at it, or has it.
    Coming,
    /// It cannot be had.
    Hopeless,
}

/// A pod that is ordered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RolloutPod {
    /// What it runs.
    pub revision: u32,
    /// Where it is; empty when nowhere yet.
    pub node: String,
    /// What it is doing.
    pub phase: PodPhase,
    /// Readiness, gates and lifecycle included.
    pub ready: Ready,
    /// When it was made; none only while it is certain that nothing of it exists, for then nothing has to leave.
    pub created: Option<Moment>,
    /// It comes only when another pod of its slot has left.
    pub follows: bool,
    /// What losing it costs, by its owner's word.
    pub cost: i32,
    /// What is known of its failures.
    pub signs: Signs,
    /// Nobody said in time that it is drained.
    pub is_hook_overdue: bool,
    /// It is well, and one of its gates was not made true in time.
    pub is_gate_overdue: bool,
    /// It already prepares for being updated.
    pub is_preparing: bool,
    /// Whether its node gets what is to take its place.
    pub fetch: Fetch,
    /// Since when no node has room for it, or for what is to take its place.
    pub unschedulable_since: Option<Moment>,
}

impl RolloutPod {
    /// A pod nobody has made yet.
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

/// A pod beside the main one of its slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SurgePod {
    /// Where it belongs; another unit than the slot's when the slot moves.
    pub unit: usize,
    /// The pod.
    pub pod: RolloutPod,
}

/// One instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    /// Its number, from one.
    pub number: u32,
    /// The unit its main pod belongs to.
    pub unit: usize,
    /// The user stopped it: it changes its revision without running, and counts nowhere.
    pub is_stopped: bool,
    /// Its data is where it is: it does not go to another unit.
    pub is_bound: bool,
    /// Its pod; none while everything old goes first.
    pub main: Option<RolloutPod>,
    /// The pod that is to take the main one's place.
    pub next: Option<SurgePod>,
    /// Pods of it that are on their way out.
    pub leaving: i64,
}

/// Everything one decision is made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RolloutFacts {
    /// How the group wants to be changed.
    pub settings: RolloutSettings,
    /// Instances wanted.
    pub replicas: i64,
    /// The revision to reach.
    pub target: u32,
    /// Revisions that count as the target: a rollback leaves pods of the revision it returns to alone.
    pub equals: BTreeSet<u32>,
    /// The newest revision that completed; none while the group is being created.
    pub proven: Option<u32>,
    /// This release is a rollback.
    pub is_rollback: bool,
    /// A rollback would change something, so a failure may ask for one (`failure::auto_rollback`).
    pub can_roll_back: bool,
    /// In declaration order, at least one.
    pub units: Vec<UnitFacts>,
    /// The instances.
    pub slots: Vec<Slot>,
    /// Pods on their way out whose slot is no more.
    pub strays: i64,
    /// More pods may be on their way out than anybody knows of: a node has not told yet what it has.
    pub is_blind: bool,
    /// What earlier decisions left behind.
    pub state: RolloutState,
    /// The time.
    pub now: Moment,
}

impl RolloutFacts {
    /// The revision counts as the one to reach.
    pub fn is_target(&self, revision: u32) -> bool {
        revision == self.target || self.equals.contains(&revision)
    }

    /// The pod counts.
    pub fn is_available(&self, pod: &RolloutPod) -> bool {
        availability::is_available(pod.ready, self.settings.min_ready, self.now)
    }

    /// The pod as the ranking rules see it. Its number stands for the uid: of equals, the lower goes first.
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
            sidecar_restarts: 0,
            is_active: !pod.phase.is_finished(),
        }
    }
}
