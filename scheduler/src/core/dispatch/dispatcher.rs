//! The orders of all nodes: one queue per node, and the window that bounds how many orders are unanswered.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use contract::fence::{Fence, Term};
use contract::name::{GroupName, NodeName};
use contract::order::{OrderMessage, OrderReply};
use contract::pod_id::PodId;
use contract::report::ReportHead;
use contract::store::Stores;
use contract::switches::Switches;
use contract::time::Timestamp;

use crate::core::commit::OrderChange;
use crate::core::state::State;

use super::node_queue::{NodeQueue, ReplyResult, SpecDigests};
use super::window::Window;

/// What the leader sends to nodes.
#[derive(Debug)]
pub(in crate::core) struct Dispatcher {
    queues: BTreeMap<NodeName, NodeQueue>,
    window: Window,
    digests: SpecDigests,
    /// Generations up to this one were used before: by this process, when it led in the same term already.
    floor: u64,
    /// Groups and dependency pods that every agent leaves as they are: their record cannot be read, or they are orphans.
    spared: Arc<BTreeSet<GroupName>>,
    /// The stored switches, as every order carries them.
    switches: Switches,
    /// The names of the store, as every order carries them.
    stores: Arc<Stores>,
    /// For each node, the number of order changes that are decided and not committed yet; a node without any has no entry.
    uncommitted: BTreeMap<NodeName, usize>,
}

impl Dispatcher {
    pub(in crate::core) fn new(floor: u64, state: &State) -> Self {
        Self {
            queues: BTreeMap::new(),
            window: Window::default(),
            digests: SpecDigests::default(),
            floor,
            spared: Arc::new(state.untouchable()),
            switches: state.cluster.switches().switches(),
            stores: Arc::new(state.store.identity().stores.clone()),
            uncommitted: BTreeMap::new(),
        }
    }

    /// The queue of a node; a new one if there is none.
    pub(in crate::core) fn queue(&mut self, node: &NodeName) -> &mut NodeQueue {
        self.queues
            .entry(node.clone())
            .or_insert_with(|| NodeQueue::new(self.floor, &self.spared, self.switches, &self.stores))
    }
    pub(in crate::core) fn get(&self, node: &NodeName) -> Option<&NodeQueue> {
        self.queues.get(node)
    }
    pub(super) fn get_mut(&mut self, node: &NodeName) -> Option<&mut NodeQueue> {
        self.queues.get_mut(node)
    }
    pub(in crate::core) fn queues(&self) -> impl Iterator<Item = (&NodeName, &NodeQueue)> {
        self.queues.iter()
    }
    /// The highest generation that an order of this term has.
    pub(in crate::core) fn highest_generation(&self) -> u64 {
        self.queues.values().map(NodeQueue::generation).max().unwrap_or(0).max(self.floor)
    }

    /// A decision that changes the order of a node was made; it is not committed yet.
    pub(in crate::core) fn expect(&mut self, change: &OrderChange) {
        *self.uncommitted.entry(change.node.clone()).or_default() += 1;
    }
    /// An expected decision is committed, or the leader abandoned it.
    pub(in crate::core) fn expect_no_more(&mut self, change: &OrderChange) {
        if let Entry::Occupied(mut count) = self.uncommitted.entry(change.node.clone()) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }
    /// Puts a committed decision into the queue of its node.
    pub(in crate::core) fn change(&mut self, change: &OrderChange) {
        // Taken out for the moment: both the queue and the digests are borrowed from the dispatcher.
        let mut digests = std::mem::take(&mut self.digests);
        self.queue(&change.node).change(change, &mut digests);
        self.digests = digests;
    }
    /// A decision that was expected is committed: puts it into the queue and lets the node's order leave.
    pub(in crate::core) fn deliver(&mut self, change: &OrderChange) {
        self.change(change);
        self.schedule(change.node.clone());
        self.expect_no_more(change);
    }
    /// The order of the node may have something to send.
    pub(in crate::core) fn schedule(&mut self, node: NodeName) {
        self.window.insert(node);
    }
    /// The node left the cluster. Its queue stays: if the node comes back under this leader, no fence is used twice.
    pub(in crate::core) fn forget(&mut self, node: &NodeName) {
        self.window.remove(node);
    }

    /// The stored switches changed: every node gets an order with them.
    pub(in crate::core) fn set_switches(&mut self, switches: Switches) {
        if std::mem::replace(&mut self.switches, switches) == switches {
            return;
        }
        for (node, queue) in &mut self.queues {
            queue.set_switches(switches);
            self.window.insert(node.clone());
        }
    }
    /// The spared groups changed: every node gets an order with them.
    pub(in crate::core) fn set_spared(&mut self, spared: Arc<BTreeSet<GroupName>>) {
        for (node, queue) in &mut self.queues {
            queue.set_spared(&spared);
            self.window.insert(node.clone());
        }
        self.spared = spared;
    }

    /// The next node whose order may leave, with at most `most` orders unanswered.
    pub(super) fn next_node(&mut self, most: usize, now: Timestamp) -> Option<NodeName> {
        self.window.next(most, now)
    }
    /// The message to a node, which counts as unanswered from now on; none when there is nothing to send.
    pub(super) fn next_message(&mut self, node: &NodeName, term: Term, now: Timestamp) -> Option<OrderMessage> {
        let message = self.queues.get_mut(node)?.next(term, now)?;
        self.window.sent(node.clone(), now);
        Some(message)
    }
    /// The node answered the order with `fence`; no `reply` when the answer did not come in time.
    pub(super) fn replied(
        &mut self,
        node: &NodeName,
        fence: Fence,
        reply: Option<&OrderReply>,
        now: Timestamp,
    ) -> ReplyResult {
        let Some(queue) = self.queues.get_mut(node) else { return ReplyResult::Ignored };
        let result = queue.replied(fence, reply, now);
        if result != ReplyResult::Ignored {
            self.window.answered(node);
        }
        result
    }
    pub(super) fn answered(&mut self, node: &NodeName) {
        self.window.answered(node);
    }
    /// No order may leave now: when the next one may although no node answers. None when no node waits.
    pub(super) fn blocked_until(&mut self) -> Option<Timestamp> {
        let free_at = self.window.free_at();
        if free_at.is_none() {
            self.window.start_over();
        }
        free_at
    }

    /// Whether the node, as reported in `head`, has applied its newest order and no newer one is on its way into the store.
    pub(in crate::core) fn is_applied(&self, node: &NodeName, head: &ReportHead) -> bool {
        let queue = self.queues.get(node).filter(|_| !self.uncommitted.contains_key(node));
        queue.is_some_and(|queue| queue.is_applied_in(head))
    }
    /// Whether the node is ordered to run one of these pods, except `except`.
    pub(in crate::core) fn orders_any(
        &self,
        node: &NodeName,
        pods: std::ops::RangeInclusive<PodId>,
        except: Option<&PodId>,
    ) -> bool {
        self.queues.get(node).is_some_and(|queue| queue.ordered(pods).any(|pod| Some(pod) != except))
    }
}
