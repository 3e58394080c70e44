//! Publishes commands and waits for their outcomes.
//!
//! A command is durable once JetStream acknowledges it; from then on silence does not mean failure. The outcome arrives in
//! the inbox, or by a query when the leader changed between deciding and replying, or after the deadline.

use std::time::Duration;

use contract::command::{Command, Outcome, Verb};
use contract::digest::Digest;
use contract::name::CommandId;
use contract::subjects;
use contract::time::Timestamp;
use fabric::clock::Clock;
use fabric::nats::{Bus, DurableAck};
use fabric::shutdown::Shutdown;
use tokio::time::{Instant, interval_at, timeout_at};

use crate::metrics::Metrics;
use crate::pending::{Pending, PendingCommand};
use crate::queries::Queries;
use crate::store_outage::StoreOutage;

/// Interval of outcome queries while the inbox is silent.
const QUERY_EVERY: Duration = Duration::from_secs(1);

/// The state of a command when the request stops waiting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Submission {
    Decided(Outcome),
    /// Stored; a leader will decide later.
    Queued,
    /// Not stored: another command with the same id waits for a decision.
    KeyTaken {
        /// When the other command was sent.
        at: Timestamp,
    },
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("too many changes wait for a decision, nothing was accepted; try again in a moment")]
    Busy,
    #[error("the message bus cannot be reached, nothing was accepted; try again in a moment")]
    Unreachable,
    #[error(
        "the store (etcd) has not answered since {since}; of this request nothing was accepted; send it again in a moment"
    )]
    StoreAway { since: Timestamp },
    #[error(
        "the outcome of operation {id} is unknown: the message bus did not confirm it in time; a retry with the header \
         Idempotency-Key: {id} is safe"
    )]
    Unknown {
        id: CommandId,
        #[source]
        source: fabric::nats::Error,
    },
}

#[derive(Debug, Clone)]
pub struct Sender {
    /// Name of this apiserver: `by` of commands without a user.
    pub by: String,
    /// For the bus to store the command.
    pub publish_deadline: Duration,
    /// For the leader to decide, from the start of the request.
    pub outcome_deadline: Duration,
    pub metrics: Metrics,
}

/// Clones share one inbox.
#[derive(Debug, Clone)]
pub struct Commands {
    bus: Bus,
    inbox: String,
    sender: Sender,
    pending: Pending,
    queries: Queries,
    store_outage: StoreOutage,
    clock: Clock,
}

impl Commands {
    /// Subscribes to the inbox and to store reports until shutdown.
    pub async fn start(
        bus: Bus,
        queries: Queries,
        pending: Pending,
        sender: Sender,
        shutdown: Shutdown,
    ) -> Result<Self, fabric::nats::Error> {
        let inbox = bus.inbox();
        let mut outcomes = bus.subscribe(&inbox).await?;
        let store_outage = StoreOutage::start(&bus, queries.clone(), shutdown.clone()).await?;
        let table = pending.clone();
        fabric::tasks::spawn("outcomes", async move {
            loop {
                let message = tokio::select! {
                    message = outcomes.next() => message,
                    () = shutdown.wait() => None,
                };
                let Some(message) = message else { break };
                match message.decode::<Outcome>() {
                    Ok(outcome) => table.deliver(&outcome),
                    Err(error) => tracing::warn!(%error, "cannot decode an outcome"),
                }
            }
        });
        Ok(Self { bus, inbox, sender, pending, queries, store_outage, clock: Clock::start() })
    }

    /// Builds a command. `by` is the client's user, or this apiserver.
    pub fn command(&self, id: CommandId, by: Option<String>, verb: Verb, digest: Digest) -> Command {
        let by = by.unwrap_or_else(|| self.sender.by.clone());
        Command { id, at: self.clock.now(), by, verb, digest: Some(digest), credentials: None }
    }

    /// Publishes `command` and waits for its outcome.
    pub async fn send(&self, command: &Command) -> Result<Submission, Error> {
        let until = Instant::now() + self.sender.outcome_deadline;
        let mut waiter = self.pending.wait_for(&command.id, command.verb.wire()).ok_or(Error::Busy)?;
        // A disconnected NATS client would buffer the message and send it after we answered "nothing was accepted".
        if !*self.bus.connected().borrow() {
            return Err(Error::Unreachable);
        }
        if let Some(since) = self.store_outage.since().await {
            return Err(Error::StoreAway { since });
        }
        let ack = self.publish(command).await?;
        if ack.duplicate {
            if let Some(outcome) = self.queries.outcome(&command.id).await {
                return Ok(Submission::Decided(outcome));
            }
            if let Ok(Some(first)) = timeout_at(until, self.stored(ack.sequence)).await
                && !is_same_request(first.digest, command.digest)
            {
                return Ok(Submission::KeyTaken { at: first.at });
            }
        }
        let submission = timeout_at(until, self.follow(&command.id, &mut waiter)).await;
        Ok(submission.map_or_else(
            |_| {
                self.sender.metrics.queued.inc();
                Submission::Queued
            },
            Submission::Decided,
        ))
    }

    /// Stores the command. JetStream drops a duplicate id and acknowledges the stored message.
    async fn publish(&self, command: &Command) -> Result<DurableAck, Error> {
        let wire = command.verb.wire().to_string();
        let headers = [(subjects::REPLY_HEADER, self.inbox.as_str()), (subjects::WIRE_HEADER, wire.as_str())];
        let id = command.id.as_str();
        match self.bus.publish_durable(subjects::COMMANDS, id, &headers, command, self.sender.publish_deadline).await {
            Ok(ack) => {
                tracing::info!(command = %command.id, sequence = ack.sequence, duplicate = ack.duplicate, "stored the command");
                Ok(ack)
            }
            // With these errors nothing was sent, or nothing stored it.
            Err(
                error @ (fabric::nats::Error::Disconnected
                | fabric::nats::Error::NoStream { .. }
                | fabric::nats::Error::Encode { .. }
                | fabric::nats::Error::TooLarge { .. }),
            ) => {
                tracing::warn!(command = %command.id, %error, "could not send the command");
                Err(Error::Unreachable)
            }
            Err(source) => Err(Error::Unknown { id: command.id.clone(), source }),
        }
    }

    /// The command at this position of the stream; none when it cannot be read.
    async fn stored(&self, sequence: u64) -> Option<Command> {
        match self.bus.payload(subjects::COMMANDS_STREAM, sequence).await {
            Ok(payload) => serde_json::from_slice(&payload?).ok(),
            Err(error) => {
                tracing::warn!(%error, sequence, "cannot read the stored command with the same id");
                None
            }
        }
    }

    async fn follow(&self, id: &CommandId, waiter: &mut PendingCommand) -> Outcome {
        let mut ask = interval_at(Instant::now() + QUERY_EVERY, QUERY_EVERY);
        loop {
            tokio::select! {
                outcome = waiter.outcome() => return outcome,
                _ = ask.tick() => {}
            }
            let known = tokio::select! {
                outcome = waiter.outcome() => Some(outcome),
                known = self.queries.outcome(id) => known,
            };
            if let Some(outcome) = known {
                return outcome;
            }
        }
    }
}

/// Whether two commands with one id are the same request. Older apiservers and schedulers send no digest.
pub fn is_same_request(first: Option<Digest>, second: Option<Digest>) -> bool {
    first.zip(second).is_none_or(|(first, second)| first == second)
}
