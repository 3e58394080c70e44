//! Shared consumers: many processes take jobs from one stream, each job is somebody's until it is acknowledged.
//!
//! A job that is not acknowledged within `ack_wait` is given to another process. Deliveries are not limited: a limit
//! would leave the message in the stream where nobody ever sees it again; giving up is the caller's decision.
//! Even an acknowledged job can come again: a server killed within a moment of the acknowledgement forgets it, because
//! the server does not sync what consumers have done.

use std::time::Duration;

use async_nats::jetstream::consumer::{AckPolicy, pull};
use async_nats::jetstream::{self, AckKind};
use bytes::Bytes;
use futures_util::{FutureExt, StreamExt};

use super::connect::API_LIMIT;
use super::{Bus, Error};
use crate::backoff;

const IDLE_HEARTBEAT: Duration = Duration::from_secs(2);

impl Bus {
    /// Takes jobs from `stream` together with every other process that names the same `durable`.
    #[expect(clippy::too_many_arguments, reason = "each is one plain setting, named at the call")]
    pub async fn consume(
        &self,
        stream: &str,
        durable: &str,
        filter: &str,
        ack_wait: Duration,
        max_ack_pending: i64,
    ) -> Result<Consumer, Error> {
        let config = pull::Config {
            durable_name: Some(durable.to_owned()),
            filter_subject: filter.to_owned(),
            ack_policy: AckPolicy::Explicit,
            ack_wait,
            max_ack_pending,
            max_deliver: -1,
            ..pull::Config::default()
        };
        let mut consumer = Consumer { bus: self.clone(), stream: stream.to_owned(), config, messages: None };
        consumer.messages = Some(consumer.attach().await?);
        Ok(consumer)
    }
}

/// A process's share of a stream.
pub struct Consumer {
    bus: Bus,
    stream: String,
    config: pull::Config,
    messages: Option<pull::Stream>,
}

impl std::fmt::Debug for Consumer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Consumer").field("stream", &self.stream).finish_non_exhaustive()
    }
}

impl Consumer {
    /// The next job. Waits through restarts of the server and through the loss of the consumer or the stream, which is
    /// made anew by whoever ensures it; none only when the connection was closed for good. May be cancelled without loss.
    pub async fn next(&mut self) -> Option<Job> {
        let mut attempt = 0;
        loop {
            let Some(messages) = &mut self.messages else {
                attempt += 1;
                match self.attach().await {
                    Ok(messages) => self.messages = Some(messages),
                    Err(error) => {
                        tracing::debug!(stream = self.stream, %error, attempt, "cannot take jobs yet");
                        let wait = backoff::delay(attempt, Duration::from_millis(100), Duration::from_secs(2));
                        tokio::time::sleep(wait).await;
                    }
                }
                continue;
            };
            match messages.next().await {
                Some(Ok(message)) => return Some(Job::new(message)),
                Some(Err(error)) => {
                    tracing::debug!(stream = self.stream, %error, "taking jobs again");
                    self.messages = None;
                }
                None => self.messages = None,
            }
        }
    }

    /// Takes no more. What was fetched and not handed out yet comes back, so that it can be put back at once; what is put
    /// back from now on goes to others, because the server hears of the end before.
    pub fn close(mut self) -> Vec<Job> {
        let mut fetched = Vec::new();
        if let Some(mut messages) = self.messages.take() {
            while let Some(Some(Ok(message))) = messages.next().now_or_never() {
                fetched.push(Job::new(message));
            }
        }
        fetched
    }

    async fn attach(&self) -> Result<pull::Stream, Error> {
        let doing = || format!("taking jobs from stream {}", self.stream);
        let attaching = async {
            let consumer = self.bus.jetstream.create_consumer_on_stream(self.config.clone(), &self.stream).await?;
            // Few at a time: what one process has fetched, no other can work on.
            let messages = consumer.stream().max_messages_per_batch(16).heartbeat(IDLE_HEARTBEAT).messages().await?;
            Ok(messages)
        };
        match tokio::time::timeout(API_LIMIT, attaching).await {
            Ok(Ok(messages)) => Ok(messages),
            Ok(Err(source)) => Err(Error::Failed { doing: doing(), source }),
            Err(_) => Err(Error::TimedOut { doing: doing() }),
        }
    }
}

/// One job; whoever holds it should acknowledge it in time.
pub struct Job {
    /// Its content.
    pub payload: Bytes,
    /// Where it was sent.
    pub subject: String,
    /// How often it was handed out, this time included.
    pub delivered: u64,
    /// Its place in the stream.
    pub sequence: u64,
    message: jetstream::Message,
}

impl std::fmt::Debug for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Job")
            .field("subject", &self.subject)
            .field("delivered", &self.delivered)
            .finish_non_exhaustive()
    }
}

impl Job {
    fn new(message: jetstream::Message) -> Self {
        let (delivered, sequence) = message
            .info()
            .map(|info| (u64::try_from(info.delivered).unwrap_or(1), info.stream_sequence))
            .unwrap_or((1, 0));
        Self { payload: message.payload.clone(), subject: message.subject.to_string(), delivered, sequence, message }
    }

    /// A header's value.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.message.headers.as_ref().and_then(|headers| headers.get(name)).map(async_nats::HeaderValue::as_str)
    }

    /// Done: nobody gets it again. Returns when the server has said so.
    pub async fn ack(&self) -> Result<(), Error> {
        within("acknowledging a job", self.message.double_ack()).await
    }

    /// Not done: it comes again after `delay`.
    pub async fn retry_after(&self, delay: Duration) -> Result<(), Error> {
        within("putting a job back", self.message.ack_with(AckKind::Nak(Some(delay)))).await
    }

    /// Still at it: the time to acknowledge begins anew.
    pub async fn progress(&self) -> Result<(), Error> {
        within("reporting progress of a job", self.message.ack_with(AckKind::Progress)).await
    }
}

async fn within(doing: &str, call: impl Future<Output = Result<(), async_nats::Error>>) -> Result<(), Error> {
    match tokio::time::timeout(API_LIMIT, call).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(source)) => Err(Error::Failed { doing: doing.to_owned(), source }),
        Err(_) => Err(Error::TimedOut { doing: doing.to_owned() }),
    }
}
