//! Sends orders and handles the answers of agents.

use std::sync::Arc;

use contract::fence::Fence;
use contract::name::NodeName;
use contract::order::OrderReply;
use contract::query::Liveness;
use contract::time::Timestamp;

use crate::core::commit::Bundle;
use crate::core::io::Effect;
use crate::core::leader::Leading;
use crate::core::state::quarantine::Object;
use crate::core::timers::Timer;
use crate::core::{events, observe, reconcile};

use super::node_queue::{REPLY_TIMEOUT, ReplyResult};

impl Leading<'_> {
    /// Sends every order that may leave now. The others leave when earlier orders are answered.
    pub(in crate::core) fn send_orders(&mut self) {
        while let Some(node) = self.lead.dispatch.next_node(self.settings.orders_at_once, self.now) {
            // A lost node gets its order when it reports again.
            let lost = self.state.nodes.get(&node).is_none_or(|host| host.liveness == Liveness::Lost);
            if !lost {
                self.guarded(&Object::Node(node.clone()), |leading| leading.send_order(node));
            }
        }
        if let Some(at) = self.lead.dispatch.blocked_until() {
            self.lead.timers.set_once(Timer::Window, at);
        }
    }

    fn send_order(&mut self, node: NodeName) {
        let Some(message) = self.lead.dispatch.next_message(&node, self.lead.leadership.term(), self.now) else {
            return;
        };
        self.lead.timers.set(Timer::Order(node.clone()), Some(self.now + REPLY_TIMEOUT));
        let message = message.after(self.lead.outbox.progress().clone());
        let message = message.hardened(|group| self.state.hardening(&node, group));
        let message = message.meant_for(self.reports.identity(&node).to_owned());
        self.effects.push(Effect::SendOrder { node, message });
    }

    /// A node answered its order, or did not.
    pub(in crate::core) fn order_replied(&mut self, node: &NodeName, fence: Fence, reply: Option<&OrderReply>) {
        if fence.term != self.lead.leadership.term() {
            return;
        }
        if let Some(OrderReply::Foreign { progress, .. }) = reply {
            observe::older_store::compare_progress(self, progress);
        }
        match self.lead.dispatch.replied(node, fence, reply, self.now) {
            ReplyResult::Settled => self.settled(node),
            ReplyResult::RetryAt(at) => self.lead.timers.set(Timer::Order(node.clone()), Some(at)),
            ReplyResult::Conflict(at) => {
                *self.disagreements += 1;
                self.lead.timers.set(Timer::Order(node.clone()), Some(at));
            }
            ReplyResult::ForeignStore(have, at) => self.foreign_store(node, have, at),
            ReplyResult::Ignored => {}
        }
    }

    /// The node has what it was sent.
    pub(in crate::core) fn settled(&mut self, node: &NodeName) {
        self.lead.dispatch.answered(node);
        self.reconciled(node);
        self.lead.timers.set(Timer::Order(node.clone()), None);
        if self.lead.dispatch.get(node).is_some_and(|queue| !queue.is_settled()) {
            self.lead.dispatch.schedule(node.clone());
            return;
        }
        reconcile::input::recheck_waiting(self, node);
    }

    /// The timer of a node's order fired.
    pub(in crate::core) fn check_queue(&mut self, node: &NodeName) {
        let now = self.now;
        let Some(queue) = self.lead.dispatch.get_mut(node) else { return };
        if let Some(fence) = queue.timed_out(now) {
            return self.order_replied(node, fence, None);
        }
        if queue.not_before() > now {
            let at = queue.not_before();
            self.lead.timers.set(Timer::Order(node.clone()), Some(at));
        }
        self.lead.dispatch.schedule(node.clone());
    }

    /// Tells every node which groups to leave alone, once every decision made so far is stored.
    pub(in crate::core) fn spare_after_commit(&mut self) {
        let spared = Some(Arc::new(self.state.untouchable()));
        self.decide(Bundle { spared, ..Bundle::default() });
    }

    /// The node refused its order: it has `have`, of a foreign store, of a later state of this one, or of a later leader.
    ///
    /// An agent that was taken over may claim any fence, so the claim alone ends no leadership. The event waits for a transaction:
    /// if another scheduler leads, etcd refuses it, and this one resigns.
    pub(super) fn foreign_store(&mut self, node: &NodeName, have: Fence, recheck_at: Timestamp) {
        self.lead.timers.set(Timer::Order(node.clone()), Some(recheck_at));
        if !self.state.nodes.mark_foreign(node) {
            return;
        }
        let message = format!(
            "obeys order {have}, which the store knows nothing of: etcd was wiped or set back; what runs there is left \
             alone until a backup is restored (deployctl restore)"
        );
        let effects = vec![events::of_node(node, message, self.now)];
        self.decide(Bundle { effects, needs_transaction: true, ..Bundle::default() });
    }

    /// The node takes orders.
    fn reconciled(&mut self, node: &NodeName) {
        if self.state.nodes.mark_own(node) {
            self.emit(vec![events::of_node(node, "obeys this store again", self.now)]);
        }
    }
}
