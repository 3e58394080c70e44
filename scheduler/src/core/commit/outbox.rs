//! Holds back every effect of a decision until the decision is committed.
//!
//! A decision is a bundle: writes, effects and order changes. Bundles are committed in the order in which they were made.
//! Several share a transaction, one transaction is in flight at a time, and a bundle is never split. When a transaction is
//! fenced everything in here is dropped: no effect has left, so nothing must be corrected.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use contract::access::audit::{AuditHead, AuditRecord, Chain, DROPPED_AT_ONCE};
use contract::digest::Digest;
use contract::fence::Term;
use contract::keys;
use contract::layout::{self, Owner, Stored};
use contract::name::{CommandId, GroupName, NodeName};
use contract::order::Assignment;
use contract::pod_id::PodId;
use contract::progress::Progress;
use contract::record::Instance;
use contract::spec::PodSpec;
use contract::switches::Switches;
use serde::Serialize;

use crate::core::io::{Commit, Effect, Inbox, Write};

use super::durability::TimedDecisions;
use super::staging;

/// A commit with unknown result is sent again after this time.
pub(super) const AGAIN_AFTER: Duration = Duration::from_millis(200);
/// A store that is full stays so until an operator repaired it.
pub(super) const FULL_AGAIN_AFTER: Duration = Duration::from_secs(2);
/// Bytes of one transaction: etcd refuses requests above 1.5 MiB. A single value stays below 1 MiB.
pub(super) const MOST_BYTES: usize = 1024 * 1024;
/// Writes of one portion, so that an outcome and a cursor fit as well.
const MOST_TOGETHER: usize = 100;
/// Answers held back, at most; further queries are dropped and clients retry. Reached only while the store does not answer,
/// which ends the leadership within seconds.
const MOST_HELD: usize = 10_000;

/// One decision.
#[derive(Debug, Default)]
pub(in crate::core) struct Bundle {
    pub(in crate::core) writes: Vec<Write>,
    /// Prefixes that this bundle replaces as a whole: other keys under them are deleted.
    pub(in crate::core) complete: Vec<String>,
    pub(in crate::core) effects: Vec<Effect>,
    pub(in crate::core) changes: Vec<OrderChange>,
    /// What every node must know from now on.
    pub(in crate::core) switches: Option<Switches>,
    /// Which groups every node leaves alone from now on.
    pub(in crate::core) spared: Option<Arc<BTreeSet<GroupName>>>,
    /// What time is counted from once it is stored.
    pub(in crate::core) decided: Option<TimedDecisions>,
    /// Why this leadership ends with it.
    pub(in crate::core) step_down: Option<String>,
    /// Its effects wait for a transaction even if it writes nothing: etcd then confirms that this process still leads.
    pub(in crate::core) needs_transaction: bool,
    /// What it changes in the audit log.
    pub(in crate::core) audit: Option<AuditChange>,
    /// The command it is the effect of, and where its outcome is awaited.
    pub(in crate::core) command: Option<(CommandId, Option<Inbox>)>,
}

/// A change of an audit log. The outbox applies it when it builds the transaction, because only then the record before it
/// is known.
#[derive(Debug, Clone)]
pub(in crate::core) struct AuditChange {
    pub(in crate::core) chain: Chain,
    pub(in crate::core) edit: AuditEdit,
}

#[derive(Debug, Clone)]
pub(in crate::core) enum AuditEdit {
    /// Appends a record, which gets its number and its hash.
    Append(Box<AuditRecord>),
    /// Drops the oldest records.
    Drop { up_to: u64, hash: String, signature: Option<String> },
}

impl AuditChange {
    /// The same change for a command that is refused after all.
    pub(super) fn refused(mut self, reason: &str) -> Self {
        if let AuditEdit::Append(record) = &mut self.edit {
            record.refused = Some(reason.to_owned());
        }
        self
    }

