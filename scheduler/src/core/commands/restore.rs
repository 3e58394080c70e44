//! Restores a backup in two steps.
//!
//! Step 1, as commands: the parts of the backup are stored under keys of their own and change nothing. An interrupted restore
//! costs only space, and the next one deletes its parts. When all parts are there and form a valid backup, the leader writes the
//! restore record and steps down.
//!
//! Step 2, [`put_in_place`]: a leader that finds the record does nothing else. It plans nothing, sends no orders and reads no
//! commands; they wait in the stream. Its writes follow from what is stored, so if it fails the next leader writes the rest. The
//! last write raises the terms above every term that a node may know, and the leader steps down; the next leader loads the store
//! as usual.

use contract::backup::{self, Backup, LARGEST_PART, MOST_PARTS, RestoreRecord, Step};
use contract::command::Refusal;
use contract::event::Kind;
use contract::fence::Term;
use contract::keys::{self, Key};
use contract::name::CommandId;
use contract::progress::Progress;
use contract::record::SchemaRecord;
use contract::store::StoreRecord;

use crate::core::commit::{self, Bundle, staging};
use crate::core::events;
use crate::core::io::{Effect, Write};
use crate::core::leader::Leading;
use crate::core::state::load::Stored;

/// Parts of other restores thrown away with each step at most: a transaction takes few writes.
const DELETED_PER_STEP: usize = 50;
/// How far a node's term may be above the highest that is known here: far more commits than a store takes in its life.
const MOST_ABOVE: u64 = 1 << 40;

/// One step of a restore.
pub(super) fn restore(leading: &mut Leading<'_>, step: Step) -> Result<Bundle, Refusal> {
    match step {
        Step::Stage { restore, part, text } => stage(leading, &restore, part, text),
        Step::Finish { restore, parts, replace } => finish(leading, restore, parts, replace),
        Step::Abort => Ok(abort(leading)),
    }
}

fn stage(leading: &Leading<'_>, restore: &CommandId, part: u32, text: String) -> Result<Bundle, Refusal> {
    if part >= MOST_PARTS {
        return Err(Refusal::Limit { what: "parts of a restore".to_owned(), limit: u64::from(MOST_PARTS) });
    }
    if text.len() > LARGEST_PART {
        return Err(Refusal::Limit { what: "bytes of one part of a restore".to_owned(), limit: LARGEST_PART as u64 });
    }
    let put = Write::Put { key: keys::restore_part(restore, part), value: text.into_bytes(), expires: false };
    let others = staged(leading.stored).filter(|(other, _)| other != restore).map(|(_, key)| key);
    let mut writes: Vec<Write> = others.take(DELETED_PER_STEP).map(|key| Write::Delete { key }).collect();
    writes.push(put);
    Ok(Bundle { writes, ..Bundle::default() })
}

fn finish(leading: &Leading<'_>, restore: CommandId, parts: u32, replace: bool) -> Result<Bundle, Refusal> {
    let unfit = |reason: String| Refusal::Unfit { reason };
    assemble(leading.stored, &restore, parts).map_err(unfit)?;
    let groups = leading.state.groups.len() + leading.state.spared().len();
    if groups > 0 && !replace {
        return Err(unfit(format!(
            "the cluster holds {groups} PodGroups, which the restore would replace; say --replace if that is meant"
        )));
    }
    let record = RestoreRecord { restore, parts, at: leading.now };
    let writes = vec![commit::put(keys::RESTORE.to_owned(), &record)];
    let step_down = Some("a backup is to be put in place by a leader that does nothing else".to_owned());
    Ok(Bundle { writes, step_down, ..Bundle::default() })
}

fn abort(leading: &mut Leading<'_>) -> Bundle {
    let mut deletes = staged(leading.stored).map(|(_, key)| Write::Delete { key });
    let writes = deletes.by_ref().take(DELETED_PER_STEP).collect();
    let rest: Vec<Write> = deletes.collect();
    for writes in commit::portions(rest).into_iter().filter(|writes| !writes.is_empty()) {
        leading.decide(Bundle { writes, ..Bundle::default() });
    }
    Bundle { writes, ..Bundle::default() }
}

/// Deletes the parts of the last restore, which is complete.
pub(in crate::core) fn drop_restored_parts(leading: &mut Leading<'_>) {
    let Some(restored) = leading.state.store.identity().restored.clone() else { return };
    let parts = staged(leading.stored).filter(|(restore, _)| *restore == restored);
    let writes = parts.map(|(_, key)| Write::Delete { key }).collect();
    for writes in commit::portions(writes).into_iter().filter(|writes| !writes.is_empty()) {
        leading.decide(Bundle { writes, ..Bundle::default() });
    }
}

/// The stored parts of restores: the restore and the key of each.
pub(super) fn staged(stored: &Stored) -> impl Iterator<Item = (CommandId, String)> {
    let parts = stored.range(keys::RESTORE_PARTS.to_owned()..);
    parts.map_while(|(key, _)| match keys::parse(key) {
        Key::RestorePart(restore, _) => Some((restore, key.clone())),
        _ => None,
    })
}

