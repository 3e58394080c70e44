//! The order of one node: what it has to run, and how to bring the agent there with one unanswered message at a time.
//!
//! The queue knows only committed decisions. It sends a delta against the order that the agent last acknowledged, and the whole
//! order when that is uncertain: no answer, an unexpected answer, or a report that names another order.
//!
//! Example: the agent acknowledged {term 3, generation 7}. Two pods change, so the next message is a delta from generation 7 to
//! 8. The answer does not come within the timeout: generation 9 is the whole order.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use contract::delta::Changes;
use contract::digest::Digest;
use contract::fence::{Fence, Term};
use contract::name::GroupName;
use contract::order::{Assignment, Order, OrderDelta, OrderMessage, OrderReply};
use contract::pod_id::{PodId, SpecKey};
use contract::progress::Progress;
use contract::report::ReportHead;
use contract::spec::PodSpec;
use contract::store::Stores;
use contract::switches::Switches;
use contract::time::Timestamp;

use crate::core::commit::OrderChange;

/// Between two attempts to reach a node that does not answer.
pub(super) const AGAIN_AFTER: Duration = Duration::from_secs(5);
/// Between two attempts when the node answers and something is wrong: no tight loop with a node that disagrees.
const SOON: Duration = Duration::from_millis(500);
/// An order without an answer, not even "no answer", counts as unanswered after this time.
pub(super) const REPLY_TIMEOUT: Duration = Duration::from_secs(30);
/// Interval of attempts with a node of a foreign store: only a restore changes that.
const FOREIGN_RETRY_AFTER: Duration = Duration::from_secs(30);
/// How far the generation that a node names may be above the last one of this leader, which may have sent it before a restart.
const MOST_AHEAD: u64 = 1 << 32;
/// A report that the agent sent before it applied its order may arrive up to this time after its answer.
const QUIET: Duration = Duration::from_secs(2);
/// An agent that has not restarted since it acknowledged an order cannot have lost it, so a report that names an earlier order
/// is late, and a leader with a backlog may read it late. After this time the report counts after all.
const LATE: Duration = Duration::from_secs(30);

/// The orders of one node.
#[derive(Debug, Default)]
pub(in crate::core) struct NodeQueue {
    pods: BTreeMap<PodId, Assignment>,
    specs: BTreeMap<SpecKey, Reference>,
    /// Groups the node leaves as they are.
    spared: Arc<BTreeSet<GroupName>>,
    switches: Switches,
    digest: Digest,
    /// What changed since `base`.
    touched_pods: BTreeSet<PodId>,
    touched_specs: BTreeSet<SpecKey>,
    /// Pods that were removed from the order since the agent last reported the newest order as applied.
    withdrawn: BTreeSet<PodId>,
    /// The order the node is known to have.
    base: Option<(Fence, Digest)>,
    generation: u64,
    in_flight: Option<(Fence, Digest, Timestamp)>,
    /// The last order, if its answer did not come in time. The agent may have applied it; its report shows that.
    unanswered: Option<Unanswered>,
    /// The node does not have the newest order, as far as known.
    due: bool,
    not_before: Timestamp,
    acknowledged_at: Timestamp,
    /// The store the orders come from.
    stores: Arc<Stores>,
    /// The node belongs to another store.
    foreign_store: bool,
}

/// An order whose answer did not come in time.
#[derive(Debug)]
struct Unanswered {
    order: (Fence, Digest),
    /// The order changed since.
    due: bool,
}

/// A spec and how many pods refer to it.
#[derive(Debug)]
struct Reference {
    spec: Arc<PodSpec>,
    /// Its part of the order's digest.
    digest: Digest,
    pods: u32,
}

/// Digests of the specs lately ordered: a group's spec goes to thousands of nodes, and is read for its digest once.
#[derive(Debug, Default)]
pub(super) struct SpecDigests {
    known: BTreeMap<SpecKey, (Arc<PodSpec>, Digest)>,
}

impl SpecDigests {
    /// Most entries; a full cache is cleared.
    const MOST: usize = 4096;

    fn of(&mut self, key: &SpecKey, spec: &Arc<PodSpec>) -> Digest {
        if let Some((_, digest)) = self.known.get(key).filter(|(known, _)| Arc::ptr_eq(known, spec)) {
            return *digest;
        }
        if self.known.len() >= Self::MOST {
            self.known.clear();
        }
        let digest = Digest::of(&(key, spec));
        self.known.insert(key.clone(), (Arc::clone(spec), digest));
        digest
    }
}

