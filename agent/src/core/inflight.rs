//! Knows what an earlier run of this agent may have left under way with the engine.
//!
//! An engine finishes what it was asked for although nobody waits for the answer any more. So a pod this run began with, in
//! its order or lately withdrawn, that is not there may still come, and is told of until a look that began late enough does not show it: whoever takes it
//! for gone before would let it run somewhere else beside.

use std::collections::BTreeSet;
use std::time::Duration;

use contract::pod_id::{InstanceKey, PodId};
use contract::time::Timestamp;

use super::instance_range;
use super::io::Ledger;

/// An engine that is at something for longer is found to hang, and nothing is concluded from what it shows.
const UNDER_WAY: Duration = Duration::from_secs(11);

/// Pods that may still come.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    pods: BTreeSet<PodId>,
    /// A look that began then or later shows them, if they are there.
    shown_from: Timestamp,
}

impl InFlight {
    /// A run begins with this ledger.
    pub(super) fn of(ledger: &Ledger, now: Timestamp) -> Self {
        let pods = ledger.order.pods.keys().chain(&ledger.coming);
        Self { pods: pods.cloned().collect(), shown_from: now + UNDER_WAY }
    }
    /// The pod may still come.
    pub(super) fn contains(&self, pod: &PodId) -> bool {
        self.pods.contains(pod)
    }
    /// Those of one instance.
    pub(super) fn pods_of(&self, key: &InstanceKey) -> impl Iterator<Item = &PodId> {
        self.pods.range(instance_range(key))
    }
    /// When a look is due that settles it; none when there is nothing to settle.
    pub(super) fn look_at(&self) -> Option<Timestamp> {
        (!self.pods.is_empty()).then_some(self.shown_from)
    }
    /// The engine was looked at, from `asked_at` on. Whoever is there needs no doubt; in the end nobody does. The instances of which
    /// there is something to tell now.
    pub(super) fn looked(&mut self, asked_at: Timestamp, is_there: impl Fn(&PodId) -> bool) -> BTreeSet<InstanceKey> {
        let concerned = self.pods.iter().map(PodId::key).collect();
        let is_late = asked_at >= self.shown_from;
        self.pods.retain(|pod| !is_late && !is_there(pod));
        concerned
    }
}
