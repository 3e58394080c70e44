//! Shared consumers: many processes take jobs from one stream, each job is somebody's until it is acknowledged.
//!
//! A job that is not acknowledged within `ack_wait` is given to another process. Deliveries are not limited: a limit
//! would leave the message in the stream where nobody ever sees it again; giving up is the caller's decision.
//! Even an acknowledged job can come again: a server killed within a moment of the acknowledgement forgets it, because
//! the server does not sync what consumers have done.

use std::time::Duration;

use async_nats::jetstream::consumer::{AckPolicy, PullConsumer, pull};
use async_nats::jetstream::{self, AckKind};
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use tokio::time::{Instant, timeout_at};

use super::connect::API_LIMIT;
use super::{Bus, Error};
use crate::backoff;

/// A request for jobs stands on the server for so long. Who leaves waits for its end: only then is nothing more under
/// way to them, and what they put back goes to others. The crate's endless stream of jobs cannot be ended that way.
const REQUEST_STANDS: Duration = Duration::from_secs(1);
/// A request whose end was not heard so long after it is lost, with the server or the connection.
const END_IS_HEARD: Duration = Duration::from_secs(2);
/// Few at a time: what one process has fetched, no other can work on.
const JOBS_AT_ONCE: usize = 16;

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
        let doorway = Doorway { bus: self.clone(), stream: stream.to_owned(), config, consumer: None };
        let consumer = Some(doorway.open().await?);
        Ok(Consumer { doorway: Doorway { consumer, ..doorway }, asking: None, standing: None })
    }
}

/// A process's share of a stream.
pub struct Consumer {
    doorway: Doorway,
    /// A request under way to the server. Kept here, so that nobody who stops waiting leaves one behind that has no reader.
    asking: Option<BoxFuture<'static, Result<(Doorway, Request), Error>>>,
    /// The request that stands on the server.
    standing: Option<Request>,
}

struct Request {
    jobs: pull::Batch,
    /// It has ended by then, heard or not.
    until: Instant,
}

impl std::fmt::Debug for Consumer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Consumer").field("stream", &self.doorway.stream).finish_non_exhaustive()
    }
}

impl Consumer {
    /// The next job. Waits through restarts of the server and through the loss of the consumer or the stream, which is
    /// made anew by whoever ensures it. May be cancelled without loss.
    pub async fn next(&mut self) -> Job {
        let mut attempt = 0;
        loop {
            if let Some(job) = self.requested().await {
                return job;
            }
            attempt += 1;
            self.asking.get_or_insert_with(|| Box::pin(self.doorway.clone().ask()));
            if let Err(error) = self.asked().await {
                tracing::debug!(stream = self.doorway.stream, %error, attempt, "cannot take jobs yet");
                self.doorway.consumer = None;
                let wait = backoff::delay(attempt, Duration::from_millis(100), Duration::from_secs(2));
                tokio::time::sleep(wait).await;
            }
        }
    }

    /// Takes no more. What was fetched and not handed out comes back, so that it can be put back at once; what is put
    /// back from now on goes to others.
    pub async fn close(mut self) -> Vec<Job> {
        if let Err(error) = self.asked().await {
            tracing::debug!(stream = self.doorway.stream, %error, "left while asking for jobs");
        }
        let mut fetched = Vec::new();
        while let Some(job) = self.requested().await {
            fetched.push(job);
        }
        fetched
    }

    /// Waits for the request under way, if there is one.
    async fn asked(&mut self) -> Result<(), Error> {
        let Some(asking) = &mut self.asking else { return Ok(()) };
        let asked = asking.await;
        self.asking = None;
        let (doorway, request) = asked?;
        (self.doorway, self.standing) = (doorway, Some(request));
        Ok(())
    }

    /// The next job of the request that stands; none once it has ended.
    async fn requested(&mut self) -> Option<Job> {
        let request = self.standing.as_mut()?;
        match timeout_at(request.until, request.jobs.next()).await {
            Ok(Some(Ok(message))) => return Some(Job::new(message)),
            Ok(None) => {}
            Ok(Some(Err(error))) => {
                tracing::debug!(stream = self.doorway.stream, %error, "taking jobs again");
                self.doorway.consumer = None;
            }
            Err(_) => self.doorway.consumer = None,
        }
        self.standing = None;
        None
    }
}

/// The way to the server's consumer, made where it is missing.
#[derive(Clone)]
struct Doorway {
    bus: Bus,
    stream: String,
    config: pull::Config,
    consumer: Option<PullConsumer>,
}

impl Doorway {
    async fn open(&self) -> Result<PullConsumer, Error> {
        if let Some(consumer) = &self.consumer {
            return Ok(consumer.clone());
        }
        let opening = self.bus.jetstream.create_consumer_on_stream(self.config.clone(), &self.stream);
        within(&format!("taking jobs from stream {}", self.stream), async { Ok(opening.await?) }).await
    }

    async fn ask(self) -> Result<(Self, Request), Error> {
        let consumer = self.open().await?;
        let asking = consumer.batch().max_messages(JOBS_AT_ONCE).expires(REQUEST_STANDS).messages();
        let jobs = within("asking for jobs", async { Ok(asking.await?) }).await?;
        let request = Request { jobs, until: Instant::now() + REQUEST_STANDS + END_IS_HEARD };
        Ok((Self { consumer: Some(consumer), ..self }, request))
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

async fn within<T>(doing: &str, call: impl Future<Output = Result<T, async_nats::Error>>) -> Result<T, Error> {
    match tokio::time::timeout(API_LIMIT, call).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(source)) => Err(Error::Failed { doing: doing.to_owned(), source }),
        Err(_) => Err(Error::TimedOut { doing: doing.to_owned() }),
    }
}
