//! Simulated etcd: keys, one revision counter, a leader key with a lease, guarded transactions.
//!
//! Two guards protect a transaction. The term rejects the writes of a deposed leader. The sequence rejects a leader's own late
//! writes: a commit that was sent twice may arrive again after the next one. A mutant switches each guard off.

use std::collections::BTreeMap;
use std::time::Duration;

use contract::fence::Term;
use contract::layout;
use contract::name::GroupName;
use contract::record::{GroupRecord, PlacementRecord};
use contract::time::Timestamp;
use scheduler::core::io::{Commit, Write};

pub const LEASE: Duration = Duration::from_secs(5);
pub const RENEW: Duration = Duration::from_secs(1);
/// A leader that could not renew steps down after this time, by its own clock.
pub const STEP_DOWN: Duration = Duration::from_millis(3500);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Candidate {
    pub scheduler: usize,
    /// Each campaign has a new lease, so that a restarted or deposed scheduler never gets its old term back.
    pub lease: u32,
}

#[derive(Debug, Clone, Copy)]
pub struct LeaderKey {
    pub holder: Candidate,
    /// The create revision of the key.
    pub term: Term,
    expires: Timestamp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrived {
    Stored,
    /// An earlier send of the same commit was stored.
    Again,
    /// Its term is over.
    Fenced,
    /// The store is full.
    Refused,
}

#[derive(Debug)]
pub struct Store {
    /// Rejects commits of an older term; false only for a mutant.
    pub guarded: bool,
    /// Rejects a commit that arrives after a later one of the same term; false only for a mutant.
    pub ordered: bool,
    /// Probability in percent that the result of a commit stays unknown.
    pub unknown: u64,
    /// Slowest commit in milliseconds.
    pub slowest: u64,
    /// The store is full and refuses writes.
    pub is_full: bool,
    /// No reads and writes, and no lease expires.
    pub is_lost: bool,
    revision: u64,
    keys: BTreeMap<String, Vec<u8>>,
    leader: Option<LeaderKey>,
    latest: Option<(Term, u64)>,
}

impl Store {
    pub fn new(guarded: bool, ordered: bool) -> Self {
        // A store that was used before does not start at revision 1.
        Self {
            guarded,
            ordered,
            latest: None,
            unknown: 0,
            slowest: 20,
            is_full: false,
            is_lost: false,
            revision: 40,
            keys: BTreeMap::new(),
            leader: None,
        }
    }

    /// The leader key, unless its lease has expired.
    pub fn leader(&mut self, now: Timestamp) -> Option<LeaderKey> {
        if !self.is_lost && self.leader.is_some_and(|key| key.expires <= now) {
            self.leader = None;
            self.revision += 1;
        }
        self.leader
    }

    /// Returns the term if the candidate now holds the key.
    pub fn campaign(&mut self, candidate: Candidate, now: Timestamp) -> Option<Term> {
        match self.leader(now) {
            Some(key) if key.holder != candidate => None,
            Some(key) => {
                self.leader = Some(LeaderKey { expires: now + LEASE, ..key });
                Some(key.term)
            }
            None if self.is_full => None,
            None => {
                self.revision += 1;
                let term = Term(self.revision);
                self.leader = Some(LeaderKey { holder: candidate, term, expires: now + LEASE });
                Some(term)
            }
        }
    }

    /// False if the candidate no longer holds the key.
    pub fn renew(&mut self, candidate: Candidate, term: Term, now: Timestamp) -> bool {
        let held = self.leader(now).is_some_and(|key| key.holder == candidate && key.term == term);
        held && self.campaign(candidate, now).is_some()
    }

    pub fn resign(&mut self, candidate: Candidate, now: Timestamp) {
        if self.leader(now).is_some_and(|key| key.holder == candidate) {
            self.leader = None;
            self.revision += 1;
        }
    }

    /// Restores the quorum. Leases start again with their full time.
    pub fn come_back(&mut self, now: Timestamp) {
        if std::mem::take(&mut self.is_lost)
            && let Some(key) = &mut self.leader
        {
            key.expires = key.expires.max(now + LEASE);
        }
    }

    /// Stores all writes of a commit, or none.
    pub fn commit(&mut self, commit: &Commit, now: Timestamp) -> Arrived {
        if self.is_full {
            return Arrived::Refused;
        }
        let led = self.leader(now).is_some_and(|key| key.term == commit.term);
        if self.guarded && !led {
            return Arrived::Fenced;
        }
        let place = (commit.term, commit.id);
        if self.ordered && self.latest.is_some_and(|(term, id)| term == commit.term && id >= commit.id) {
            return Arrived::Again;
        }
        self.latest = Some(place);
        self.revision += 1;
        for write in &commit.writes {
            match write {
                Write::Put { key, value, .. } => self.keys.insert(key.clone(), value.clone()),
                Write::Delete { key } => self.keys.remove(key),
            };
        }
        Arrived::Stored
    }

    pub fn all(&self) -> Vec<(String, Vec<u8>)> {
        self.keys.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
    }
    pub fn keys(&self) -> &BTreeMap<String, Vec<u8>> {
        &self.keys
    }
    pub fn group(&self, name: &GroupName) -> Option<GroupRecord> {
        layout::read_group(name, &self.keys).ok()?
    }
    pub fn placement(&self, name: &GroupName) -> PlacementRecord {
        PlacementRecord { slots: layout::read_slots(name, &self.keys).unwrap_or_default() }
    }
    pub fn read<T: serde::de::DeserializeOwned>(&self, key: &str) -> Option<T> {
        serde_json::from_slice(self.keys.get(key)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::event_queue::BEGINNING;

    fn put(term: Term, id: u64, value: &str) -> Commit {
        let write = Write::Put { key: "k".to_owned(), value: value.into(), expires: false };
        Commit { id, term, writes: vec![write] }
    }

    #[test]
    fn a_deposed_leaders_commit_is_not_stored_unless_the_guard_is_off() {
        for guarded in [true, false] {
            let mut store = Store::new(guarded, true);
            let (one, two) = (Candidate { scheduler: 0, lease: 0 }, Candidate { scheduler: 1, lease: 0 });
            let old = store.campaign(one, BEGINNING).unwrap();
            assert_eq!(store.campaign(two, BEGINNING), None);
            let later = BEGINNING + LEASE;
            let new = store.campaign(two, later).unwrap();
            assert!(new > old);
            assert!(!store.renew(one, old, later));
            let expected = if guarded { Arrived::Fenced } else { Arrived::Stored };
            assert_eq!(store.commit(&put(old, 1, "old"), later), expected);
            assert_eq!(store.commit(&put(new, 1, "new"), later), Arrived::Stored);
        }
    }

    #[test]
    fn a_late_copy_of_an_earlier_commit_does_not_undo_the_later_one() {
        for (ordered, value) in [(true, "two"), (false, "one")] {
            let mut store = Store::new(true, ordered);
            let term = store.campaign(Candidate { scheduler: 0, lease: 0 }, BEGINNING).unwrap();
            for (id, value) in [(1, "one"), (2, "two"), (1, "one")] {
                store.commit(&put(term, id, value), BEGINNING);
            }
            assert_eq!(store.keys()["k"], value.as_bytes());
        }
    }
}
