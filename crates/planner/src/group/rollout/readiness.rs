//! Decides whether a pod is ready, and since when.
//!
//! It runs; its health check says it is well, or without one its setup time has passed; every readiness gate is true; it is
//! not being taken out of service; and what its node says it was made from is what it is to be. Whether it has been ready
//! for long enough is not asked here. The surprise: times come from nodes, whose clocks may be ahead, so none counts as
//! later than now.

use std::time::Duration;

use contract::record::{Filling, Slot};
use contract::report::PodFacts;
use contract::state::HealthState;
use contract::time::Timestamp;

use super::super::{InstanceStatus, Planning};
use super::settings::drain_policy;
use crate::rollout::availability::Ready;

/// Clocks that are kept differ by less.
const FAR_AHEAD: Duration = Duration::from_secs(10);

impl Planning<'_> {
    pub(super) fn ready(&self, slot: &Slot, observed: Option<&PodFacts>) -> Ready {
        let is_kept = slot.draining.is_none() && self.has_its_spec(slot, observed);
        match self.serves_since(slot, observed).filter(|since| is_kept && *since <= self.now) {
            Some(since) => Ready { ready: true, since: Some(since.into()) },
            None => Ready { ready: false, since: None },
        }
    }

    /// Since when it could be sent work, or from when on it can; none when that is not known.
    pub(super) fn serves_since(&self, slot: &Slot, observed: Option<&PodFacts>) -> Option<Timestamp> {
        if slot.filling != Filling::Pod || self.status_of(slot, observed) != InstanceStatus::Running {
            return None;
        }
        let well = self.well_since(slot, observed?)?;
        let gates = self.record.spec.readiness_gates.iter().map(|gate| slot.gates.get(gate).copied());
        let gates: Option<Vec<Timestamp>> = gates.collect();
        let latest = gates?.into_iter().max().unwrap_or(Timestamp::NEVER);
        Some(well.max(latest.min(self.now)))
    }

    /// Gates of the group that are not true for the pod.
    pub(super) fn closed_gates(&self, slot: &Slot) -> Vec<&str> {
        let gates = self.record.spec.readiness_gates.iter().map(String::as_str);
        gates.filter(|gate| !slot.gates.contains_key(*gate)).collect()
    }

    /// When its gates are waited for no longer; none while they are not what keeps it from being ready.
    pub(super) fn gates_limit(&self, slot: &Slot, observed: Option<&PodFacts>) -> Option<Timestamp> {
        let is_up = slot.filling == Filling::Pod && self.status_of(slot, observed) == InstanceStatus::Running;
        let is_shut_out = is_up && slot.draining.is_none() && !self.closed_gates(slot).is_empty();
        let well = self.well_since(slot, observed.filter(|_| is_shut_out)?)?;
        // A node's clock may be behind, and what it has older than what is asked of it.
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

    /// A time a node told. From a clock that is a little ahead it is now; one that is far ahead says nothing, and would keep
    /// the pod from counting until its time has come: then all that is known is when the pod was ordered.
    fn believed(&self, slot: &Slot, told: Timestamp) -> Timestamp {
        if told > self.now + FAR_AHEAD { slot.since } else { told.min(self.now) }
    }

    /// What its node says it was made from is its spec. A node that does not say is believed, unless the pod was to be
    /// changed while it runs: then its word is the only sign that it was.
    fn has_its_spec(&self, slot: &Slot, observed: Option<&PodFacts>) -> bool {
        let Some(observed) = observed else { return false };
        let wanted = &self.revision(slot.version).digest;
        observed.containers.iter().all(|container| match container.spec_digest.as_str() {
            "" => slot.created_from.is_none(),
            digest => digest == wanted.as_str(),
        })
    }
}