    /// The writes that make the change, and the logs after it.
    fn writes(&self, heads: &mut AuditHeads) -> Vec<Write> {
        let (chain, head) = (self.chain, heads.of_mut(self.chain));
        let mut writes = match &self.edit {
            AuditEdit::Append(record) => {
                let record = head.append(AuditRecord::clone(record));
                vec![put(chain.key(record.number), &record)]
            }
            AuditEdit::Drop { up_to, hash, signature } => {
                let last = (*up_to).min(head.last).min(head.dropped + DROPPED_AT_ONCE);
                if last != *up_to || last <= head.dropped {
                    return Vec::new();
                }
                let gone = (head.dropped + 1..=last).map(|number| Write::Delete { key: chain.key(number) }).collect();
                (head.dropped, head.dropped_hash) = (last, hash.clone());
                head.signature.clone_from(signature);
                gone
            }
        };
        writes.push(put(chain.head_key().to_owned(), head));
        writes
    }
}

/// The audit logs that the store holds.
#[derive(Debug, Clone, Default)]
struct AuditHeads {
    commands: AuditHead,
    refused: AuditHead,
}

impl AuditHeads {
    fn of_mut(&mut self, chain: Chain) -> &mut AuditHead {
        match chain {
            Chain::Commands => &mut self.commands,
            Chain::Refused => &mut self.refused,
        }
    }

    /// Takes the head of a log from an entry of the store; other entries change nothing.
    fn read(&mut self, key: &str, value: &[u8]) {
        let chain = Chain::ALL.into_iter().find(|chain| chain.head_key() == key);
        if let Some((chain, head)) = chain.zip(serde_json::from_slice(value).ok()) {
            *self.of_mut(chain) = head;
        }
    }
}

/// A pod that a node must run, or must stop running.
#[derive(Debug, Clone)]
pub(in crate::core) struct OrderChange {
    pub(in crate::core) node: NodeName,
    pub(in crate::core) pod: PodId,
    pub(in crate::core) what: Option<(Assignment, Arc<PodSpec>)>,
}

/// What may leave once stored.
#[derive(Debug, Default)]
pub(in crate::core) struct Released {
    pub(super) effects: Vec<Effect>,
    pub(super) changes: Vec<OrderChange>,
    pub(super) switches: Option<Switches>,
    pub(super) spared: Option<Arc<BTreeSet<GroupName>>>,
    pub(super) decided: Option<TimedDecisions>,
    pub(super) step_down: Option<String>,
}

impl Bundle {
    /// Stores where the instances of a group are, all of them.
    pub(in crate::core) fn put_instances(&mut self, name: &GroupName, instances: &[Instance]) {
        self.complete.push(keys::placements(name));
        self.writes.extend(layout::put_instances(name, instances).into_iter().map(put_entry));
    }

    /// Adds the writes of another bundle, and what they are complete of.
    pub(in crate::core) fn add_writes(&mut self, other: Self) {
        self.writes.extend(other.writes);
        self.complete.extend(other.complete);
    }

    /// Whether it changes anything that is stored, or needs a transaction without that.
    fn stores(&self) -> bool {
        !self.writes.is_empty() || !self.complete.is_empty() || self.audit.is_some() || self.needs_transaction
    }

    /// What may leave once it is stored.
    fn released(self) -> Released {
        let Self { effects, changes, switches, spared, decided, step_down, .. } = self;
        Released { effects, changes, switches, spared, decided, step_down }
    }

    /// The writes that change what `image` and the `earlier` writes of the same transaction leave stored.
    fn changes_to(&self, image: &StoredDigests, earlier: &BTreeMap<String, Write>) -> Vec<Write> {
        let mut wanted: BTreeMap<&str, Write> = self.writes.iter().map(|write| (write.key(), write.clone())).collect();
        for prefix in &self.complete {
            let stored = image.under(prefix);
            let written = earlier.range(prefix.clone()..).map(|(key, _)| key).take_while(|key| key.starts_with(prefix));
            for key in stored.chain(written) {
                wanted.entry(key).or_insert_with(|| Write::Delete { key: key.clone() });
            }
        }
        let differs = |write: &Write| match earlier.get(write.key()) {
            Some(earlier) => earlier != write,
            None => image.differs(write),
        };
        wanted.into_values().filter(differs).collect()
    }
}

