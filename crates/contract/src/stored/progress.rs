//! Commit counts of a store, which detect an etcd that returned with an older state.
//!
//! Each leader numbers its commits from 1 and stores, with every commit, how many commits each term has made. Orders
//! carry these numbers and agents keep them. A healthy store never holds fewer commits of a term than a node knows of.
//!
//! Example: a node follows an order made after `{7: 120, 9: 4}`, that is 120 commits of term 7 and 4 of term 9. etcd is
//! restored from a copy that holds `{7: 118}`. Whatever the next leader commits, its orders lack commits 119 and 120 of
//! term 7 and all of term 9, so the node rejects them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::fence::Term;
use crate::store::Stores;

/// The commits a store holds: `/deployd/state/progress`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Number of the last commit of each term.
    pub commits: BTreeMap<Term, u64>,
    /// Earlier terms do not count: a restore replaced what they stored, or they were dropped by [`Self::MOST`].
    #[serde(default)]
    pub since: Term,
    /// Names of the store, because counts of different stores cannot be compared. Empty matches every store.
    #[serde(default, skip_serializing_if = "Stores::is_empty")]
    pub stores: Stores,
    /// Signature of the scheduler that sent it to a node in an order; the node returns it in its reports, and cannot invent it.
    /// Empty in the store, and without keys for orders.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub proof: Box<str>,
}

impl Progress {
    /// Limit of terms; each takes about 15 bytes in every commit and every order.
    pub const MOST: usize = 16;

    /// The progress of a store in which only terms from `since` on count.
    pub fn since(since: Term) -> Self {
        Self { since, ..Self::default() }
    }

    /// The same progress, marked as that of this store.
    #[must_use]
    pub fn of_store(self, stores: &Stores) -> Self {
        Self { stores: stores.clone(), ..self }
    }

    /// What [`Self::proof`] signs. Lines of words without spaces, so no two progresses have the same text.
    pub fn signed_text(&self) -> Vec<u8> {
        let mut text = format!("since {}\n", self.since.0);
        for (term, number) in &self.commits {
            text.push_str(&format!("commits {} {number}\n", term.0));
        }
        for store in &self.stores {
            text.push_str(&format!("store {store}\n"));
        }
        text.into_bytes()
    }

    fn is_of_another_store(&self, other: &Self) -> bool {
        !self.stores.is_empty() && !other.stores.is_empty() && self.stores.is_disjoint(&other.stores)
    }

    /// True when an older deployd wrote it or nothing was committed yet.
    pub fn is_unknown(&self) -> bool {
        *self == Self::default()
    }

    /// Number of the last commit of a term; 0 if none.
    pub fn of(&self, term: Term) -> u64 {
        self.commits.get(&term).copied().unwrap_or(0)
    }

    /// Records a commit.
    pub fn raise(&mut self, term: Term, number: u64) {
        let last = self.commits.entry(term).or_default();
        *last = number.max(*last);
        while self.commits.len() > Self::MOST {
            self.commits.pop_first();
            self.since = self.commits.keys().next().copied().unwrap_or(term);
        }
    }

    /// Whether this store holds every commit that `other` knows of.
    pub fn covers(&self, other: &Self) -> bool {
        self.covers_before(other, Term(u64::MAX))
    }

    /// Like [`Progress::covers`], but only for terms up to and including `last`.
    pub fn covers_before(&self, other: &Self, last: Term) -> bool {
        if self.is_of_another_store(other) {
            return true;
        }
        let counts = |term: &Term| (self.since..=last).contains(term);
        other.commits.iter().filter(|(term, _)| counts(term)).all(|(term, number)| self.of(*term) >= *number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(commits: &[(u64, u64)]) -> Progress {
        let mut progress = Progress::default();
        commits.iter().for_each(|(term, number)| progress.raise(Term(*term), *number));
        progress
    }

    #[test]
    fn a_rewound_store_never_covers_the_commits_of_a_node() {
        let node = progress(&[(7, 120), (9, 4)]);
        assert!(progress(&[(7, 120), (9, 4)]).covers(&node));
        assert!(progress(&[(7, 120), (9, 5), (30, 1)]).covers(&node));
        let mut store = progress(&[(7, 118)]);
        assert!(!store.covers(&node));
        store.raise(Term(12), 5_000);
        assert!(!store.covers(&node), "the commits of another leadership are other commits");
        assert!(!progress(&[(7, 120)]).covers(&node));
    }

    #[test]
    fn commits_of_another_store_are_not_compared() {
        let ours = Progress { since: Term(12), ..progress(&[(12, 40), (900, 3)]) };
        let named = |progress: Progress, name: &str| progress.of_store(&Stores::from([name.to_owned()]));
        let theirs = progress(&[(57, 300)]);
        assert!(!named(ours.clone(), "b").covers(&named(theirs.clone(), "b")));
        assert!(named(ours, "b").covers(&named(theirs, "a")));
    }

    #[test]
    fn unknown_progress_is_covered_by_every_store() {
        assert!(progress(&[(7, 1)]).covers(&Progress::default()));
        assert!(Progress::default().covers(&Progress::default()) && Progress::default().is_unknown());
    }

    #[test]
    fn terms_before_a_restore_do_not_count() {
        assert!(Progress::since(Term(10)).covers(&progress(&[(7, 120), (9, 4)])));
        assert!(!Progress::since(Term(9)).covers(&progress(&[(7, 120), (9, 4)])));
    }

    #[test]
    fn commits_of_later_terms_are_ignored() {
        assert!(progress(&[(7, 3)]).covers_before(&progress(&[(7, 3), (9, 1)]), Term(7)));
        assert!(!progress(&[(7, 3)]).covers_before(&progress(&[(7, 4), (9, 1)]), Term(7)));
    }

    #[test]
    fn only_the_latest_terms_are_stored() {
        let mut store = Progress::default();
        (1..=20).for_each(|term| store.raise(Term(term), 2));
        assert_eq!((store.commits.len(), store.since), (Progress::MOST, Term(5)));
        assert!(store.covers(&progress(&[(4, 9), (20, 2)])));
        assert!(!store.covers(&progress(&[(5, 3)])));
    }
}
