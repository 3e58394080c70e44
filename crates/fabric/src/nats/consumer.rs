//! Shared consumers: many processes take jobs from one stream, and each job belongs to one process until it is
//! acknowledged.
//!
//! A job that is not acknowledged within `ack_wait` is given to another process. Deliveries are not limited, because a
//! limit would leave the message undelivered in the stream; the caller decides when to give up. Even an acknowledged
//! job may be delivered again: the server does not sync acknowledgements to disk, so a server that is killed forgets
//! the latest.

use std::time::Duration;

use async_nats::StatusCode;
use async_nats::jetstream::consumer::{AckPolicy, pull};
use async_nats::jetstream::stream::{ConsumerError, ConsumerErrorKind};
use async_nats::jetstream::{self, AckKind, ErrorCode};
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use serde_json::json;
use tokio::sync::watch;
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

/// Settings of a shared consumer.
#[derive(Debug, Clone, Copy)]
pub struct SharedConsumer<'a> {
    pub stream: &'a str,
    pub name: &'a str,
    /// Subjects of its jobs.
    pub filter: &'a str,
    /// A job that is not acknowledged within this time is given to another process.
    pub ack_wait: Duration,
    /// Jobs that may wait for an acknowledgement; -1 for any number.
    pub max_ack_pending: i64,
}

impl SharedConsumer<'_> {
    fn config(&self) -> pull::Config {
        pull::Config {
            durable_name: Some(self.name.to_owned()),
            filter_subject: self.filter.to_owned(),
            ack_policy: AckPolicy::Explicit,
            ack_wait: self.ack_wait,
            max_ack_pending: self.max_ack_pending,
            max_deliver: -1,
            ..pull::Config::default()
        }
    }
}

impl Bus {
    /// Creates a shared consumer unless it exists; the settings of one that exists stay. For schedulers.
    pub async fn ensure_consumer(&self, shared: &SharedConsumer<'_>) -> Result<(), Error> {
        let (stream, name) = (shared.stream, shared.name);
        let info = format!("$JS.API.CONSUMER.INFO.{stream}.{name}");
        let doing = || format!("opening the consumer {name} of stream {stream}");
        let opening = async {
            let found = tokio::select! {
                found = self.jetstream.get_consumer_from_stream::<pull::Config, _, _>(name, stream) => found,
                () = self.refusal(&info) => return Err(no_consumer(stream, "the accounts of NATS are of an older version")),
            };
            match found {
                Ok(_) => Ok(()),
                Err(error) if is_missing(&error) => self.create_consumer(stream, &shared.config()).await,
                Err(error) => Err(Error::Failed { doing: doing(), source: error.into() }),
            }
        };
        tokio::time::timeout(API_LIMIT, opening).await.unwrap_or_else(|_| Err(Error::TimedOut { doing: doing() }))
    }

    async fn create_consumer(&self, stream: &str, config: &pull::Config) -> Result<(), Error> {
        let name = config.durable_name.as_deref().unwrap_or_default();
        let call = format!("$JS.API.CONSUMER.CREATE.{stream}.{name}.{}", config.filter_subject);
        let refused = || no_consumer(stream, "it does not exist yet, and only schedulers create it");
        if self.refused.borrow().contains(&call) {
            return Err(refused());
        }
        tokio::select! {
            made = self.jetstream.create_consumer_strict_on_stream(config.clone(), stream) => match made {
                Ok(_) => Ok(()),
                Err(error) => {
                    Err(Error::Failed { doing: format!("creating a consumer of stream {stream}"), source: error.into() })
                }
            },
            () = self.refusal(&call) => Err(refused()),
        }
    }

    /// Takes jobs from a shared consumer, as soon as it exists. Creates it if this process may: in the first layout of the
    /// accounts, and on a server without accounts.
    pub fn consume(&self, shared: &SharedConsumer<'_>) -> Consumer {
        let (stream, config) = (shared.stream.to_owned(), shared.config());
        let (available, _) = watch::channel(false);
        let requests = Requests { bus: self.clone(), stream, config, attempt: 0, is_missing: false };
        Consumer { requests, pending: None, open: None, available }
    }
}

fn no_consumer(stream: &str, reason: &'static str) -> Error {
    Error::NoConsumer { stream: stream.to_owned(), reason }
}

fn is_missing(error: &ConsumerError) -> bool {
    matches!(error.kind(), ConsumerErrorKind::JetStream(reason) if reason.error_code() == ErrorCode::CONSUMER_NOT_FOUND)
}

/// The jobs of this process.
pub struct Consumer {
    requests: Requests,
    /// A request being sent. Kept here, so that cancelling `next` does not leave a request without a reader.
    pending: Option<BoxFuture<'static, (Requests, Result<Request, Error>)>>,
    /// The open request.
    open: Option<Request>,
    /// Whether the consumer answers.
    available: watch::Sender<bool>,
}

struct Request {
    answers: async_nats::Subscriber,
    /// Jobs that it may still get.
    left: usize,
    /// It has ended by then, whether the end was received or not.
    until: Instant,
}

