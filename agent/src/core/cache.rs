//! The last known containers, sorted into lanes, and which lanes must be looked at again.
//!
//! Three sources tell about containers and may overtake each other: the end of a step is always right about its own
//! container, a single look may be older than that (told by its times), and an inventory says nothing about lanes
//! that moved while it was being taken.

use std::collections::{BTreeMap, BTreeSet};

use contract::pod_id::{InstanceKey, PodId};
use contract::time::Timestamp;
use planner::restart::History;

use super::io::{Action, ContainerSeen, Phase};

/// What was seen and what is under way.
#[derive(Debug, Default)]
pub(super) struct Cache {
    containers: BTreeMap<String, ContainerSeen>,
    instances: BTreeMap<InstanceKey, InstanceState>,
    waits: BTreeSet<(Timestamp, InstanceKey)>,
    dirty: BTreeSet<InstanceKey>,
    /// Lanes that moved since the inventory that is being taken was asked for.
    touched: BTreeSet<InstanceKey>,
    /// Inventories that were asked for and are not there.
    expected: u32,
    /// Containers whose end was the engine's or the machine's doing.
    excused: BTreeSet<String>,
}

/// One key's own state.
#[derive(Debug, Default)]
pub(super) struct InstanceState {
    /// Its containers, in the order of their ids; hardly ever more than one or two.
    ids: Vec<String>,
    wait: Option<Timestamp>,
    /// The step under way.
    pub(super) busy: Option<Box<Busy>>,
    /// Steps in a row that came to nothing for a reason outside the pod.
    pub(super) unreachable_count: u32,
    /// No step before this.
    pub(super) hold_until: Timestamp,
    /// What the last stop or removal that failed said.
    pub(super) trouble: String,
    /// The pod whose container the engine was asked to make and may have made, though it did not answer.
    pub(super) unsure: Option<PodId>,
}

/// A step under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Busy {
    /// The step.
    pub(super) action: Action,
    /// The restarts to remember when a start works.
    pub(super) history: Option<History>,
}

