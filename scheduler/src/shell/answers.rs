//! Sends outcomes, replies to queries and requests for whole reports over core NATS.
//!
//! Core NATS stores nothing: a client whose answer was lost asks again.

use contract::command::Outcome;
use contract::name::NodeName;
use contract::query::Reply;
use contract::subjects;
use fabric::nats::Bus;
use fabric::tasks::{Scoped, spawn_scoped};
use tokio::sync::mpsc;

use super::publish::QueueFull;

/// Answers that wait. When full, the next answer is dropped and counted; the client runs into its deadline.
const QUEUE: usize = 4096;

#[derive(Clone)]
pub(super) struct AnswerQueue {
    sender: mpsc::Sender<Answer>,
}

enum Answer {
    Outcome(String, Outcome),
    Reply(String, Box<Reply>),
    Whole(String),
}

pub(super) fn start(bus: Bus) -> (AnswerQueue, Scoped) {
    let (sender, answers) = mpsc::channel(QUEUE);
    (AnswerQueue { sender }, spawn_scoped("answers", run(bus, answers)))
}

impl AnswerQueue {
    pub(super) fn resolve(&self, inbox: String, outcome: Outcome) -> Result<(), QueueFull> {
        self.try_send(Answer::Outcome(inbox, outcome))
    }

    pub(super) fn answer(&self, inbox: String, reply: Box<Reply>) -> Result<(), QueueFull> {
        self.try_send(Answer::Reply(inbox, reply))
    }

    pub(super) fn ask_whole(&self, node: &NodeName) -> Result<(), QueueFull> {
        self.try_send(Answer::Whole(subjects::resync(node)))
    }

    fn try_send(&self, answer: Answer) -> Result<(), QueueFull> {
        self.sender.try_send(answer).map_err(|_| QueueFull)
    }
}

async fn run(bus: Bus, mut answers: mpsc::Receiver<Answer>) {
    while let Some(answer) = answers.recv().await {
        let sent = match &answer {
            Answer::Outcome(inbox, outcome) => bus.answer(inbox, outcome).await,
            Answer::Reply(inbox, reply) => bus.answer(inbox, reply).await,
            Answer::Whole(subject) => bus.publish(subject, &()).await,
        };
        if let Err(error) = sent {
            tracing::warn!(%error, "cannot send an answer");
        }
    }
}
