//! Which store this is: what tells a wiped etcd from the one whose orders the nodes obey.
//!
//! A term only grows within one store. A store that was wiped counts anew, may soon pass what the nodes know, and knows no
//! group: obeying it would end everything that runs. So a store has a name, orders carry it, and a node obeys no other. A
//! restored store goes by the names of both, the one the backup was taken from and the one it was restored into, and its
//! terms go on above all that were.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::name::CommandId;
use crate::time::Timestamp;

/// The names a store goes by; none is said by a deployd from before stores had names, and fits every other.
pub type Stores = BTreeSet<String>;

/// Names kept at most; each restore adds one.
pub const MOST_NAMES: usize = 32;

/// Which store this is: `state/store`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreRecord {
    /// The names it goes by.
    pub stores: Stores,
    /// What is added to the create revision of an election key to make a term.
    #[serde(default)]
    pub base: u64,
    /// The restore that made it what it is; none when it is as it grew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restored: Option<CommandId>,
}

/// What a scheduler says about the store while etcd does not answer it, every second, and once when it does again.
///
/// It may be alone with its trouble: whoever hears it looks whether somebody leads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreWord {
    /// Which scheduler says so.
    pub by: String,
    /// Since when etcd does not answer it; none when it answers again.
    pub away_since: Option<Timestamp>,
}

impl StoreRecord {
    /// What a store is after `restore` put `backup` in place and terms begin above `base`.
    #[must_use]
    pub fn restored(&self, backup: &Self, restore: &CommandId, base: u64) -> Self {
        let mut stores: Stores = self.stores.union(&backup.stores).cloned().collect();
        while stores.len() > MOST_NAMES {
            // Names sort by the time they were given.
            stores.pop_first();
        }
        Self { stores, base: base.max(self.base).max(backup.base), restored: Some(restore.clone()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(names: &[&str], base: u64) -> StoreRecord {
        StoreRecord { stores: names.iter().map(|&name| name.to_owned()).collect(), base, restored: None }
    }

    fn restored(before: &StoreRecord, backup: &StoreRecord, base: u64) -> StoreRecord {
        before.restored(backup, &"r-1".parse().expect("an id"), base)
    }

    #[test]
    fn a_restored_store_goes_by_both_names_and_its_terms_never_go_back() {
        for (base, higher) in [(7, 9), (9, 7), (8, 3)] {
            let after = restored(&store(&["b"], 3), &store(&["a"], higher), base);
            assert_eq!((after.stores, after.base), (store(&["a", "b"], 0).stores, base.max(higher)));
            assert_eq!(after.restored.as_ref().map(CommandId::as_str), Some("r-1"));
        }
    }

    #[test]
    fn the_oldest_names_go_when_there_are_too_many() {
        let names: Vec<String> = (0..MOST_NAMES).map(|n| format!("{n:03}")).collect();
        let old = store(&names.iter().map(String::as_str).collect::<Vec<_>>(), 0);
        let after = restored(&store(&["100"], 0), &old, 0);
        assert_eq!(after.stores.len(), MOST_NAMES);
        assert!(after.stores.contains("100") && !after.stores.contains("000"));
    }
}
