//! A 64-bit digest of a map that can be updated entry by entry.
//!
//! It is the sum of the entries' hashes, so changing one entry of 100,000 costs two hashes. It detects accidents (a
//! lost delta, a bug), not attacks.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

/// A digest; shown as 16 hexadecimal digits.
#[derive(Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Digest(u64);

impl Digest {
    /// Digest of one serialisable value.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Self {
        // Our types have string keys and no serialiser that fails. Serialised into one buffer, because hashing pieces
        // of a few bytes is slower.
        let text = serde_json::to_vec(value).expect("values of the contract serialise");
        Self(xxh3_64(&text))
    }
    /// Digest of raw bytes.
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Self(xxh3_64(bytes))
    }
    /// Digest of a map: the sum over its entries.
    pub fn of_map<K: Serialize, V: Serialize>(map: &BTreeMap<K, V>) -> Self {
        map.iter().fold(Self::default(), |sum, (key, value)| sum.with(Self::of(&(key, value))))
    }
    /// The digest as a number, to distribute things evenly.
    pub const fn number(self) -> u64 {
        self.0
    }
    /// Adds a part.
    #[must_use]
    pub fn with(self, part: Self) -> Self {
        Self(self.0.wrapping_add(part.0))
    }
    /// Removes a part that was added before.
    #[must_use]
    pub fn without(self, part: Self) -> Self {
        Self(self.0.wrapping_sub(part.0))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}
impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_updated_entry_by_entry_equals_the_digest_of_the_map() {
        let mut map: BTreeMap<u32, &str> = (0..100).map(|n| (n, "a")).collect();
        let before = Digest::of_map(&map);
        map.insert(7, "b");
        let after = before.without(Digest::of(&(7, "a"))).with(Digest::of(&(7, "b")));
        assert_eq!(after, Digest::of_map(&map));
        assert_ne!(after, before);
    }
}
