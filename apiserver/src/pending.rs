//! Requests that wait for the outcome of their command, by command id.
//!
//! Two requests may wait for one id: a client repeats its `Idempotency-Key` while its first request still runs.
//!
//! A scheduler of wire version 1 cannot name a command that it cannot decode. Its refusal goes to the oldest request whose
//! command needs a newer scheduler, because the leader decides commands in the order they were sent.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use contract::command::{Decision, Outcome, Refusal};
use contract::name::CommandId;
use contract::wire;
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::oneshot;

/// The id in a version 1 refusal of a command that the scheduler could not decode.
const UNNAMED: &str = "malformed";

/// Clones share the table.
#[derive(Debug, Clone)]
pub struct Pending {
    table: Arc<Mutex<Table>>,
    most: usize,
    waiting: Gauge,
}

#[derive(Debug, Default)]
struct Table {
    by_command: BTreeMap<CommandId, BTreeMap<u64, oneshot::Sender<Outcome>>>,
    /// Commands that need a scheduler newer than wire version 1, oldest first.
    newer: BTreeMap<u64, CommandId>,
    count: usize,
    next: u64,
}

/// One waiting request; dropping it removes it from the table.
#[derive(Debug)]
pub struct PendingCommand {
    pending: Pending,
    id: CommandId,
    number: u64,
    outcome: oneshot::Receiver<Outcome>,
}

impl Pending {
    /// Room for `most` requests; `waiting` is the gauge of waiting requests.
    pub fn new(most: usize, waiting: Gauge) -> Self {
        Self { table: Arc::default(), most, waiting }
    }

    /// Registers a request for `id`, which needs a scheduler of version `wire`. None when the table is full: then the
    /// caller must not publish the command.
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

    /// Delivers an outcome to every request that waits for it.
    pub fn deliver(&self, outcome: &Outcome) {
        let (outcome, senders) = self.with(|table| {
            let outcome = table.named(outcome);
            let senders = table.by_command.remove(&outcome.id).unwrap_or_default();
            table.newer.retain(|number, _| !senders.contains_key(number));
            table.count -= senders.len();
            (outcome, senders)
        });
        for sender in senders.into_values() {
            // Fails only when the request timed out at this moment.
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
        // No change can panic half-way, so a poisoned table is still consistent.
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let result = change(&mut table);
        self.waiting.set(i64::try_from(table.count).unwrap_or(i64::MAX));
        result
    }
}

impl Table {
    /// The outcome; an unnamed refusal gets the id of its command and the remedy.
    fn named(&self, outcome: &Outcome) -> Outcome {
        match (&outcome.decision, self.newer.values().next()) {
            (Decision::Refused(Refusal::Malformed { reason }), Some(id)) if outcome.id.as_str() == UNNAMED => {
                let reason = format!("{reason}; upgrade the schedulers, then ask again");
                Outcome {
                    id: id.clone(),
                    decision: Decision::Refused(Refusal::Malformed { reason }),
                    ..outcome.clone()
                }
            }
            _ => outcome.clone(),
        }
    }
}

impl PendingCommand {
    /// Waits for the outcome. Cancel-safe.
    pub async fn outcome(&mut self) -> Outcome {
        match (&mut self.outcome).await {
            Ok(outcome) => outcome,
            // Cannot happen: the table keeps the sender until it is used or this value is dropped.
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
        Outcome {
            id: id(text),
            at: Timestamp::from_millis(1),
            decision: Decision::Accepted,
            digest: None,
            principal: None,
        }
    }

    fn waiting(pending: &Pending, text: &str) -> PendingCommand {
        pending.wait_for(&id(text), wire::FIRST).unwrap()
    }

    #[tokio::test]
    async fn an_unnamed_refusal_goes_to_the_oldest_command_that_needs_a_newer_scheduler() {
        let pending = Pending::new(10, Gauge::default());
        let mut usual = waiting(&pending, "usual");
        let mut newer = ["z", "a"].map(|text| pending.wait_for(&id(text), 2).unwrap());
        let refusal = Refusal::Malformed { reason: "it speaks wire version 2".to_owned() };
        let unnamed = Outcome { decision: Decision::Refused(refusal), ..outcome(UNNAMED) };
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
    async fn an_outcome_is_delivered_to_all_requests_with_its_id_and_to_no_other() {
        let pending = Pending::new(10, Gauge::default());
        let (mut first, mut second) = (waiting(&pending, "a"), waiting(&pending, "a"));
        let mut other = waiting(&pending, "b");
        pending.deliver(&outcome("a"));
        pending.deliver(&outcome("unknown"));
        assert_eq!((first.outcome().await, second.outcome().await), (outcome("a"), outcome("a")));
        assert!(futures_util::FutureExt::now_or_never(other.outcome()).is_none());
    }

    #[test]
    fn the_table_is_bounded_and_dropped_requests_make_room() {
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
