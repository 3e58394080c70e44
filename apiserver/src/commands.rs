//! Carries a command to the leader and waits for what becomes of it.
//!
//! The command is durable when JetStream acknowledges it. From then on silence does not mean failure: the outcome may
//! come by the inbox, or, when the leader changed between deciding and replying, by asking; or later.

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

/// How often the leader is asked while no outcome comes by the inbox.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// What is known when the waiting ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Submission {
    /// The leader decided.
    Decided(Outcome),
    /// Durable; a leader will decide.
    Queued,
    /// Not stored: another change with the same id waits for a decision.
    KeyTaken {
        /// When an apiserver took the other change.
        at: Timestamp,
    },
}

/// Why a command may not be on its way.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Too many wait already.
    #[error("too many changes wait for a decision, nothing was accepted; try again in a moment")]
    Busy,
    /// The bus is away.
    #[error("the message bus cannot be reached, nothing was accepted; try again in a moment")]
    Unreachable,
    /// The store is away.
    #[error(
        "the store (etcd) has not answered since {since}; of this request nothing was accepted; send it again in a moment"
    )]
    StoreAway {
        /// Since when.
        since: Timestamp,
    },
    /// The bus did not confirm in time.
    #[error(
        "the outcome of operation {id} is unknown: the message bus did not confirm it in time; a retry with the header \
         Idempotency-Key: {id} is safe"
    )]
    Unknown {
        /// The command.
        id: CommandId,
        /// What the bus said.
        #[source]
        source: fabric::nats::Error,
    },
}

/// Who sends, and how long it waits.
#[derive(Debug, Clone)]
pub struct Sender {
    /// Name of this apiserver.
    pub by: String,
    /// Until the bus has stored the command.
    pub publish_deadline: Duration,
    /// Until the leader has decided, from the start.
    pub outcome_deadline: Duration,
    /// Counters.
    pub metrics: Metrics,
}

/// Sends commands; clones share the inbox.
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
    /// Subscribes the one inbox, and the words about the store, and listens to them until shutdown.
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
                    Err(error) => tracing::warn!(%error, "an outcome that cannot be read"),
                }
            }
        });
        Ok(Self { bus, inbox, sender, pending, queries, store_outage, clock: Clock::start() })
    }

    /// The command that asks for `verb`; who asked is this apiserver unless the client says.
    pub fn command(&self, id: CommandId, by: Option<String>, verb: Verb, digest: Digest) -> Command {
        let by = by.unwrap_or_else(|| self.sender.by.clone());
        Command { id, at: self.clock.now(), by, verb, digest: Some(digest) }
    }

    /// Publishes `command` and waits for its fate.
    pub async fn send(&self, command: &Command) -> Result<Submission, Error> {
        let until = Instant::now() + self.sender.outcome_deadline;
        let mut waiter = self.pending.wait_for(&command.id, command.verb.wire()).ok_or(Error::Busy)?;
        // A disconnected client would keep the message and send it later, after we said that nothing was accepted.
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

    /// Stores the command. The bus drops one whose id it has stored before, and acknowledges the stored one.
    async fn publish(&self, command: &Command) -> Result<DurableAck, Error> {
        let wire = command.verb.wire().to_string();
        let headers = [(subjects::REPLY_HEADER, self.inbox.as_str()), (subjects::WIRE_HEADER, wire.as_str())];
        let id = command.id.as_str();
        match self.bus.publish_durable(subjects::COMMANDS, id, &headers, command, self.sender.publish_deadline).await {
            Ok(ack) => {
                tracing::info!(command = %command.id, sequence = ack.sequence, duplicate = ack.duplicate, "command stored");
                Ok(ack)
            }
            // These say that nothing was sent.
            Err(
                error @ (fabric::nats::Error::Disconnected
                | fabric::nats::Error::Encode { .. }
                | fabric::nats::Error::TooLarge { .. }),
            ) => {
                tracing::warn!(command = %command.id, %error, "command not sent");
                Err(Error::Unreachable)
            }
            Err(source) => Err(Error::Unknown { id: command.id.clone(), source }),
        }
    }

    /// The command with this number in the stream; none when it cannot be read.
    async fn stored(&self, sequence: u64) -> Option<Command> {
        match self.bus.payload(subjects::COMMANDS_STREAM, sequence).await {
            Ok(payload) => serde_json::from_slice(&payload?).ok(),
            Err(error) => {
                tracing::warn!(%error, sequence, "cannot compare a command with the stored one of the same id");
                None
            }
        }
    }

    async fn follow(&self, id: &CommandId, waiter: &mut PendingCommand) -> Outcome {
        let mut ask = interval_at(Instant::now() + ASK_EVERY, ASK_EVERY);
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

/// Whether two commands with one id are the same change. Older apiservers and schedulers do not tell a digest.
pub fn is_same_request(first: Option<Digest>, second: Option<Digest>) -> bool {
    first.zip(second).is_none_or(|(first, second)| first == second)
}
