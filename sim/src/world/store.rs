//! Simulated etcd: keys, one revision counter, an election key with a lease, guarded transactions.
//!
//! Two guards stand before a transaction. The term keeps a deposed leader's writes out. The order keeps a leader's own
//! late writes out: a request whose sender gave up on it and sent it again may still arrive after the next commit.
//! Either can be switched off to show that the invariants would notice.

use std::collections::BTreeMap;
use std::time::Duration;

use contract::fence::Term;
use contract::layout;
use contract::name::GroupName;
use contract::record::{GroupRecord, PlacementRecord};
use contract::time::Timestamp;
use scheduler::core::io::{Commit, Write};

/// Life of the election lease; fabric's own setting.
pub const LEASE: Duration = Duration::from_secs(5);
/// Between two renewals.
pub const RENEW: Duration = Duration::from_secs(1);
/// A leader that could not renew for so long steps down by its own clock.
pub const STEP_DOWN: Duration = Duration::from_millis(3500);

/// Target campaign of which scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Candidate {
    /// The scheduler.
    pub scheduler: usize,
    /// Each campaign has a fresh lease: whoever stepped down or was restarted never gets its old term back.
    pub lease: u32,
}

/// The election key.
#[derive(Debug, Clone, Copy)]
pub struct LeaderKey {
    /// Who holds it.
    pub holder: Candidate,
    /// Its create revision.
    pub term: Term,
    expires: Timestamp,
}

/// What became of a commit that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrived {
    /// It is stored now.
    Stored,
    /// It was stored before: an earlier sending of it arrived too.
    Again,
    /// Its term is over.
    Fenced,
    /// There is no room.
    Refused,
}

/// The keys.
#[derive(Debug)]
pub struct Store {
    /// Commits are compared with the leader key's term; false only for the mutant.
    pub guarded: bool,
    /// A commit that arrives after a later one of the same term is not stored again; false only for the mutant.
    pub ordered: bool,
    /// Chance in percent that the result of a commit stays unknown.
    pub unknown: u64,
    /// Slowest commit in milliseconds.
    pub slowest: u64,
    /// There is no room: nothing is written.
    pub is_full: bool,
    /// There is no quorum: nobody reads or writes, and no lease ends.
    pub is_lost: bool,
    revision: u64,
    keys: BTreeMap<String, Vec<u8>>,
    leader: Option<LeaderKey>,
    latest: Option<(Term, u64)>,
}

impl Store {
    /// An empty store.
    pub fn new(guarded: bool, ordered: bool) -> Self {
        // Revisions do not begin at 1 in a store that was used before.
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

    /// The leader key, unless its lease is over.
    pub fn leader(&mut self, now: Timestamp) -> Option<LeaderKey> {
        if !self.is_lost && self.leader.is_some_and(|key| key.expires <= now) {
            self.leader = None;
            self.revision += 1;
        }
        self.leader
    }

    /// Tries to become or stay leader. Some with the term when the candidate holds the key afterwards.
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

    /// Renews the lease of a key held since `term`; false when it is gone.
    pub fn renew(&mut self, candidate: Candidate, term: Term, now: Timestamp) -> bool {
        let held = self.leader(now).is_some_and(|key| key.holder == candidate && key.term == term);
        held && self.campaign(candidate, now).is_some()
    }

    /// Gives the key back.
    pub fn resign(&mut self, candidate: Candidate, now: Timestamp) {
        if self.leader(now).is_some_and(|key| key.holder == candidate) {
            self.leader = None;
            self.revision += 1;
        }
    }

    /// There is a quorum again: whoever has a lease has the whole of it.
    pub fn come_back(&mut self, now: Timestamp) {
        if std::mem::take(&mut self.is_lost)
            && let Some(key) = &mut self.leader
        {
            key.expires = key.expires.max(now + LEASE);
        }
    }

    /// Stores a commit whole, or not at all.
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

    /// Everything stored.
    pub fn all(&self) -> Vec<(String, Vec<u8>)> {
        self.keys.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
    }
    /// Everything stored, by reference.
    pub fn keys(&self) -> &BTreeMap<String, Vec<u8>> {
        &self.keys
    }
    /// The record of a group.
    pub fn group(&self, name: &GroupName) -> Option<GroupRecord> {
        layout::read_group(name, &self.keys).ok()?
    }
    /// Where the instances of a group are.
    pub fn placement(&self, name: &GroupName) -> PlacementRecord {
        PlacementRecord { slots: layout::read_slots(name, &self.keys).unwrap_or_default() }
    }
    /// One value, read as `T`.
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
