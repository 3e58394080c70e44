//! How many dead letters a node may cause.
//!
//! An agent that was taken over could fill the stream of dead letters within seconds, and push out what operators look for.
//! 10 letters in a minute, of at most 28 KiB as JSON: one node needs almost 4 hours to fill the 64 MiB of the stream.

use std::collections::BTreeMap;
use std::time::Duration;

use contract::time::Timestamp;

const MINUTE: Duration = Duration::from_secs(60);
/// Letters of one node in a minute.
const OF_A_NODE: u32 = 10;
/// Letters of all nodes in a minute: a defect of a new version must not push out everything else either.
const OF_ALL: u32 = 200;

/// Counts the letters of the present minute.
#[derive(Debug, Default)]
pub(super) struct LetterLimit {
    since: Timestamp,
    /// By the subject of the node's reports. Never more than [`OF_ALL`] entries.
    nodes: BTreeMap<String, u32>,
    all: u32,
    dropped: u64,
}

impl LetterLimit {
    /// Whether another letter of the node that reports on `subject` is stored.
    pub(super) fn allows(&mut self, subject: &str, now: Timestamp) -> bool {
        if now.since(self.since) >= MINUTE {
            if self.dropped > 0 {
                tracing::warn!(dropped = self.dropped, "nodes sent more dead letters than are stored in a minute");
            }
            *self = Self { since: now, ..Self::default() };
        }
        let of_node = self.nodes.get(subject).copied().unwrap_or(0);
        if of_node >= OF_A_NODE || self.all >= OF_ALL {
            self.dropped += 1;
            return false;
        }
        self.all += 1;
        self.nodes.insert(subject.to_owned(), of_node + 1);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(limit: &mut LetterLimit, node: &str, at: u64, tries: u32) -> u32 {
        let now = Timestamp::from_millis(1_000_000 + i64::try_from(at).unwrap_or(0) * 1_000);
        (0..tries).map(|_| u32::from(limit.allows(node, now))).sum()
    }

    #[test]
    fn a_node_gets_a_few_letters_in_a_minute_whatever_it_sends() {
        let mut limit = LetterLimit::default();
        assert_eq!(allowed(&mut limit, "a", 0, 100_000), OF_A_NODE);
        assert_eq!(allowed(&mut limit, "b", 1, 1), 1, "another node is not affected");
        assert_eq!(allowed(&mut limit, "a", 59, 5), 0);
        assert_eq!(allowed(&mut limit, "a", 60, 100), OF_A_NODE, "the next minute");
    }

    #[test]
    fn all_nodes_together_get_a_bounded_number_and_take_bounded_memory() {
        let mut limit = LetterLimit::default();
        let stored: u32 = (0..1_000).map(|node| allowed(&mut limit, &node.to_string(), 0, 3)).sum();
        assert_eq!(stored, OF_ALL);
        assert!(limit.nodes.len() <= OF_ALL as usize);
    }
}
