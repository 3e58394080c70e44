//! The state of a rollout between two decisions.
//!
//! The leader stores it in one transaction with the instances; a new leader continues from it. A rollout to another revision
//! starts a new state. Budgets and the instances of a batch are not stored: they follow from the instances.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::rollout::batches::BatchKind;
use crate::rollout::moment::Moment;
use crate::rollout::numbers::Amount;
use crate::rollout::progress::{Counts, ProgressCondition};
use crate::rollout::proportional::ScaledFor;
use crate::rollout::transition::RolloutPhase;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cause {
    /// New pods are crash-looping.
    Crashing,
    /// The image cannot be pulled.
    ImageHopeless,
    /// No node fits a new pod.
    Unschedulable,
    /// The client did not declare an instance drained in time.
    HookOverdue,
    /// No user set a readiness gate of a new pod to true in time.
    GateOverdue,
    /// No progress within the deadline.
    DeadlineExceeded,
}

impl Cause {
    /// A timeout: after a resume the rollout waits as long again and may fail again.
    pub(super) fn is_overdue(self) -> bool {
        match self {
            Self::Unschedulable | Self::HookOverdue | Self::GateOverdue => true,
            // The progress deadline has its own clock.
            Self::Crashing | Self::ImageHopeless | Self::DeadlineExceeded => false,
        }
    }
}

/// A failure that no user has answered yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    pub cause: Cause,
    #[serde(rename = "group")]
    pub batch: u64,
    pub instances: Vec<u32>,
    pub since: Moment,
    /// Details at the time of the failure: the reason of each node, the gates, the engine's error.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
}

/// Why a failed instance no longer blocks the rollout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Excuse {
    /// A user resumed: the rollout still waits for the instance.
    Retried,
    /// The rollout continues without the instance.
    Skipped,
}

/// Replicas by unit. Stored because the division depends on where pods were when it was made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allotment {
    /// Replicas that it divides.
    pub replicas: i64,
    /// Units at that time, in declaration order.
    #[serde(default)]
    pub units: Vec<String>,
    /// Wishes at that time.
    pub preferences: Vec<Option<Amount>>,
    /// Pods of each unit, including moved quota.
    pub targets: Vec<i64>,
    /// Moves of quota, from unit to unit.
    #[serde(default)]
    pub sent: Vec<(usize, usize)>,
    /// Moves to a unit that had no room either; they are not tried again.
    pub tried: Vec<(usize, usize)>,
    /// Full units, and until when they count as full.
    pub full_until: BTreeMap<usize, Moment>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RolloutState {
    /// The target revision; 0 before the first rollout.
    pub target: u32,
    pub phase: RolloutPhase,
    /// The current or last batch, from 1; 0 before the first.
    #[serde(rename = "group")]
    pub batch: u64,
    pub kind: Option<BatchKind>,
    /// Pods of each unit that the batches so far bring to the target revision.
    pub committed: Vec<i64>,
    /// The last confirmed batch.
    pub confirmed: u64,
    /// The last skipped batch.
    pub skipped: u64,
    /// No instance is updated; scaling still works.
    pub is_paused: bool,
    /// Nothing changes, not even by scaling.
    pub is_frozen: bool,
    pub is_aborted: bool,
    /// A failure that no user has answered yet.
    pub failure: Option<Failure>,
    /// Instances whose failure a user or the failure action has answered.
    pub excused: BTreeMap<u32, Excuse>,
    /// The last resume after a failure; timeouts start again there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resumed_at: Option<Moment>,
    /// The highest counts of this rollout.
    pub seen: Counts,
    pub progress: Option<ProgressCondition>,
    pub sized: ScaledFor,
    pub allotment: Allotment,
}

impl RolloutState {
    /// The state of a rollout that has not started.
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

    /// The state of the next rollout. It inherits pause and freeze, which belong to the group, and the sizes, which describe the pods.
    pub(super) fn followed_by(&self, target: u32) -> Self {
        Self { is_paused: self.is_paused, is_frozen: self.is_frozen, sized: self.sized, ..Self::toward(target) }
    }

    pub fn is_completed(&self, revision: u32) -> bool {
        self.target == revision && self.phase == RolloutPhase::Completed
    }

    pub fn is_open(&self) -> bool {
        match self.phase {
            RolloutPhase::Idle | RolloutPhase::Running | RolloutPhase::WaitingForConfirm => true,
            RolloutPhase::Completed | RolloutPhase::Aborted => false,
        }
    }

    /// No instance may be updated now.
    pub(super) fn is_held(&self) -> bool {
        self.is_paused || self.is_frozen || self.failure.is_some()
    }

    /// The start of a timeout for a state that exists since `since`.
    pub fn waits_from(&self, since: Moment) -> Moment {
        self.resumed_at.map_or(since, |resumed| resumed.max(since))
    }

    /// Answers the failure for all its instances.
    pub(super) fn excuse(&mut self, excuse: Excuse) {
        let instances = self.failure.take().map(|failure| failure.instances).unwrap_or_default();
        self.excused.extend(instances.into_iter().map(|number| (number, excuse)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stored_name_of_the_batch_is_group() {
        let failure = Failure {
            cause: Cause::Crashing,
            batch: 3,
            instances: vec![1],
            since: Moment::from_secs(1),
            why: String::new(),
        };
        let state = RolloutState { batch: 3, failure: Some(failure), ..RolloutState::toward(2) };
        let stored = serde_json::to_value(&state).expect("a state is JSON");
        assert_eq!((&stored["group"], &stored["failure"]["group"]), (&3.into(), &3.into()));
        assert_eq!((&stored["phase"], stored.get("batch")), (&"Idle".into(), None));
    }
}
