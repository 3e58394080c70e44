//! The queue of events, sorted by time; events of the same time keep the sequence in which they were added.

use std::collections::BTreeMap;
use std::time::Duration;

use contract::time::Timestamp;

/// Every history starts at 2026-01-01T00:00:00Z.
pub const BEGINNING: Timestamp = Timestamp::from_millis(1_767_225_600_000);

/// Virtual time and all future events. Unbounded: a core that adds events without end breaks `NoBusyLoop`.
#[derive(Debug)]
pub struct Queue<E> {
    now: Timestamp,
    count: u64,
    pending: BTreeMap<(Timestamp, u64), E>,
}

impl<E> Default for Queue<E> {
    fn default() -> Self {
        Self { now: BEGINNING, count: 0, pending: BTreeMap::new() }
    }
}

impl<E> Queue<E> {
    pub fn now(&self) -> Timestamp {
        self.now
    }
    pub fn after(&mut self, delay: Duration, event: E) {
        self.at(self.now + delay, event);
    }
    /// Adds an event; one in the past happens now.
    pub fn at(&mut self, time: Timestamp, event: E) {
        self.count += 1;
        self.pending.insert((time.max(self.now), self.count), event);
    }
    /// The next event; moves time to it.
    pub fn pop(&mut self) -> Option<E> {
        let ((time, _), event) = self.pending.pop_first()?;
        self.now = time;
        Some(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_the_same_time_keep_their_sequence() {
        let mut queue = Queue::default();
        for (after, name) in [(5, 'c'), (1, 'a'), (5, 'd'), (1, 'b')] {
            queue.after(Duration::from_millis(after), name);
        }
        let order: String = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(order, "abcd");
        assert_eq!(queue.now(), BEGINNING + Duration::from_millis(5));
    }
}
