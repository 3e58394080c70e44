//! Who serves: seen on the engines, not in reports.
//!
//! A leader knows what was reported some time ago. So beside what is up now there is what was up lately, which is what a
//! decision may have counted on.

use std::collections::BTreeMap;
use std::time::Duration;

use agent::core::io::Phase;
use contract::name::NodeName;
use contract::pod_id::PodId;
use contract::record::Slot;
use contract::state::HealthState;
use contract::time::Timestamp;

use crate::world::GroundTruth;
use crate::world::engine::Engine;
use crate::world::node_process::NodeProcess;

/// A leader may count on what it last heard until the node is lost; a report takes its time on top of that.
const LATELY: Duration = Duration::from_secs(75);

/// Who is up for so long is known to be: a report takes its time, and in bad conditions several are lost.
const KNOWN: Duration = Duration::from_secs(30);

/// A time in which a pod was up.
#[derive(Debug, Clone, Copy)]
struct Up {
    since: Timestamp,
    last: Timestamp,
}

/// When each pod was last up.
#[derive(Debug, Default)]
pub struct Serving {
    pods: BTreeMap<(NodeName, PodId), Up>,
    looked: Timestamp,
}

impl Serving {
    /// Looks at every engine.
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

    /// The pod is up, and for so long that a decision made now knows it.
    pub fn is_up(&self, pod: &(NodeName, PodId), now: Timestamp) -> bool {
        self.pods.get(pod).is_some_and(|up| up.last == now && now.since(up.since) >= KNOWN)
    }

    /// A decision may have counted on it.
    pub fn was_up(&self, pod: &(NodeName, PodId)) -> bool {
        self.pods.contains_key(pod)
    }
}

/// The pods of a node all of whose containers run and are well: one that ended alone takes its pod out of service.
fn serving(process: &NodeProcess, engine: &Engine) -> Vec<PodId> {
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

/// Nothing but its containers could keep the pod from serving.
pub fn is_in_service(pod: &Slot, gates: &[String]) -> bool {
    pod.draining.is_none() && gates.iter().all(|gate| pod.gates.contains_key(gate))
}
