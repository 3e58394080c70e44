//! Shared consumers: many processes take jobs from one stream, and each job belongs to one process until it is
//! acknowledged.
//!
//! A job that is not acknowledged within `ack_wait` is given to another process. Deliveries are not limited, because a
//! limit would leave the message undelivered in the stream; the caller decides when to give up. Even an acknowledged
//! job may be delivered again: the server does not sync acknowledgements to disk, so a server that is killed forgets
//! the latest.

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

/// How long a pull request stays open on the server. A process that leaves waits for its end: only then is no further
/// job on its way to it, and jobs it returns go to others. async-nats' endless stream of jobs cannot be ended that way.
const REQUEST_EXPIRES: Duration = Duration::from_secs(1);
/// A request that has not ended this long after its expiry is lost, with the server or the connection.
const EXPIRY_SLACK: Duration = Duration::from_secs(2);
/// Small, because other processes cannot take jobs that one process has fetched.
const JOBS_AT_ONCE: usize = 16;

impl Bus {
    /// Takes jobs from `stream`, shared with every process that uses the same `durable`.
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
        let handle = Handle { bus: self.clone(), stream: stream.to_owned(), config, consumer: None };
        let consumer = Some(handle.open().await?);
        Ok(Consumer { handle: Handle { consumer, ..handle }, pending: None, open: None })
    }
}

/// The jobs of this process.
pub struct Consumer {
    handle: Handle,
    /// A request being sent. Kept here, so that cancelling `next` does not leave a request without a reader.
    pending: Option<BoxFuture<'static, Result<(Handle, Request), Error>>>,
    /// The open request.
    open: Option<Request>,
}

struct Request {
    jobs: pull::Batch,
    /// It has ended by then, whether the end was received or not.
    until: Instant,
}

impl std::fmt::Debug for Consumer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Consumer").field("stream", &self.handle.stream).finish_non_exhaustive()
    }
}

impl Consumer {
    /// The next job. Waits through restarts of the server and the loss of the consumer or the stream, until a process
    /// creates the stream again. Cancel-safe.
    pub async fn next(&mut self) -> Job {
        let mut attempt = 0;
        loop {
            if let Some(job) = self.next_of_request().await {
                return job;
            }
            attempt += 1;
            self.pending.get_or_insert_with(|| Box::pin(self.handle.clone().request()));
            if let Err(error) = self.wait_until_sent().await {
                tracing::debug!(stream = self.handle.stream, %error, attempt, "cannot take jobs, retrying");
                self.handle.consumer = None;
                let wait = backoff::delay(attempt, Duration::from_millis(100), Duration::from_secs(2));
                tokio::time::sleep(wait).await;
            }
        }
    }

    /// Stops taking jobs. Returns the fetched jobs that were not handed out, so that the caller can return them to the
    /// stream; they go to other processes.
    pub async fn close(mut self) -> Vec<Job> {
        if let Err(error) = self.wait_until_sent().await {
            tracing::debug!(stream = self.handle.stream, %error, "cannot finish the last request for jobs");
        }
        let mut fetched = Vec::new();
        while let Some(job) = self.next_of_request().await {
            fetched.push(job);
        }
        fetched
    }

    /// Waits until the request is sent, if one is being sent.
    async fn wait_until_sent(&mut self) -> Result<(), Error> {
        let Some(pending) = &mut self.pending else { return Ok(()) };
        let asked = pending.await;
        self.pending = None;
        let (handle, request) = asked?;
        (self.handle, self.open) = (handle, Some(request));
        Ok(())
    }

    /// The next job of the open request; none once it has ended.
    async fn next_of_request(&mut self) -> Option<Job> {
        let request = self.open.as_mut()?;
        match timeout_at(request.until, request.jobs.next()).await {
            Ok(Some(Ok(message))) => return Some(Job::new(message)),
            Ok(None) => {}
            Ok(Some(Err(error))) => {
                tracing::debug!(stream = self.handle.stream, %error, "requesting jobs again");
                self.handle.consumer = None;
            }
            Err(_) => self.handle.consumer = None,
        }
        self.open = None;
        None
    }
}

/// Access to the server's consumer; creates it if it is missing.
#[derive(Clone)]
struct Handle {
    bus: Bus,
    stream: String,
    config: pull::Config,
    consumer: Option<PullConsumer>,
}

impl Handle {
    async fn open(&self) -> Result<PullConsumer, Error> {
        if let Some(consumer) = &self.consumer {
            return Ok(consumer.clone());
        }
        let opening = self.bus.jetstream.create_consumer_on_stream(self.config.clone(), &self.stream);
        within(&format!("taking jobs from stream {}", self.stream), async { Ok(opening.await?) }).await
    }

    async fn request(self) -> Result<(Self, Request), Error> {
        let consumer = self.open().await?;
        let asking = consumer.batch().max_messages(JOBS_AT_ONCE).expires(REQUEST_EXPIRES).messages();
        let jobs = within("asking for jobs", async { Ok(asking.await?) }).await?;
        let request = Request { jobs, until: Instant::now() + REQUEST_EXPIRES + EXPIRY_SLACK };
        Ok((Self { consumer: Some(consumer), ..self }, request))
    }
}

/// One job. Acknowledge it within `ack_wait`.
pub struct Job {
    pub payload: Bytes,
    pub subject: String,
    /// Number of deliveries, this one included.
    pub delivered: u64,
    /// Sequence number in the stream.
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

    pub fn header(&self, name: &str) -> Option<&str> {
        self.message.headers.as_ref().and_then(|headers| headers.get(name)).map(async_nats::HeaderValue::as_str)
    }

    /// Acknowledges the job; returns when the server has confirmed it.
    pub async fn ack(&self) -> Result<(), Error> {
        within("acknowledging a job", self.message.double_ack()).await
    }

    /// Returns the job; it is delivered again after `delay`.
    pub async fn retry_after(&self, delay: Duration) -> Result<(), Error> {
        within("putting a job back", self.message.ack_with(AckKind::Nak(Some(delay)))).await
    }

    /// Restarts `ack_wait`.
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
