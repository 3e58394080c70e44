//! Brings a backup back, first half: keeps its parts aside and judges the whole.
//!
//! The parts are stored beside everything else and change nothing: a restore that is cut off costs only their room, and is
//! thrown away by the next one. When all are there and read as one backup, a record says so and the leader steps down. The
//! next one finds the record before it does anything else and puts the backup in place (`swap`).

use contract::backup::{self, Backup, LARGEST_PART, MOST_PARTS, RestoreRecord, Step};
use contract::command::Refusal;
use contract::keys::{self, Key};
use contract::name::CommandId;

use super::commit::{self, Bundle};
use super::io::Write;
use super::leader::Leading;
use super::load::Stored;

/// Parts of other restores thrown away with each step at most: a transaction takes few writes.
const THROWN_AWAY: usize = 50;

impl Leading<'_> {
    /// One step of a restore.
    pub(super) fn restore(&mut self, step: Step) -> Result<Bundle, Refusal> {
        match step {
            Step::Stage { restore, part, text } => self.stage(&restore, part, text),
            Step::Finish { restore, parts, replace } => self.finish(restore, parts, replace),
            Step::Abort => Ok(self.abort()),
        }
    }

    fn stage(&self, restore: &CommandId, part: u32, text: String) -> Result<Bundle, Refusal> {
        if part >= MOST_PARTS {
            return Err(Refusal::Limit { what: "parts of a restore".to_owned(), limit: u64::from(MOST_PARTS) });
        }
        if text.len() > LARGEST_PART {
            return Err(Refusal::Limit {
                what: "bytes of one part of a restore".to_owned(),
                limit: LARGEST_PART as u64,
            });
        }
        let put = Write::Put { key: keys::restore_part(restore, part), value: text.into_bytes(), expires: false };
        let others = staged(self.stored).filter(|(other, _)| other != restore).map(|(_, key)| key);
        let mut writes: Vec<Write> = others.take(THROWN_AWAY).map(|key| Write::Delete { key }).collect();
        writes.push(put);
        Ok(Bundle { writes, ..Bundle::default() })
    }

    fn finish(&self, restore: CommandId, parts: u32, replace: bool) -> Result<Bundle, Refusal> {
        let unfit = |reason: String| Refusal::Unfit { reason };
        assemble(self.stored, &restore, parts).map_err(unfit)?;
        let groups = self.state.groups.len() + self.state.spared.len();
        if groups > 0 && !replace {
            return Err(unfit(format!(
                "the cluster holds {groups} PodGroups, which the restore would replace; say --replace if that is meant"
            )));
        }
        let record = RestoreRecord { restore, parts, at: self.now };
        let writes = vec![commit::put(keys::RESTORE.to_owned(), &record)];
        let leaves = Some("a backup is to be put in place by a leader that does nothing else".to_owned());
        Ok(Bundle { writes, leaves, ..Bundle::default() })
    }

    fn abort(&mut self) -> Bundle {
        let mut deletes = staged(self.stored).map(|(_, key)| Write::Delete { key });
        let writes = deletes.by_ref().take(THROWN_AWAY).collect();
        let rest: Vec<Write> = deletes.collect();
        for writes in commit::portions(rest).into_iter().filter(|writes| !writes.is_empty()) {
            self.decide(Bundle { writes, ..Bundle::default() });
        }
        Bundle { writes, ..Bundle::default() }
    }
}

impl Leading<'_> {
    /// What the last restore kept aside is in place and can go.
    pub(super) fn drop_restored_parts(&mut self) {
        let Some(restored) = self.state.store.restored.clone() else { return };
        let parts = staged(self.stored).filter(|(restore, _)| *restore == restored);
        let writes = parts.map(|(_, key)| Write::Delete { key }).collect();
        for writes in commit::portions(writes).into_iter().filter(|writes| !writes.is_empty()) {
            self.decide(Bundle { writes, ..Bundle::default() });
        }
    }
}

/// Every part that is kept aside: of which restore, and where.
pub(super) fn staged(stored: &Stored) -> impl Iterator<Item = (CommandId, String)> {
    let parts = stored.range(keys::RESTORE_PARTS.to_owned()..);
    parts.map_while(|(key, _)| match keys::parse(key) {
        Key::RestorePart(restore, _) => Some((restore, key.clone())),
        _ => None,
    })
}

/// The backup the parts make, or why they make none.
pub(super) fn assemble(stored: &Stored, restore: &CommandId, parts: u32) -> Result<Backup, String> {
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
