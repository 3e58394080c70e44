//! Who is told next: a bounded number of orders is under way at a time, and whoever waits is told of everything at once.
//!
//! While fewer are under way an order leaves the moment it is stored. A cluster that is made all at once has changes for every
//! node all the time: there a desk collects until it is its turn, so nodes get few large orders instead of many small ones, and no
//! order waits somewhere else while the time for its answer runs.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::time::Duration;

use contract::fence::Fence;
use contract::name::NodeName;
use contract::order::OrderReply;
use contract::query::Liveness;
use contract::time::Timestamp;

use crate::core::io::Effect;
use crate::core::leader::Leading;
use crate::core::state::quarantine::Object;
use crate::core::timers::Alarm;

use super::node_queue::{Conclusion, FORGOTTEN_AFTER};

/// Whoever has not answered after so long holds up nobody else: a hundred nodes may go silent at once, and the others' orders
/// do not wait until it is certain that none of them answers.
const HOLDS_UP: Duration = Duration::from_secs(1);

/// The nodes that may have something to be told.
#[derive(Debug, Default)]
pub(in crate::core) struct Line {
    due: BTreeSet<NodeName>,
    /// Who was told last: everybody else comes before it.
    last: Option<NodeName>,
    /// Whose answer is open, and since when.
    unanswered: BTreeMap<NodeName, Timestamp>,
}

impl Line {
    /// The desk of the node may have something to send.
    pub(in crate::core) fn insert(&mut self, node: NodeName) {
        self.due.insert(node);
    }
    /// The node is forgotten.
    pub(in crate::core) fn remove(&mut self, node: &NodeName) {
        self.due.remove(node);
        self.unanswered.remove(node);
    }
    /// Who may be told now, with at most so many unanswered.
    fn next(&mut self, most: usize, now: Timestamp) -> Option<NodeName> {
        if self.unanswered.len() >= most {
            self.unanswered.retain(|_, sent_at| now < *sent_at + HOLDS_UP);
        }
        if self.unanswered.len() >= most {
            return None;
        }
        let after = self.last.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let mut later = self.due.range::<NodeName, _>((after, Bound::Unbounded));
        let next = later.next().or_else(|| self.due.first()).cloned()?;
        self.due.remove(&next);
        self.last = Some(next.clone());
        Some(next)
    }
    /// When the next may be told though nobody answers.
    fn free_at(&self) -> Option<Timestamp> {
        let first = self.unanswered.values().min().filter(|_| !self.due.is_empty());
        first.map(|sent_at| *sent_at + HOLDS_UP)
    }
}

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
            None => self.lead.line.last = None,
        }
    }

    fn send_order(&mut self, node: NodeName) {
        let Some(desk) = self.lead.desks.get_mut(&node) else { return };
        let Some(message) = desk.next(self.lead.term, self.now) else { return };
        self.lead.line.unanswered.insert(node.clone(), self.now);
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
            self.compare_progress(progress);
        }
        let Some(desk) = self.lead.desks.get_mut(node) else { return };
        let conclusion = desk.replied(fence, reply, self.now);
        if conclusion != Conclusion::Nothing {
            self.lead.line.unanswered.remove(node);
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
        self.lead.line.unanswered.remove(node);
        self.reconciled(node);
        self.lead.alarms.set(Alarm::Order(node.clone()), None);
        if self.lead.desks.get(node).is_some_and(|desk| !desk.is_settled()) {
            self.lead.line.insert(node.clone());
            return;
        }
        self.look_at_vacancies(node);
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
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_000_000);

    fn node(text: &str) -> NodeName {
        text.parse().expect("a name")
    }
    fn tell(line: &mut Line, most: usize, now: Timestamp) -> Vec<String> {
        let mut told = Vec::new();
        while let Some(node) = line.next(most, now) {
            told.push(node.to_string());
            line.unanswered.insert(node, now);
        }
        told
    }

    #[test]
    fn who_was_told_last_comes_after_everybody_else() {
        let mut line = Line::default();
        ["a", "b", "c"].into_iter().for_each(|name| line.insert(node(name)));
        assert_eq!(tell(&mut line, 2, NOW), ["a", "b"]);
        line.insert(node("a"));
        line.unanswered.remove(&node("b"));
        assert_eq!(tell(&mut line, 2, NOW), ["c"]);
        line.unanswered.clear();
        assert_eq!(tell(&mut line, 2, NOW), ["a"]);
    }

    #[test]
    fn who_does_not_answer_holds_up_the_others_for_a_moment_only() {
        let mut line = Line::default();
        ["a", "b", "c"].into_iter().for_each(|name| line.insert(node(name)));
        assert_eq!(line.free_at(), None);
        assert_eq!(tell(&mut line, 2, NOW), ["a", "b"]);
        assert_eq!(line.free_at(), Some(NOW + HOLDS_UP));
        assert_eq!(tell(&mut line, 2, NOW + HOLDS_UP), ["c"]);
        assert_eq!(line.free_at(), None, "nobody waits");
    }
}