/// Whether the key holds an outcome or a record of an audit log: each is written once, and a leader does not keep it.
pub(in crate::core) fn is_written_once(key: &str) -> bool {
    key.starts_with(keys::OUTCOMES) || keys::is_audit_record(key)
}

/// What the store holds, by digest: a write that changes nothing is left out. What is written once is not in it.
#[derive(Debug, Default)]
struct StoredDigests(BTreeMap<String, Digest>);

impl StoredDigests {
    fn of(stored: &Stored) -> Self {
        let state = stored.iter().filter(|(key, _)| !is_written_once(key));
        Self(state.map(|(key, value)| (key.clone(), Digest::of_bytes(value))).collect())
    }
    fn under<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a String> {
        self.0.range(prefix.to_owned()..).map(|(key, _)| key).take_while(move |key| key.starts_with(prefix))
    }
    fn differs(&self, write: &Write) -> bool {
        match write {
            Write::Put { expires: true, .. } => true,
            Write::Put { key, .. } if is_written_once(key) => true,
            Write::Put { key, value, .. } => self.0.get(key) != Some(&Digest::of_bytes(value)),
            Write::Delete { key } => self.0.contains_key(key) || is_written_once(key),
        }
    }
    fn apply(&mut self, write: &Write) {
        match write {
            Write::Put { expires: true, .. } => {}
            Write::Put { key, .. } if is_written_once(key) => {}
            Write::Put { key, value, .. } => drop(self.0.insert(key.clone(), Digest::of_bytes(value))),
            Write::Delete { key } => drop(self.0.remove(key)),
        }
    }
}

/// Decisions on their way into the store.
#[derive(Debug, Default)]
pub(in crate::core) struct Outbox {
    image: StoredDigests,
    waiting: VecDeque<Bundle>,
    in_flight: Option<InFlight>,
    large: Large,
    /// Number of the last commit of this leadership.
    last_id: u64,
    /// The commits the store holds.
    progress: Progress,
    audit: AuditHeads,
    /// Number of bundles at the front that are committed one by one, because the store refused a commit of all of them.
    one_by_one: usize,
}

/// A commit whose end is not known.
#[derive(Debug)]
struct InFlight {
    commit: Commit,
    /// The decisions that are stored with it.
    bundles: Vec<Bundle>,
}

/// A decision that is too large for one transaction (see [`staging`]).
#[derive(Debug, Default)]
struct Large {
    /// The transactions that are left.
    transactions: VecDeque<Vec<Write>>,
    /// The decision, until its last transaction is in flight; none when an earlier leader made it.
    bundle: Option<Bundle>,
}

impl Large {
    /// Forgets the decision; only what is stored aside of it is deleted.
    fn give_up(&mut self) -> Option<Bundle> {
        let clears = |write: &Write| matches!(write, Write::Delete { key } if keys::is_staged(key));
        self.transactions.retain(|writes| writes.iter().all(clears));
        self.bundle.take()
    }
}

/// A write of an entry.
pub(in crate::core) fn put_entry((key, value): layout::KeyValue) -> Write {
    Write::Put { key, value, expires: false }
}

/// The writes that store new pod specs and delete unused ones.
pub(super) fn spec_writes(owner: Owner<'_>, before: &[&PodSpec], after: &[&PodSpec]) -> impl Iterator<Item = Write> {
    let (puts, deletes) = layout::spec_changes(owner, before, after);
    puts.into_iter().map(put_entry).chain(deletes.into_iter().map(|key| Write::Delete { key }))
}

/// A write of one record.
pub(in crate::core) fn put<T: Serialize>(key: String, value: &T) -> Write {
    // Records have string keys and no failing serializer.
    let value = serde_json::to_vec(value).expect("records of the contract serialise");
    Write::Put { key, value, expires: false }
}

