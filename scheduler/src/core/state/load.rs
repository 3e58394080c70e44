//! Reads the state from stored keys: all of them for a new leader, one at a time for a standby.
//!
//! A group consists of several keys that may arrive in any order. A key of a known group updates its part; an unknown group is
//! read from all its keys. A value that cannot be read becomes a dead letter, and its group is spared.

use contract::keys::{self, Key};
use contract::layout::{self, Flaw};
use contract::name::GroupName;
use contract::notice::DeadLetter;
use contract::record::{GroupRecord, Instance, NodeRecord, RevisionsRecord};
use contract::report::EngineState;
use contract::time::Timestamp;
use contract::validate::MOST_INSTANCES;
use planner::rollout::controller::RolloutState;
use serde::de::DeserializeOwned;

use super::quarantine::{Object, attempt};
use super::{Group, State};

pub(in crate::core) use contract::layout::Stored;

/// The state of all stored values, and the values that cannot be read.
pub(in crate::core) fn load(stored: &Stored, quota_cores: u32, now: Timestamp) -> (State, Vec<DeadLetter>) {
    let mut state = State::default();
    let mut unread = Vec::new();
    for key in stored.keys() {
        // A group is loaded with its intent; its placement would only load it twice. So is a dependency pod.
        let twice = match keys::parse(key) {
            Key::Placement(name, _) | Key::Release(name) | Key::Revision(name, _) => {
                stored.contains_key(&keys::group(&name))
            }
            Key::Pairs(name, _) => stored.contains_key(&keys::dependency(&name)),
            Key::GroupSpec(..) | Key::DependencySpec(..) => true,
            Key::Staged(_) | Key::StagedReady => true,
            Key::FormerPlacement(_) | Key::FormerRevisions(_) | Key::FormerPairs(_) => true,
            Key::Group(_) | Key::Dependency(_) | Key::History(..) => false,
            Key::Node(_) | Key::NodeIntent(_) | Key::Outcome(_) => false,
            Key::Cursor | Key::Callbacks | Key::Engine | Key::Constraints | Key::Unknown => false,
            Key::Policy(_) | Key::AccessMode | Key::Token(_) | Key::AuditHead => false,
            Key::JoinToken(_) | Key::NodeKey(_) => false,
            Key::Store | Key::Progress | Key::Restore | Key::RestorePart(..) => false,
        };
        if twice {
            continue;
        }
        unread.extend(refresh(&mut state, key, stored, quota_cores).err().map(|flaw| letter(&flaw, stored, now)));
    }
    (state, unread)
}

fn letter(flaw: &Flaw, stored: &Stored, now: Timestamp) -> DeadLetter {
    let value = stored.get(&flaw.key).map_or(&[][..], Vec::as_slice);
    DeadLetter::new(&flaw.key, flaw.reason.clone(), value, now)
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
                    state.dependencies.spare(name);
                }
                Some(Object::Node(_)) | None => {}
            }
            Err(Flaw { key: key.to_owned(), reason: format!("reading it panicked: {panic}") })
        }
    }
}

fn refresh_key(state: &mut State, key: &str, stored: &Stored, quota_cores: u32) -> Result<(), Flaw> {
    match keys::parse(key) {
        Key::Group(ref name) | Key::Placement(ref name, _) | Key::Release(ref name) | Key::Revision(ref name, _) => {
            refresh_group(state, name, &keys::parse(key), stored, quota_cores)?;
        }
        Key::Dependency(name) | Key::Pairs(name, _) => refresh_dependency(state, &name, stored, quota_cores)?,
        // A spec is read with the record that refers to it; one that was missing may be there now.
        Key::GroupSpec(name, _) if state.spared.contains(&name) => {
            refresh_group(state, &name, &keys::parse(key), stored, quota_cores)?;
        }
        Key::DependencySpec(name, _) if state.dependencies.is_spared(&name) => {
            refresh_dependency(state, &name, stored, quota_cores)?;
        }
        Key::GroupSpec(..) | Key::DependencySpec(..) => {}
        // A leader brings these into place before it loads anything (`staging`, `migration`).
        Key::Staged(_) | Key::StagedReady => {}
        Key::FormerPlacement(_) | Key::FormerRevisions(_) | Key::FormerPairs(_) => {}
        Key::History(name, page) => match read(key, stored)? {
            Some(record) => state.histories.read(&name, page, &record),
            None => state.histories.drop_page(&name, page),
        },
        Key::Node(name) => match read::<NodeRecord>(key, stored)? {
            Some(record) => {
                let engine = state.nodes.get(&name).map_or(EngineState::Up, |host| host.engine);
                state.put_node(&name, &record.facts, engine);
                state.nodes.put_record(name, record);
            }
            None => state.nodes.remove(&name),
        },
        Key::NodeIntent(name) => {
            let intent = read(key, stored)?.unwrap_or_default();
            let own = state.nodes.record(&name).map(|record| record.facts.clone());
            state.set_intent(&name, intent, own.as_ref());
        }
        Key::Outcome(id) => match read(key, stored)? {
            Some(outcome) => state.outcomes.insert(outcome),
            None => state.outcomes.remove(&id),
        },
        Key::Cursor => state.store.load_cursor(read(key, stored))?,
        Key::Store => state.store.load_identity(read(key, stored))?,
        Key::Progress => state.store.load_progress(read(key, stored))?,
        Key::Restore => state.store.load_restore(read(key, stored))?,
        Key::RestorePart(..) => {}
        Key::Callbacks => state.cluster.load_callbacks(read(key, stored))?,
        Key::Engine => state.cluster.load_switches(read(key, stored))?,
        Key::Constraints => state.cluster.load_constraints(read(key, stored))?,
        Key::Policy(namespace) => state.policies.load(&namespace, read(key, stored))?,
        Key::AccessMode => state.access.load_mode(read(key, stored))?,
        Key::Token(id) => state.access.load_token(&id, read(key, stored))?,
        Key::JoinToken(id) => state.joins.load_token(&id, read(key, stored))?,
        Key::NodeKey(node) => state.joins.load_key(&node, read(key, stored))?,
        // The outbox numbers the records of the audit logs.
        Key::AuditHead => {}
        Key::Unknown => {}
    }
    Ok(())
}

