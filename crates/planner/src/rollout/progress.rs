//! Decides what is said about the progress of a rollout (section 2.8).
//!
//! A condition, not a decision: a rollout that timed out goes on trying, and whoever acts on it does so elsewhere. First
//! match wins: complete, progressing, timed out, unchanged. The surprise: progress is the only thing that refreshes a
//! condition without changing it, and a rise counts only above the highest seen in this rollout (D-4), or a crash loop would
//! refresh the deadline for ever.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::moment::Moment;

/// Pods of a group, as last counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// All of them.
    pub replicas: i64,
    /// At the target revision.
    pub updated: i64,
    /// Ready.
    pub ready: i64,
    /// Available.
    pub available: i64,
}

impl Counts {
    fn outdated(self) -> i64 {
        self.replicas.saturating_sub(self.updated)
    }

    /// What later counts are held against (D-4): these, with the most ready and available seen in this rollout.
    #[must_use]
    pub fn above(self, seen: Self) -> Self {
        Self { ready: self.ready.max(seen.ready), available: self.available.max(seen.available), ..self }
    }
}

/// Whether a condition holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Status {
    /// It does.
    True,
    /// It does not.
    False,
    /// It cannot be said.
    Unknown,
}

/// Why a condition is what it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reason {
    /// Every pod is at the target revision and available.
    NewReplicaSetAvailable,
    /// There was progress.
    ReplicaSetUpdated,
    /// There was none for too long.
    ProgressDeadlineExceeded,
    /// The rollout is paused.
    DeploymentPaused,
    /// It was paused.
    DeploymentResumed,
    /// The new set was made.
    NewReplicaSetCreated,
    /// The new set was there already.
    FoundNewReplicaSet,
    /// The new set could not be made.
    ReplicaSetCreateError,
    /// Something older or newer than this list.
    Other(String),
}

/// What is said about progress.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgressCondition {
    /// Does it progress?
    pub status: Status,
    /// Why.
    pub reason: Reason,
    /// When progress was last seen, or the reason changed.
    pub last_update: Moment,
    /// When the status last changed.
    pub last_transition: Moment,
}

/// How long a rollout may go without progress; none when it may for ever.
pub fn deadline(seconds: Option<i64>) -> Option<Duration> {
    // The largest 32-bit number is the API's other way to say "off".
    let seconds = seconds.filter(|seconds| *seconds != i64::from(i32::MAX))?;
    Some(Duration::from_secs(u64::try_from(seconds).unwrap_or(0)))
}

/// Every pod wanted is there, new and available, and nothing else is.
pub fn is_complete(desired: i64, counts: Counts) -> bool {
    counts.updated == desired && counts.replicas == desired && counts.available == desired
}

/// Something moved since `before`, which holds the most seen in this rollout (`Counts::above`).
pub fn is_progressing(before: Counts, after: Counts) -> bool {
    after.updated > before.updated
        || after.outdated() < before.outdated()
        || after.ready > before.ready
        || after.available > before.available
}

/// No progress for longer than the deadline. Sticky: what timed out stays so until something moves.
pub fn is_timed_out(deadline: Option<Duration>, current: Option<&ProgressCondition>, now: Moment) -> bool {
    let (Some(deadline), Some(current)) = (deadline, current) else { return false };
    match current.reason {
        Reason::NewReplicaSetAvailable => false,
        Reason::ProgressDeadlineExceeded => true,
        Reason::ReplicaSetUpdated
        | Reason::DeploymentPaused
        | Reason::DeploymentResumed
        | Reason::NewReplicaSetCreated
        | Reason::FoundNewReplicaSet
        | Reason::ReplicaSetCreateError
        | Reason::Other(_) => current.last_update.after(deadline) < now,
    }
}

/// What a condition is decided from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProgressFacts {
    /// How long there may be no progress.
    pub deadline: Option<Duration>,
    /// Replicas wanted.
    pub desired: i64,
    /// What the counts are held against.
    pub before: Counts,
    /// The counts.
    pub after: Counts,
}

/// The condition after a sync; none when progress is not watched.
pub fn condition(facts: &ProgressFacts, current: Option<ProgressCondition>, now: Moment) -> Option<ProgressCondition> {
    facts.deadline?;
    let is_settled = facts.after.replicas == facts.after.updated
        && current.as_ref().is_some_and(|current| current.reason == Reason::NewReplicaSetAvailable);
    if is_settled {
        return current;
    }
    if is_complete(facts.desired, facts.after) {
        return Some(changed(current, Status::True, Reason::NewReplicaSetAvailable, now));
    }
    if is_progressing(facts.before, facts.after) {
        let was_true = current.filter(|current| current.status == Status::True);
        return Some(ProgressCondition {
            status: Status::True,
            reason: Reason::ReplicaSetUpdated,
            last_update: now,
            last_transition: was_true.map_or(now, |current| current.last_transition),
        });
    }
    if is_timed_out(facts.deadline, current.as_ref(), now) {
        return Some(changed(current, Status::False, Reason::ProgressDeadlineExceeded, now));
    }
    current
}

/// The condition with another status or reason; the present one when it says the same already.
fn changed(current: Option<ProgressCondition>, status: Status, reason: Reason, now: Moment) -> ProgressCondition {
    match current {
        Some(current) if current.status == status && current.reason == reason => current,
        Some(current) if current.status == status => {
            ProgressCondition { status, reason, last_update: now, last_transition: current.last_transition }
        }
        Some(_) | None => ProgressCondition { status, reason, last_update: now, last_transition: now },
    }
}

/// The condition of a rollout that is paused. Both this and resuming refresh it, so a long pause cannot time out; what timed
/// out before the pause stays said.
pub fn paused(current: Option<ProgressCondition>, now: Moment) -> ProgressCondition {
    match current {
        Some(current) if current.reason == Reason::ProgressDeadlineExceeded => current,
        current => changed(current, Status::Unknown, Reason::DeploymentPaused, now),
    }
}

/// The condition of a rollout that goes on; what says nothing of a pause stays.
pub fn resumed(current: ProgressCondition, now: Moment) -> ProgressCondition {
    if current.reason != Reason::DeploymentPaused {
        return current;
    }
    changed(Some(current), Status::Unknown, Reason::DeploymentResumed, now)
}

/// How long until a rollout without progress is to be looked at. A second of slack against clocks; less than one is now.
pub fn stuck_check(deadline: Duration, last_update: Moment, now: Moment) -> Duration {
    let wait = now.until(last_update.after(deadline));
    if wait < Duration::from_secs(1) { Duration::ZERO } else { wait.saturating_add(Duration::from_secs(1)) }
}

#[cfg(test)]
#[path = "progress_tests.rs"]
mod tests;
