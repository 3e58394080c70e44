//! Computes the progress condition of a rollout.
//!
//! The first match wins: complete, progressing, timed out, unchanged. A rollout that timed out keeps trying; the controller
//! decides about failure. Only progress refreshes a condition without changing its reason, and a rise counts only above the
//! highest count seen in this rollout: 91 ready pods of 100, then 92, 91 and 92 again are progress once, so a crash loop
//! cannot postpone the deadline.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::moment::Moment;

/// Pods of a group.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// At any revision.
    pub replicas: i64,
    /// At the target revision.
    pub updated: i64,
    pub ready: i64,
    pub available: i64,
}

impl Counts {
    fn outdated(self) -> i64 {
        self.replicas.saturating_sub(self.updated)
    }

    /// The counts to compare later ones with: these, with the most ready and available pods seen in this rollout.
    #[must_use]
    pub fn above(self, seen: Self) -> Self {
        Self { ready: self.ready.max(seen.ready), available: self.available.max(seen.available), ..self }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Status {
    True,
    False,
    Unknown,
}

/// The names are those of the Kubernetes deployment controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reason {
    NewReplicaSetAvailable,
    ReplicaSetUpdated,
    ProgressDeadlineExceeded,
    DeploymentPaused,
    DeploymentResumed,
    NewReplicaSetCreated,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgressCondition {
    pub status: Status,
    pub reason: Reason,
    /// The time of the last progress or change of the reason.
    pub last_update: Moment,
    /// The time of the last change of the status.
    pub last_transition: Moment,
}

/// The longest time without progress; `None` is unlimited.
pub fn deadline(seconds: Option<i64>) -> Option<Duration> {
    // The API's other value for "unlimited".
    let seconds = seconds.filter(|seconds| *seconds != i64::from(i32::MAX))?;
    Some(Duration::from_secs(u64::try_from(seconds).unwrap_or(0)))
}

/// Every desired pod is at the target revision and available, and there are no other pods.
pub fn is_complete(desired: i64, counts: Counts) -> bool {
    counts.updated == desired && counts.replicas == desired && counts.available == desired
}

/// A count improved since `before`, which holds the highest counts of this rollout (`Counts::above`).
pub fn is_progressing(before: Counts, after: Counts) -> bool {
    after.updated > before.updated
        || after.outdated() < before.outdated()
        || after.ready > before.ready
        || after.available > before.available
}

/// No progress for longer than the deadline. A rollout that timed out stays so until it progresses.
pub fn is_timed_out(deadline: Option<Duration>, current: Option<&ProgressCondition>, now: Moment) -> bool {
    let (Some(deadline), Some(current)) = (deadline, current) else { return false };
    match current.reason {
        Reason::NewReplicaSetAvailable => false,
        Reason::ProgressDeadlineExceeded => true,
        Reason::ReplicaSetUpdated
        | Reason::DeploymentPaused
        | Reason::DeploymentResumed
        | Reason::NewReplicaSetCreated => current.last_update.after(deadline) < now,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProgressFacts {
    pub deadline: Option<Duration>,
    pub desired: i64,
    /// The counts to compare with.
    pub before: Counts,
    pub after: Counts,
}

/// The condition now; `None` without a deadline.
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

/// The condition with this status and reason; unchanged when it has them already.
fn changed(current: Option<ProgressCondition>, status: Status, reason: Reason, now: Moment) -> ProgressCondition {
    match current {
        Some(current) if current.status == status && current.reason == reason => current,
        Some(current) if current.status == status => {
            ProgressCondition { status, reason, last_update: now, last_transition: current.last_transition }
        }
        Some(_) | None => ProgressCondition { status, reason, last_update: now, last_transition: now },
    }
}

/// The condition of a paused rollout. Pausing and resuming refresh it, so a long pause cannot time out; a rollout that timed out
/// before the pause stays so.
pub fn paused(current: Option<ProgressCondition>, now: Moment) -> ProgressCondition {
    match current {
        Some(current) if current.reason == Reason::ProgressDeadlineExceeded => current,
        current => changed(current, Status::Unknown, Reason::DeploymentPaused, now),
    }
}

/// The condition after a resume; one that was not paused stays as it is.
pub fn resumed(current: ProgressCondition, now: Moment) -> ProgressCondition {
    if current.reason != Reason::DeploymentPaused {
        return current;
    }
    changed(Some(current), Status::Unknown, Reason::DeploymentResumed, now)
}

/// The time until the deadline check, with one second of slack for clocks; a wait below one second is none.
pub fn stuck_check(deadline: Duration, last_update: Moment, now: Moment) -> Duration {
    let wait = now.until(last_update.after(deadline));
    if wait < Duration::from_secs(1) { Duration::ZERO } else { wait.saturating_add(Duration::from_secs(1)) }
}

#[cfg(test)]
#[path = "progress_tests.rs"]
mod tests;
