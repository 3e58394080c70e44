//! Decides whether a pod is ready, and since when.
//!
//! It runs; its health check passes, or without one its setup time is over; every gate is open; it is not draining; and its
//! containers have the desired spec. `MinReadySeconds` is not checked here. The times come from nodes whose clocks may be
//! ahead, so none counts as later than now.

use std::time::Duration;

use contract::record::{Instance, Presence};
use contract::report::PodFacts;
use contract::state::HealthState;
use contract::time::Timestamp;

use super::super::{Planning, PodStatus};
use super::settings::drain_policy;
use crate::rollout::availability::Ready;

/// Synchronised clocks differ by less.
const FAR_AHEAD: Duration = Duration::from_secs(10);

impl Planning<'_> {
    pub(super) fn ready(&self, instance: &Instance, observed: Option<&PodFacts>) -> Ready {
        let is_kept = instance.draining.is_none() && self.has_its_spec(instance, observed);
        match self.serves_since(instance, observed).filter(|since| is_kept && *since <= self.now) {
            Some(since) => Ready { ready: true, since: Some(since.into()) },
            None => Ready { ready: false, since: None },
        }
    }

    /// Since when the pod could serve, or from when on it can; none if that is unknown.
    pub(super) fn serves_since(&self, instance: &Instance, observed: Option<&PodFacts>) -> Option<Timestamp> {
        if instance.presence != Presence::Pod || self.status_of(instance, observed) != PodStatus::Running {
            return None;
        }
        let well = self.well_since(instance, observed?)?;
        let gates = self.record.spec.readiness_gates.iter().map(|gate| instance.gates.get(gate).copied());
        let gates: Option<Vec<Timestamp>> = gates.collect();
        let latest = gates?.into_iter().max().unwrap_or(Timestamp::NEVER);
        Some(well.max(latest.min(self.now)))
    }

    pub(super) fn closed_gates(&self, instance: &Instance) -> Vec<&str> {
        let gates = self.record.spec.readiness_gates.iter().map(String::as_str);
        gates.filter(|gate| !instance.gates.contains_key(*gate)).collect()
    }

    /// When the wait for closed gates ends; none while something else keeps the pod from being ready.
    pub(super) fn gates_limit(&self, instance: &Instance, observed: Option<&PodFacts>) -> Option<Timestamp> {
        let is_up = instance.presence == Presence::Pod && self.status_of(instance, observed) == PodStatus::Running;
        let is_shut_out = is_up && instance.draining.is_none() && !self.closed_gates(instance).is_empty();
        let well = self.well_since(instance, observed.filter(|_| is_shut_out)?)?;
        // The node's clock may be behind, and its containers older than the instance's last change.
        let since = well.max(instance.since).max(instance.gates_closed_at);
        Some(self.waits_from(since) + drain_policy(&self.record.spec)?.timeout)
    }

    fn well_since(&self, instance: &Instance, observed: &PodFacts) -> Option<Timestamp> {
        let started = observed.containers.iter().map(|container| container.started_at).max().unwrap_or_default();
        let started = self.believed(instance, started);
        match observed.health {
            HealthState::Healthy if observed.healthy_since.happened() => {
                Some(self.believed(instance, observed.healthy_since))
            }
            HealthState::Healthy => Some(started),
            HealthState::None => Some(started + self.revision(instance.version).pod.setup()),
            HealthState::Starting | HealthState::Unhealthy => None,
        }
    }

    /// A time reported by a node. If the node's clock is slightly ahead, it counts as now. If it is far ahead, it is useless:
    /// then the time of the order counts.
    fn believed(&self, instance: &Instance, reported: Timestamp) -> Timestamp {
        if reported > self.now + FAR_AHEAD { instance.since } else { reported.min(self.now) }
    }

    /// Whether the containers have the desired spec. A node that reports no digest is trusted, except after a live update,
    /// which only the digest can confirm.
    fn has_its_spec(&self, instance: &Instance, observed: Option<&PodFacts>) -> bool {
        let Some(observed) = observed else { return false };
        let wanted = &self.revision(instance.version).digest;
        observed.containers.iter().all(|container| match container.spec_digest.as_str() {
            "" => instance.created_from.is_none(),
            digest => digest == wanted.as_str(),
        })
    }
}
