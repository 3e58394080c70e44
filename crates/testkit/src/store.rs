//! etcd in memory: keys, one revision counter, a leader key with a lease, guarded transactions.
//!
//! Two guards protect a transaction. The term rejects the writes of a deposed leader. The sequence rejects a leader's own late
//! writes: a commit that was sent twice may arrive again after the next one. A mutant switches each guard off.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use contract::fence::Term;
use contract::keys;
use contract::layout;
use contract::name::GroupName;
use contract::record::{GroupRecord, PlacementRecord};
use contract::time::Timestamp;

pub const LEASE: Duration = Duration::from_secs(5);
pub const RENEW: Duration = Duration::from_secs(1);
/// A leader that could not renew steps down after this time, by its own clock.
pub const STEP_DOWN: Duration = Duration::from_millis(3500);

/// A key and its new value; none deletes the key.
pub type Change<'a> = (&'a str, Option<&'a [u8]>);

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

/// Dereferences to its keys and values, which a test may edit like an operator who uses etcdctl.
#[derive(Debug, Clone)]
pub struct FakeStore {
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

impl Default for FakeStore {
    fn default() -> Self {
        Self::new(true, true)
    }
}

impl Deref for FakeStore {
    type Target = BTreeMap<String, Vec<u8>>;
    fn deref(&self) -> &Self::Target {
        &self.keys
    }
}

impl DerefMut for FakeStore {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.keys
    }
}

impl FakeStore {
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

    /// Makes `term` the current one without a campaign, with a lease that never ends.
    pub fn lead(&mut self, term: Term) {
        let holder = Candidate { scheduler: 0, lease: 0 };
        self.leader = Some(LeaderKey { holder, term, expires: Timestamp::from_millis(i64::MAX) });
        self.latest = None;
    }

    /// Stores all changes of commit `id` of `term`, or none.
    pub fn commit<'a>(
        &mut self,
        (term, id): (Term, u64),
        changes: impl IntoIterator<Item = Change<'a>>,
        now: Timestamp,
    ) -> Arrived {
        if self.is_full {
            return Arrived::Refused;
        }
        let led = self.leader(now).is_some_and(|key| key.term == term);
        if self.guarded && !led {
            return Arrived::Fenced;
        }
        if self.ordered && self.latest.is_some_and(|latest| latest.0 == term && latest.1 >= id) {
            return Arrived::Again;
        }
        self.latest = Some((term, id));
        self.revision += 1;
        for (key, value) in changes {
            match value {
                Some(value) => self.keys.insert(key.to_owned(), value.to_vec()),
                None => self.keys.remove(key),
            };
        }
        Arrived::Stored
    }

    /// Raised by one by every transaction and by every end of the leader's lease.
    pub fn revision(&self) -> u64 {
        self.revision
    }
    /// What a leader loads: everything but the audit log and other keys that are read on demand.
    pub fn loaded(&self) -> Vec<(String, Vec<u8>)> {
        self.keys
            .iter()
            .filter(|(key, _)| keys::is_loaded(key))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect()
    }
    pub fn group(&self, name: &GroupName) -> Option<GroupRecord> {
        layout::read_group(name, &self.keys).ok()?
    }
    pub fn placement(&self, name: &GroupName) -> PlacementRecord {
        PlacementRecord { instances: layout::read_instances(name, &self.keys).unwrap_or_default() }
    }
    pub fn read<T: serde::de::DeserializeOwned>(&self, key: &str) -> Option<T> {
        serde_json::from_slice(self.keys.get(key)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Timestamp = Timestamp::from_millis(0);

    #[test]
    fn a_deposed_leaders_commit_is_not_stored_unless_the_guard_is_off() {
        for guarded in [true, false] {
            let mut store = FakeStore::new(guarded, true);
            let (one, two) = (Candidate { scheduler: 0, lease: 0 }, Candidate { scheduler: 1, lease: 0 });
            let old = store.campaign(one, START).unwrap();
            assert_eq!(store.campaign(two, START), None);
            let later = START + LEASE;
            let new = store.campaign(two, later).unwrap();
            assert!(new > old);
            assert!(!store.renew(one, old, later));
            let expected = if guarded { Arrived::Fenced } else { Arrived::Stored };
            assert_eq!(store.commit((old, 1), [("k", Some(&b"old"[..]))], later), expected);
            assert_eq!(store.commit((new, 1), [("k", Some(&b"new"[..]))], later), Arrived::Stored);
        }
    }

    #[test]
    fn a_late_copy_of_an_earlier_commit_does_not_undo_the_later_one() {
        for (ordered, value) in [(true, "two"), (false, "one")] {
            let mut store = FakeStore::new(true, ordered);
            let term = store.campaign(Candidate { scheduler: 0, lease: 0 }, START).unwrap();
            for (id, value) in [(1, "one"), (2, "two"), (1, "one")] {
                store.commit((term, id), [("k", Some(value.as_bytes()))], START);
            }
            assert_eq!(store["k"], value.as_bytes());
        }
    }
}