impl std::fmt::Debug for Consumer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Consumer").field("stream", &self.requests.stream).finish_non_exhaustive()
    }
}

impl Consumer {
    /// Whether the consumer exists and answers, and its changes.
    pub fn available(&self) -> watch::Receiver<bool> {
        self.available.subscribe()
    }

    /// The next job. Waits through restarts of the server and the loss of the consumer or the stream, until a scheduler
    /// creates it again. Cancel-safe.
    pub async fn next(&mut self) -> Job {
        loop {
            if let Some(job) = self.next_of_request().await {
                return job;
            }
            let is_known = *self.available.borrow();
            let requests = &self.requests;
            self.pending.get_or_insert_with(|| Box::pin(requests.clone().send(is_known)));
            if let Err(error) = self.wait_until_sent().await {
                self.available.send_if_modified(|available| std::mem::replace(available, false));
                tracing::debug!(stream = self.requests.stream, %error, "cannot take jobs, retrying");
            }
        }
    }

    /// Stops taking jobs. Returns the fetched jobs that were not handed out, so that the caller can return them to the
    /// stream; they go to other processes.
    pub async fn close(mut self) -> Vec<Job> {
        if let Err(error) = self.wait_until_sent().await {
            tracing::debug!(stream = self.requests.stream, %error, "cannot finish the last request for jobs");
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
        let (requests, sent) = pending.await;
        self.pending = None;
        self.requests = requests;
        self.open = Some(sent?);
        Ok(())
    }

    /// The next job of the open request; none once it has ended.
    async fn next_of_request(&mut self) -> Option<Job> {
        let request = self.open.as_mut()?;
        while request.left > 0 {
            let Ok(answer) = timeout_at(request.until, request.answers.next()).await else { break };
            let Some(message) = answer else { break };
            match message.status {
                None | Some(StatusCode::OK) => {
                    self.requests.attempt = 0;
                    self.available.send_if_modified(|available| !std::mem::replace(available, true));
                    request.left -= 1;
                    let context = self.requests.bus.jetstream.clone();
                    return Some(Job::new(jetstream::Message { message, context }));
                }
                Some(StatusCode::IDLE_HEARTBEAT) => {}
                // The end of a request that got fewer jobs than it asked for.
                Some(StatusCode::TIMEOUT | StatusCode::NOT_FOUND) => {
                    self.requests.attempt = 0;
                    self.available.send_if_modified(|available| !std::mem::replace(available, true));
                    break;
                }
                Some(status) => {
                    self.requests.is_missing = status == StatusCode::NO_RESPONDERS;
                    self.requests.attempt += 1;
                    tracing::debug!(stream = self.requests.stream, %status, "requesting jobs again");
                    break;
                }
            }
        }
        self.open = None;
        None
    }
}

/// Sends requests for jobs.
#[derive(Clone)]
struct Requests {
    bus: Bus,
    stream: String,
    config: pull::Config,
    /// Failed requests since the last answer.
    attempt: usize,
    /// The server did not know the consumer.
    is_missing: bool,
}

impl Requests {
    /// Sends a request. One that shall only show whether the consumer is there (`is_known` is false) is answered at once.
    async fn send(mut self, is_known: bool) -> (Self, Result<Request, Error>) {
        if self.attempt > 0 {
            tokio::time::sleep(backoff::delay(self.attempt, Duration::from_millis(100), Duration::from_secs(2))).await;
        }
        let sent = self.try_send(is_known).await;
        if sent.is_err() {
            self.attempt += 1;
        }
        (self, sent)
    }

    async fn try_send(&mut self, is_known: bool) -> Result<Request, Error> {
        if std::mem::take(&mut self.is_missing) {
            let creating = self.bus.create_consumer(&self.stream, &self.config);
            // A scheduler may have created it meanwhile, so the request follows in any case.
            if let Ok(Err(error)) = tokio::time::timeout(API_LIMIT, creating).await {
                tracing::debug!(stream = self.stream, %error, "the consumer is missing");
            }
        }
        let name = self.config.durable_name.as_deref().unwrap_or_default();
        let subject = format!("$JS.API.CONSUMER.MSG.NEXT.{}.{name}", self.stream);
        let expires = u64::try_from(REQUEST_EXPIRES.as_nanos()).unwrap_or(u64::MAX);
        let request = match is_known {
            true => json!({ "batch": JOBS_AT_ONCE, "expires": expires }),
            false => json!({ "batch": JOBS_AT_ONCE, "no_wait": true }),
        };
        let asking = async {
            let inbox = self.bus.inbox();
            let answers = self.bus.client.subscribe(inbox.clone()).await?;
            let payload = Bytes::from(serde_json::to_vec(&request)?);
            self.bus.client.publish_with_reply(subject, inbox, payload).await?;
            Ok(answers)
        };
        let answers = within("asking for jobs", asking).await?;
        Ok(Request { answers, left: JOBS_AT_ONCE, until: Instant::now() + REQUEST_EXPIRES + EXPIRY_SLACK })
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
