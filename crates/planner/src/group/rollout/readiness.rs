//! Decides whether a pod is ready, and since when.
//!
//! It runs; its health check passes, or without one its setup time is over; every gate is open; it is not draining; and its
//! containers have the desired spec. `MinReadySeconds` is not checked here. The times come from nodes whose clocks may be
//! ahead, so none counts as later than now.

use std::time::Duration;

use contract::record::{Filling, Slot};
use contract::report::PodFacts;
use contract::state::HealthState;
use contract::time::Timestamp;

use super::super::{Planning, PodStatus};
use super::settings::drain_policy;
use crate::rollout::availability::Ready;

/// Synchronised clocks differ by less.
const FAR_AHEAD: Duration = Duration::from_secs(10);

impl Planning<'_> {
    pub(super) fn ready(&self, slot: &Slot, observed: Option<&PodFacts>) -> Ready {
        let is_kept = slot.draining.is_none() && self.has_its_spec(slot, observed);
        match self.serves_since(slot, observed).filter(|since| is_kept && *since <= self.now) {
            Some(since) => Ready { ready: true, since: Some(since.into()) },
            None => Ready { ready: false, since: None },
        }
    }

    /// Since when the pod could serve, or from when on it can; none if that is unknown.
    pub(super) fn serves_since(&self, slot: &Slot, observed: Option<&PodFacts>) -> Option<Timestamp> {
        if slot.filling != Filling::Pod || self.status_of(slot, observed) != PodStatus::Running {
            return None;
        }
        let well = self.well_since(slot, observed?)?;
        let gates = self.record.spec.readiness_gates.iter().map(|gate| slot.gates.get(gate).copied());
        let gates: Option<Vec<Timestamp>> = gates.collect();
        let latest = gates?.into_iter().max().unwrap_or(Timestamp::NEVER);
        Some(well.max(latest.min(self.now)))
    }

    pub(super) fn closed_gates(&self, slot: &Slot) -> Vec<&str> {
        let gates = self.record.spec.readiness_gates.iter().map(String::as_str);
        gates.filter(|gate| !slot.gates.contains_key(*gate)).collect()
    }

    /// When the wait for closed gates ends; none while something else keeps the pod from being ready.
    pub(super) fn gates_limit(&self, slot: &Slot, observed: Option<&PodFacts>) -> Option<Timestamp> {
        let is_up = slot.filling == Filling::Pod && self.status_of(slot, observed) == PodStatus::Running;
        let is_shut_out = is_up && slot.draining.is_none() && !self.closed_gates(slot).is_empty();
        let well = self.well_since(slot, observed.filter(|_| is_shut_out)?)?;
        // The node's clock may be behind, and its containers older than the slot's last change.
        let since = well.max(slot.since).max(slot.gates_closed_at);
        Some(self.waits_from(since) + drain_policy(&self.record.spec)?.timeout)
    }

    fn well_since(&self, slot: &Slot, observed: &PodFacts) -> Option<Timestamp> {
        let started = observed.containers.iter().map(|container| container.started_at).max().unwrap_or_default();
        let started = self.believed(slot, started);
        match observed.health {
            HealthState::Healthy if observed.healthy_since.happened() => {
                Some(self.believed(slot, observed.healthy_since))
            }
            HealthState::Healthy => Some(started),
            HealthState::None => Some(started + self.revision(slot.version).pod.setup()),
            HealthState::Starting | HealthState::Unhealthy => None,
        }
    }

    /// A time reported by a node. If the node's clock is slightly ahead, it counts as now. If it is far ahead, it is useless:
    /// then the time of the order counts.
    fn believed(&self, slot: &Slot, reported: Timestamp) -> Timestamp {
        if reported > self.now + FAR_AHEAD { slot.since } else { reported.min(self.now) }
    }

    /// Whether the containers have the desired spec. A node that reports no digest is trusted, except after a live update,
    /// which only the digest can confirm.
    fn has_its_spec(&self, slot: &Slot, observed: Option<&PodFacts>) -> bool {
        let Some(observed) = observed else { return false };
        let wanted = &self.revision(slot.version).digest;
        observed.containers.iter().all(|container| match container.spec_digest.as_str() {
            "" => slot.created_from.is_none(),
            digest => digest == wanted.as_str(),
        })
    }
}
