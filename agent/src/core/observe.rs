//! Derives memory from the observed containers: that a pod was created, that a requested start happened, since when it is
//! healthy, and which spec its containers have.

use std::collections::BTreeSet;

use contract::digest::Digest;
use contract::pod_id::{InstanceKey, PodId};
use contract::state::{HealthState, TargetState};
use contract::time::Timestamp;

use super::Core;
use super::io::{ContainerSeen, Phase, PodMemory, WellMemory};

impl Core {
    /// Updates the memory of an instance's pods from their containers.
    pub(super) fn observe_instance(&mut self, key: &InstanceKey, now: Timestamp) {
        let pods: Vec<(PodId, usize)> = self.ordered(key).map(|(pod, count)| (pod.clone(), count)).collect();
        for (pod, count) in pods {
            let of_pod = || self.cache.containers(key).filter(|seen| seen.identity.pod == pod);
            if count > 0 && of_pod().next().is_none() && !self.ledger.memory.contains_key(&pod) {
                // Not created yet.
                continue;
            }
            let there: Vec<usize> = of_pod().map(|seen| seen.identity.index).collect();
            let running: Vec<usize> =
                of_pod().filter(|seen| seen.phase == Phase::Running).map(|seen| seen.identity.index).collect();
            let complete = (0..count).all(|index| there.contains(&index));
            let well = well(of_pod().map(|seen| (seen, self.checks.health(seen))), count);
            if count > 0 && (0..count).all(|index| running.contains(&index)) {
                self.note_all_run(&pod);
            }
            self.note_origin(key, &pod);
            self.note_pod(&pod, complete, there.is_empty(), &running);
            self.note_well(&pod, well, now);
        }
    }

    /// A pod is outdated when an earlier order had another spec under its name. An agent that starts from an old ledger may
    /// compare with an old order: containers created from the current spec are not outdated.
    fn note_origin(&mut self, key: &InstanceKey, pod: &PodId) {
        let Some(memory) = self.ledger.memory.get(pod).filter(|memory| memory.outdated) else { return };
        let Some(spec) = self.ledger.order.spec_of(pod) else { return };
        let wanted = Digest::of(spec.as_ref()).to_string();
        let own = || self.cache.containers(key).filter(|seen| seen.identity.pod == *pod);
        let is_current = own().next().is_some() && own().all(|seen| digest_of(Some(memory), seen) == wanted);
        if is_current {
            self.memory_mut(pod).outdated = false;
        }
    }

    /// All containers run after failed attempts: Docker did the work and its answer was lost.
    fn note_all_run(&mut self, pod: &PodId) {
        if self.ledger.memory.get(pod).is_some_and(|memory| memory.failures > 0) {
            let memory = self.memory_mut(pod);
            memory.failures = 0;
            memory.retry_at = Timestamp::NEVER;
            memory.last_error.clear();
        }
    }

    fn note_pod(&mut self, pod: &PodId, complete: bool, nothing: bool, running: &[usize]) {
        let empty = PodMemory::default();
        let memory = self.ledger.memory.get(pod).unwrap_or(&empty);
        let wanted = self.ledger.order.pods.get(pod).is_some_and(|assignment| assignment.target == TargetState::Run);
        if memory.outdated && nothing {
            let memory = self.memory_mut(pod);
            *memory = PodMemory {
                stopped_by_order: std::mem::take(&mut memory.stopped_by_order),
                starts_done: memory.starts_done,
                restarts_done: memory.restarts_done,
                ..PodMemory::default()
            };
        } else if !memory.outdated && complete && !memory.created {
            self.memory_mut(pod).created = true;
        }
        let stopped_by_order =
            self.ledger.memory.get(pod).map_or(&empty.stopped_by_order, |memory| &memory.stopped_by_order);
        if wanted && stopped_by_order.iter().any(|index| running.contains(index)) {
            self.memory_mut(pod).stopped_by_order.retain(|index| !running.contains(index));
        }
    }

    /// A pod is healthy since it was first seen healthy after its last start.
    fn note_well(&mut self, pod: &PodId, started_at: Option<Timestamp>, now: Timestamp) {
        let before = self.ledger.memory.get(pod).map(|memory| memory.well).unwrap_or_default();
        let after = match started_at {
            None => WellMemory::default(),
            Some(started_at) if before.since.happened() && before.started_at == started_at => before,
            Some(started_at) => WellMemory { since: now, started_at },
        };
        if after != before {
            self.memory_mut(pod).well = after;
        }
    }
}

/// Digest of a container's spec: the one it was updated to, or created from.
pub(super) fn digest_of<'a>(memory: Option<&'a PodMemory>, seen: &'a ContainerSeen) -> &'a str {
    let updated = memory.and_then(|memory| memory.live.updated.get(&seen.identity.index));
    updated.filter(|updated| updated.id == seen.id).map_or(&seen.spec_digest, |updated| &updated.digest)
}

/// The last start of a pod's containers when all run and all health checks pass; none when one fails or none is checked.
fn well<'a>(containers: impl Iterator<Item = (&'a ContainerSeen, HealthState)>, count: usize) -> Option<Timestamp> {
    let running: Vec<(&ContainerSeen, HealthState)> =
        containers.filter(|(seen, _)| seen.phase == Phase::Running).collect();
    let indices: BTreeSet<usize> = running.iter().map(|(seen, _)| seen.identity.index).collect();
    let is_checked = running.iter().any(|(_, health)| *health == HealthState::Healthy);
    let is_ill = |health: HealthState| matches!(health, HealthState::Starting | HealthState::Unhealthy);
    let is_well = is_checked && indices.len() >= count && !running.iter().any(|(_, health)| is_ill(*health));
    running.iter().map(|(seen, _)| seen.started_at).max().filter(|_| is_well)
}
