//! Turns stored keys and values into state: all of them for a new leader, one at a time for a standby.
//!
//! A group is made of two keys that may arrive in either order, so both are looked at when either changes. A value that
//! cannot be read is set aside with its reason; the group it belongs to is spared: unknown is not unwanted.

use std::collections::BTreeMap;

use contract::brakes::{ConstraintsRecord, EngineRecord};
use contract::keys::{self, Key};
use contract::name::GroupName;
use contract::notice::DeadLetter;
use contract::record::{
    CallbacksRecord, Cursor, DependencyRecord, GroupRecord, NodeRecord, PairsRecord, PlacementRecord,
};
use contract::report::EngineState;
use contract::time::Timestamp;
use serde::de::DeserializeOwned;

use super::state::State;

/// Stored keys and values as they are.
pub(super) type Stored = BTreeMap<String, Vec<u8>>;

/// The state all stored values make, and the values nobody can read.
pub(super) fn load(stored: &Stored, quota_cores: u32, now: Timestamp) -> (State, Vec<DeadLetter>) {
    let mut state = State::default();
    let mut unread = Vec::new();
    for key in stored.keys() {
        // A group is loaded with its intent; its placement would only load it twice. So is a dependency pod.
        let twice = match keys::parse(key) {
            Key::Placement(name) => stored.contains_key(&keys::group(&name)),
            Key::Pairs(name) => stored.contains_key(&keys::dependency(&name)),
            Key::Group(_) | Key::Dependency(_) | Key::History(..) | Key::Node(_) | Key::Outcome(_) => false,
            Key::Cursor | Key::Callbacks | Key::Engine | Key::Constraints | Key::Unknown => false,
        };
        if twice {
            continue;
        }
        unread.extend(refresh(&mut state, key, stored, quota_cores).err().map(|flaw| flaw.letter(stored, now)));
    }
    (state, unread)
}

/// A value that cannot be read.
pub(super) struct Flaw {
    key: String,
    reason: String,
}

impl Flaw {
    pub(super) fn letter(&self, stored: &Stored, now: Timestamp) -> DeadLetter {
        let value = stored.get(&self.key).map_or(&[][..], Vec::as_slice);
        DeadLetter::new(&self.key, self.reason.clone(), value, now)
    }
}

/// Brings the state up to date with what is stored under `key` now.
pub(super) fn refresh(state: &mut State, key: &str, stored: &Stored, quota_cores: u32) -> Result<(), Flaw> {
    match keys::parse(key) {
        Key::Group(name) | Key::Placement(name) => refresh_group(state, &name, stored, quota_cores)?,
        Key::Dependency(name) | Key::Pairs(name) => refresh_dependency(state, &name, stored, quota_cores)?,
        Key::History(name, page) => match read(key, stored)? {
            Some(record) => state.histories.read(&name, page, &record),
            None => state.histories.drop_page(&name, page),
        },
        Key::Node(name) => match read::<NodeRecord>(key, stored)? {
            Some(record) => {
                let engine = state.hosts.get(&name).map_or(EngineState::Up, |host| host.engine);
                state.put_host(&name, &record.facts, engine);
                state.records.insert(name, record);
            }
            None => drop(state.records.remove(&name)),
        },
        Key::Outcome(id) => match read(key, stored)? {
            Some(outcome) => state.outcomes.insert(outcome),
            None => state.outcomes.remove(&id),
        },
        Key::Cursor => {
            let cursor = read::<Cursor>(key, stored);
            state.no_cursor = cursor.as_ref().err().map(|flaw| flaw.reason.clone());
            state.cursor = cursor?.unwrap_or_default();
        }
        Key::Callbacks => state.callbacks = read::<CallbacksRecord>(key, stored)?.unwrap_or_default().urls,
        Key::Engine => {
            let engine = read::<EngineRecord>(key, stored);
            state.engine_unread = engine.is_err();
            // Nobody knows what was held back: nothing is planned until somebody says so.
            let unread = EngineRecord { running: false, ..EngineRecord::default() };
            state.engine = engine.as_ref().map_or(unread, |engine| engine.unwrap_or_default());
            engine?;
        }
        Key::Constraints => {
            state.constraints = read::<ConstraintsRecord>(key, stored)?.unwrap_or_default().constraints;
        }
        Key::Unknown => {}
    }
    Ok(())
}

fn refresh_group(state: &mut State, name: &GroupName, stored: &Stored, quota_cores: u32) -> Result<(), Flaw> {
    let both = read_both::<GroupRecord, PlacementRecord>(&keys::group(name), &keys::placement(name), stored);
    match &both {
        Err(_) => drop(state.spared.insert(name.clone())),
        Ok(_) => drop(state.spared.remove(name)),
    }
    let Ok((Some(record), placement)) = both else {
        state.drop_group(name);
        if both.is_ok() {
            state.histories.forget(name);
        }
        return both.map(drop);
    };
    state.put_group(name, record, quota_cores);
    state.set_slots(name, placement.unwrap_or_default().slots);
    Ok(())
}

fn refresh_dependency(state: &mut State, name: &GroupName, stored: &Stored, quota_cores: u32) -> Result<(), Flaw> {
    let both = read_both::<DependencyRecord, PairsRecord>(&keys::dependency(name), &keys::pairs(name), stored);
    match &both {
        Err(_) => drop(state.dependencies.spared.insert(name.clone())),
        Ok(_) => drop(state.dependencies.spared.remove(name)),
    }
    let Ok((Some(record), pairs)) = both else {
        state.drop_dependency(name);
        return both.map(drop);
    };
    state.put_dependency(name, record, pairs.unwrap_or_default().pairs, quota_cores);
    Ok(())
}

/// What is wanted and where it is: unreadable if either is.
fn read_both<A: DeserializeOwned, B: DeserializeOwned>(
    intent: &str,
    plan: &str,
    stored: &Stored,
) -> Result<(Option<A>, Option<B>), Flaw> {
    Ok((read(intent, stored)?, read(plan, stored)?))
}

fn read<T: DeserializeOwned>(key: &str, stored: &Stored) -> Result<Option<T>, Flaw> {
    let Some(value) = stored.get(key) else { return Ok(None) };
    let flaw = |error: serde_json::Error| Flaw { key: key.to_owned(), reason: error.to_string() };
    serde_json::from_slice(value).map(Some).map_err(flaw)
}
