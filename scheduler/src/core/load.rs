//! Turns stored keys and values into state: all of them for a new leader, one at a time for a standby.
//!
//! A group is made of several keys that may arrive in any order: a known one is changed by each, an unknown one is made of
//! all. A value that cannot be read is set aside with its reason; the group it belongs to is spared: unknown is not unwanted.

use std::collections::BTreeMap;

use contract::backup::RestoreRecord;
use contract::brakes::{ConstraintsRecord, EngineRecord};
use contract::keys::{self, Key};
use contract::name::GroupName;
use contract::notice::DeadLetter;
use contract::progress::Progress;
use contract::record::{
    CallbacksRecord, Cursor, DependencyRecord, GroupRecord, NodeRecord, PairsRecord, PlacementRecord, RevisionsRecord,
};
use contract::report::EngineState;
use contract::store::StoreRecord;
use contract::time::Timestamp;
use planner::rollout::conduct::Release;
use serde::de::DeserializeOwned;

use super::quarantine::{Object, attempt};
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
            Key::Placement(name) | Key::Release(name) | Key::Revisions(name) => {
                stored.contains_key(&keys::group(&name))
            }
            Key::Pairs(name) => stored.contains_key(&keys::dependency(&name)),
            Key::Group(_) | Key::Dependency(_) | Key::History(..) => false,
            Key::Node(_) | Key::NodeIntent(_) | Key::Outcome(_) => false,
            Key::Cursor | Key::Callbacks | Key::Engine | Key::Constraints | Key::Unknown => false,
            Key::Store | Key::Progress | Key::Restore | Key::RestorePart(..) => false,
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

/// Brings the state up to date with what is stored under `key` now. A panic counts as a value that cannot be read.
pub(super) fn refresh(state: &mut State, key: &str, stored: &Stored, quota_cores: u32) -> Result<(), Flaw> {
    match attempt(|| refresh_key(state, key, stored, quota_cores)) {
        Ok(read) => read,
        Err(panic) => {
            match Object::of_key(key) {
                Some(Object::Group(name)) => {
                    state.purge_group(&name);
                    state.spared.insert(name);
                }
                Some(Object::Dependency(name)) => {
                    state.purge_dependency(&name);
                    state.dependencies.spared.insert(name);
                }
                Some(Object::Node(_)) | None => {}
            }
            Err(Flaw { key: key.to_owned(), reason: format!("reading it panicked: {panic}") })
        }
    }
}

fn refresh_key(state: &mut State, key: &str, stored: &Stored, quota_cores: u32) -> Result<(), Flaw> {
    match keys::parse(key) {
        Key::Group(name) | Key::Placement(name) | Key::Release(name) | Key::Revisions(name) => {
            refresh_group(state, &name, key, stored, quota_cores)?;
        }
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
            None => {
                state.records.remove(&name);
                state.hosts.remove(&name);
            }
        },
        Key::NodeIntent(name) => {
            let intent = read(key, stored)?.unwrap_or_default();
            let own = state.records.get(&name).map(|record| record.facts.clone());
            state.set_intent(&name, intent, own.as_ref());
        }
        Key::Outcome(id) => match read(key, stored)? {
            Some(outcome) => state.outcomes.insert(outcome),
            None => state.outcomes.remove(&id),
        },
        Key::Cursor => {
            let cursor = read::<Cursor>(key, stored);
            state.no_cursor = cursor.as_ref().err().map(|flaw| flaw.reason.clone());
            state.cursor = cursor?.unwrap_or_default();
        }
        Key::Store => {
            let store = read::<StoreRecord>(key, stored);
            note_unsound(state, store.as_ref().err());
            state.store = store?.unwrap_or_default();
        }
        Key::Progress => {
            let progress = read::<Progress>(key, stored);
            note_unsound(state, progress.as_ref().err());
            state.progress = progress?;
        }
        Key::Restore => {
            let restore = read::<RestoreRecord>(key, stored);
            note_unsound(state, restore.as_ref().err());
            state.restore = restore?;
        }
        Key::RestorePart(..) => {}
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

fn note_unsound(state: &mut State, flaw: Option<&Flaw>) {
    if let Some(flaw) = flaw {
        state.unsound = Some(format!("{} cannot be read: {}", flaw.key, flaw.reason));
    }
}

fn refresh_group(
    state: &mut State,
    name: &GroupName,
    key: &str,
    stored: &Stored,
    quota_cores: u32,
) -> Result<(), Flaw> {
    // Of a group that is known only what changed is read again: its revisions are large and its placement changes often.
    let is_known = state.groups.contains_key(name) && !state.spared.contains(name);
    let is_new = |part: String| !is_known || part == key;
    let parts = read_parts(name, stored, is_new);
    match &parts {
        Err(_) => drop(state.spared.insert(name.clone())),
        Ok(_) => drop(state.spared.remove(name)),
    }
    let is_gone = !stored.contains_key(&keys::group(name));
    let parts = match parts {
        Ok(parts) if !is_gone => parts,
        parts => {
            state.drop_group(name);
            if parts.is_ok() {
                state.histories.forget(name);
            }
            return parts.map(drop);
        }
    };
    let Parts { record, placement, release, revisions } = parts;
    if let Some(record) = record {
        state.set_record(name, record, quota_cores);
    }
    if let Some(placement) = placement {
        state.set_slots(name, placement.slots);
    }
    let Some(group) = state.groups.get_mut(name) else { return Ok(()) };
    if let Some(release) = release {
        group.release = release;
    }
    if let Some(revisions) = revisions {
        group.past = revisions;
    }
    Ok(())
}

/// What a group is made of, as far as it was read.
struct Parts {
    record: Option<GroupRecord>,
    placement: Option<PlacementRecord>,
    release: Option<Option<Release>>,
    revisions: Option<RevisionsRecord>,
}

/// The parts of a group that are asked for: unreadable if one is.
fn read_parts(name: &GroupName, stored: &Stored, is_new: impl Fn(String) -> bool) -> Result<Parts, Flaw> {
    let (group, placement, release, revisions) =
        (keys::group(name), keys::placement(name), keys::release(name), keys::revisions(name));
    Ok(Parts {
        record: if is_new(group.clone()) { read(&group, stored)? } else { None },
        placement: if is_new(placement.clone()) { Some(read(&placement, stored)?.unwrap_or_default()) } else { None },
        release: if is_new(release.clone()) { Some(read(&release, stored)?) } else { None },
        revisions: if is_new(revisions.clone()) { Some(read(&revisions, stored)?.unwrap_or_default()) } else { None },
    })
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
