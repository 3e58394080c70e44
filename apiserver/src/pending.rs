//! Who waits for the outcome of which command.
//!
//! One inbox per process, so waiters are told apart by command id. Two requests may wait for one id: a client that
//! repeats its `Idempotency-Key` while the first try still runs.
//!
//! The surprise: schedulers of wire version 1 cannot name a command they cannot read. Such a refusal is given to whoever has waited
//! longest for a command that only newer schedulers understand: they are decided in the order in which they were sent.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use contract::command::{Outcome, Refusal, Verdict};
use contract::name::CommandId;
use contract::wire;
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::oneshot;

/// What a scheduler of wire version 1 calls a command that it cannot read.
const UNNAMED: &str = "malformed";

/// The table; clones share it.
#[derive(Debug, Clone)]
pub struct Pending {
    table: Arc<Mutex<Table>>,
    most: usize,
    waiting: Gauge,
}

#[derive(Debug, Default)]
struct Table {
    by_command: BTreeMap<CommandId, BTreeMap<u64, oneshot::Sender<Outcome>>>,
    /// Commands that schedulers of wire version 1 cannot read, in the order of their waiters.
    newer: BTreeMap<u64, CommandId>,
    count: usize,
    next: u64,
}

/// One waiter; dropping it gives its place back.
#[derive(Debug)]
pub struct PendingCommand {
    pending: Pending,
    id: CommandId,
    number: u64,
    outcome: oneshot::Receiver<Outcome>,
}

impl Pending {
    /// An empty table with room for `most`; `waiting` shows how many wait.
    pub fn new(most: usize, waiting: Gauge) -> Self {
        Self { table: Arc::default(), most, waiting }
    }

    /// Begins to wait for `id`, which needs a scheduler of version `wire`; none when the table is full, and the caller must not
    /// publish then.
    pub fn wait_for(&self, id: &CommandId, wire: u32) -> Option<PendingCommand> {
        let (sender, outcome) = oneshot::channel();
        let number = self.with(|table| {
            if table.count >= self.most {
                return None;
            }
            let number = table.next;
            table.next += 1;
            table.count += 1;
            table.by_command.entry(id.clone()).or_default().insert(number, sender);
            if wire > wire::FIRST {
                table.newer.insert(number, id.clone());
            }
            Some(number)
        })?;
        Some(PendingCommand { pending: self.clone(), id: id.clone(), number, outcome })
    }

    /// Hands an outcome to everybody who waits for it; one nobody waits for is dropped.
    pub fn deliver(&self, outcome: &Outcome) {
        let (outcome, senders) = self.with(|table| {
            let outcome = table.named(outcome);
            let senders = table.by_command.remove(&outcome.id).unwrap_or_default();
            table.newer.retain(|number, _| !senders.contains_key(number));
            table.count -= senders.len();
            (outcome, senders)
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
                table.newer.remove(&number);
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

impl Table {
    /// The outcome under the name of the command it belongs to, with the remedy.
    fn named(&self, outcome: &Outcome) -> Outcome {
        match (&outcome.verdict, self.newer.values().next()) {
            (Verdict::Refused(Refusal::Malformed { reason }), Some(id)) if outcome.id.as_str() == UNNAMED => {
                let reason = format!("{reason}; upgrade the schedulers, then ask again");
                Outcome { id: id.clone(), verdict: Verdict::Refused(Refusal::Malformed { reason }), ..outcome.clone() }
            }
            _ => outcome.clone(),
        }
    }
}

impl PendingCommand {
    /// The outcome, once it is delivered. Cancel-safe.
    pub async fn outcome(&mut self) -> Outcome {
        match (&mut self.outcome).await {
            Ok(outcome) => outcome,
            // The sender lives in the table until it is used or this waiter is dropped.
            Err(_) => std::future::pending().await,
        }
    }
}

impl Drop for PendingCommand {
    fn drop(&mut self) {
        self.pending.forget(&self.id, self.number);
    }
}

#[cfg(test)]
mod tests {
    use contract::time::Timestamp;

    use super::*;

    fn id(text: &str) -> CommandId {
        text.parse().unwrap()
    }
    fn outcome(text: &str) -> Outcome {
        Outcome { id: id(text), at: Timestamp::from_millis(1), verdict: Verdict::Accepted, digest: None }
    }

    fn waiting(pending: &Pending, text: &str) -> PendingCommand {
        pending.wait_for(&id(text), wire::FIRST).unwrap()
    }

    #[tokio::test]
    async fn a_refusal_without_a_name_belongs_to_the_first_that_only_newer_schedulers_understand() {
        let pending = Pending::new(10, Gauge::default());
        let mut usual = waiting(&pending, "usual");
        let mut newer = ["z", "a"].map(|text| pending.wait_for(&id(text), 2).unwrap());
        let refusal = Refusal::Malformed { reason: "it speaks wire version 2".to_owned() };
        let unnamed = Outcome { verdict: Verdict::Refused(refusal), ..outcome(UNNAMED) };
        for (waiter, name) in newer.iter_mut().zip(["z", "a"]) {
            pending.deliver(&unnamed);
            let heard = waiter.outcome().await;
            assert_eq!(heard.id, id(name));
            assert!(format!("{heard:?}").contains("wire version 2; upgrade the schedulers"), "{heard:?}");
        }
        pending.deliver(&unnamed);
        assert!(futures_util::FutureExt::now_or_never(usual.outcome()).is_none());
        drop((usual, newer));
        assert!(pending.with(|table| table.by_command.is_empty() && table.newer.is_empty()));
    }

    #[tokio::test]
    async fn everybody_who_waits_for_a_command_hears_of_it_and_nobody_else() {
        let pending = Pending::new(10, Gauge::default());
        let (mut first, mut second) = (waiting(&pending, "a"), waiting(&pending, "a"));
        let mut other = waiting(&pending, "b");
        pending.deliver(&outcome("a"));
        pending.deliver(&outcome("unknown"));
        assert_eq!((first.outcome().await, second.outcome().await), (outcome("a"), outcome("a")));
        assert!(futures_util::FutureExt::now_or_never(other.outcome()).is_none());
    }

    #[test]
    fn the_table_is_bounded_and_places_come_back() {
        let gauge = Gauge::default();
        let pending = Pending::new(2, gauge.clone());
        let first = waiting(&pending, "a");
        let second = waiting(&pending, "a");
        assert!(pending.wait_for(&id("b"), wire::FIRST).is_none());
        drop(first);
        assert_eq!(gauge.get(), 1);
        let third = waiting(&pending, "b");
        pending.deliver(&outcome("b"));
        drop(third);
        drop(second);
        assert_eq!(gauge.get(), 0);
        assert!(pending.with(|table| table.by_command.is_empty()));
    }
}
