//! What a scheduler hears: reports of every node, always, the questions of its role, and whether the bus is there.

use std::time::Duration;

use contract::notice::DeadLetter;
use contract::query::Query;
use contract::report::ReportMessage;
use contract::subjects::{self, DeadLetterKind};
use fabric::backoff;
use fabric::clock::Clock;
use fabric::nats::{Bus, Subscription};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::post;

/// A question and where its answer goes.
pub(super) struct Asked {
    pub(super) query: Query,
    pub(super) reply: String,
    /// When it came.
    pub(super) at: Instant,
}

/// Where questions go: to the loop, and what nobody can read to the dead letters.
#[derive(Clone)]
pub(super) struct Questions {
    pub(super) out: mpsc::Sender<Asked>,
    pub(super) post: post::Lane,
    pub(super) clock: Clock,
}

/// Hears the reports of all nodes. Leader and standbys alike: a takeover starts with full facts.
pub(super) async fn reports(bus: Bus, clock: Clock, post: post::Lane, out: mpsc::Sender<ReportMessage>) {
    loop {
        let mut heard = subscribe(&bus, subjects::ALL_REPORTS, None).await;
        while let Some(message) = heard.next().await {
            match message.decode() {
                Ok(report) => {
                    if out.send(report).await.is_err() {
                        return;
                    }
                }
                Err(reason) => {
                    let letter = DeadLetter::new(&message.subject, reason, &message.payload, clock.now());
                    if post.bury(DeadLetterKind::Report, letter).is_err() {
                        tracing::warn!("a report nobody could read was not kept");
                    }
                }
            }
        }
    }
}

/// Whether the bus is there. Its present state counts as a change: the core must be told once.
pub(super) fn bus(bus: &Bus) -> watch::Receiver<bool> {
    let mut connected = bus.connected();
    connected.mark_changed();
    connected
}

/// Hears the questions to the leader.
pub(super) async fn leader_questions(bus: Bus, questions: Questions) {
    loop {
        let heard = subscribe(&bus, subjects::QUERY_LEADER, None).await;
        if pass_on(heard, &questions).await.is_err() {
            return;
        }
    }
}

/// Hears this standby's share of the questions any standby may answer.
pub(super) async fn standby_questions(bus: Bus, questions: Questions) {
    loop {
        let heard = subscribe(&bus, subjects::QUERY_STANDBY, Some(subjects::STANDBY_QUEUE)).await;
        if pass_on(heard, &questions).await.is_err() {
            return;
        }
    }
}

async fn pass_on(mut heard: Subscription, questions: &Questions) -> Result<(), mpsc::error::SendError<Asked>> {
    while let Some(message) = heard.next().await {
        match (message.decode(), message.reply.clone()) {
            (Ok(query), Some(reply)) => {
                questions.out.send(Asked { query, reply, at: Instant::now() }).await?;
            }
            (Ok(_), None) => tracing::debug!("a question that wants no answer"),
            (Err(reason), _) => {
                let letter = DeadLetter::new(&message.subject, reason, &message.payload, questions.clock.now());
                if questions.post.bury(DeadLetterKind::Question, letter).is_err() {
                    tracing::warn!("a question nobody could read was not kept");
                }
            }
        }
    }
    Ok(())
}

/// Subscribes, however long that takes.
async fn subscribe(bus: &Bus, subject: &str, queue: Option<&str>) -> Subscription {
    let mut attempt = 0;
    loop {
        attempt += 1;
        let subscribed = match queue {
            None => bus.subscribe(subject).await,
            Some(queue) => bus.queue_subscribe(subject, queue).await,
        };
        match subscribed {
            Ok(subscription) => return subscription,
            Err(error) => tracing::warn!(%error, attempt, "cannot subscribe yet"),
        }
        tokio::time::sleep(backoff::delay(attempt, Duration::from_millis(100), Duration::from_secs(2))).await;
    }
}
