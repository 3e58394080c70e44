//! The identity of an etcd store, which distinguishes a wiped etcd from the one whose orders the nodes follow.
//!
//! Terms only grow within one store. A wiped store starts counting again, may soon exceed the terms the nodes know, and
//! contains no group: an agent that obeyed it would stop everything. Therefore a store has a name, every order carries
//! it, and an agent rejects orders of any other store. A restored store has both names, that of the backup and that of
//! the etcd it was restored into, and its terms continue above all earlier ones.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::name::CommandId;
use crate::time::Timestamp;

/// Names of a store. Empty in messages of a deployd that predates store names; empty matches every store.
pub type Stores = BTreeSet<String>;

/// Limit of names; each restore adds one.
pub const MOST_NAMES: usize = 32;

/// Identity of a store: `/deployd/state/store`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreRecord {
    /// Its names. They sort by the time they were given.
    pub stores: Stores,
    /// Added to the create revision of the election key to compute a term, so that terms keep growing after a restore.
    #[serde(default)]
    pub base: u64,
    /// The last restore; none when the state was never restored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restored: Option<CommandId>,
}

/// Status that a scheduler publishes every second while etcd does not answer it, and once when etcd answers again.
///
/// Possibly only this scheduler has lost etcd, so receivers check whether another scheduler leads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreWord {
    /// Name of the scheduler.
    pub by: String,
    /// Since when etcd has not answered; none when it answers again.
    pub away_since: Option<Timestamp>,
}

impl StoreRecord {
    /// The identity after `restore` put `backup` in place, with terms above `base`.
    #[must_use]
    pub fn restored(&self, backup: &Self, restore: &CommandId, base: u64) -> Self {
        let mut stores: Stores = self.stores.union(&backup.stores).cloned().collect();
        while stores.len() > MOST_NAMES {
            // The oldest name sorts first.
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
    fn a_restored_store_has_both_names_and_its_terms_never_decrease() {
        for (base, higher) in [(7, 9), (9, 7), (8, 3)] {
            let after = restored(&store(&["b"], 3), &store(&["a"], higher), base);
            assert_eq!((after.stores, after.base), (store(&["a", "b"], 0).stores, base.max(higher)));
            assert_eq!(after.restored.as_ref().map(CommandId::as_str), Some("r-1"));
        }
    }

    #[test]
    fn the_oldest_store_names_are_dropped_beyond_the_limit() {
        let names: Vec<String> = (0..MOST_NAMES).map(|n| format!("{n:03}")).collect();
        let old = store(&names.iter().map(String::as_str).collect::<Vec<_>>(), 0);
        let after = restored(&store(&["100"], 0), &old, 0);
        assert_eq!(after.stores.len(), MOST_NAMES);
        assert!(after.stores.contains("100") && !after.stores.contains("000"));
    }
}