/// The writes in portions that each fit one transaction together with an outcome and a cursor; at least one.
pub(in crate::core) fn portions(writes: Vec<Write>) -> Vec<Vec<Write>> {
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
    /// An outbox over what is stored. `unfinished` are the transactions of a decision that an earlier leader did not finish:
    /// `stored` holds their result already. `progress` are the commits the store holds.
    pub(in crate::core) fn over(stored: &Stored, unfinished: Vec<Vec<Write>>, term: Term, progress: Progress) -> Self {
        let large = Large { transactions: unfinished.into(), bundle: None };
        // A process may lead twice in one term: its commits count on.
        let mut audit = AuditHeads::default();
        for chain in Chain::ALL {
            stored.get(chain.head_key()).into_iter().for_each(|value| audit.read(chain.head_key(), value));
        }
        let (image, last_id) = (StoredDigests::of(stored), progress.of(term));
        Self { image, large, last_id, progress, audit, ..Self::default() }
    }
    /// The commits the store holds.
    pub(in crate::core) fn progress(&self) -> &Progress {
        &self.progress
    }
    /// The commits the store holds, and the one that is in flight.
    pub(in crate::core) fn begun(&self, term: Term) -> Progress {
        let mut begun = self.progress.clone();
        begun.raise(term, self.last_id);
        begun
    }
    /// No room for further answers.
    pub(super) fn is_full(&self) -> bool {
        self.waiting.len() >= MOST_HELD
    }
    /// A bundle that is not in flight yet holds a decision about the same group with the same timestamp.
    pub(super) fn has_later_decision(&self, decided: &TimedDecisions) -> bool {
        let is_same = |other: &TimedDecisions| (&other.group, other.at) == (&decided.group, decided.at);
        self.waiting.iter().any(|bundle| bundle.decided.as_ref().is_some_and(is_same))
    }
    pub(in crate::core) fn push(&mut self, bundle: Bundle) {
        self.waiting.push_back(bundle);
    }

    /// Starts the next commit if none is in flight. Bundles without writes are released immediately when no earlier bundle
    /// waits.
    pub(in crate::core) fn start(&mut self, term: Term) -> (Vec<Released>, Option<Commit>) {
        let mut released = Vec::new();
        if self.in_flight.is_some() {
            return (released, None);
        }
        if let Some(writes) = self.large.transactions.pop_front() {
            let is_last = self.large.transactions.is_empty();
            let bundle = if is_last { self.large.bundle.take() } else { None };
            return (released, Some(self.begin(term, writes, bundle.into_iter().collect())));
        }
        let (mut writes, mut bundles, mut bytes) = (BTreeMap::new(), Vec::new(), 0);
        let mut audit = self.audit.clone();
        while let Some(bundle) = self.waiting.front() {
            let mut changes = bundle.changes_to(&self.image, &writes);
            let mut next_audit = audit.clone();
            changes.extend(bundle.audit.iter().flat_map(|change| change.writes(&mut next_audit)));
            let size: usize = changes.iter().map(weight).sum();
            // The progress is one write more.
            let full = writes.len() + changes.len() + 1 >= Commit::MOST_WRITES || bytes + size > MOST_BYTES;
            let alone = self.one_by_one > 0 && bundle.stores();
            if (full || alone) && !bundles.is_empty() {
                break;
            }
            let Some(bundle) = self.waiting.pop_front() else { break };
            self.one_by_one = self.one_by_one.saturating_sub(1);
            if full {
                self.large = Large { transactions: staging::transactions(changes).into(), bundle: Some(bundle) };
                let (_, commit) = self.start(term);
                return (released, commit);
            }
            bytes += size;
            audit = next_audit;
            // A transaction may write a key once: the later decision wins.
            writes.extend(changes.into_iter().map(|write| (write.key().to_owned(), write)));
            if bundles.is_empty() && writes.is_empty() && !bundle.needs_transaction {
                released.push(bundle.released());
            } else {
                bundles.push(bundle);
            }
        }
        if bundles.is_empty() {
            return (released, None);
        }
        let commit = self.begin(term, writes.into_values().collect(), bundles);
        (released, Some(commit))
    }

    fn begin(&mut self, term: Term, writes: Vec<Write>, bundles: Vec<Bundle>) -> Commit {
        self.last_id += 1;
        let mut progress = self.progress.clone();
        progress.raise(term, self.last_id);
        // A standby reads the keys in this order: a spec comes before the records that refer to it and goes after them.
        let (mut ordered, deletes): (Vec<Write>, Vec<Write>) =
            writes.into_iter().partition(|write| matches!(write, Write::Put { .. }));
        ordered.extend(deletes);
        // A restore writes its own progress.
        if !ordered.iter().any(|write| write.key() == keys::PROGRESS) {
            ordered.push(put(keys::PROGRESS.to_owned(), &progress));
        }
        let commit = Commit { id: self.last_id, term, writes: ordered };
        self.in_flight = Some(InFlight { commit: commit.clone(), bundles });
        commit
    }

    /// The commit `id` is stored: its writes and what may leave now.
    pub(in crate::core) fn stored(&mut self, id: u64) -> Option<(Vec<Write>, Vec<Released>)> {
        let InFlight { commit, bundles } = self.in_flight.take_if(|in_flight| in_flight.commit.id == id)?;
        self.progress.raise(commit.term, id);
        for write in &commit.writes {
            if let Write::Put { key, value, .. } = write {
                self.audit.read(key, value);
            }
            self.image.apply(write);
        }
        Some((commit.writes, bundles.into_iter().map(Bundle::released).collect()))
    }

    /// The store refused the commit `id` for what is in it. Returns the bundle that it refused; none when there were several,
    /// which are then committed one by one.
    pub(super) fn refused(&mut self, id: u64) -> Option<Bundle> {
        let bundles = self.in_flight.take_if(|in_flight| in_flight.commit.id == id)?.bundles;
        if let Some(bundle) = self.large.give_up() {
            return Some(bundle);
        }
        let with_writes = bundles.iter().filter(|bundle| bundle.stores()).count();
        if with_writes > 1 {
            self.one_by_one = bundles.len().max(self.one_by_one);
        }
        let mut offender = None;
        for bundle in bundles.into_iter().rev() {
            if with_writes == 1 && bundle.stores() {
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
    /// Puts the bundles back. Nothing may be decided in between.
    pub(super) fn put_back(&mut self, waiting: VecDeque<Bundle>) {
        self.waiting = waiting;
    }
    /// The next bundle to commit.
    pub(super) fn push_first(&mut self, bundle: Bundle) {
        self.waiting.push_front(bundle);
    }

    /// Lays the chosen writes of every decision that is not known to be stored over `values`.
    pub(in crate::core) fn overlay(&self, values: &mut Stored, choose: impl Fn(&str) -> bool) {
        let in_flight = self.in_flight.iter().flat_map(|in_flight| &in_flight.bundles);
        for bundle in in_flight.chain(&self.large.bundle).chain(&self.waiting) {
            for prefix in &bundle.complete {
                values.retain(|key, _| !key.starts_with(prefix.as_str()));
            }
            for write in &bundle.writes {
                match write {
                    Write::Put { key, value, .. } if choose(key) => drop(values.insert(key.clone(), value.clone())),
                    Write::Delete { key } if choose(key) => drop(values.remove(key)),
                    Write::Put { .. } | Write::Delete { .. } => {}
                }
            }
        }
    }

    /// The id of the commit in flight.
    pub(super) fn in_flight(&self) -> Option<u64> {
        self.in_flight.as_ref().map(|in_flight| in_flight.commit.id)
    }
    /// The commit in flight, to send it again.
    pub(in crate::core) fn again(&self) -> Option<Commit> {
        self.in_flight.as_ref().map(|in_flight| in_flight.commit.clone())
    }
}

/// Bytes of key and value.
pub(in crate::core) fn weight(write: &Write) -> usize {
    match write {
        Write::Put { key, value, .. } => key.len() + value.len(),
        Write::Delete { key } => key.len(),
    }
}
