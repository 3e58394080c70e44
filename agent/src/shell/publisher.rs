//! Publishes replies to orders, reports and dead letters.

use contract::name::NodeName;
use contract::notice::DeadLetter;
use contract::order::OrderReply;
use contract::report::ReportMessage;
use contract::subjects::{self, DeadLetterKind};
use fabric::nats::Bus;
use tokio::sync::mpsc;
use tracing::warn;

use crate::metrics::Metrics;

/// Queued messages. When the queue is full a message is dropped and counted; the next heartbeat or the sender's deadline
/// repairs the loss.
const MESSAGES: usize = 256;

/// Queued dead letters, separate so that a flood of unreadable messages cannot crowd out reports. When the queue is full the
/// next one is dropped and counted.
const LETTERS: usize = 4096;

#[derive(Debug)]
enum Message {
    Reply(String, OrderReply),
    Report(Box<ReportMessage>),
}

/// Clones share the queues.
#[derive(Debug, Clone)]
pub struct Publisher {
    messages: mpsc::Sender<Message>,
    letters: mpsc::Sender<(DeadLetterKind, DeadLetter)>,
    metrics: Metrics,
}

impl Publisher {
    pub fn start(bus: Bus, node: &NodeName, metrics: Metrics) -> Self {
        let (messages, queue) = mpsc::channel(MESSAGES);
        let report = subjects::report(node);
        let (letters, unread) = mpsc::channel(LETTERS);
        fabric::tasks::spawn("publisher", publish(bus.clone(), report.clone(), queue));
        fabric::tasks::spawn("dead letters", publish_dead_letters(bus, report, unread));
        Self { messages, letters, metrics }
    }

    pub fn reply(&self, inbox: String, reply: OrderReply) {
        if !inbox.is_empty() {
            self.enqueue(Message::Reply(inbox, reply));
        }
    }

    pub fn report(&self, report: ReportMessage) {
        self.enqueue(Message::Report(Box::new(report)));
    }

    pub fn dead_letter(&self, kind: DeadLetterKind, letter: DeadLetter) {
        if self.letters.try_send((kind, letter)).is_err() {
            self.metrics.dropped();
        }
    }

    fn enqueue(&self, message: Message) {
        if self.messages.try_send(message).is_err() {
            self.metrics.dropped();
        }
    }
}

async fn publish(bus: Bus, report: String, mut queue: mpsc::Receiver<Message>) {
    while let Some(message) = queue.recv().await {
        let sent = match &message {
            Message::Reply(inbox, reply) => bus.answer(inbox, reply).await,
            Message::Report(body) => bus.publish(&report, body).await,
        };
        if let Err(reason) = sent {
            warn!(%reason, "could not send a message");
        }
    }
}

/// Sends dead letters on the subject of reports, which names the node: the leader stores a few of each node.
async fn publish_dead_letters(bus: Bus, report: String, mut unread: mpsc::Receiver<(DeadLetterKind, DeadLetter)>) {
    while let Some((kind, letter)) = unread.recv().await {
        let header = (subjects::DEAD_LETTER_HEADER, kind.word());
        if let Err(reason) = bus.publish_marked(&report, header, &letter).await {
            warn!(%reason, "could not send a dead letter");
        }
    }
}
