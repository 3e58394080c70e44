//! Says what the core wants said: answers to orders, and reports.

use contract::name::NodeName;
use contract::notice::DeadLetter;
use contract::order::OrderReply;
use contract::report::ReportMessage;
use contract::subjects::{self, DeadLetterKind};
use fabric::nats::Bus;
use tokio::sync::mpsc;
use tracing::warn;

use crate::metrics::Metrics;

/// Messages that wait for the bus. When it is full a message is dropped and counted: to the receivers that is a lost
/// message, which the next heartbeat or the sender's deadline repairs.
const MESSAGES: usize = 256;

/// Dead letters that wait, apart from the rest: a flood of what nobody can read must not crowd out a report. When it is
/// full the next is dropped and counted.
const LETTERS: usize = 4096;

#[derive(Debug)]
enum Message {
    Reply(String, OrderReply),
    Report(Box<ReportMessage>),
}

/// The agent's voice; clones speak in one line.
#[derive(Debug, Clone)]
pub struct Publisher {
    messages: mpsc::Sender<Message>,
    letters: mpsc::Sender<(DeadLetterKind, DeadLetter)>,
    metrics: Metrics,
}

impl Publisher {
    /// Starts to speak.
    pub fn start(bus: Bus, node: &NodeName, metrics: Metrics) -> Self {
        let (messages, queue) = mpsc::channel(MESSAGES);
        let report = subjects::report(node);
        let (letters, unread) = mpsc::channel(LETTERS);
        fabric::tasks::spawn("voice", speak(bus.clone(), report, queue));
        fabric::tasks::spawn("dead letters", keep(bus, unread));
        Self { messages, letters, metrics }
    }

    /// Answers an order.
    pub fn reply(&self, inbox: String, reply: OrderReply) {
        if !inbox.is_empty() {
            self.say(Message::Reply(inbox, reply));
        }
    }

    /// Reports.
    pub fn report(&self, report: ReportMessage) {
        self.say(Message::Report(Box::new(report)));
    }

    /// Keeps a message nobody could read.
    pub fn bury(&self, kind: DeadLetterKind, letter: DeadLetter) {
        if self.letters.try_send((kind, letter)).is_err() {
            self.metrics.unsaid();
        }
    }

    fn say(&self, message: Message) {
        if self.messages.try_send(message).is_err() {
            self.metrics.unsaid();
        }
    }
}

async fn speak(bus: Bus, report: String, mut queue: mpsc::Receiver<Message>) {
    while let Some(message) = queue.recv().await {
        let said = match &message {
            Message::Reply(inbox, reply) => bus.publish(inbox, reply).await,
            Message::Report(body) => bus.publish(&report, body).await,
        };
        if let Err(reason) = said {
            warn!(%reason, "a message could not be sent");
        }
    }
}

async fn keep(bus: Bus, mut unread: mpsc::Receiver<(DeadLetterKind, DeadLetter)>) {
    while let Some((kind, letter)) = unread.recv().await {
        if let Err(reason) = bus.publish(&subjects::dead_letter(kind), &letter).await {
            warn!(%reason, "a dead letter could not be sent");
        }
    }
}