/// What follows from a node's answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ReplyResult {
    /// The node has what it was sent.
    Settled,
    /// Try again at this time.
    RetryAt(Timestamp),
    /// Same fence, other content: a bug; try again at this time.
    Conflict(Timestamp),
    /// The node has this order of a foreign store or of a later leader; try again at this time.
    ForeignStore(Fence, Timestamp),
    /// An answer to something else.
    Ignored,
}

impl NodeQueue {
    /// An empty queue. Its first order has the generation `floor` + 1.
    pub(super) fn new(floor: u64, spared: &Arc<BTreeSet<GroupName>>, switches: Switches, stores: &Arc<Stores>) -> Self {
        let digest = Order::digest_of_spared(spared).with(Order::digest_of_switches(switches));
        let (spared, stores) = (Arc::clone(spared), Arc::clone(stores));
        Self { generation: floor, spared, switches, stores, digest, ..Self::default() }
    }
    pub(super) fn set_switches(&mut self, switches: Switches) {
        let before = std::mem::replace(&mut self.switches, switches);
        self.digest = self.digest.without(Order::digest_of_switches(before)).with(Order::digest_of_switches(switches));
        self.mark_changed();
    }
    /// The node shall leave what it has of these groups as it is.
    pub(super) fn set_spared(&mut self, spared: &Arc<BTreeSet<GroupName>>) {
        let before = std::mem::replace(&mut self.spared, Arc::clone(spared));
        let digest = self.digest.without(Order::digest_of_spared(&before));
        self.digest = digest.with(Order::digest_of_spared(spared));
        self.mark_changed();
    }
    /// The order has changed: it must be sent.
    fn mark_changed(&mut self) {
        self.due = true;
        if let Some(unanswered) = &mut self.unanswered {
            unanswered.due = true;
        }
    }
    /// The count of its last order.
    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    /// Takes over a stored decision.
    pub(super) fn change(&mut self, change: &OrderChange, digests: &mut SpecDigests) {
        self.mark_changed();
        self.touched_pods.insert(change.pod.clone());
        let Some((assignment, spec)) = &change.what else {
            if self.pods.contains_key(&change.pod) {
                self.withdrawn.insert(change.pod.clone());
            }
            return self.drop_pod(&change.pod);
        };
        self.withdrawn.remove(&change.pod);
        // The new reference first: a spec that stays is not sent again.
        self.refer(assignment.spec_key(&change.pod), spec, digests);
        self.digest = self.digest.with(Digest::of(&(&change.pod, assignment)));
        if let Some(before) = self.pods.insert(change.pod.clone(), assignment.clone()) {
            self.uncount(&change.pod, &before);
        }
    }

    fn drop_pod(&mut self, pod: &PodId) {
        if let Some(before) = self.pods.remove(pod) {
            self.uncount(pod, &before);
        }
    }

    /// Removes the pod's assignment from the digest and from the reference count of its spec.
    fn uncount(&mut self, pod: &PodId, before: &Assignment) {
        self.digest = self.digest.without(Digest::of(&(pod, before)));
        let key = before.spec_key(pod);
        let Some(reference) = self.specs.get_mut(&key) else { return };
        reference.pods -= 1;
        if reference.pods == 0 {
            self.drop_spec(&key);
        }
    }

    fn drop_spec(&mut self, key: &SpecKey) {
        if let Some(reference) = self.specs.remove(key) {
            self.digest = self.digest.without(reference.digest);
            self.touched_specs.insert(key.clone());
        }
    }

    fn refer(&mut self, key: SpecKey, spec: &Arc<PodSpec>, digests: &mut SpecDigests) {
        let mut pods = 1;
        if let Some(reference) = self.specs.get_mut(&key) {
            if Arc::ptr_eq(&reference.spec, spec) || *reference.spec == **spec {
                reference.pods += 1;
                return;
            }
            // A group that was created again under an old name: the revision number is the same, the spec is not.
            pods += reference.pods;
            self.drop_spec(&key);
        }
        let digest = digests.of(&key, spec);
        self.digest = self.digest.with(digest);
        self.touched_specs.insert(key.clone());
        self.specs.insert(key, Reference { spec: Arc::clone(spec), digest, pods });
    }

