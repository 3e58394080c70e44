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
use contract::name::{CommandId, GroupName, NodeName};
use contract::order::Assignment;
use contract::pod_id::PodId;
use contract::spec::PodSpec;
use serde::Serialize;

use super::io::{Commit, Effect, Inbox, Write};
use super::known::Decided;

/// A commit whose end is not known is sent again after so long.
pub(super) const AGAIN_AFTER: Duration = Duration::from_millis(200);
/// Bytes of several decisions in one commit: etcd refuses requests above 1.5 MiB. A single decision may have more, up to
/// `bulk::LARGEST_TRANSACTION`.
const MOST_BYTES: usize = 1024 * 1024;
const _: () = assert!(MOST_BYTES < super::bulk::LARGEST_TRANSACTION);
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
    /// The command it is the effect of, and where its outcome is awaited.
    pub(super) command: Option<(CommandId, Option<Inbox>)>,
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
    in_flight: Option<InFlight>,
    next_id: u64,
    /// Number of bundles at the front that are committed one by one, because the store refused a commit of all of them.
    one_by_one: usize,
}

/// The bundles of a commit whose end is not known.
#[derive(Debug)]
struct InFlight {
    id: u64,
    term: Term,
    bundles: Vec<Bundle>,
}

impl InFlight {
    fn commit(&self) -> Commit {
        let writes = self.bundles.iter().flat_map(|bundle| bundle.writes.iter().cloned());
        Commit { id: self.id, term: self.term, writes: merged(writes) }
    }
}

/// The writes of several decisions: a key may be written once in a transaction, and the later decision stands.
fn merged(writes: impl Iterator<Item = Write>) -> Vec<Write> {
    let writes: BTreeMap<String, Write> = writes.map(|write| (key(&write).to_owned(), write)).collect();
    writes.into_values().collect()
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

    /// Starts the next commit if none is in flight; bundles without writes leave at once when nothing is before them.
    pub(super) fn start(&mut self, term: Term) -> (Vec<Released>, Option<Commit>) {
        let mut released = Vec::new();
        if self.in_flight.is_some() {
            return (released, None);
        }
        let (mut bundles, mut keys, mut bytes) = (Vec::new(), BTreeSet::new(), 0);
        while let Some(bundle) = self.waiting.front() {
            let size: usize = bundle.writes.iter().map(weight).sum();
            let full = keys.len() + bundle.writes.len() >= Commit::MOST_WRITES || bytes + size > MOST_BYTES;
            let alone = self.one_by_one > 0 && !bundle.writes.is_empty();
            if (full || alone) && !keys.is_empty() {
                break;
            }
            let Some(bundle) = self.waiting.pop_front() else { break };
            self.one_by_one = self.one_by_one.saturating_sub(1);
            bytes += size;
            keys.extend(bundle.writes.iter().map(|write| key(write).to_owned()));
            if keys.is_empty() {
                released.push(bundle.released());
            } else {
                bundles.push(bundle);
            }
        }
        if keys.is_empty() {
            return (released, None);
        }
        self.next_id += 1;
        let in_flight = self.in_flight.insert(InFlight { id: self.next_id, term, bundles });
        (released, Some(in_flight.commit()))
    }

    /// The commit `id` is stored: its writes and what may leave now.
    pub(super) fn stored(&mut self, id: u64) -> Option<(Vec<Write>, Vec<Released>)> {
        let mut bundles = self.in_flight.take_if(|in_flight| in_flight.id == id)?.bundles;
        let writes = merged(bundles.iter_mut().flat_map(|bundle| std::mem::take(&mut bundle.writes)));
        Some((writes, bundles.into_iter().map(Bundle::released).collect()))
    }

    /// The store refused the commit `id` for what is in it. Returns the bundle that it refused; none when there were several,
    /// which are then committed one by one.
    pub(super) fn refused(&mut self, id: u64) -> Option<Bundle> {
        let bundles = self.in_flight.take_if(|in_flight| in_flight.id == id)?.bundles;
        let with_writes = bundles.iter().filter(|bundle| !bundle.writes.is_empty()).count();
        if with_writes > 1 {
            self.one_by_one = bundles.len().max(self.one_by_one);
        }
        let mut offender = None;
        for bundle in bundles.into_iter().rev() {
            if with_writes == 1 && !bundle.writes.is_empty() {
                offender = Some(bundle);
            } else {
                self.waiting.push_front(bundle);
            }
        }
        offender
    }

    /// Takes every bundle that waits.
    pub(super) fn take_waiting(&mut self) -> VecDeque<Bundle> {
        std::mem::take(&mut self.waiting)
    }
    /// Puts bundles back that were taken, with nothing decided meanwhile.
    pub(super) fn put_back(&mut self, waiting: VecDeque<Bundle>) {
        self.waiting = waiting;
    }
    /// The next bundle to commit.
    pub(super) fn push_first(&mut self, bundle: Bundle) {
        self.waiting.push_front(bundle);
    }

    /// Lays the chosen writes of every decision that is not known to be stored over `values`.
    pub(super) fn overlay(&self, values: &mut BTreeMap<String, Vec<u8>>, choose: impl Fn(&str) -> bool) {
        let in_flight = self.in_flight.iter().flat_map(|in_flight| &in_flight.bundles);
        for write in in_flight.chain(&self.waiting).flat_map(|bundle| &bundle.writes) {
            match write {
                Write::Put { key, value, .. } if choose(key) => drop(values.insert(key.clone(), value.clone())),
                Write::Delete { key } if choose(key) => drop(values.remove(key)),
                Write::Put { .. } | Write::Delete { .. } => {}
            }
        }
    }

    /// The id of the commit in flight.
    pub(super) fn in_flight(&self) -> Option<u64> {
        self.in_flight.as_ref().map(|in_flight| in_flight.id)
    }
    /// The commit in flight, to send it again.
    pub(super) fn again(&self) -> Option<Commit> {
        self.in_flight.as_ref().map(InFlight::commit)
    }
}

impl Bundle {
    /// What may leave once it is stored.
    fn released(self) -> Released {
        let Self { effects, changes, brakes, spared, decided, leaves, .. } = self;
        Released { effects, changes, brakes, spared, decided, leaves }
    }
}

pub(super) fn key(write: &Write) -> &str {
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
