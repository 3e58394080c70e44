//! Reads a stream in order, through every failure.
//!
//! The reader keeps its own position: after losing the server or the connection it continues after the last message it
//! returned. The server stores nothing for it. A deleted or replaced stream is an error, because only the caller knows
//! what its position means then. So is a stream that lost its newest messages, for example because the server was
//! restored from an older copy: its next messages reuse sequence numbers that the reader has passed. The reader detects
//! that by the time at which the server stored the message at its position.

use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, pull};
use async_nats::jetstream::message::StreamMessage;
use async_nats::jetstream::stream::{ConsumerErrorKind, LastRawMessageErrorKind};
use async_nats::jetstream::{self, ErrorCode};
use bytes::Bytes;
use futures_util::StreamExt;
use tokio::sync::watch;

use super::connect::API_LIMIT;
use super::direct::Direct;
use super::stream::{StreamIdentity, is_missing};
use super::{Bus, Error};
use crate::backoff;

/// Interval of the server's idle heartbeats; the reader reattaches after two missed ones.
const IDLE_HEARTBEAT: Duration = Duration::from_secs(2);

impl Bus {
    /// Reads a stream in order, starting after `after`.
    pub async fn read_stream(&self, stream: &str, after: impl Into<StreamPosition>) -> Result<StreamReader, Error> {
        let after = after.into();
        let mut reader = StreamReader {
            bus: self.clone(),
            stream: stream.to_owned(),
            identity: None,
            last: after,
            connections: self.connections.clone(),
            attached: None,
        };
        reader.attach_with_retries().await?;
        Ok(reader)
    }
}

/// Position in a stream: the last message that was read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StreamPosition {
    /// Sequence number; 0 before the first message.
    pub sequence: u64,
    /// When the server stored it, in nanoseconds since 1970. The reader uses it to check that the stream still has the
    /// same message there.
    pub stored_at: Option<i64>,
}

impl From<u64> for StreamPosition {
    fn from(sequence: u64) -> Self {
        Self { sequence, stored_at: None }
    }
}

/// Reads one stream in order.
#[derive(Debug)]
pub struct StreamReader {
    bus: Bus,
    stream: String,
    identity: Option<StreamIdentity>,
    last: StreamPosition,
    connections: watch::Receiver<u64>,
    attached: Option<Attached>,
}

struct Attached {
    messages: pull::Stream,
    /// Number of messages that the server sent to this consumer: a gap means that one was lost.
    delivered: u64,
}

impl std::fmt::Debug for Attached {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Attached").field("delivered", &self.delivered).finish_non_exhaustive()
    }
}

/// One message of a stream.
#[derive(Debug, Clone)]
pub struct Stored {
    /// Sequence number.
    pub sequence: u64,
    pub subject: String,
    pub payload: Bytes,
    /// When the server stored it, in nanoseconds since 1970.
    pub stored_at: i64,
    headers: Option<HeaderMap>,
}

impl Stored {
    pub(super) fn of(message: jetstream::Message) -> Result<Self, async_nats::Error> {
        let info = message.info()?;
        let (sequence, stored_at) = (info.stream_sequence, nanoseconds(info.published));
        let (message, _) = message.split();
        let (subject, payload, headers) = (message.subject.to_string(), message.payload, message.headers);
        Ok(Self { sequence, subject, payload, stored_at, headers })
    }

    pub(super) fn of_direct(message: StreamMessage) -> Self {
        let StreamMessage { subject, sequence, headers, payload, time } = message;
        let subject = subject.to_string();
        Self { sequence, subject, payload, stored_at: nanoseconds(time), headers: Some(headers) }
    }

    pub fn place(&self) -> StreamPosition {
        StreamPosition { sequence: self.sequence, stored_at: Some(self.stored_at) }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.as_ref().and_then(|headers| headers.get(name)).map(async_nats::HeaderValue::as_str)
    }
}

impl StreamReader {
    /// Identity of the stream; none before it is attached.
    pub fn identity(&self) -> Option<&StreamIdentity> {
        self.identity.as_ref()
    }

    /// The next message. Waits through restarts of the server; only a lost stream is an error. Cancel-safe.
    pub async fn next(&mut self) -> Result<Stored, Error> {
        loop {
            let Some(attached) = &mut self.attached else {
                self.attach_with_retries().await?;
                continue;
            };
            let message = tokio::select! {
                message = attached.messages.next() => message,
                // Messages sent on the old connection are lost, and possibly no later one shows the gap.
                _ = self.connections.changed() => None,
            };
            match message {
                Some(Ok(message)) => match attached.accept(message, self.last.sequence) {
                    Accepted::New(stored) => {
                        self.last = stored.place();
                        return Ok(stored);
                    }
                    Accepted::Repeat => {}
                    Accepted::Gap => self.attached = None,
                },
                Some(Err(error)) => {
                    tracing::debug!(stream = self.stream, %error, "continuing after the last message");
                    self.attached = None;
                }
                None => self.attached = None,
            }
        }
    }