    /// Starts a leadership: the order that the node reports is the base of the next delta if it equals this one.
    pub(in crate::core) fn begin(&mut self, head: Option<&ReportHead>) {
        let known = head.filter(|head| head.order_digest == self.digest);
        self.base = known.map(|head| (head.applied, head.order_digest));
        self.touched_pods.clear();
        self.touched_specs.clear();
        self.due = true;
    }

    /// Every change is sent and acknowledged.
    pub(in crate::core) fn is_settled(&self) -> bool {
        !self.due && self.in_flight.is_none()
    }

    /// The agent reports the newest order as applied, and nothing waits to be sent.
    pub(super) fn is_applied_in(&self, head: &ReportHead) -> bool {
        self.is_settled() && self.base == Some((head.applied, head.order_digest))
    }
    /// Those of these pods that the node must run.
    pub(in crate::core) fn ordered(&self, pods: RangeInclusive<PodId>) -> impl Iterator<Item = &PodId> {
        self.pods.range(pods).map(|(pod, _)| pod)
    }
    /// Pods of the range that were removed from the order and that the agent may still run.
    pub(in crate::core) fn withdrawn(&self, pods: RangeInclusive<PodId>) -> impl Iterator<Item = &PodId> {
        self.withdrawn.range(pods)
    }
    /// If the agent reports the newest order as applied, it knows of every removed pod.
    pub(in crate::core) fn note_applied(&mut self, head: &ReportHead) {
        if self.is_applied_in(head) {
            self.withdrawn.clear();
        }
    }

    /// The next message, if one may leave now.
    pub(super) fn next(&mut self, term: Term, now: Timestamp) -> Option<OrderMessage> {
        if !self.due || self.in_flight.is_some() || now < self.not_before {
            return None;
        }
        self.generation = self.generation.saturating_add(1);
        let fence = Fence { term, generation: self.generation };
        let message = match self.base {
            Some((base, _)) => OrderMessage::Delta(self.delta(base, fence)),
            None => OrderMessage::Whole(self.whole(fence)),
        };
        self.touched_pods.clear();
        self.touched_specs.clear();
        self.due = false;
        self.unanswered = None;
        self.in_flight = Some((fence, self.digest, now));
        Some(message)
    }

    fn whole(&self, fence: Fence) -> Order {
        let specs = self.specs.iter().map(|(key, reference)| (key.clone(), Arc::clone(&reference.spec))).collect();
        let (spared, stores) = ((*self.spared).clone(), (*self.stores).clone());
        Order { fence, pods: self.pods.clone(), specs, spared, switches: self.switches, stores, ..Order::default() }
    }

    fn delta(&self, base: Fence, fence: Fence) -> OrderDelta {
        let (mut pods, mut specs) = (Changes::default(), Changes::default());
        for pod in &self.touched_pods {
            match self.pods.get(pod) {
                Some(assignment) => drop(pods.put.insert(pod.clone(), assignment.clone())),
                None => drop(pods.gone.insert(pod.clone())),
            }
        }
        for key in &self.touched_specs {
            match self.specs.get(key) {
                Some(reference) => drop(specs.put.insert(key.clone(), Arc::clone(&reference.spec))),
                None => drop(specs.gone.insert(key.clone())),
            }
        }
        let (spared, stores, switches) = ((*self.spared).clone(), (*self.stores).clone(), self.switches);
        OrderDelta {
            base,
            fence,
            pods,
            specs,
            spared,
            switches,
            stores,
            progress: Progress::default(),
            agent: String::new(),
            hardening: BTreeMap::new(),
            digest: self.digest,
        }
    }

