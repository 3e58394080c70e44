//! Brings a backup back, second half: puts it in the place of everything stored.
//!
//! A leader that finds the record of a restore does only this. It plans nothing, sends no order and takes no command: those
//! wait in the stream for the next leader. What it writes follows from what is stored, so whoever is cut off in the middle is
//! followed by one that writes the rest. The last write raises the terms above all that any node is known to obey and makes
//! this leader step down; the next one loads everything by the way it always does. There is no second way of taking over.

use contract::backup::{Backup, RestoreRecord};
use contract::event::Kind;
use contract::fence::Term;
use contract::keys;
use contract::progress::Progress;
use contract::record::SchemaRecord;
use contract::store::StoreRecord;

use super::commit::{self, Bundle};
use super::events;
use super::io::{Effect, Write};
use super::leader::Leading;
use super::load::Stored;
use super::{restores, staging};

impl Leading<'_> {
    /// Puts the backup in place that `record` speaks of.
    pub(super) fn swap(&mut self, record: &RestoreRecord) {
        let backup = match restores::assemble(self.stored, &record.restore, record.parts) {
            Ok(backup) => backup,
            Err(reason) => return self.give_up(record, &reason),
        };
        for writes in commit::portions(self.replacing(&backup)) {
            self.lead.outbox.push(Bundle { writes, ..Bundle::default() });
        }
        let store = self.state.store.restored(&former_store(&backup), &record.restore, self.highest_term());
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
        self.finish_swap(writes, message, "a backup is in place");
    }

    /// The record stands, and the parts do not make a backup: nothing was touched, and nothing is.
    fn give_up(&mut self, record: &RestoreRecord, reason: &str) {
        let message = format!("restore {} is given up: {reason}", record.restore);
        self.finish_swap(vec![Write::Delete { key: keys::RESTORE.to_owned() }], message, "a restore was given up");
    }

    /// The record goes, then this leadership. The parts are the next leader's to drop.
    fn finish_swap(&mut self, writes: Vec<Write>, message: String, reason: &str) {
        let effects = vec![Effect::Record(events::event(Kind::Engine, message, self.now))];
        let leaves = Some(reason.to_owned());
        self.lead.outbox.push(Bundle { writes, effects, leaves, ..Bundle::default() });
    }

    /// The writes that make everything stored what the backup holds; which store this is stays for the last.
    fn replacing(&self, backup: &Backup) -> Vec<Write> {
        let is_replaced = |key: &str| keys::is_backed_up(key) && key != keys::STORE;
        let entries = backup.entries.iter();
        let mut wanted: Stored = entries.filter_map(|entry| Some((entry.key.clone(), entry.value()?))).collect();
        // A backup may have been taken while a large decision was stored in parts: it holds all of it or nothing.
        staging::recover(&mut wanted);
        wanted.retain(|key, _| is_replaced(key) && !keys::is_staged(key));
        let surplus = self.stored.keys().filter(|key| is_replaced(key) && !wanted.contains_key(key.as_str()));
        let mut writes: Vec<Write> = surplus.map(|key| Write::Delete { key: key.clone() }).collect();
        let changed = wanted.into_iter().filter(|(key, value)| self.stored.get(key) != Some(value));
        writes.extend(changed.map(|(key, value)| Write::Put { key, value, expires: false }));
        writes
    }

    /// Above every term that anybody is known to have had. The time is above those of nodes nobody hears: a store is written
    /// less than once in a millisecond.
    fn highest_term(&self) -> u64 {
        let obeyed = self.ears.reports().map(|(_, report)| report.head.applied.term.0).max().unwrap_or(0);
        let time = u64::try_from(self.now.as_millis()).unwrap_or(0);
        obeyed.max(self.lead.term.0).max(self.lead.overtaken.0).max(time)
    }
}

fn former_store(backup: &Backup) -> StoreRecord {
    let entry = backup.entries.iter().find(|entry| entry.key == keys::STORE);
    let value = entry.and_then(contract::backup::Entry::value);
    value.and_then(|value| serde_json::from_slice(&value).ok()).unwrap_or_default()
}