    async fn attach_with_retries(&mut self) -> Result<(), Error> {
        let mut attempt = 0;
        loop {
            attempt += 1;
            self.connections.borrow_and_update();
            match tokio::time::timeout(API_LIMIT, self.attach()).await {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(
                    error @ (Error::StreamLost { .. } | Error::StreamBehind { .. } | Error::StreamRewound { .. }),
                )) => return Err(error),
                Ok(Err(error)) => {
                    tracing::debug!(stream = self.stream, %error, attempt, "cannot read the stream, retrying")
                }
                Err(_) => tracing::debug!(stream = self.stream, attempt, "cannot read the stream, retrying: no answer"),
            }
            tokio::time::sleep(backoff::delay(attempt, Duration::from_millis(50), Duration::from_secs(1))).await;
        }
    }

    async fn attach(&mut self) -> Result<(), Error> {
        let config = pull::Config {
            deliver_policy: DeliverPolicy::ByStartSequence { start_sequence: self.last.sequence + 1 },
            ack_policy: AckPolicy::None,
            inactive_threshold: Duration::from_secs(30),
            memory_storage: true,
            num_replicas: 1,
            ..pull::Config::default()
        };
        let doing = || format!("reading stream {}", self.stream);
        let lost = || Error::StreamLost { stream: self.stream.clone() };
        let consumer = match self.bus.jetstream.create_consumer_on_stream(config, &self.stream).await {
            Ok(consumer) => consumer,
            Err(error) => match error.kind() {
                ConsumerErrorKind::JetStream(reason) if reason.error_code() == ErrorCode::STREAM_NOT_FOUND => {
                    return Err(lost());
                }
                _ => return Err(Error::Failed { doing: doing(), source: error.into() }),
            },
        };
        // Read after creating the consumer: if the stream was replaced before, this shows the new one.
        let info = match self.bus.jetstream.get_stream(&self.stream).await {
            Ok(stream) => stream.cached_info().clone(),
            Err(error) if is_missing(&error.kind()) => return Err(lost()),
            Err(error) => return Err(Error::Failed { doing: doing(), source: error.into() }),
        };
        let identity = StreamIdentity::of(&info);
        if self.identity.as_ref().is_some_and(|known| *known != identity) {
            return Err(lost());
        }
        if info.state.last_sequence < self.last.sequence {
            let (after, last) = (self.last.sequence, info.state.last_sequence);
            return Err(Error::StreamBehind { stream: self.stream.clone(), after, last });
        }
        if !self.bus.holds(&self.stream, self.last).await?.unwrap_or(true) {
            return Err(Error::StreamRewound { stream: self.stream.clone(), sequence: self.last.sequence });
        }
        let messages = consumer.stream().heartbeat(IDLE_HEARTBEAT).messages().await;
        let messages = messages.map_err(|source| Error::Failed { doing: doing(), source: source.into() })?;
        self.identity = Some(identity);
        self.attached = Some(Attached { messages, delivered: 0 });
        Ok(())
    }
}

impl Bus {
    /// Whether the stream still holds the message that was read at `place`. None when that is unknown: the message was
    /// purged or expired, or the place has no time.
    pub async fn holds(&self, stream: &str, place: StreamPosition) -> Result<Option<bool>, Error> {
        let Some(stored_at) = place.stored_at.filter(|_| place.sequence > 0) else { return Ok(None) };
        let found = self.message(stream, place.sequence).await?;
        Ok(found.map(|found| nanoseconds(found.time) == stored_at))
    }

    /// The payload of a message; none when it was purged or expired.
    pub async fn payload(&self, stream: &str, sequence: u64) -> Result<Option<Bytes>, Error> {
        match self.read_direct(stream, sequence, 1).await? {
            Direct::Messages(found) => {
                Ok(found.into_iter().find(|found| found.sequence == sequence).map(|found| found.payload))
            }
            Direct::Unavailable => Ok(self.message(stream, sequence).await?.map(|found| found.payload)),
        }
    }

    async fn message(&self, stream: &str, sequence: u64) -> Result<Option<StreamMessage>, Error> {
        let doing = || format!("reading message {sequence} of stream {stream}");
        let reading = async {
            let handle = self.jetstream.get_stream_no_info(stream).await.map_err(async_nats::Error::from)?;
            match handle.get_raw_message(sequence).await {
                Ok(found) => Ok(Some(found)),
                Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => Ok(None),
                Err(error) => Err(error.into()),
            }
        };
        match tokio::time::timeout(API_LIMIT, reading).await {
            Ok(answer) => answer.map_err(|source| Error::Failed { doing: doing(), source }),
            Err(_) => Err(Error::TimedOut { doing: doing() }),
        }
    }
}

/// Nanoseconds since 1970; they fit 64 bits until the year 2262.
pub(super) fn nanoseconds(time: async_nats::datetime::DateTime) -> i64 {
    i64::try_from(time.unix_timestamp_nanos()).unwrap_or(i64::MAX)
}

enum Accepted {
    New(Stored),
    Repeat,
    Gap,
}

impl Attached {
    fn accept(&mut self, message: jetstream::Message, last: u64) -> Accepted {
        let Ok(delivered) = message.info().map(|info| info.consumer_sequence) else { return Accepted::Gap };
        if delivered != self.delivered + 1 {
            return Accepted::Gap;
        }
        self.delivered = delivered;
        match Stored::of(message) {
            Ok(stored) if stored.sequence <= last => Accepted::Repeat,
            Ok(stored) => Accepted::New(stored),
            Err(_) => Accepted::Gap,
        }
    }
}
