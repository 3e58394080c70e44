//! The answer lane: outcomes, replies to questions and requests for whole reports, over core NATS.
//!
//! Nothing here is kept: whoever waits for a lost answer asks again.

use contract::command::Outcome;
use contract::name::NodeName;
use contract::query::Reply;
use contract::subjects;
use fabric::nats::Bus;
use fabric::tasks::{Scoped, spawn_scoped};
use tokio::sync::mpsc;

use super::post::Full;

/// Answers that wait. When full an answer is dropped and counted; its asker runs into its deadline.
const QUEUE: usize = 4096;

/// The loop's end of the lane.
#[derive(Clone)]
pub(super) struct Lane {
    sender: mpsc::Sender<Answer>,
}

enum Answer {
    Outcome(String, Outcome),
    Reply(String, Box<Reply>),
    Whole(String),
}

pub(super) fn start(bus: Bus) -> (Lane, Scoped) {
    let (sender, answers) = mpsc::channel(QUEUE);
    (Lane { sender }, spawn_scoped("answers", run(bus, answers)))
}

impl Lane {
    pub(super) fn resolve(&self, inbox: String, outcome: Outcome) -> Result<(), Full> {
        self.hand_over(Answer::Outcome(inbox, outcome))
    }

    pub(super) fn answer(&self, inbox: String, reply: Box<Reply>) -> Result<(), Full> {
        self.hand_over(Answer::Reply(inbox, reply))
    }

    pub(super) fn ask_whole(&self, node: &NodeName) -> Result<(), Full> {
        self.hand_over(Answer::Whole(subjects::resync(node)))
    }

    fn hand_over(&self, answer: Answer) -> Result<(), Full> {
        self.sender.try_send(answer).map_err(|_| Full)
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
            tracing::warn!(%error, "an answer was not sent");
        }
    }
}
