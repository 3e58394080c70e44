//! JetStream streams: creating, updating, publishing, purging.
//!
//! Ensuring a stream creates or updates it and never deletes it. A stream's identity is its creation time, so a
//! re-created stream differs from the one that a cursor refers to.

use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::jetstream::context::{CreateStreamErrorKind, GetStreamErrorKind, PublishErrorKind};
use async_nats::jetstream::stream::{Config, DiscardPolicy, Info, Republish, StorageType};
use async_nats::jetstream::{self, ErrorCode};
use contract::streams::WhenFull;
use serde::Serialize;
use tokio::time::{Instant, timeout_at};

use super::connect::API_LIMIT;
use super::direct::Direct;
use super::{Bus, Error, encode};
use crate::backoff;

/// How long to retry ensuring a stream: a server that just started needs a moment for its JetStream.
const ENSURE_PATIENCE: Duration = Duration::from_secs(10);

/// Desired settings of a stream.
#[derive(Debug, Clone)]
pub struct StreamSpec {
    pub name: String,
    /// Subjects that it stores.
    pub subjects: Vec<String>,
    /// The server deletes older messages.
    pub max_age: Duration,
    /// Size limit in bytes.
    pub max_bytes: i64,
    /// What happens when the limit is reached.
    pub discard: Discard,
    /// A second message with the same id within this time is dropped as a duplicate.
    pub dedup_window: Duration,
    /// Messages can be read without a consumer.
    pub is_read_directly: bool,
    /// Where the server publishes the headers of each message once it is stored.
    pub announced_on: Option<String>,
}

