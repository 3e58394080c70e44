//! Decides whether an instance is well, and how long others wait for it.
//!
//! An instance with a health check is well when that says so, one without when its setup time has passed. Others wait five
//! polls and no longer. It only looks; what follows from it is decided by the operation that asks.

use std::time::Duration;

use contract::report::PodFacts;
use contract::state::HealthState;
use contract::time::Timestamp;

use super::{Bucket, Planning};

/// Polls an instance gets to become well.
const POLLS: u32 = 5;

/// How an instance is, to those who wait for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Condition {
    /// It runs and is well.
    Ready,
    /// It runs and is not well yet.
    Unready {
        /// When it is to be looked at again even if nothing is reported.
        look_at: Timestamp,
        /// When nobody waits for it any longer.
        limit: Timestamp,
    },
    /// Its agent is at it, or the one it leaves is.
    Busy,
    /// It does not run, and what happens next may not help.
    Down {
        /// When nobody waits for it any longer.
        limit: Timestamp,
    },
    /// It is not expected to run: it has no place, or is left as it is.
    Idle,
    /// Its node does not answer.
    Silent {
        /// When nobody waits for it any longer.
        limit: Timestamp,
    },
}

impl Planning<'_> {
    pub(super) fn condition(&self, index: usize) -> Condition {
        let limit = self.turned_at(index) + self.patience(index);
        match self.bucket(index) {
            Bucket::Waiting | Bucket::Held => Condition::Idle,
            Bucket::Leaving | Bucket::Pending => Condition::Busy,
            Bucket::Ended | Bucket::Failed | Bucket::Missing => Condition::Down { limit },
            Bucket::Lost | Bucket::Unheard => Condition::Silent { limit },
            Bucket::Running => match self.seen(index) {
                Some(seen) => self.running(index, seen),
                None => Condition::Busy,
            },
        }
    }

    fn running(&self, index: usize, seen: &PodFacts) -> Condition {
        let since = self.plan.slots[index].since;
        let started = self.started(index, seen);
        let ready_at = match seen.health {
            HealthState::Healthy => return Condition::Ready,
            HealthState::None => Some(started + self.setup(index)),
            HealthState::Starting | HealthState::Unhealthy => None,
        };
        if ready_at.is_some_and(|at| at <= self.now) {
            return Condition::Ready;
        }
        let limit = since.max(started) + self.patience(index);
        Condition::Unready { look_at: ready_at.map_or(limit, |at| at.min(limit)), limit }
    }

    fn started(&self, index: usize, seen: &PodFacts) -> Timestamp {
        let started = seen.containers.iter().map(|container| container.started_at).max().unwrap_or_default();
        // A node's clock may be ahead of ours.
        if started > self.now { self.plan.slots[index].since } else { started }
    }

    /// Until when an exit of an instance would be an early one; none when nothing is reported of it.
    pub(super) fn early_until(&self, index: usize) -> Option<Timestamp> {
        let started = self.started(index, self.seen(index)?);
        // A node's clock may be behind ours.
        Some(started.max(self.plan.slots[index].since) + self.facts.patience.early_exit)
    }

    /// Whether a health check found that the instance works.
    pub(super) fn is_healthy(&self, index: usize) -> bool {
        self.seen(index).is_some_and(|seen| seen.health == HealthState::Healthy)
    }

    /// How long an instance has to become well.
    pub(super) fn patience(&self, index: usize) -> Duration {
        self.facts.patience.health_poll.max(self.setup(index)).saturating_mul(POLLS)
    }

    fn setup(&self, index: usize) -> Duration {
        self.revision(self.plan.slots[index].version).pod.setup()
    }
}