fn refresh_group(
    state: &mut State,
    name: &GroupName,
    changed: &Key,
    stored: &Stored,
    quota_cores: u32,
) -> Result<(), Flaw> {
    // Of a group that is known only what changed is read again: its revisions are large and its placement changes often.
    let known = state.groups.get(name).filter(|_| !state.spared.contains(name));
    let parts = match known {
        Some(group) => read_part(name, changed, group, stored),
        None => converted(&[keys::former_placement(name), keys::former_revisions(name)], stored)
            .and_then(|()| read_all(name, stored)),
    };
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
    let Parts { record, instances, release, revisions } = parts;
    if let Some(record) = record {
        state.set_record(name, record, quota_cores);
    }
    if let Some(instances) = instances {
        state.set_instances(name, instances);
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

/// Fails if one of these keys of schema 1 is left: the migration leaves only values that it cannot read.
fn converted(former: &[String], stored: &Stored) -> Result<(), Flaw> {
    match former.iter().find(|key| stored.contains_key(*key)) {
        Some(key) => Err(Flaw { key: key.clone(), reason: "a value of schema 1 that cannot be read".to_owned() }),
        None => Ok(()),
    }
}

/// What a group is made of, as far as it was read.
#[derive(Default)]
struct Parts {
    record: Option<GroupRecord>,
    instances: Option<Vec<Instance>>,
    release: Option<Option<RolloutState>>,
    revisions: Option<RevisionsRecord>,
}

/// The record of a group. A record with too many instances was not written by a scheduler.
fn read_record(name: &GroupName, stored: &Stored) -> Result<Option<GroupRecord>, Flaw> {
    let record = layout::read_group(name, stored)?;
    match record.as_ref().map(|record| record.spec.num_instances) {
        Some(number) if !(0..=MOST_INSTANCES).contains(&number) => {
            let reason = format!("NumInstances {number} is outside 0..{MOST_INSTANCES}");
            Err(Flaw { key: keys::group(name), reason })
        }
        Some(_) | None => Ok(record),
    }
}

/// All parts of a group: unreadable if one is.
fn read_all(name: &GroupName, stored: &Stored) -> Result<Parts, Flaw> {
    Ok(Parts {
        record: read_record(name, stored)?,
        instances: Some(layout::read_instances(name, stored)?),
        release: Some(read(&keys::release(name), stored)?),
        revisions: Some(layout::read_revisions(name, stored)?),
    })
}

/// The part of a known group that one key holds.
fn read_part(name: &GroupName, changed: &Key, group: &Group, stored: &Stored) -> Result<Parts, Flaw> {
    Ok(match changed {
        Key::Placement(_, page) => {
            let mut instances = group.instances().to_vec();
            let first = page * layout::INSTANCES_A_PAGE;
            let rest = instances.split_off(instances.len().min(first + layout::INSTANCES_A_PAGE));
            instances.truncate(first);
            if let Some(page) = layout::read_page(name, *page, stored)? {
                // Pages arrive in order, but a page may be missing for a moment while a large decision is stored in parts.
                instances.resize(first, Instance::default());
                instances.extend(page);
                instances.extend(rest);
            }
            Parts { instances: Some(instances), ..Parts::default() }
        }
        Key::Release(_) => Parts { release: Some(read(&keys::release(name), stored)?), ..Parts::default() },
        Key::Revision(_, number) => {
            let mut revisions = group.past.revisions.clone();
            revisions.retain(|revision| revision.number != *number);
            revisions.extend(layout::read_revision(name, *number, stored)?);
            revisions.sort_by_key(|revision| revision.number);
            Parts { revisions: Some(RevisionsRecord { revisions }), ..Parts::default() }
        }
        _ => Parts { record: read_record(name, stored)?, ..Parts::default() },
    })
}

fn refresh_dependency(state: &mut State, name: &GroupName, stored: &Stored, quota_cores: u32) -> Result<(), Flaw> {
    let both = converted(&[keys::former_pairs(name)], stored)
        .and_then(|()| layout::read_dependency(name, stored))
        .and_then(|record| Ok((record, layout::read_pairs(name, stored)?)));
    match &both {
        Err(_) => state.dependencies.spare(name.clone()),
        Ok(_) => state.dependencies.end_sparing(name),
    }
    let Ok((Some(record), pairs)) = both else {
        state.drop_dependency(name);
        return both.map(drop);
    };
    state.put_dependency(name, record, pairs, quota_cores);
    Ok(())
}

fn read<T: DeserializeOwned>(key: &str, stored: &Stored) -> Result<Option<T>, Flaw> {
    let Some(value) = stored.get(key) else { return Ok(None) };
    let flaw = |error: serde_json::Error| Flaw { key: key.to_owned(), reason: error.to_string() };
    serde_json::from_slice(value).map(Some).map_err(flaw)
}
