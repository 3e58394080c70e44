//! Who is told next: a bounded number of orders is under way at a time, and whoever waits is told of everything at once.
//!
//! While fewer are under way an order leaves the moment it is stored. A cluster that is made all at once has changes for every
//! node all the time: there a desk collects until it is its turn, so nodes get few large orders instead of many small ones, and no
//! order waits somewhere else while the time for its answer runs.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::time::Duration;

use contract::name::NodeName;
use contract::time::Timestamp;

/// Whoever has not answered after so long holds up nobody else: a hundred nodes may go silent at once, and the others' orders
/// do not wait until it is certain that none of them answers.
const HOLDS_UP: Duration = Duration::from_secs(1);

/// The nodes that may have something to be told.
#[derive(Debug, Default)]
pub(in crate::core) struct Window {
    due: BTreeSet<NodeName>,
    /// Who was told last: everybody else comes before it.
    last: Option<NodeName>,
    /// Whose answer is open, and since when.
    unanswered: BTreeMap<NodeName, Timestamp>,
}

impl Window {
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
    pub(super) fn next(&mut self, most: usize, now: Timestamp) -> Option<NodeName> {
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
    /// When the next may be told though nobody answers.
    pub(super) fn free_at(&self) -> Option<Timestamp> {
        let first = self.unanswered.values().min().filter(|_| !self.due.is_empty());
        first.map(|sent_at| *sent_at + HOLDS_UP)
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
        assert_eq!(line.free_at(), Some(NOW + HOLDS_UP));
        assert_eq!(tell(&mut line, 2, NOW + HOLDS_UP), ["c"]);
        assert_eq!(line.free_at(), None, "nobody waits");
    }
}
