//! What happens next: events ordered by time, and by the order they were asked for when the time is the same.

use std::collections::BTreeMap;
use std::time::Duration;

use contract::time::Timestamp;

/// When every history begins: 2026-01-01T00:00:00Z.
pub const BEGINNING: Timestamp = Timestamp::from_millis(1_767_225_600_000);

/// Virtual time and everything that is still to handle. Not bounded: its length is bounded by the plan, and a core
/// that fills it without end breaks the `BusyLoop` invariant.
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
    /// The present.
    pub fn now(&self) -> Timestamp {
        self.now
    }
    /// Something happens after `delay`.
    pub fn after(&mut self, delay: Duration, event: E) {
        self.at(self.now + delay, event);
    }
    /// Something happens at `time`, or now when that is past.
    pub fn at(&mut self, time: Timestamp, event: E) {
        self.count += 1;
        self.pending.insert((time.max(self.now), self.count), event);
    }
    /// The next event; time moves on to it.
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
    fn events_come_by_time_then_by_the_order_they_were_asked_for() {
        let mut queue = Queue::default();
        for (after, name) in [(5, 'c'), (1, 'a'), (5, 'd'), (1, 'b')] {
            queue.after(Duration::from_millis(after), name);
        }
        let order: String = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(order, "abcd");
        assert_eq!(queue.now(), BEGINNING + Duration::from_millis(5));
    }
}
