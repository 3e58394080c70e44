//! Simulated NATS: how many copies of a message arrive and when, and the durable stream of commands.
//!
//! Core messages may be lost, doubled and overtaken while the conditions is bad. The stream keeps what it
//! acknowledged, in order, and refuses an id it saw lately.

use std::collections::BTreeMap;
use std::time::Duration;

use contract::command::Command;
use contract::name::CommandId;
use contract::notice::DeadLetter;
use contract::time::Timestamp;

use crate::random::Random;

/// How long the stream recognises an id it has; shorter than the real two minutes, so that ids outlive it.
pub const DEDUPLICATION: Duration = Duration::from_secs(20);
/// How long the shell waits for the answer to an order.
pub const ORDER_DEADLINE: Duration = Duration::from_secs(3);

/// How the bus treats messages at present.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BusConditions {
    /// Lost, in percent.
    pub loss: u64,
    /// Delivered twice, in percent.
    pub doubled: u64,
    /// Slowest delivery in milliseconds; messages overtake each other within it.
    pub slowest: u64,
}

impl BusConditions {
    /// Nothing is lost.
    pub const CALM: Self = Self { loss: 0, doubled: 0, slowest: 5 };
}

/// One message of the stream.
#[derive(Debug, Clone)]
pub struct StreamMessage {
    /// The command, or why nobody can read it.
    pub command: Result<Command, DeadLetter>,
    /// Who waits for the outcome.
    pub reply: String,
}

/// The bus.
#[derive(Debug)]
pub struct Bus {
    /// The present conditions.
    pub conditions: BusConditions,
    /// Target creation of the stream this is.
    pub creation: u32,
    messages: Vec<StreamMessage>,
    seen: BTreeMap<CommandId, Timestamp>,
}

impl Default for Bus {
    fn default() -> Self {
        Self { conditions: BusConditions::CALM, creation: 1, messages: Vec::new(), seen: BTreeMap::new() }
    }
}

impl Bus {
    /// The delays after which copies of one core message arrive; empty when it is lost.
    pub fn deliveries(&self, random: &mut Random) -> Vec<Duration> {
        let mut copies = Vec::new();
        if !random.chance(self.conditions.loss) {
            copies.push(random.span(1, self.conditions.slowest));
        }
        if random.chance(self.conditions.doubled) {
            copies.push(random.span(1, self.conditions.slowest.saturating_mul(4)));
        }
        copies
    }

    /// Identity of the stream as schedulers see it.
    pub fn identity(&self) -> String {
        format!("created-{}", self.creation)
    }

    /// Stores a message and tells its sequence number; none when its id was seen lately.
    pub fn publish(&mut self, message: StreamMessage, now: Timestamp) -> Option<u64> {
        if let Ok(command) = &message.command {
            let seen = self.seen.get(&command.id).is_some_and(|at| now.since(*at) < DEDUPLICATION);
            if seen {
                return None;
            }
            self.seen.insert(command.id.clone(), now);
        }
        self.messages.push(message);
        Some(self.messages.len() as u64)
    }

    /// The message with this sequence number; the first is 1.
    pub fn message(&self, sequence: u64) -> Option<&StreamMessage> {
        self.messages.get(usize::try_from(sequence.checked_sub(1)?).ok()?)
    }

    /// The stream is lost and created anew.
    pub fn recreate(&mut self) {
        self.creation += 1;
        self.messages.clear();
        self.seen.clear();
    }
}
