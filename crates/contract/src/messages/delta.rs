//! Deltas: the difference between two maps, computed by the sender and applied by the receiver.
//!
//! Orders and reports are complete states; only this file and its two users, [`crate::order`] and [`crate::report`],
//! know about deltas.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::digest::Digest;

/// The difference between two maps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(bound(
    serialize = "K: Serialize + Ord, V: Serialize",
    deserialize = "K: serde::de::DeserializeOwned + Ord, V: serde::de::DeserializeOwned"
))]
pub struct Changes<K, V> {
    /// Entries that are new or changed.
    #[serde(default = "BTreeMap::new", skip_serializing_if = "BTreeMap::is_empty")]
    pub put: BTreeMap<K, V>,
    /// Keys that were removed.
    #[serde(default = "BTreeSet::new", skip_serializing_if = "BTreeSet::is_empty")]
    pub gone: BTreeSet<K>,
}

impl<K: Ord, V> Default for Changes<K, V> {
    fn default() -> Self {
        Self { put: BTreeMap::new(), gone: BTreeSet::new() }
    }
}

impl<K: Ord + Clone, V: Clone + PartialEq> Changes<K, V> {
    /// The difference from `before` to `after`.
    pub fn between(before: &BTreeMap<K, V>, after: &BTreeMap<K, V>) -> Self {
        let changed = |(key, value): &(&K, &V)| before.get(*key) != Some(*value);
        Self {
            put: after.iter().filter(changed).map(|(k, v)| (k.clone(), v.clone())).collect(),
            gone: before.keys().filter(|key| !after.contains_key(*key)).cloned().collect(),
        }
    }

    /// Applies the difference to `map`.
    pub fn apply(&self, map: &mut BTreeMap<K, V>) {
        for key in &self.gone {
            map.remove(key);
        }
        map.extend(self.put.iter().map(|(k, v)| (k.clone(), v.clone())));
    }

    /// The digest after the change, given `digest` of a state that contains `before`. Hashes only the changed entries.
    pub fn digest_after(&self, digest: Digest, before: &BTreeMap<K, V>) -> Digest
    where
        K: Serialize,
        V: Serialize,
    {
        let entry = |key: &K, value: &V| Digest::of(&(key, value));
        let left = self.gone.iter().chain(self.put.keys()).filter_map(|key| before.get_key_value(key));
        let rest = left.fold(digest, |sum, (key, value)| sum.without(entry(key, value)));
        self.put.iter().fold(rest, |sum, (key, value)| sum.with(entry(key, value)))
    }

    /// True when nothing changed.
    pub fn is_empty(&self) -> bool {
        self.put.is_empty() && self.gone.is_empty()
    }
}
