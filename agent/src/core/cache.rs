//! The last known containers by instance, and the instances to reconcile.
//!
//! Three sources report containers and may overtake each other. The result of an action is always right about its own
//! container. A single inspection may be older than the cache; its start and exit times show that. An inventory is ignored
//! for instances that changed while it was taken.

use std::collections::{BTreeMap, BTreeSet};

use contract::pod_id::{InstanceKey, PodId};
use contract::time::Timestamp;
use planner::restart::RestartCount;

use super::io::{Action, ContainerSeen, Phase};

#[derive(Debug, Default)]
pub(super) struct Cache {
    containers: BTreeMap<String, ContainerSeen>,
    instances: BTreeMap<InstanceKey, InstanceState>,
    waits: BTreeSet<(Timestamp, InstanceKey)>,
    dirty: BTreeSet<InstanceKey>,
    /// Instances that changed since the pending inventory was requested.
    touched: BTreeSet<InstanceKey>,
    /// Inventories requested and not received.
    pending_inventories: u32,
    /// Containers that exited because the engine or the machine stopped.
    excused: BTreeSet<String>,
}

/// The agent's memory of one instance.
#[derive(Debug, Default)]
pub(super) struct InstanceState {
    /// Its containers, sorted by id; rarely more than two.
    ids: Vec<String>,
    wait: Option<Timestamp>,
    /// The action in progress.
    pub(super) busy: Option<Box<Busy>>,
    /// Actions in a row that failed for a reason outside the pod.
    pub(super) failures: u32,
    /// No action before this time.
    pub(super) retry_at: Timestamp,
    /// Error of the last failed stop, removal or replacement.
    pub(super) last_error: String,
    /// A pod whose container may exist, because Docker did not answer the create.
    pub(super) maybe_created: Option<PodId>,
}

/// An action in progress.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Busy {
    pub(super) action: Action,
    /// The restart history to store when a start succeeds.
    pub(super) history: Option<RestartCount>,
}

impl InstanceState {
    /// Whether a container of the pod is being created, or may have been created unnoticed.
    pub(super) fn is_creating(&self, wanted: &PodId) -> bool {
        if self.maybe_created.as_ref() == Some(wanted) {
            return true;
        }
        match self.busy.as_ref().map(|busy| &busy.action) {
            Some(Action::Create { pod, .. } | Action::Replace { pod, .. }) => pod == wanted,
            Some(
                Action::Update { .. }
                | Action::ReadEnd { .. }
                | Action::Start { .. }
                | Action::Stop { .. }
                | Action::Remove { .. },
            )
            | None => false,
        }
    }
}

impl Cache {
    pub(super) fn containers(&self, key: &InstanceKey) -> impl Iterator<Item = &ContainerSeen> {
        let ids = self.instances.get(key).map(|key| &key.ids);
        ids.into_iter().flatten().filter_map(|id| self.containers.get(id))
    }

    pub(super) fn count(&self) -> usize {
        self.containers.len()
    }

    pub(super) fn container(&self, id: &str) -> Option<&ContainerSeen> {
        self.containers.get(id)
    }

    pub(super) fn state(&self, key: &InstanceKey) -> Option<&InstanceState> {
        self.instances.get(key)
    }

    pub(super) fn state_mut(&mut self, key: &InstanceKey) -> &mut InstanceState {
        self.instances.entry(key.clone()).or_default()
    }

    pub(super) fn is_excused(&self, id: &str) -> bool {
        self.excused.contains(id)
    }

    /// Queues an instance for reconciliation.
    pub(super) fn mark(&mut self, key: &InstanceKey) {
        if !self.dirty.contains(key) {
            self.dirty.insert(key.clone());
        }
    }

    /// Queues every known instance.
    pub(super) fn mark_all(&mut self) {
        self.dirty.extend(self.instances.keys().cloned());
    }

    /// Queues instances whose wait is over.
    pub(super) fn mark_due(&mut self, now: Timestamp) {
        while self.waits.first().is_some_and(|(time, _)| *time <= now) {
            let Some((_, key)) = self.waits.pop_first() else { return };
            self.state_mut(&key).wait = None;
            self.mark(&key);
        }
    }

    /// Takes the queued instances.
    pub(super) fn take_dirty(&mut self) -> BTreeSet<InstanceKey> {
        std::mem::take(&mut self.dirty)
    }

    /// Sets when an instance is queued by time.
    pub(super) fn wait(&mut self, key: &InstanceKey, time: Option<Timestamp>) {
        let before = match time {
            Some(_) => std::mem::replace(&mut self.state_mut(key).wait, time),
            None => self.instances.get_mut(key).and_then(|state| state.wait.take()),
        };
        if let Some(before) = before {
            self.waits.remove(&(before, key.clone()));
        }
        if let Some(time) = time {
            self.waits.insert((time, key.clone()));
        }
    }

