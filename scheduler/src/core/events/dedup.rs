//! Remembers the events that were emitted, so that each is emitted once.
//!
//! Code that changes a record does not report the start or the end of an operation. Instead every decision passes here before it
//! is committed, and the records it writes are compared with the known operations. The memory is not stored: a new leader takes
//! the operations that it finds as known, and reports once more why an instance is unschedulable.

use std::collections::BTreeMap;
use std::time::Duration;

use contract::command::Operation;
use contract::digest::Digest;
use contract::event::{Event, Kind};
use contract::keys::{self, Key};
use contract::name::GroupName;
use contract::time::Timestamp;
use planner::group::GroupPlan;

use crate::core::events;
use crate::core::io::{Effect, Write};
use crate::core::reconcile::waits::Wait;
use crate::core::state::State;

/// Interval of events about an unschedulable group: the reasons change with every byte of free memory.
const UNPLACEABLE_EVERY: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub(in crate::core) struct EventDedup {
    /// Operations whose start was reported, with the namespace of their group, which may be gone at their end.
    operations: BTreeMap<GroupName, (Operation, Timestamp, String)>,
    unplaced: BTreeMap<GroupName, Unplaced>,
    /// What stalled moves wait for.
    stalled: BTreeMap<GroupName, String>,
}

#[derive(Debug)]
struct Unplaced {
    reasons: Digest,
    reported_at: Timestamp,
    /// Every instance found a place since.
    over: bool,
}

impl EventDedup {
    /// The memory of a new leader: operations in `state` count as reported.
    pub(in crate::core) fn new(state: &State) -> Self {
        let operations = state.groups.iter().filter_map(|(name, group)| {
            let operation = group.record.operation.as_ref()?;
            Some((name.clone(), (operation.kind, operation.since, group.record.spec.namespace.clone())))
        });
        Self { operations: operations.collect(), unplaced: BTreeMap::new(), stalled: BTreeMap::new() }
    }

    /// What the decision with these writes means for operations; the state is the one after it.
    pub(in crate::core) fn operations(&mut self, state: &State, writes: &[Write], now: Timestamp) -> Vec<Effect> {
        let mut events = Vec::new();
        for write in writes {
            let (Write::Put { key, .. } | Write::Delete { key }) = write;
            if let Key::Group(name) = keys::parse(key) {
                self.operation(&name, state, now, &mut events);
            }
        }
        events
    }

    fn operation(&mut self, name: &GroupName, state: &State, now: Timestamp, events: &mut Vec<Effect>) {
        let record = state.groups.get(name).map(|group| &group.record);
        let present = record.and_then(|record| {
            let operation = record.operation.as_ref()?;
            Some((operation.kind, operation.since, record.spec.namespace.clone()))
        });
        let before = self.operations.get(name).cloned();
        if before == present {
            return;
        }
        let mut report = |message, namespace: &str| {
            let event = events::of_group(Kind::Operation, name, message, now);
            events.push(Effect::Record(Event { namespace: Some(namespace.to_owned()), ..event }));
        };
        if let Some((kind, since, namespace)) = before {
            let error = record.map(|record| record.last_error.as_str()).filter(|error| !error.is_empty());
            let error = error.map(|error| format!(": {error}")).unwrap_or_default();
            report(format!("{} ended after {}{error}", kind.word(), events::shown(now.since(since))), &namespace);
        }
        match present {
            Some((kind, since, namespace)) => {
                report(format!("{} began", kind.word()), &namespace);
                self.operations.insert(name.clone(), (kind, since, namespace));
            }
            None => drop(self.operations.remove(name)),
        }
        if record.is_none() {
            self.unplaced.remove(name);
            self.stalled.remove(name);
        }
    }

    /// Why instances that are to leave a node are still there, if that is news and not a move that proceeds.
    pub(super) fn stalled(&mut self, name: &GroupName, wait: Option<Wait>, now: Timestamp) -> Option<Effect> {
        let Some(Wait { reason, .. }) = wait.filter(|wait| wait.is_stalled) else {
            self.stalled.remove(name);
            return None;
        };
        if self.stalled.get(name) == Some(&reason) {
            return None;
        }
        let message = format!("moving instances to other nodes {reason}");
        self.stalled.insert(name.clone(), reason);
        Some(Effect::Record(events::of_group(Kind::Operation, name, message, now)))
    }

    /// Why instances of the group have no place, if that is news.
    pub(super) fn unplaceable(&mut self, name: &GroupName, plan: &GroupPlan, now: Timestamp) -> Option<Effect> {
        let known = self.unplaced.get_mut(name);
        let recent = known.as_ref().is_some_and(|known| now.since(known.reported_at) < UNPLACEABLE_EVERY);
        let Some(unplaced) = &plan.unplaced else {
            match known {
                Some(known) if recent || plan.waiting => known.over |= !plan.waiting,
                Some(_) => drop(self.unplaced.remove(name)),
                None => {}
            }
            return None;
        };
        let reasons = Digest::of(&unplaced.reasons);
        if recent || known.is_some_and(|known| known.reasons == reasons && !known.over) {
            return None;
        }
        self.unplaced.insert(name.clone(), Unplaced { reasons, reported_at: now, over: false });
        Some(events::unplaceable(name, &unplaced.sentence(), &unplaced.reasons, now))
    }
}
