//! Who waits for the outcome of which command.
//!
//! One inbox per process, so waiters are told apart by command id. Two requests may wait for one id: a client that
//! repeats its `Idempotency-Key` while the first try still runs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use contract::command::Outcome;
use contract::name::CommandId;
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::oneshot;

/// The table; clones share it.
#[derive(Debug, Clone)]
pub struct Waiters {
    table: Arc<Mutex<Table>>,
    most: usize,
    waiting: Gauge,
}

#[derive(Debug, Default)]
struct Table {
    by_command: BTreeMap<CommandId, BTreeMap<u64, oneshot::Sender<Outcome>>>,
    count: usize,
    next: u64,
}

/// One waiter; dropping it gives its place back.
#[derive(Debug)]
pub struct Waiter {
    waiters: Waiters,
    id: CommandId,
    number: u64,
    outcome: oneshot::Receiver<Outcome>,
}

impl Waiters {
    /// An empty table with room for `most`; `waiting` shows how many wait.
    pub fn new(most: usize, waiting: Gauge) -> Self {
        Self { table: Arc::default(), most, waiting }
    }

    /// Begins to wait for `id`; none when the table is full, and the caller must not publish then.
    pub fn wait_for(&self, id: &CommandId) -> Option<Waiter> {
        let (sender, outcome) = oneshot::channel();
        let number = self.with(|table| {
            if table.count >= self.most {
                return None;
            }
            let number = table.next;
            table.next += 1;
            table.count += 1;
            table.by_command.entry(id.clone()).or_default().insert(number, sender);
            Some(number)
        })?;
        Some(Waiter { waiters: self.clone(), id: id.clone(), number, outcome })
    }

    /// Hands an outcome to everybody who waits for it; one nobody waits for is dropped.
    pub fn deliver(&self, outcome: &Outcome) {
        let senders = self.with(|table| {
            let senders = table.by_command.remove(&outcome.id).unwrap_or_default();
            table.count -= senders.len();
            senders
        });
        for sender in senders.into_values() {
            // A waiter that gave up in this moment needs no outcome.
            drop(sender.send(outcome.clone()));
        }
    }

    fn forget(&self, id: &CommandId, number: u64) {
        self.with(|table| {
            let Some(senders) = table.by_command.get_mut(id) else { return };
            if senders.remove(&number).is_some() {
                table.count -= 1;
            }
            if senders.is_empty() {
                table.by_command.remove(id);
            }
        });
    }

    fn with<T>(&self, change: impl FnOnce(&mut Table) -> T) -> T {
        // No change can panic half-way, so a poisoned table is still whole.
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let result = change(&mut table);
        self.waiting.set(i64::try_from(table.count).unwrap_or(i64::MAX));
        result
    }
}

impl Waiter {
    /// The outcome, once it is delivered. Cancel-safe.
    pub async fn outcome(&mut self) -> Outcome {
        match (&mut self.outcome).await {
            Ok(outcome) => outcome,
            // The sender lives in the table until it is used or this waiter is dropped.
            Err(_) => std::future::pending().await,
        }
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.waiters.forget(&self.id, self.number);
    }
}

#[cfg(test)]
mod tests {
    use contract::command::Verdict;
    use contract::time::Timestamp;

    use super::*;

    fn id(text: &str) -> CommandId {
        text.parse().unwrap()
    }
    fn outcome(text: &str) -> Outcome {
        Outcome { id: id(text), at: Timestamp::from_millis(1), verdict: Verdict::Accepted }
    }

    #[tokio::test]
    async fn everybody_who_waits_for_a_command_hears_of_it_and_nobody_else() {
        let waiters = Waiters::new(10, Gauge::default());
        let (mut first, mut second) = (waiters.wait_for(&id("a")).unwrap(), waiters.wait_for(&id("a")).unwrap());
        let mut other = waiters.wait_for(&id("b")).unwrap();
        waiters.deliver(&outcome("a"));
        waiters.deliver(&outcome("unknown"));
        assert_eq!((first.outcome().await, second.outcome().await), (outcome("a"), outcome("a")));
        assert!(futures_util::FutureExt::now_or_never(other.outcome()).is_none());
    }

    #[test]
    fn the_table_is_bounded_and_places_come_back() {
        let gauge = Gauge::default();
        let waiters = Waiters::new(2, gauge.clone());
        let first = waiters.wait_for(&id("a")).unwrap();
        let second = waiters.wait_for(&id("a")).unwrap();
        assert!(waiters.wait_for(&id("b")).is_none());
        drop(first);
        assert_eq!(gauge.get(), 1);
        let third = waiters.wait_for(&id("b")).unwrap();
        waiters.deliver(&outcome("b"));
        drop(third);
        drop(second);
        assert_eq!(gauge.get(), 0);
        assert!(waiters.with(|table| table.by_command.is_empty()));
    }
}
