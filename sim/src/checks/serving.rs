//! Which pods are available, read from the engines, not from reports.
//!
//! A leader knows reports of the past. So this keeps the pods that were up recently, on which a decision may have counted.

use std::collections::BTreeMap;
use std::time::Duration;

use agent::core::io::Phase;
use contract::name::NodeName;
use contract::pod_id::PodId;
use contract::record::Instance;
use contract::state::HealthState;
use contract::time::Timestamp;
use testkit::engine::FakeEngine;

use crate::world::GroundTruth;
use crate::world::node_process::NodeProcess;

/// A leader may count on the last report until the node is lost (45 s), plus the delay of reports.
const LATELY: Duration = Duration::from_secs(75);

/// A pod that is up for this long is known to be up, even if several reports were lost.
const KNOWN: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Copy)]
struct Up {
    since: Timestamp,
    last: Timestamp,
}

#[derive(Debug, Default)]
pub struct Serving {
    pods: BTreeMap<(NodeName, PodId), Up>,
    looked: Timestamp,
}

impl Serving {
    pub fn look(&mut self, truth: &GroundTruth<'_>, now: Timestamp) {
        self.pods.retain(|_, up| now.since(up.last) <= LATELY);
        let before = std::mem::replace(&mut self.looked, now);
        for process in truth.nodes {
            for pod in serving(process, &truth.engines[process.engine]) {
                let up = self.pods.entry((process.owner.node.clone(), pod)).or_insert(Up { since: now, last: now });
                *up = Up { since: if up.last < before { now } else { up.since }, last: now };
            }
        }
    }

    /// Whether the pod is up, and a decision made now knows it.
    pub fn is_up(&self, pod: &(NodeName, PodId), now: Timestamp) -> bool {
        self.pods.get(pod).is_some_and(|up| up.last == now && now.since(up.since) >= KNOWN)
    }

    /// Whether a decision may have counted on the pod.
    pub fn was_up(&self, pod: &(NodeName, PodId)) -> bool {
        self.pods.contains_key(pod)
    }
}

/// Pods whose containers all run and are not unhealthy.
fn serving(process: &NodeProcess, engine: &FakeEngine) -> Vec<PodId> {
    let mut containers: BTreeMap<PodId, BTreeMap<usize, bool>> = BTreeMap::new();
    for seen in engine.inventory(&process.owner) {
        let is_well = matches!(seen.health, HealthState::None | HealthState::Healthy);
        let up = containers.entry(seen.identity.pod).or_default().entry(seen.identity.index).or_default();
        *up |= seen.phase == Phase::Running && is_well;
    }
    let is_whole = |(pod, up): &(PodId, BTreeMap<usize, bool>)| {
        let count = process.disk.order.spec_of(pod).map_or(1, |spec| spec.containers.len());
        up.len() >= count && up.values().all(|up| *up)
    };
    containers.into_iter().filter(is_whole).map(|(pod, _)| pod).collect()
}

/// Not draining, and all gates are open.
pub fn is_in_service(pod: &Instance, gates: &[String]) -> bool {
    pod.draining.is_none() && gates.iter().all(|gate| pod.gates.contains_key(gate))
}