/// The backup the parts make, or why they make none.
fn assemble(stored: &Stored, restore: &CommandId, parts: u32) -> Result<Backup, String> {
    let mut text = Vec::new();
    for part in 0..parts {
        let Some(piece) = stored.get(&keys::restore_part(restore, part)) else {
            return Err(format!("part {part} of {parts} is missing: run the restore again from its start"));
        };
        text.extend_from_slice(piece);
    }
    let text = String::from_utf8(text).map_err(|_| "the parts are no text".to_owned())?;
    backup::read(&text).map_err(|error| error.to_string())
}

/// Replaces everything stored by the backup of this restore.
pub(in crate::core) fn put_in_place(leading: &mut Leading<'_>, record: &RestoreRecord) {
    let backup = match assemble(leading.stored, &record.restore, record.parts) {
        Ok(backup) => backup,
        Err(reason) => return give_up(leading, record, &reason),
    };
    for writes in commit::portions(replacing(leading, &backup)) {
        leading.lead.outbox.push(Bundle { writes, ..Bundle::default() });
    }
    let store = leading.state.store.identity().restored(&former_store(&backup), &record.restore, highest_term(leading));
    let schema = SchemaRecord { version: backup.header.schema, migrating_to: None };
    let writes = vec![
        commit::put(keys::STORE.to_owned(), &store),
        // What the nodes know of leaderships so far is replaced on purpose.
        commit::put(keys::PROGRESS.to_owned(), &Progress::since(Term(store.base.saturating_add(1)))),
        // An older shape is made ours by the next leader, as it would be after an upgrade.
        commit::put(keys::SCHEMA.to_owned(), &schema),
        Write::Delete { key: keys::RESTORE.to_owned() },
    ];
    let message = format!(
        "restored the backup of {} with {} records; terms begin above {}",
        backup.header.taken_at,
        backup.entries.len(),
        store.base
    );
    end_restore(leading, writes, message, "a backup is in place");
}

/// The parts do not form a backup: deletes the record and changes nothing else.
fn give_up(leading: &mut Leading<'_>, record: &RestoreRecord, reason: &str) {
    let message = format!("restore {} is given up: {reason}", record.restore);
    end_restore(leading, vec![Write::Delete { key: keys::RESTORE.to_owned() }], message, "a restore was given up");
}

/// The record goes, then this leadership. The parts are the next leader's to drop.
fn end_restore(leading: &mut Leading<'_>, writes: Vec<Write>, message: String, reason: &str) {
    let effects = vec![Effect::Record(events::event(Kind::Engine, message, leading.now))];
    let step_down = Some(reason.to_owned());
    leading.lead.outbox.push(Bundle { writes, effects, step_down, ..Bundle::default() });
}

/// Writes that make the store equal to the backup, all but the store's name, which is written last.
fn replacing(leading: &Leading<'_>, backup: &Backup) -> Vec<Write> {
    let is_replaced = |key: &str| keys::is_backed_up(key) && key != keys::STORE;
    let entries = backup.entries.iter();
    let mut wanted: Stored = entries.filter_map(|entry| Some((entry.key.clone(), entry.value()?))).collect();
    // A backup may have been taken while a large decision was stored in parts: it holds all of it or nothing.
    staging::recover(&mut wanted);
    wanted.retain(|key, _| is_replaced(key) && !keys::is_staged(key));
    let surplus = leading.stored.keys().filter(|key| is_replaced(key) && !wanted.contains_key(key.as_str()));
    let mut writes: Vec<Write> = surplus.map(|key| Write::Delete { key: key.clone() }).collect();
    let changed = wanted.into_iter().filter(|(key, value)| leading.stored.get(key) != Some(value));
    writes.extend(changed.map(|(key, value)| Write::Put { key, value, expires: false }));
    writes
}

/// Above every known term. The current time in milliseconds is above the terms of silent nodes, because a store is written less
/// than once per millisecond.
///
/// Only plausible terms of nodes count: with 2^64 - 1 of an agent that lies, all later leaders would have the same term.
fn highest_term(leading: &Leading<'_>) -> u64 {
    let time = u64::try_from(leading.now.as_millis()).unwrap_or(0);
    let known = time.max(leading.lead.leadership.term().0).max(leading.state.store.identity().base);
    let obeyed = leading.reports.all().map(|(_, report)| report.head.applied.term.0);
    obeyed.filter(|term| *term <= known.saturating_add(MOST_ABOVE)).max().unwrap_or(0).max(known)
}

fn former_store(backup: &Backup) -> StoreRecord {
    let entry = backup.entries.iter().find(|entry| entry.key == keys::STORE);
    let value = entry.and_then(contract::backup::Entry::value);
    value.and_then(|value| serde_json::from_slice(&value).ok()).unwrap_or_default()
}