impl InstanceState {
    /// Whether a container of the pod is being made at this moment, or may have been without our seeing it yet.
    pub(super) fn is_making(&self, wanted: &PodId) -> bool {
        if self.unsure.as_ref() == Some(wanted) {
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
    /// The containers of one key.
    pub(super) fn containers(&self, key: &InstanceKey) -> impl Iterator<Item = &ContainerSeen> {
        let ids = self.instances.get(key).map(|key| &key.ids);
        ids.into_iter().flatten().filter_map(|id| self.containers.get(id))
    }

    /// How many containers there are.
    pub(super) fn count(&self) -> usize {
        self.containers.len()
    }

    /// One container.
    pub(super) fn container(&self, id: &str) -> Option<&ContainerSeen> {
        self.containers.get(id)
    }

    /// A key's own state, if it has any.
    pub(super) fn state(&self, key: &InstanceKey) -> Option<&InstanceState> {
        self.instances.get(key)
    }

    /// A key's own state, to change it.
    pub(super) fn state_mut(&mut self, key: &InstanceKey) -> &mut InstanceState {
        self.instances.entry(key.clone()).or_default()
    }

    /// True when the container ended through no fault of its own.
    pub(super) fn is_excused(&self, id: &str) -> bool {
        self.excused.contains(id)
    }

    /// A key must be looked at again.
    pub(super) fn mark(&mut self, key: &InstanceKey) {
        if !self.dirty.contains(key) {
            self.dirty.insert(key.clone());
        }
    }

    /// Every key that has a container must be looked at again.
    pub(super) fn mark_all(&mut self) {
        self.dirty.extend(self.instances.keys().cloned());
    }

    /// Lanes whose time has come must be looked at again.
    pub(super) fn mark_due(&mut self, now: Timestamp) {
        while self.waits.first().is_some_and(|(time, _)| *time <= now) {
            let Some((_, key)) = self.waits.pop_first() else { return };
            self.state_mut(&key).wait = None;
            self.mark(&key);
        }
    }

    /// Takes the lanes to look at.
    pub(super) fn take_dirty(&mut self) -> BTreeSet<InstanceKey> {
        std::mem::take(&mut self.dirty)
    }

    /// Sets when a key must be looked at again by itself.
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

    /// When the next key must be looked at by itself.
    pub(super) fn next_wait(&self) -> Option<Timestamp> {
        self.waits.first().map(|(time, _)| *time)
    }

    /// A step begins in a key.
    pub(super) fn begin(&mut self, key: &InstanceKey, busy: Busy) {
        self.touch(key);
        self.wait(key, None);
        self.state_mut(key).busy = Some(Box::new(busy));
    }

    /// An inventory is being taken from now on.
    pub(super) fn inventory_begins(&mut self) {
        self.expected = self.expected.saturating_add(1);
        self.touched =
            self.instances.iter().filter(|(_, state)| state.busy.is_some()).map(|(key, _)| key.clone()).collect();
    }

    /// An inventory was taken. With `excuse_since`, ends after that time, and ends of containers that ran when last
    /// seen, are excused.
    pub(super) fn inventory(&mut self, found: Vec<ContainerSeen>, excuse_since: Option<Timestamp>) {
        let mut lost: BTreeSet<String> = self.containers.keys().cloned().collect();
        for seen in found {
            lost.remove(&seen.id);
            if self.touched.contains(&seen.identity.pod.key()) {
                continue;
            }
            if let Some(since) = excuse_since {
                self.excuse(&seen, since);
            }
            self.put(seen);
        }
        for id in lost {
            let moved = self.containers.get(&id).is_some_and(|seen| self.touched.contains(&seen.identity.pod.key()));
            if !moved {
                self.gone(&id);
            }
        }
        let unsure = self.instances.iter().filter(|(key, state)| state.unsure.is_some() && !self.touched.contains(key));
        for key in unsure.map(|(key, _)| key.clone()).collect::<Vec<_>>() {
            self.state_mut(&key).unsure = None;
            self.mark(&key);
        }
        self.inventory_ends();
    }

    /// An inventory came, whatever became of it: lanes are noted only while another one is under way.
    pub(super) fn inventory_ends(&mut self) {
        self.expected = self.expected.saturating_sub(1);
        if self.expected == 0 {
            self.touched.clear();
        }
    }

    /// One container was looked at; `excuse_since` as for an inventory. False when the look is older than what is known: only
    /// an inventory can tell.
    pub(super) fn looked(&mut self, id: &str, seen: Option<ContainerSeen>, excuse_since: Option<Timestamp>) -> bool {
        let Some(seen) = seen else {
            self.gone(id);
            return true;
        };
        if self.containers.get(id).is_some_and(|known| latest(known) > latest(&seen)) {
            return false;
        }
        self.touch(&seen.identity.pod.key());
        if let Some(since) = excuse_since {
            self.excuse(&seen, since);
        }
        self.put(seen);
        true
    }

    /// Notes a container as it is.
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

    /// Notes that a container is not there any more.
    pub(super) fn gone(&mut self, id: &str) {
        self.excused.remove(id);
        if let Some(seen) = self.containers.remove(id) {
            let key = seen.identity.pod.key();
            self.state_mut(&key).ids.retain(|other| other != id);
            self.touch(&key);
            self.mark(&key);
        }
    }

    /// Forgets a key that has nothing left to remember.
    pub(super) fn tidy(&mut self, key: &InstanceKey) {
        let done = |state: &InstanceState| {
            state.ids.is_empty() && state.busy.is_none() && state.wait.is_none() && state.unsure.is_none()
        };
        if self.instances.get(key).is_some_and(done) {
            self.instances.remove(key);
        }
    }

    /// A key moved: an inventory asked for earlier says nothing about it.
    pub(super) fn touch(&mut self, key: &InstanceKey) {
        if self.expected > 0 && !self.touched.contains(key) {
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

/// The last thing that happened to a container, by the engine's clock.
fn latest(seen: &ContainerSeen) -> Timestamp {
    seen.started_at.max(seen.finished_at)
}