    /// The node answered the order with `fence`, or did not.
    pub(super) fn replied(&mut self, fence: Fence, reply: Option<&OrderReply>, now: Timestamp) -> ReplyResult {
        let due = self.due;
        let Some((_, sent, _)) = self.in_flight.take_if(|(sent, _, _)| *sent == fence) else {
            return ReplyResult::Ignored;
        };
        match reply {
            Some(OrderReply::Accepted { fence: accepted, digest }) if *accepted == fence && *digest == sent => {
                self.base = Some((fence, sent));
                self.acknowledged_at = now;
                self.not_before = now;
                self.foreign_store = false;
                ReplyResult::Settled
            }
            Some(OrderReply::Accepted { .. }) => self.require_whole(now + SOON),
            Some(OrderReply::Foreign { have, .. }) => ReplyResult::ForeignStore(*have, self.mark_foreign(now)),
            // A later leader, a store that was set back, or an agent that lies: etcd decides which (`foreign_store`).
            Some(OrderReply::NeedWhole { have } | OrderReply::Stale { have }) if have.term > fence.term => {
                ReplyResult::ForeignStore(*have, self.mark_foreign(now))
            }
            // The agent asks for the whole order: it can leave immediately, with a generation above the agent's.
            Some(OrderReply::NeedWhole { have }) => {
                self.raise_generation(*have, fence.term);
                self.require_whole(now)
            }
            Some(OrderReply::Stale { have }) => {
                self.raise_generation(*have, fence.term);
                self.require_whole(now + SOON)
            }
            Some(OrderReply::Conflict { .. }) => {
                self.require_whole(now + SOON);
                ReplyResult::Conflict(self.not_before)
            }
            Some(OrderReply::Failed { .. }) => self.require_whole(now + AGAIN_AFTER),
            None => {
                self.unanswered = Some(Unanswered { order: (fence, sent), due });
                self.require_whole(now + AGAIN_AFTER)
            }
        }
    }

    /// The node belongs to another store, or to a later state of this one. Returns when to try again.
    pub(super) fn mark_foreign(&mut self, now: Timestamp) -> Timestamp {
        self.foreign_store = true;
        self.require_whole(now + FOREIGN_RETRY_AFTER);
        self.not_before
    }

    /// The next fence is above what the node has, unless the node names a generation that this leader cannot have sent.
    fn raise_generation(&mut self, have: Fence, term: Term) {
        if have.term == term && have.generation <= self.generation.saturating_add(MOST_AHEAD) {
            self.generation = self.generation.max(have.generation);
        }
    }

    /// What the node has is not known: the next order is whole.
    fn require_whole(&mut self, not_before: Timestamp) -> ReplyResult {
        self.base = None;
        self.due = true;
        self.not_before = not_before;
        ReplyResult::RetryAt(not_before)
    }

    /// The node reports: it may answer now even if it did not before.
    pub(in crate::core) fn heard(&mut self, now: Timestamp) {
        // Not earlier than the shorter wait, or a node that refuses would get an order with every report.
        if !self.foreign_store {
            self.not_before = self.not_before.min(now + SOON);
        }
    }

    /// A report that names the order in flight is an answer too, and under load it arrives before the answer. True when it
    /// acknowledges the order.
    pub(in crate::core) fn answered_by(&mut self, head: &ReportHead, now: Timestamp) -> bool {
        let reported = (head.applied, head.order_digest);
        if self.in_flight.take_if(|(fence, digest, _)| (*fence, *digest) == reported).is_none() {
            let Some(unanswered) = self.unanswered.take_if(|unanswered| unanswered.order == reported) else {
                return false;
            };
            self.due = unanswered.due;
        }
        self.base = Some(reported);
        self.acknowledged_at = now;
        self.not_before = now;
        self.foreign_store = false;
        true
    }

    /// Compares the order that the agent reported at `reported_at` with the acknowledged one; `renewed_at` is when the agent
    /// last restarted. True when the order must be sent again.
    pub(in crate::core) fn check(
        &mut self,
        head: &ReportHead,
        reported_at: Timestamp,
        renewed_at: Option<Timestamp>,
        now: Timestamp,
    ) -> bool {
        let Some((fence, digest)) = self.base.filter(|_| self.is_settled()) else { return false };
        let same = head.applied == fence && head.order_digest == digest;
        let is_earlier = head.applied.term == fence.term && head.applied < fence;
        let is_same_run = renewed_at.is_none_or(|at| at <= self.acknowledged_at);
        let quiet = if is_earlier && is_same_run { LATE } else { QUIET };
        // A report from before the acknowledgement proves nothing, nor does one that was in flight at that moment.
        if same || reported_at <= self.acknowledged_at || now < self.acknowledged_at + quiet {
            return false;
        }
        self.require_whole(now);
        true
    }

    /// The order in flight, if its answer is overdue.
    pub(super) fn timed_out(&self, now: Timestamp) -> Option<Fence> {
        self.in_flight.filter(|(_, _, sent_at)| now >= *sent_at + REPLY_TIMEOUT).map(|(fence, _, _)| fence)
    }
    /// When the next message may leave.
    pub(in crate::core) fn not_before(&self) -> Timestamp {
        self.not_before
    }
}
