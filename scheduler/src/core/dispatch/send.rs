//! Sends orders and handles the answers of agents.

use std::collections::BTreeSet;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use contract::fence::Fence;
use contract::name::{GroupName, NodeName};
use contract::order::OrderReply;
use contract::query::Liveness;
use contract::time::Timestamp;

use crate::core::commit::{Bundle, OrderChange};
use crate::core::io::Effect;
use crate::core::leader::Leading;
use crate::core::state::quarantine::Object;
use crate::core::timers::Alarm;
use crate::core::{events, observe, reconcile};

use super::node_queue::{Conclusion, FORGOTTEN_AFTER};

impl Leading<'_> {
    /// Sends what may leave now; the rest waits for answers.
    pub(in crate::core) fn send_orders(&mut self) {
        while let Some(node) = self.lead.line.next(self.settings.orders_at_once, self.now) {
            // A lost node is told when it is heard again.
            let lost = self.state.hosts.get(&node).is_none_or(|host| host.liveness == Liveness::Lost);
            if !lost {
                self.guarded(&Object::Node(node.clone()), |leading| leading.send_order(node));
            }
        }
        match self.lead.line.free_at() {
            Some(at) => self.lead.alarms.set_once(Alarm::Line, at),
            // Nobody waits: the next turn begins with whoever is first.
            None => self.lead.line.start_over(),
        }
    }

    fn send_order(&mut self, node: NodeName) {
        let Some(desk) = self.lead.desks.get_mut(&node) else { return };
        let Some(message) = desk.next(self.lead.term, self.now) else { return };
        self.lead.line.sent(node.clone(), self.now);
        self.lead.alarms.set(Alarm::Order(node.clone()), Some(self.now + FORGOTTEN_AFTER));
        let message = message.after(self.lead.outbox.progress().clone());
        let message = message.meant_for(self.ears.identity(&node).to_owned());
        self.effects.push(Effect::SendOrder { node, message });
    }

    /// A node answered its order, or did not.
    pub(in crate::core) fn order_replied(&mut self, node: &NodeName, fence: Fence, reply: Option<&OrderReply>) {
        if fence.term != self.lead.term {
            return;
        }
        if let Some(OrderReply::Foreign { progress, .. }) = reply {
            observe::older_store::compare_progress(self, progress);
        }
        let Some(desk) = self.lead.desks.get_mut(node) else { return };
        let conclusion = desk.replied(fence, reply, self.now);
        if conclusion != Conclusion::Nothing {
            self.lead.line.answered(node);
        }
        match conclusion {
            Conclusion::Settled => self.settled(node),
            Conclusion::Again(at) => self.lead.alarms.set(Alarm::Order(node.clone()), Some(at)),
            Conclusion::Disagreement(at) => {
                *self.disagreements += 1;
                self.lead.alarms.set(Alarm::Order(node.clone()), Some(at));
            }
            // Whoever was elected after such an order was heard of leads a store that was set back.
            Conclusion::Deposed(have) if have.term <= self.lead.overtaken => {
                let at = desk.estrange(self.now);
                self.foreign_store(node, have, at);
            }
            Conclusion::Estranged(have, at) => self.foreign_store(node, have, at),
            Conclusion::Deposed(have) => {
                self.lead.overtaken = have.term;
                self.lead.resigned = Some(format!("node {node} obeys {have}, later than term {}", self.lead.term));
            }
            Conclusion::Nothing => {}
        }
    }

    /// The node has what it was sent.
    pub(in crate::core) fn settled(&mut self, node: &NodeName) {
        self.lead.line.answered(node);
        self.reconciled(node);
        self.lead.alarms.set(Alarm::Order(node.clone()), None);
        if self.lead.desks.get(node).is_some_and(|desk| !desk.is_settled()) {
            self.lead.line.insert(node.clone());
            return;
        }
        reconcile::input::look_at_vacancies(self, node);
    }

    /// The time has come to look at the desk of a node.
    pub(in crate::core) fn wake_desk(&mut self, node: &NodeName) {
        let now = self.now;
        let Some(desk) = self.lead.desks.get_mut(node) else { return };
        if let Some(fence) = desk.forgotten(now) {
            return self.order_replied(node, fence, None);
        }
        if desk.not_before() > now {
            let at = desk.not_before();
            self.lead.alarms.set(Alarm::Order(node.clone()), Some(at));
        }
        self.lead.line.insert(node.clone());
    }

    pub(in crate::core) fn hand_over(&mut self, change: &OrderChange) {
        self.lead.put_on_desk(change);
        self.lead.line.insert(change.node.clone());
        self.note_delivered(change);
    }

    /// A change of a node's order was handed over, or given up.
    pub(in crate::core) fn note_delivered(&mut self, change: &OrderChange) {
        if let Entry::Occupied(mut count) = self.lead.undelivered.entry(change.node.clone()) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }

    /// Tells every node which groups to leave alone, once every decision made so far is stored.
    pub(in crate::core) fn spare_now(&mut self) {
        let spared = Some(Arc::new(self.state.untouchable()));
        self.decide(Bundle { spared, ..Bundle::default() });
    }

    /// Which groups are left alone is stored: every node hears of it.
    pub(in crate::core) fn spare(&mut self, spared: Arc<BTreeSet<GroupName>>) {
        for (node, desk) in &mut self.lead.desks {
            desk.spare(&spared);
            self.lead.line.insert(node.clone());
        }
        self.lead.spared = spared;
    }

    /// The node refused its order: it obeys `have`, of another store or of a later state of this one.
    pub(in crate::core) fn foreign_store(&mut self, node: &NodeName, have: Fence, again_at: Timestamp) {
        self.lead.alarms.set(Alarm::Order(node.clone()), Some(again_at));
        if !self.state.foreign_store.insert(node.clone()) {
            return;
        }
        let message = format!(
            "obeys order {have}, which the store knows nothing of: etcd was wiped or set back; what runs there is left \
             alone until a backup is restored (deployctl restore)"
        );
        self.tell(vec![events::of_node(node, message, self.now)]);
    }

    /// The node takes orders.
    pub(in crate::core) fn reconciled(&mut self, node: &NodeName) {
        if self.state.foreign_store.remove(node) {
            self.tell(vec![events::of_node(node, "obeys this store again", self.now)]);
        }
    }
}
