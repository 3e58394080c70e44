//! What a release remembers between two decisions, and nothing else does.
//!
//! It is stored in one transaction with the slots it goes with. Whoever finds it continues; a release toward another
//! revision starts a new one. Budgets and groups need no state: they follow from the slots.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::rollout::batches::BatchKind;
use crate::rollout::moment::Moment;
use crate::rollout::numbers::Amount;
use crate::rollout::progress::{Counts, ProgressCondition};
use crate::rollout::proportional::ScaledFor;
use crate::rollout::transition::RolloutPhase;

/// Why a release failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cause {
    /// New pods end again and again.
    Crashing,
    /// The image cannot be had.
    ImageHopeless,
    /// No node takes a new pod.
    Unschedulable,
    /// Nobody said in time that an instance is drained.
    HookOverdue,
    /// A readiness gate of a new pod was not made true in time.
    GateOverdue,
    /// No progress for too long.
    DeadlineExceeded,
}

impl Cause {
    /// Only that it took too long: whoever looks past it waits once more, and may find it failed again.
    pub(super) fn is_overdue(self) -> bool {
        match self {
            Self::Unschedulable | Self::HookOverdue | Self::GateOverdue => true,
            // The deadline has a clock of its own.
            Self::Crashing | Self::ImageHopeless | Self::DeadlineExceeded => false,
        }
    }
}

/// A failure nobody has answered yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Why.
    pub cause: Cause,
    /// In which group.
    #[serde(rename = "group")]
    pub batch: u64,
    /// Which instances.
    pub slots: Vec<u32>,
    /// Since when.
    pub since: Moment,
    /// What is known of it beside the cause, as of when it was found: every node's reason, the gates, the engine's word.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
}

/// Why a failed instance is not held against the release any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Excuse {
    /// It was looked at and the release goes on waiting for it.
    Retried,
    /// The release goes on without it.
    Skipped,
}

/// Replicas over units: kept, because it depends on where pods were when it was made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allotment {
    /// Replicas it was made for.
    pub replicas: i64,
    /// Names of the units it was made for, in their order.
    #[serde(default)]
    pub units: Vec<String>,
    /// Wishes it was made for.
    pub wishes: Vec<Option<Amount>>,
    /// Pods of each unit, moved quota included.
    pub targets: Vec<i64>,
    /// Quota that was sent away, with the unit it went to.
    #[serde(default)]
    pub sent: Vec<(usize, usize)>,
    /// Where what was sent found no room either: not tried again.
    pub tried: Vec<(usize, usize)>,
    /// Units found full, until when.
    pub full_until: BTreeMap<usize, Moment>,
}

/// One release.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RolloutState {
    /// The revision it leads to; 0 before the first.
    pub target: u32,
    /// Where it is.
    pub phase: RolloutPhase,
    /// The group under way or just done, from 1; 0 before the first.
    #[serde(rename = "group")]
    pub batch: u64,
    /// What that group is.
    pub kind: Option<BatchKind>,
    /// Pods of each unit committed to the target revision.
    pub committed: Vec<i64>,
    /// The group that was last confirmed.
    pub confirmed: u64,
    /// The group that was last skipped.
    pub skipped: u64,
    /// Nothing new starts.
    pub is_paused: bool,
    /// Nothing moves at all.
    pub is_frozen: bool,
    /// It was given up.
    pub is_aborted: bool,
    /// A failure nobody has answered yet.
    pub failure: Option<Failure>,
    /// Instances whose failure was answered.
    pub excused: BTreeMap<u32, Excuse>,
    /// When somebody last looked past a failure: whatever is waited for only so long is waited for anew from then on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resumed_at: Option<Moment>,
    /// The most seen in this release.
    pub seen: Counts,
    /// What is said about progress.
    pub progress: Option<ProgressCondition>,
    /// What the sets were last scaled for.
    pub sized: ScaledFor,
    /// Pods of each unit.
    pub allotment: Allotment,
}

impl RolloutState {
    /// A release nothing was done for yet.
    pub fn toward(target: u32) -> Self {
        Self {
            target,
            phase: RolloutPhase::Idle,
            batch: 0,
            kind: None,
            committed: Vec::new(),
            confirmed: 0,
            skipped: 0,
            is_paused: false,
            is_frozen: false,
            is_aborted: false,
            failure: None,
            excused: BTreeMap::new(),
            resumed_at: None,
            seen: Counts::default(),
            progress: None,
            sized: ScaledFor::default(),
            allotment: Allotment::default(),
        }
    }

    /// The release that follows. A pause and a freeze are the group's, not the release's; sizes are what pods there are.
    pub(super) fn followed_by(&self, target: u32) -> Self {
        Self { is_paused: self.is_paused, is_frozen: self.is_frozen, sized: self.sized, ..Self::toward(target) }
    }

    /// It led to this revision, and every instance reached it.
    pub fn is_completed(&self, revision: u32) -> bool {
        self.target == revision && self.phase == RolloutPhase::Completed
    }

    /// It still leads somewhere.
    pub fn is_open(&self) -> bool {
        match self.phase {
            RolloutPhase::Idle | RolloutPhase::Running | RolloutPhase::WaitingForConfirm => true,
            RolloutPhase::Completed | RolloutPhase::Aborted => false,
        }
    }

    /// Nothing new may start.
    pub(super) fn is_held(&self) -> bool {
        self.is_paused || self.is_frozen || self.failure.is_some()
    }

    /// From when on something is waited for that has been so since then.
    pub fn waits_from(&self, since: Moment) -> Moment {
        self.resumed_at.map_or(since, |resumed| resumed.max(since))
    }

    /// The failure is answered.
    pub(super) fn excuse(&mut self, excuse: Excuse) {
        let slots = self.failure.take().map(|failure| failure.slots).unwrap_or_default();
        self.excused.extend(slots.into_iter().map(|number| (number, excuse)));
    }
}