impl From<&contract::streams::Stream> for StreamSpec {
    fn from(stream: &contract::streams::Stream) -> Self {
        Self {
            max_age: stream.max_age,
            max_bytes: stream.max_bytes,
            discard: match stream.when_full {
                WhenFull::Refuse => Discard::New,
                WhenFull::DropOldest => Discard::Old,
            },
            is_read_directly: stream.is_read_directly,
            announced_on: stream.announced_on.map(str::to_owned),
            ..Self::new(stream.name, stream.subjects)
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Discard {
    /// The server deletes the oldest message.
    Old,
    /// The server rejects the new message.
    New,
}

/// Distinguishes a stream from another of the same name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct StreamIdentity(String);

impl StreamIdentity {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(super) fn of(info: &Info) -> Self {
        Self(format!("{}@{}", info.config.name, info.created.unix_timestamp_nanos()))
    }
}

impl std::fmt::Display for StreamIdentity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl StreamSpec {
    /// A stream of `subjects` with a dedup window of 2 minutes, 24 hours, 256 MiB, oldest deleted first.
    pub fn new(name: &str, subjects: &[&str]) -> Self {
        Self {
            name: name.to_owned(),
            subjects: subjects.iter().map(|&subject| subject.to_owned()).collect(),
            max_age: Duration::from_secs(24 * 3600),
            max_bytes: 256 << 20,
            discard: Discard::Old,
            dedup_window: Duration::from_secs(120),
            is_read_directly: false,
            announced_on: None,
        }
    }

    /// Sets the fields that deployd manages; placement stays the operator's. Replicas are only raised: two processes
    /// with different settings would otherwise move every stream back and forth. Direct reads and announcements are only
    /// switched on, because schedulers of the version before do not know them.
    fn apply(&self, config: &mut Config, replicas: usize) {
        config.num_replicas = config.num_replicas.max(replicas);
        config.name.clone_from(&self.name);
        config.subjects.clone_from(&self.subjects);
        config.max_age = self.max_age;
        config.max_bytes = self.max_bytes;
        config.duplicate_window = self.dedup_window;
        config.allow_direct |= self.is_read_directly;
        if let (Some(destination), Some(source)) = (&self.announced_on, self.subjects.first()) {
            let (source, destination) = (source.clone(), destination.clone());
            config.republish = Some(Republish { source, destination, headers_only: true });
        }
        config.discard = match self.discard {
            Discard::Old => DiscardPolicy::Old,
            Discard::New => DiscardPolicy::New,
        };
    }
}

/// The server's acknowledgement of a stored message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DurableAck {
    /// Sequence number in the stream.
    pub sequence: u64,
    /// A message with this id was already stored.
    pub duplicate: bool,
}

impl Bus {
    /// Creates or updates the stream; never deletes it. Waits for JetStream for up to 10 s.
    pub async fn ensure_stream(&self, spec: &StreamSpec) -> Result<StreamIdentity, Error> {
        let until = Instant::now() + ENSURE_PATIENCE;
        let mut attempt = 0;
        loop {
            attempt += 1;
            match timeout_at(until, self.ensure_once(spec)).await {
                Ok(Ok(info)) => return Ok(StreamIdentity::of(&info)),
                Ok(Err(Ensure::Refused(source))) => return Err(failed_stream(&spec.name, source)),
                Ok(Err(Ensure::Retriable(source))) if Instant::now() >= until => {
                    return Err(failed_stream(&spec.name, source));
                }
                Ok(Err(Ensure::Retriable(error))) => {
                    tracing::debug!(stream = spec.name, %error, "cannot ensure the stream, retrying")
                }
                Err(_) => return Err(Error::TimedOut { doing: format!("ensuring stream {}", spec.name) }),
            }
            tokio::time::sleep(backoff::delay(attempt, Duration::from_millis(50), Duration::from_secs(1))).await;
        }
    }

    async fn ensure_once(&self, spec: &StreamSpec) -> Result<Info, Ensure> {
        match self.jetstream.get_stream(&spec.name).await {
            Ok(stream) => {
                let have = stream.cached_info();
                let mut want = have.config.clone();
                spec.apply(&mut want, self.replicas);
                if want == have.config {
                    return Ok(have.clone());
                }
                tracing::info!(stream = spec.name, "updating the stream settings");
                self.jetstream.update_stream(want).await.map_err(Ensure::create)
            }
            Err(error) if is_missing(&error.kind()) => {
                let mut config = Config { storage: StorageType::File, num_replicas: 1, ..Config::default() };
                spec.apply(&mut config, self.replicas);
                tracing::info!(stream = spec.name, "creating the stream");
                let stream = self.jetstream.create_stream(config).await.map_err(Ensure::create)?;
                Ok(stream.cached_info().clone())
            }
            Err(error) => Err(Ensure::Retriable(error.into())),
        }
    }

    /// Whether the stream exists.
    pub async fn has_stream(&self, stream: &str) -> Result<bool, Error> {
        match self.last_direct(stream).await? {
            Direct::Messages(_) => Ok(true),
            Direct::Unavailable => Ok(self.look_up(stream).await?.is_some()),
        }
    }

    /// The description of a stream; none when it does not exist, or this process may not ask, which it may not need to where
    /// direct reads are allowed.
    pub(super) async fn look_up(&self, stream: &str) -> Result<Option<Info>, Error> {
        let doing = || format!("looking for stream {stream}");
        let refused = format!("$JS.API.STREAM.INFO.{stream}");
        let asking = async {
            tokio::select! {
                // First: what was refused once is not asked again on this connection.
                biased;
                () = self.refusal(&refused) => Ok(None),
                found = self.jetstream.get_stream(stream) => match found {
                    Ok(found) => Ok(Some(found.cached_info().clone())),
                    Err(error) if is_missing(&error.kind()) => Ok(None),
                    Err(error) => Err(Error::Failed { doing: doing(), source: error.into() }),
                },
            }
        };
        tokio::time::timeout(API_LIMIT, asking).await.unwrap_or_else(|_| Err(Error::TimedOut { doing: doing() }))
    }

    /// Stores a value in the stream of `subject` and waits until the server has it.
    #[expect(clippy::too_many_arguments, reason = "each is one plain setting, named at the call")]
    pub async fn publish_durable<T: Serialize + ?Sized>(
        &self,
        subject: &str,
        id: &str,
        headers: &[(&str, &str)],
        value: &T,
        deadline: Duration,
    ) -> Result<DurableAck, Error> {
        let until = Instant::now() + deadline;
        let doing = || format!("storing a message on {subject}");
        let payload = encode(subject, value)?;
        let limit = self.client.max_payload();
        if payload.len() >= limit {
            return Err(Error::TooLarge { subject: subject.to_owned(), size: payload.len(), limit });
        }
        self.wait_connected(until).await?;
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, *value);
        }
        let message = jetstream::message::PublishMessage::build().payload(payload).headers(map).message_id(id);
        let stored = async {
            let ack = self.jetstream.send_publish(subject.to_owned(), message).await?;
            ack.await
        };
        match timeout_at(until, stored).await {
            Ok(Ok(ack)) => Ok(DurableAck { sequence: ack.sequence, duplicate: ack.duplicate }),
            Ok(Err(error)) if error.kind() == PublishErrorKind::StreamNotFound => {
                Err(Error::NoStream { subject: subject.to_owned() })
            }
            Ok(Err(source)) => Err(Error::Failed { doing: doing(), source: source.into() }),
            Err(_) => Err(Error::TimedOut { doing: doing() }),
        }
    }

