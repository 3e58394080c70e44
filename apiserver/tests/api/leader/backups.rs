//! Backups and restores of the fake leader.

use contract::backup::{Entry, Page, Step};
use contract::command::Refusal;
use contract::keys;

/// Two pages at revision 7; no other revision can be read.
pub(super) fn page(revision: Option<i64>, after: Option<&str>) -> Result<Box<Page>, String> {
    if revision.is_some_and(|revision| revision != 7) {
        return Err("compacted; begin the backup again".to_owned());
    }
    let (key, next) = match after {
        None => (keys::CALLBACKS, Some(keys::CALLBACKS.to_owned())),
        Some(_) => (keys::ENGINE, None),
    };
    Ok(Box::new(Page { revision: 7, schema: 1, entries: vec![Entry::new(key.to_owned(), b"{}".to_vec())], next }))
}

/// A restore is refused as the real leader would when there are groups.
pub(super) fn decision(step: &Step) -> Result<(), Refusal> {
    match step {
        Step::Finish { replace: false, .. } => Err(Refusal::Unfit { reason: "say --replace".to_owned() }),
        Step::Stage { .. } | Step::Finish { replace: true, .. } | Step::Abort => Ok(()),
    }
}
