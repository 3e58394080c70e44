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
    fn tell(line: &mut Window, most: usize, now: Timestamp) -> Vec<String> {
        let mut told = Vec::new();
        while let Some(node) = line.next(most, now) {
            told.push(node.to_string());
            line.unanswered.insert(node, now);
        }
        told
    }

    #[test]
    fn who_was_told_last_comes_after_everybody_else() {
        let mut line = Window::default();
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
        let mut line = Window::default();
        ["a", "b", "c"].into_iter().for_each(|name| line.insert(node(name)));
        assert_eq!(line.free_at(), None);
        assert_eq!(tell(&mut line, 2, NOW), ["a", "b"]);
        assert_eq!(line.free_at(), Some(NOW + OCCUPIES_WINDOW));
        assert_eq!(tell(&mut line, 2, NOW + OCCUPIES_WINDOW), ["c"]);
        assert_eq!(line.free_at(), None, "nobody waits");
    }
}
