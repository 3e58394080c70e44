//! Decides whether an instance is well, and how long others wait for it.
//!
//! An instance with a health check is well when that says so, one without when its setup time has passed. Others wait five
//! polls and no longer. It only looks; what follows from it is decided by the operation that asks.

use std::time::Duration;

use contract::report::PodFacts;
use contract::state::HealthState;
use contract::time::Timestamp;

use super::{InstanceStatus, Planning};

/// Polls an instance gets to become well.
const POLLS: u32 = 5;

/// How an instance is, to those who wait for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InstanceReadiness {
    /// It runs and is well.
    Ready,
    /// It runs and is not well yet.
    Unready {
        /// When it is to be looked at again even if nothing is reported.
        recheck_at: Timestamp,
        /// When nobody waits for it any longer.
        limit: Timestamp,
    },
    /// Its agent is at it, or the one it leaves is.
    InProgress,
    /// It does not run, and what happens next may not help.
    Down {
        /// When nobody waits for it any longer.
        limit: Timestamp,
    },
    /// It is not expected to run: it has no place, or is left as it is.
    NotExpected,
    /// Its node does not answer.
    Unreachable {
        /// When nobody waits for it any longer.
        limit: Timestamp,
    },
}

impl Planning<'_> {
    pub(super) fn readiness_of(&self, index: usize) -> InstanceReadiness {
        let limit = self.waited_since(index) + self.ready_timeout(index);
        match self.status(index) {
            InstanceStatus::Unplaced | InstanceStatus::LeftAlone => InstanceReadiness::NotExpected,
            InstanceStatus::Moving | InstanceStatus::Starting => InstanceReadiness::InProgress,
            InstanceStatus::Exited | InstanceStatus::CreateFailed | InstanceStatus::Missing => {
                InstanceReadiness::Down { limit }
            }
            InstanceStatus::NodeLost | InstanceStatus::Unreachable => InstanceReadiness::Unreachable { limit },
            InstanceStatus::Running => match self.observed(index) {
                Some(observed) => self.running(index, observed),
                None => InstanceReadiness::InProgress,
            },
        }
    }

    fn running(&self, index: usize, observed: &PodFacts) -> InstanceReadiness {
        let since = self.plan.slots[index].since;
        let started = self.started(index, observed);
        let ready_at = match observed.health {
            HealthState::Healthy => return InstanceReadiness::Ready,
            HealthState::None => Some(started + self.setup(index)),
            HealthState::Starting | HealthState::Unhealthy => None,
        };
        if ready_at.is_some_and(|at| at <= self.now) {
            return InstanceReadiness::Ready;
        }
        let limit = since.max(started) + self.ready_timeout(index);
        InstanceReadiness::Unready { recheck_at: ready_at.map_or(limit, |at| at.min(limit)), limit }
    }

    fn started(&self, index: usize, observed: &PodFacts) -> Timestamp {
        let started = observed.containers.iter().map(|container| container.started_at).max().unwrap_or_default();
        // A node's clock may be ahead of ours.
        if started > self.now { self.plan.slots[index].since } else { started }
    }

    /// Until when an exit of an instance would be an early one; none when nothing is reported of it.
    pub(super) fn early_until(&self, index: usize) -> Option<Timestamp> {
        let started = self.started(index, self.observed(index)?);
        // A node's clock may be behind ours.
        Some(started.max(self.plan.slots[index].since) + self.facts.timeouts.early_exit)
    }

    /// Whether a health check found that the instance works.
    pub(super) fn is_healthy(&self, index: usize) -> bool {
        self.observed(index).is_some_and(|observed| observed.health == HealthState::Healthy)
    }

    /// How long an instance has to become well.
    pub(super) fn ready_timeout(&self, index: usize) -> Duration {
        self.facts.timeouts.health_poll.max(self.setup(index)).saturating_mul(POLLS)
    }

    fn setup(&self, index: usize) -> Duration {
        self.revision(self.plan.slots[index].version).pod.setup()
    }
}
