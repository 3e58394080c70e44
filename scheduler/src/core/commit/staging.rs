//! Commits a decision that is too large for one transaction, all of it or nothing.
//!
//! etcd refuses requests above 1.5 MiB or 128 operations, and a decision about 5,000 instances may need more. The leader first
//! stores the writes as parts, then a record that all parts are there, then makes the writes, and finally deletes the parts. If
//! a leader fails before the record, nothing was decided; after the record, the next leader makes the writes.

use contract::keys;
use contract::layout::{Stored, under};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::core::io::Write;

use super::{portions, put};

/// Says that all parts are stored.
#[derive(Debug, Serialize, Deserialize)]
struct Ready {
    parts: usize,
}

/// A write in a part. Every value is JSON and is embedded as it is.
#[derive(Debug, Serialize, Deserialize)]
struct StagedWrite {
    key: String,
    /// None deletes the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    value: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    expires: bool,
}

impl StagedWrite {
    fn of(write: &Write) -> Option<Self> {
        Some(match write {
            Write::Put { key, value, expires } => {
                let value = RawValue::from_string(String::from_utf8(value.clone()).ok()?).ok()?;
                Self { key: key.clone(), value: Some(value), expires: *expires }
            }
            Write::Delete { key } => Self { key: key.clone(), value: None, expires: false },
        })
    }

    fn write(self) -> Write {
        let Self { key, value, expires } = self;
        match value {
            Some(value) => Write::Put { key, value: value.get().as_bytes().to_vec(), expires },
            None => Write::Delete { key },
        }
    }
}

/// The transactions that make these writes.
pub(in crate::core) fn transactions(writes: Vec<Write>) -> Vec<Vec<Write>> {
    let portions = portions(writes);
    let part = |portion: &Vec<Write>| portion.iter().map(StagedWrite::of).collect::<Option<Vec<StagedWrite>>>();
    // Only the parts of a restore are no JSON, and each of them is stored alone.
    let Some(parts) = portions.iter().map(part).collect::<Option<Vec<_>>>() else { return portions };
    let ready = Ready { parts: parts.len() };
    let mut transactions: Vec<Vec<Write>> =
        parts.iter().enumerate().map(|(number, part)| vec![put(keys::staged(number), part)]).collect();
    transactions.push(vec![put(keys::STAGED_READY.to_owned(), &ready)]);
    let parts = (0..ready.parts).map(keys::staged).collect();
    transactions.extend(portions);
    transactions.extend(cleared(parts));
    transactions
}

/// Brings what a leader left unfinished into `stored`; the transactions that do the same in etcd.
pub(in crate::core) fn recover(stored: &mut Stored) -> Vec<Vec<Write>> {
    let parts: Vec<String> = under(keys::STAGED, stored).map(|(key, _)| key.clone()).collect();
    let Some(writes) = unfinished(stored) else { return cleared(parts) };
    for write in &writes {
        match write.clone() {
            Write::Put { key, value, .. } => drop(stored.insert(key, value)),
            Write::Delete { key } => drop(stored.remove(&key)),
        }
    }
    let mut transactions = portions(writes);
    transactions.extend(cleared(parts));
    transactions
}

/// The writes whose parts are all stored; none when the decision was not complete.
fn unfinished(stored: &Stored) -> Option<Vec<Write>> {
    let ready: Ready = serde_json::from_slice(stored.get(keys::STAGED_READY)?).ok()?;
    let mut writes = Vec::new();
    for part in 0..ready.parts {
        let part: Vec<StagedWrite> = serde_json::from_slice(stored.get(&keys::staged(part))?).ok()?;
        writes.extend(part.into_iter().map(StagedWrite::write));
    }
    Some(writes)
}

/// The transactions that delete the parts. The record goes first: without it the other parts mean nothing.
fn cleared(parts: Vec<String>) -> Vec<Vec<Write>> {
    if parts.is_empty() {
        return Vec::new();
    }
    let ready = keys::STAGED_READY.to_owned();
    portions([ready].into_iter().chain(parts).map(|key| Write::Delete { key }).collect())
}
