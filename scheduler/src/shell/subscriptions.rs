//! NATS subscriptions: the reports of all nodes, the queries for this scheduler's role, and the state of the connection.

use std::time::Duration;

use contract::notice::DeadLetter;
use contract::query::Query;
use contract::report::ReportMessage;
use contract::subjects::{self, DeadLetterKind};
use contract::time::Timestamp;
use fabric::backoff;
use fabric::clock::Clock;
use fabric::nats::{Bus, Message, Subscription};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::Context;
use super::claims::Claims;
use super::letter_limit::LetterLimit;
use super::publish::Publisher;

/// A query and the subject of its answer.
pub(super) struct QueryRequest {
    pub(super) query: Query,
    pub(super) reply: String,
    pub(super) received_at: Instant,
}

/// Sends queries to the loop, and unreadable ones to the dead letters.
#[derive(Clone)]
pub(super) struct QuerySender {
    pub(super) out: mpsc::Sender<QueryRequest>,
    pub(super) publisher: Publisher,
    pub(super) clock: Clock,
}

/// Reads the reports of all nodes, as leader and as standby, so that a new leader knows the state of every node.
pub(super) async fn reports(context: Context, publisher: Publisher, out: mpsc::Sender<ReportMessage>) {
    let Context { bus, clock, order_keys, .. } = context;
    let (mut limit, mut claims) = (LetterLimit::default(), Claims::new(order_keys));
    loop {
        let mut messages = subscribe(&bus, subjects::ALL_REPORTS, None).await;
        while let Some(message) = messages.next().await {
            let (kind, letter) = match sent_by_node(&message, clock.now()) {
                Ok(report) => match out.send(claims.checked(report)).await {
                    Ok(()) => continue,
                    Err(_) => return,
                },
                Err(letter) => letter,
            };
            if limit.allows(&message.subject, clock.now()) && publisher.dead_letter(kind, letter).is_err() {
                tracing::warn!("dropped a dead letter of a node: too many wait");
            }
        }
    }
}

/// A report, or the dead letter that the agent sent or that an unreadable report becomes. Schedulers that store the same letter of
/// an agent store it once, because it has the same digest.
fn sent_by_node(message: &Message, now: Timestamp) -> Result<ReportMessage, (DeadLetterKind, DeadLetter)> {
    let unreadable =
        |reason| (DeadLetterKind::Report, DeadLetter::new(&message.subject, reason, &message.payload, now).bounded());
    let Some(word) = message.header(subjects::DEAD_LETTER_HEADER) else {
        return report_of(message).map_err(unreadable);
    };
    let kind = DeadLetterKind::of_agent(word);
    match (kind, message.decode::<DeadLetter>()) {
        (Some(kind), Ok(letter)) => Err((kind, letter.bounded())),
        (None, _) => Err(unreadable(format!("agents send no dead letters of kind {word:?}"))),
        (_, Err(reason)) => Err(unreadable(reason)),
    }
}

/// The report of a message. Its node must be the one of the subject: NATS lets an agent publish only under its own name, and a
/// report must not speak for another node.
fn report_of(message: &Message) -> Result<ReportMessage, String> {
    let report: ReportMessage = message.decode()?;
    let node = &report.stamp().node;
    match subjects::report(node) == message.subject {
        true => Ok(report),
        false => Err(format!("the report of {node} came on the subject of another node")),
    }
}

/// The state of the NATS connection. Its present state counts as a change, because the core needs it once at the start.
pub(super) fn bus(bus: &Bus) -> watch::Receiver<bool> {
    let mut connected = bus.connected();
    connected.mark_changed();
    connected
}

/// Reads the queries for the leader.
pub(super) async fn leader_queries(bus: Bus, queries: QuerySender) {
    loop {
        let messages = subscribe(&bus, subjects::QUERY_LEADER, None).await;
        if forward(messages, &queries, |_| true).await.is_err() {
            return;
        }
    }
}

/// Reads the queries of notifiers. They connect to addresses that users choose, so they learn nothing but the callbacks.
pub(super) async fn callback_queries(bus: Bus, queries: QuerySender) {
    loop {
        let messages = subscribe(&bus, subjects::QUERY_CALLBACKS, None).await;
        if forward(messages, &queries, |query| matches!(query, Query::Callbacks)).await.is_err() {
            return;
        }
    }
}

/// Reads queries that any standby may answer. NATS sends each query to one of the standbys.
pub(super) async fn standby_queries(bus: Bus, queries: QuerySender) {
    loop {
        let messages = subscribe(&bus, subjects::QUERY_STANDBY, Some(subjects::STANDBY_QUEUE)).await;
        if forward(messages, &queries, |_| true).await.is_err() {
            return;
        }
    }
}

async fn forward(
    mut messages: Subscription,
    queries: &QuerySender,
    answers: fn(&Query) -> bool,
) -> Result<(), mpsc::error::SendError<QueryRequest>> {
    while let Some(message) = messages.next().await {
        match (message.decode(), message.reply.clone()) {
            (Ok(query), _) if !answers(&query) => {
                tracing::warn!(subject = message.subject, "refused a query that is not answered on this subject");
            }
            (Ok(query), Some(reply)) => {
                queries.out.send(QueryRequest { query, reply, received_at: Instant::now() }).await?;
            }
            (Ok(_), None) => tracing::debug!("ignored a query without a reply subject"),
            (Err(reason), _) => {
                let letter = DeadLetter::new(&message.subject, reason, &message.payload, queries.clock.now());
                if queries.publisher.dead_letter(DeadLetterKind::Question, letter).is_err() {
                    tracing::warn!("dropped an unreadable query: too many dead letters wait");
                }
            }
        }
    }
    Ok(())
}

/// Subscribes; retries until NATS accepts.
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
