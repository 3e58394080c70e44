//! Simulated NATS: how many copies of a message arrive and when, and the durable stream of commands.
//!
//! Under bad conditions core messages are lost, duplicated and reordered. The stream keeps acknowledged messages in sequence, and
//! ignores an id that it saw in the last 20 s.

use std::collections::BTreeMap;
use std::time::Duration;

use contract::command::Command;
use contract::name::CommandId;
use contract::notice::DeadLetter;
use contract::time::Timestamp;

use testkit::random::Random;

/// The deduplication window; shorter than the real two minutes, so that some repeats come after it.
pub const DEDUPLICATION: Duration = Duration::from_secs(20);
pub const ORDER_DEADLINE: Duration = Duration::from_secs(3);

/// How the bus treats messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BusConditions {
    /// Lost messages in percent.
    pub loss: u64,
    /// Duplicated messages in percent.
    pub duplicated: u64,
    /// Slowest delivery in milliseconds; messages overtake each other within that time.
    pub slowest: u64,
}

impl BusConditions {
    pub const HEALTHY: Self = Self { loss: 0, duplicated: 0, slowest: 5 };
}

#[derive(Debug, Clone)]
pub struct StreamMessage {
    /// The command, or the dead letter of an unreadable message.
    pub command: Result<Command, DeadLetter>,
    /// Inbox for the outcome.
    pub reply: String,
}

#[derive(Debug)]
pub struct Bus {
    pub conditions: BusConditions,
    /// How often the stream was created.
    pub creation: u32,
    messages: Vec<StreamMessage>,
    seen: BTreeMap<CommandId, Timestamp>,
}

impl Default for Bus {
    fn default() -> Self {
        Self { conditions: BusConditions::HEALTHY, creation: 1, messages: Vec::new(), seen: BTreeMap::new() }
    }
}

impl Bus {
    /// The delay of each copy of a core message; empty if it is lost.
    pub fn deliveries(&self, random: &mut Random) -> Vec<Duration> {
        let mut copies = Vec::new();
        if !random.chance(self.conditions.loss) {
            copies.push(random.span(1, self.conditions.slowest));
        }
        if random.chance(self.conditions.duplicated) {
            copies.push(random.span(1, self.conditions.slowest.saturating_mul(4)));
        }
        copies
    }

    pub fn identity(&self) -> String {
        format!("created-{}", self.creation)
    }

    /// Stores a message and returns its sequence number; none for a repeated id.
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

    /// Sequence numbers start at 1.
    pub fn message(&self, sequence: u64) -> Option<&StreamMessage> {
        self.messages.get(usize::try_from(sequence.checked_sub(1)?).ok()?)
    }

    /// Deletes the stream with its messages and creates it again.
    pub fn recreate(&mut self) {
        self.creation += 1;
        self.messages.clear();
        self.seen.clear();
    }
}
