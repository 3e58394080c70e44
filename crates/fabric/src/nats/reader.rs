//! Reads a stream in order, whatever happens.
//!
//! The reader owns its place: when the server or the connection goes, it asks again from the message after the last one it
//! handed out. The server keeps nothing for it. A stream that was lost or replaced is an error: only the caller knows what
//! its place means then.

use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, pull};
use async_nats::jetstream::stream::ConsumerErrorKind;
use async_nats::jetstream::{self, ErrorCode};
use bytes::Bytes;
use futures_util::StreamExt;
use tokio::sync::watch;

use super::connect::API_LIMIT;
use super::stream::{StreamIdentity, is_missing};
use super::{Bus, Error};
use crate::backoff;

/// The server speaks at least so often while a reader waits; two silences make the reader ask again.
const IDLE_HEARTBEAT: Duration = Duration::from_secs(2);

impl Bus {
    /// Reads a stream in order, beginning after `after`.
    pub async fn read_stream(&self, stream: &str, after: u64) -> Result<StreamReader, Error> {
        let mut reader = StreamReader {
            bus: self.clone(),
            stream: stream.to_owned(),
            identity: None,
            last: after,
            connections: self.connections.clone(),
            attached: None,
        };
        reader.attach_patiently().await?;
        Ok(reader)
    }
}

/// Reads one stream in order.
#[derive(Debug)]
pub struct StreamReader {
    bus: Bus,
    stream: String,
    identity: Option<StreamIdentity>,
    last: u64,
    connections: watch::Receiver<u64>,
    attached: Option<Attached>,
}

struct Attached {
    messages: pull::Stream,
    /// Messages the server counted out to this consumer: a gap means that one was lost under way.
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
    /// Its place.
    pub sequence: u64,
    /// Where it was sent.
    pub subject: String,
    /// Its content.
    pub payload: Bytes,
    headers: Option<HeaderMap>,
}

impl Stored {
    pub(super) fn of(message: jetstream::Message) -> Result<Self, async_nats::Error> {
        let sequence = message.info()?.stream_sequence;
        let (message, _) = message.split();
        Ok(Self { sequence, subject: message.subject.to_string(), payload: message.payload, headers: message.headers })
    }

    /// A header's value.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.as_ref().and_then(|headers| headers.get(name)).map(async_nats::HeaderValue::as_str)
    }
}

impl StreamReader {
    /// Identity of the stream that is read.
    pub fn identity(&self) -> Option<&StreamIdentity> {
        self.identity.as_ref()
    }

    /// The next message. Waits through restarts of the server; only a lost stream is an error. May be cancelled without
    /// loss.
    pub async fn next(&mut self) -> Result<Stored, Error> {
        loop {
            let Some(attached) = &mut self.attached else {
                self.attach_patiently().await?;
                continue;
            };
            let message = tokio::select! {
                message = attached.messages.next() => message,
                // Messages that were under way on the old connection are gone, and no later one may ever show the gap.
                _ = self.connections.changed() => None,
            };
            match message {
                Some(Ok(message)) => match attached.accept(message, self.last) {
                    Accepted::New(stored) => {
                        self.last = stored.sequence;
                        return Ok(stored);
                    }
                    Accepted::Repeat => {}
                    Accepted::Gap => self.attached = None,
                },
                Some(Err(error)) => {
                    tracing::debug!(stream = self.stream, %error, "reading again from the last message");
                    self.attached = None;
                }
                None => self.attached = None,
            }
        }
    }

    async fn attach_patiently(&mut self) -> Result<(), Error> {
        let mut attempt = 0;
        loop {
            attempt += 1;
            self.connections.borrow_and_update();
            match tokio::time::timeout(API_LIMIT, self.attach()).await {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(error @ (Error::StreamLost { .. } | Error::StreamBehind { .. }))) => return Err(error),
                Ok(Err(error)) => tracing::debug!(stream = self.stream, %error, attempt, "cannot read yet"),
                Err(_) => tracing::debug!(stream = self.stream, attempt, "cannot read yet: no answer"),
            }
            tokio::time::sleep(backoff::delay(attempt, Duration::from_millis(50), Duration::from_secs(1))).await;
        }
    }

    async fn attach(&mut self) -> Result<(), Error> {
        let config = pull::Config {
            deliver_policy: DeliverPolicy::ByStartSequence { start_sequence: self.last + 1 },
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
        // Looked at after the consumer was made: had the stream been replaced before, this shows the new one.
        let info = match self.bus.jetstream.get_stream(&self.stream).await {
            Ok(stream) => stream.cached_info().clone(),
            Err(error) if is_missing(&error.kind()) => return Err(lost()),
            Err(error) => return Err(Error::Failed { doing: doing(), source: error.into() }),
        };
        let identity = StreamIdentity::of(&info);
        if self.identity.as_ref().is_some_and(|known| *known != identity) {
            return Err(lost());
        }
        if info.state.last_sequence < self.last {
            let (after, last) = (self.last, info.state.last_sequence);
            return Err(Error::StreamBehind { stream: self.stream.clone(), after, last });
        }
        let messages = consumer.stream().heartbeat(IDLE_HEARTBEAT).messages().await;
        let messages = messages.map_err(|source| Error::Failed { doing: doing(), source: source.into() })?;
        self.identity = Some(identity);
        self.attached = Some(Attached { messages, delivered: 0 });
        Ok(())
    }
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
