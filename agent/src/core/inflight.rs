//! Container creations that may still be in flight in Docker after a restart of the agent.
//!
//! Docker finishes a create although the agent that requested it died. So after a start the agent reports every pod of its
//! order, and pods that left the order during their creation, as being created, until the pod is there or until an inventory
//! that started at least 11 s after the start of the agent does not list it. A leader that took the pod for gone earlier would start it
//! elsewhere as well.

use std::collections::BTreeSet;
use std::time::Duration;

use contract::pod_id::{InstanceKey, PodId};
use contract::time::Timestamp;

use super::instance_range;
use super::io::Ledger;

/// A request that takes longer makes the agent report the engine as hung.
const LONGEST_CREATE: Duration = Duration::from_secs(11);

/// Pods whose creation may be in flight.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    pods: BTreeSet<PodId>,
    /// An inventory requested at this time or later is conclusive.
    conclusive_from: Timestamp,
}

impl InFlight {
    /// At the start of the agent, from its ledger.
    pub(super) fn at_start(ledger: &Ledger, now: Timestamp) -> Self {
        let pods = ledger.order.pods.keys().chain(&ledger.coming);
        Self { pods: pods.cloned().collect(), conclusive_from: now + LONGEST_CREATE }
    }

    pub(super) fn contains(&self, pod: &PodId) -> bool {
        self.pods.contains(pod)
    }

    pub(super) fn pods_of(&self, key: &InstanceKey) -> impl Iterator<Item = &PodId> {
        self.pods.range(instance_range(key))
    }

    /// When to take the conclusive inventory; none when no creation is in doubt.
    pub(super) fn inventory_at(&self) -> Option<Timestamp> {
        (!self.pods.is_empty()).then_some(self.conclusive_from)
    }

    /// Drops pods that are there; drops all of them when the inventory was requested late enough. Returns the instances
    /// whose facts may have changed.
    pub(super) fn inventory_taken(
        &mut self,
        requested_at: Timestamp,
        is_there: impl Fn(&PodId) -> bool,
    ) -> BTreeSet<InstanceKey> {
        let concerned = self.pods.iter().map(PodId::key).collect();
        let is_conclusive = requested_at >= self.conclusive_from;
        self.pods.retain(|pod| !is_conclusive && !is_there(pod));
        concerned
    }
}