    /// Deletes all messages up to and including `sequence`.
    pub async fn purge_up_to(&self, stream: &str, sequence: u64) -> Result<(), Error> {
        let doing = || format!("purging stream {stream}");
        let purging = async {
            let handle = self.jetstream.get_stream_no_info(stream).await.map_err(async_nats::Error::from)?;
            // The server keeps the message with the given sequence number.
            handle.purge().sequence(sequence.saturating_add(1)).await.map_err(async_nats::Error::from)
        };
        match tokio::time::timeout(API_LIMIT, purging).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(source)) => Err(Error::Failed { doing: doing(), source }),
            Err(_) => Err(Error::TimedOut { doing: doing() }),
        }
    }
}

enum Ensure {
    /// A retry may succeed.
    Retriable(async_nats::Error),
    /// A retry will not help.
    Refused(async_nats::Error),
}

impl Ensure {
    fn create(error: jetstream::context::CreateStreamError) -> Self {
        let refused = match error.kind() {
            // The servers of a starting cluster find each other soon.
            CreateStreamErrorKind::JetStream(reason) if reason.error_code() == ErrorCode::CLUSTER_NO_PEERS => false,
            CreateStreamErrorKind::JetStream(reason) => reason.code() < 500,
            CreateStreamErrorKind::EmptyStreamName
            | CreateStreamErrorKind::InvalidStreamName
            | CreateStreamErrorKind::DomainAndExternalSet => true,
            CreateStreamErrorKind::JetStreamUnavailable
            | CreateStreamErrorKind::TimedOut
            | CreateStreamErrorKind::Response
            | CreateStreamErrorKind::NotFound
            | CreateStreamErrorKind::ResponseParse => false,
        };
        match refused {
            true => Self::Refused(error.into()),
            false => Self::Retriable(error.into()),
        }
    }
}

fn failed_stream(stream: &str, source: async_nats::Error) -> Error {
    Error::Failed { doing: format!("ensuring stream {stream}"), source }
}

pub(super) fn is_missing(kind: &GetStreamErrorKind) -> bool {
    matches!(kind, GetStreamErrorKind::JetStream(error) if error.error_code() == ErrorCode::STREAM_NOT_FOUND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_are_raised_and_never_lowered() {
        let spec = StreamSpec::new("S", &["s"]);
        let mut config = Config { num_replicas: 1, ..Config::default() };
        let mut after = |replicas| {
            spec.apply(&mut config, replicas);
            config.num_replicas
        };
        assert_eq!([after(1), after(3), after(1)], [1, 3, 3]);
    }
}
