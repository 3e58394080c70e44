//! Holds back everything the outside may learn of a decision until the decision is stored.
//!
//! A decision is a bundle: its writes, the effects that tell of it, and what it changes in orders. Bundles leave in the
//! order they were made; several share a commit, one commit is under way at a time, and a bundle is never split. When the
//! commit is fenced everything still in here vanishes: nobody was told, so nobody must be corrected.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use contract::brakes::Brakes;
use contract::fence::Term;
use contract::keys;
use contract::name::{GroupName, NodeName};
use contract::order::Assignment;
use contract::pod_id::PodId;
use contract::progress::Progress;
use contract::spec::PodSpec;
use serde::Serialize;

use super::io::{Commit, Effect, Write};
use super::known::Decided;

/// A commit whose end is not known is sent again after so long.
pub(super) const AGAIN_AFTER: Duration = Duration::from_millis(200);
/// etcd refuses requests above 1.5 MiB.
const MOST_BYTES: usize = 1024 * 1024;
/// Writes of one decision at most, so that others find room beside it.
const MOST_TOGETHER: usize = 100;
/// Answers held back at most; beyond it questions are dropped and their askers ask again. Reached only while the store
/// does not answer, which also ends the leadership within seconds.
const MOST_HELD: usize = 10_000;

/// One decision.
#[derive(Debug, Default)]
pub(super) struct Bundle {
    pub(super) writes: Vec<Write>,
    pub(super) effects: Vec<Effect>,
    pub(super) changes: Vec<OrderChange>,
    /// What every node must know from now on.
    pub(super) brakes: Option<Brakes>,
    /// Which groups every node leaves alone from now on.
    pub(super) spared: Option<Arc<BTreeSet<GroupName>>>,
    /// What time is counted from once it is stored.
    pub(super) decided: Option<Decided>,
    /// Why this leadership ends with it.
    pub(super) leaves: Option<String>,
}

/// A pod that a node must run from now on, or not any more.
#[derive(Debug, Clone)]
pub(super) struct OrderChange {
    pub(super) node: NodeName,
    pub(super) pod: PodId,
    pub(super) what: Option<(Assignment, Arc<PodSpec>)>,
}

/// What may leave once stored.
#[derive(Debug, Default)]
pub(super) struct Released {
    pub(super) effects: Vec<Effect>,
    pub(super) changes: Vec<OrderChange>,
    pub(super) brakes: Option<Brakes>,
    pub(super) spared: Option<Arc<BTreeSet<GroupName>>>,
    pub(super) decided: Option<Decided>,
    pub(super) leaves: Option<String>,
}

/// Decisions on their way into the store.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    waiting: VecDeque<Bundle>,
    under_way: Option<(Commit, Vec<Released>)>,
    /// Number of the last commit of this leadership.
    last_id: u64,
    /// The commits the store holds.
    progress: Progress,
}

/// A write of one record.
pub(super) fn put<T: Serialize>(key: String, value: &T) -> Write {
    // Records have string keys and no failing serializer.
    let value = serde_json::to_vec(value).expect("records of the contract serialise");
    Write::Put { key, value, expires: false }
}

/// The writes in portions that each fit one transaction with an outcome and a cursor beside them; at least one.
pub(super) fn portions(writes: Vec<Write>) -> Vec<Vec<Write>> {
    let mut portions = vec![Vec::new()];
    let mut bytes = 0;
    for write in writes {
        let size = weight(&write);
        let full = |portion: &Vec<Write>| portion.len() >= MOST_TOGETHER || bytes + size > MOST_BYTES;
        if portions.last().is_some_and(|portion| !portion.is_empty() && full(portion)) {
            portions.push(Vec::new());
            bytes = 0;
        }
        bytes += size;
        portions.last_mut().expect("there is always one").push(write);
    }
    portions
}

impl Outbox {
    /// The outbox of a leadership over a store that holds these commits.
    pub(super) fn new(term: Term, progress: Progress) -> Self {
        // A process may lead twice in one term: its commits count on.
        Self { last_id: progress.of(term), progress, ..Self::default() }
    }
    /// The commits the store holds.
    pub(super) fn progress(&self) -> &Progress {
        &self.progress
    }
    /// No room for further answers.
    pub(super) fn is_full(&self) -> bool {
        self.waiting.len() >= MOST_HELD
    }
    /// Something that is not on its way yet was decided of the same group in the same moment.
    pub(super) fn decides_again(&self, decided: &Decided) -> bool {
        let is_so = |other: &Decided| (&other.group, other.at) == (&decided.group, decided.at);
        self.waiting.iter().any(|bundle| bundle.decided.as_ref().is_some_and(is_so))
    }
    pub(super) fn push(&mut self, bundle: Bundle) {
        self.waiting.push_back(bundle);
    }

    /// Starts the next commit if none is under way; bundles without writes leave at once when nothing is before them.
    pub(super) fn start(&mut self, term: Term) -> (Vec<Released>, Option<Commit>) {
        let mut released = Vec::new();
        if self.under_way.is_some() {
            return (released, None);
        }
        let (mut writes, mut held, mut bytes) = (BTreeMap::new(), Vec::new(), 0);
        while let Some(bundle) = self.waiting.front() {
            let size: usize = bundle.writes.iter().map(weight).sum();
            // The progress is one write more.
            let full = writes.len() + bundle.writes.len() + 1 >= Commit::MOST_WRITES || bytes + size > MOST_BYTES;
            if full && !writes.is_empty() {
                break;
            }
            let Some(mut bundle) = self.waiting.pop_front() else { break };
            bytes += size;
            // A key may be written once in a transaction: the later decision stands.
            writes.extend(std::mem::take(&mut bundle.writes).into_iter().map(|write| (key(&write).to_owned(), write)));
            let to = if writes.is_empty() { &mut released } else { &mut held };
            let Bundle { effects, changes, brakes, spared, decided, leaves, .. } = bundle;
            to.push(Released { effects, changes, brakes, spared, decided, leaves });
        }
        if writes.is_empty() {
            return (released, None);
        }
        self.last_id += 1;
        let mut progress = self.progress.clone();
        progress.raise(term, self.last_id);
        // A restore writes its own.
        writes.entry(keys::PROGRESS.to_owned()).or_insert_with(|| put(keys::PROGRESS.to_owned(), &progress));
        let commit = Commit { id: self.last_id, term, writes: writes.into_values().collect() };
        self.under_way = Some((commit.clone(), held));
        (released, Some(commit))
    }

    /// The commit `id` is stored: its writes and what may leave now.
    pub(super) fn stored(&mut self, id: u64) -> Option<(Commit, Vec<Released>)> {
        let stored = self.under_way.take_if(|(commit, _)| commit.id == id)?;
        self.progress.raise(stored.0.term, id);
        Some(stored)
    }
    /// The commit under way.
    pub(super) fn under_way(&self) -> Option<&Commit> {
        self.under_way.as_ref().map(|(commit, _)| commit)
    }
}

fn key(write: &Write) -> &str {
    match write {
        Write::Put { key, .. } | Write::Delete { key } => key,
    }
}

fn weight(write: &Write) -> usize {
    match write {
        Write::Put { key, value, .. } => key.len() + value.len(),
        Write::Delete { key } => key.len(),
    }
}