    /// When the next wait is over.
    pub(super) fn next_wait(&self) -> Option<Timestamp> {
        self.waits.first().map(|(time, _)| *time)
    }

    pub(super) fn begin(&mut self, key: &InstanceKey, busy: Busy) {
        self.touch(key);
        self.wait(key, None);
        self.state_mut(key).busy = Some(Box::new(busy));
    }

    pub(super) fn inventory_requested(&mut self) {
        self.pending_inventories = self.pending_inventories.saturating_add(1);
        self.touched =
            self.instances.iter().filter(|(_, state)| state.busy.is_some()).map(|(key, _)| key.clone()).collect();
    }

    /// Replaces the cache by an inventory. With `excused_since`, exits after that time, and exits of containers that the
    /// cache has as running, are excused.
    pub(super) fn inventory(&mut self, found: Vec<ContainerSeen>, excused_since: Option<Timestamp>) {
        let mut lost: BTreeSet<String> = self.containers.keys().cloned().collect();
        for seen in found {
            lost.remove(&seen.id);
            if self.touched.contains(&seen.identity.pod.key()) {
                continue;
            }
            if let Some(since) = excused_since {
                self.excuse(&seen, since);
            }
            self.put(seen);
        }
        for id in lost {
            let changed = self.containers.get(&id).is_some_and(|seen| self.touched.contains(&seen.identity.pod.key()));
            if !changed {
                self.remove(&id);
            }
        }
        let maybe_created =
            self.instances.iter().filter(|(key, state)| state.maybe_created.is_some() && !self.touched.contains(key));
        for key in maybe_created.map(|(key, _)| key.clone()).collect::<Vec<_>>() {
            self.state_mut(&key).maybe_created = None;
            self.mark(&key);
        }
        self.inventory_received();
    }

    /// An inventory arrived, used or not. Changes are tracked only while another one is pending.
    pub(super) fn inventory_received(&mut self) {
        self.pending_inventories = self.pending_inventories.saturating_sub(1);
        if self.pending_inventories == 0 {
            self.touched.clear();
        }
    }

    /// Stores the inspection of one container. False when it is older than the cache: then only an inventory helps.
    pub(super) fn inspected(
        &mut self,
        id: &str,
        seen: Option<ContainerSeen>,
        excused_since: Option<Timestamp>,
    ) -> bool {
        let Some(seen) = seen else {
            self.remove(id);
            return true;
        };
        if self.containers.get(id).is_some_and(|known| latest(known) > latest(&seen)) {
            return false;
        }
        self.touch(&seen.identity.pod.key());
        if let Some(since) = excused_since {
            self.excuse(&seen, since);
        }
        self.put(seen);
        true
    }

    pub(super) fn put(&mut self, seen: ContainerSeen) {
        let key = seen.identity.pod.key();
        if self.containers.get(&seen.id) == Some(&seen) {
            return;
        }
        if seen.phase == Phase::Running {
            self.excused.remove(&seen.id);
        }
        self.mark(&key);
        let ids = &mut self.state_mut(&key).ids;
        if let Err(place) = ids.binary_search(&seen.id) {
            ids.reserve_exact(1);
            ids.insert(place, seen.id.clone());
        }
        self.containers.insert(seen.id.clone(), seen);
    }

    pub(super) fn remove(&mut self, id: &str) {
        self.excused.remove(id);
        if let Some(seen) = self.containers.remove(id) {
            let key = seen.identity.pod.key();
            self.state_mut(&key).ids.retain(|other| other != id);
            self.touch(&key);
            self.mark(&key);
        }
    }

    /// Drops an instance without state.
    pub(super) fn tidy(&mut self, key: &InstanceKey) {
        let done = |state: &InstanceState| {
            state.ids.is_empty() && state.busy.is_none() && state.wait.is_none() && state.maybe_created.is_none()
        };
        if self.instances.get(key).is_some_and(done) {
            self.instances.remove(key);
        }
    }

    /// An instance changed: a pending inventory is outdated for it.
    pub(super) fn touch(&mut self, key: &InstanceKey) {
        if self.pending_inventories > 0 && !self.touched.contains(key) {
            self.touched.insert(key.clone());
        }
    }

    fn excuse(&mut self, seen: &ContainerSeen, since: Timestamp) {
        let ran = self.containers.get(&seen.id).is_some_and(|known| known.phase == Phase::Running);
        if seen.phase == Phase::Exited && (ran || seen.finished_at >= since) {
            self.excused.insert(seen.id.clone());
        }
    }
}

/// The last start or exit of a container, by Docker's clock.
fn latest(seen: &ContainerSeen) -> Timestamp {
    seen.started_at.max(seen.finished_at)
}
