//! Decides for serial upgrades and operations whether an instance is ready, and how long others wait for it.
//!
//! An instance with a health check is ready when the check passes, one without when its setup time is over. Others wait for
//! at most five polls or five setup times: poll 20 s and setup time 60 s give 300 s.

use std::time::Duration;

use contract::report::PodFacts;
use contract::state::HealthState;
use contract::time::Timestamp;

use super::{Planning, PodStatus};

/// Polls (or setup times) that others wait for an instance.
const POLLS: u32 = 5;

/// What other instances have to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InstanceReadiness {
    Ready,
    /// It runs and is not ready yet.
    Unready {
        /// When it may become ready without a further report.
        recheck_at: Timestamp,
        /// When others stop waiting for it.
        limit: Timestamp,
    },
    /// An agent is creating, starting or removing a pod of it.
    InProgress,
    /// It does not run, and may not recover.
    Down {
        /// When others stop waiting for it.
        limit: Timestamp,
    },
    /// It is not expected to run: it is unschedulable or left alone.
    NotExpected,
    /// Its node does not answer.
    Unreachable {
        /// When others stop waiting for it.
        limit: Timestamp,
    },
}

impl Planning<'_> {
    pub(super) fn readiness_of(&self, index: usize) -> InstanceReadiness {
        let limit = self.waited_since(index) + self.ready_timeout(index);
        match self.status(index) {
            PodStatus::Unplaced | PodStatus::LeftAlone => InstanceReadiness::NotExpected,
            PodStatus::Moving | PodStatus::Starting => InstanceReadiness::InProgress,
            PodStatus::Exited | PodStatus::CreateFailed | PodStatus::Missing => InstanceReadiness::Down { limit },
            PodStatus::NodeLost | PodStatus::Unreachable => InstanceReadiness::Unreachable { limit },
            PodStatus::Running => match self.observed(index) {
                Some(observed) => self.running(index, observed),
                None => InstanceReadiness::InProgress,
            },
        }
    }

    fn running(&self, index: usize, observed: &PodFacts) -> InstanceReadiness {
        let since = self.plan.instances[index].since;
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
        // The node's clock may be ahead.
        if started > self.now { self.plan.instances[index].since } else { started }
    }

    /// Until when an exit of the instance counts as early; none without a report.
    pub(super) fn early_until(&self, index: usize) -> Option<Timestamp> {
        let started = self.started(index, self.observed(index)?);
        // The node's clock may be behind.
        Some(started.max(self.plan.instances[index].since) + self.facts.timeouts.early_exit)
    }

    pub(super) fn is_healthy(&self, index: usize) -> bool {
        self.observed(index).is_some_and(|observed| observed.health == HealthState::Healthy)
    }

    /// How long others wait for the instance.
    pub(super) fn ready_timeout(&self, index: usize) -> Duration {
        self.facts.timeouts.health_poll.max(self.setup(index)).saturating_mul(POLLS)
    }

    fn setup(&self, index: usize) -> Duration {
        self.revision(self.plan.instances[index].version).pod.setup()
    }
}
