//! The send window: at most `orders_at_once` nodes have an unanswered order.
//!
//! Below that limit an order leaves as soon as it is committed. Above it, changes collect in the queue of a node until it is the
//! node's turn, so a cluster that starts everywhere gets few large orders instead of many small ones, and the time for an answer
//! starts when the order really leaves.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::time::Duration;

use contract::name::NodeName;
use contract::time::Timestamp;

/// A node that has not answered after this time does not occupy the window: a hundred nodes may fail together, and the others
/// must not wait until every answer is overdue.
const OCCUPIES_WINDOW: Duration = Duration::from_secs(1);

/// The nodes whose order may have something to send.
#[derive(Debug, Default)]
pub(super) struct Window {
    due: BTreeSet<NodeName>,
    /// The node that was sent to last; it comes last in the next round.
    last: Option<NodeName>,
    /// Whose answer is open, and since when.
    unanswered: BTreeMap<NodeName, Timestamp>,
}

impl Window {
    /// The order of the node may have something to send.
    pub(super) fn insert(&mut self, node: NodeName) {
        self.due.insert(node);
    }
    /// The node is forgotten.
    pub(super) fn remove(&mut self, node: &NodeName) {
        self.due.remove(node);
        self.unanswered.remove(node);
    }
    /// The next node to send to, with at most `most` orders unanswered.
    pub(super) fn next(&mut self, most: usize, now: Timestamp) -> Option<NodeName> {
        if self.unanswered.len() >= most {
            self.unanswered.retain(|_, sent_at| now < *sent_at + OCCUPIES_WINDOW);
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
    /// An order was sent to the node.
    pub(super) fn sent(&mut self, node: NodeName, now: Timestamp) {
        self.unanswered.insert(node, now);
    }
    /// The node answered.
    pub(super) fn answered(&mut self, node: &NodeName) {
        self.unanswered.remove(node);
    }
    /// No node waits: the next round begins with the first node.
    pub(super) fn start_over(&mut self) {
        self.last = None;
    }
    /// When the next order may leave although no node answers.
    pub(super) fn free_at(&self) -> Option<Timestamp> {
        let first = self.unanswered.values().min().filter(|_| !self.due.is_empty());
        first.map(|sent_at| *sent_at + OCCUPIES_WINDOW)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_000_000);

    fn node(text: &str) -> NodeName {
        text.parse().expect("a name")
    }
    fn send(window: &mut Window, most: usize, now: Timestamp) -> Vec<String> {
        let mut sent = Vec::new();
        while let Some(node) = window.next(most, now) {
            sent.push(node.to_string());
            window.unanswered.insert(node, now);
        }
        sent
    }

    #[test]
    fn the_node_sent_to_last_comes_last_in_the_next_round() {
        let mut window = Window::default();
        ["a", "b", "c"].into_iter().for_each(|name| window.insert(node(name)));
        assert_eq!(send(&mut window, 2, NOW), ["a", "b"]);
        window.insert(node("a"));
        window.unanswered.remove(&node("b"));
        assert_eq!(send(&mut window, 2, NOW), ["c"]);
        window.unanswered.clear();
        assert_eq!(send(&mut window, 2, NOW), ["a"]);
    }

    #[test]
    fn a_silent_node_occupies_the_window_for_one_second_only() {
        let mut window = Window::default();
        ["a", "b", "c"].into_iter().for_each(|name| window.insert(node(name)));
        assert_eq!(window.free_at(), None);
        assert_eq!(send(&mut window, 2, NOW), ["a", "b"]);
        assert_eq!(window.free_at(), Some(NOW + OCCUPIES_WINDOW));
        assert_eq!(send(&mut window, 2, NOW + OCCUPIES_WINDOW), ["c"]);
        assert_eq!(window.free_at(), None, "no node waits");
    }
}
