//! Reads a stream backwards, part by part, for readers that want only the newest messages.
//!
//! Each part is read in order: directly, or by a short-lived consumer where that is not available. Messages that expired meanwhile
//! are skipped.

use std::ops::RangeInclusive;
use std::time::Duration;

use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, pull};
use futures_util::StreamExt;

use super::connect::API_LIMIT;
use super::direct::Direct;
use super::{Bus, Error, Stored};

/// The server deletes the consumer of a reader that died after this time.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(5);

impl Bus {
    /// A reader that starts at the current end of the stream; none when the stream does not exist.
    pub async fn read_back(&self, stream: &str) -> Result<Option<PastReader>, Error> {
        let (first, last) = match self.last_direct(stream).await? {
            Direct::Messages(last) => {
                let last = last.first().map_or(0, |last| last.sequence);
                let Direct::Messages(first) = self.read_direct(stream, 1, 1).await? else { return Ok(None) };
                (first.first().map_or(last + 1, |first| first.sequence), last)
            }
            Direct::Unavailable => match self.look_up(stream).await? {
                Some(found) => (found.state.first_sequence, found.state.last_sequence),
                None => return Ok(None),
            },
        };
        Ok(Some(PastReader { bus: self.clone(), stream: stream.to_owned(), first, last, unread: last }))
    }
}

/// Reads a stream backwards.
#[derive(Debug)]
pub struct PastReader {
    bus: Bus,
    stream: String,
    first: u64,
    last: u64,
    /// Everything after this sequence number was read.
    unread: u64,
}

impl PastReader {
    /// Sequence number of the last message when the reader was created.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// The previous part, in order, of at most `most` messages; none at the start of the stream.
    pub async fn part(&mut self, most: u64) -> Result<Option<Vec<Stored>>, Error> {
        if self.unread < self.first.max(1) {
            return Ok(None);
        }
        let from = self.unread.saturating_sub(most.max(1) - 1).max(self.first).max(1);
        let doing = || format!("reading stream {}", self.stream);
        let part = match self.read_directly(from..=self.unread).await? {
            Some(part) => part,
            None => match tokio::time::timeout(API_LIMIT, self.read(from..=self.unread)).await {
                Ok(Ok(part)) => part,
                Ok(Err(source)) => return Err(Error::Failed { doing: doing(), source }),
                Err(_) => return Err(Error::TimedOut { doing: doing() }),
            },
        };
        self.unread = from - 1;
        Ok(Some(part))
    }

    /// The messages of a range; none when direct reads are not available.
    async fn read_directly(&self, range: RangeInclusive<u64>) -> Result<Option<Vec<Stored>>, Error> {
        let (mut found, mut next) = (Vec::new(), *range.start());
        while next <= *range.end() {
            match self.bus.read_direct(&self.stream, next, range.end() - next + 1).await? {
                Direct::Unavailable => return Ok(None),
                // The stream has dropped the rest since the reader was created.
                Direct::Messages(part) if part.is_empty() => break,
                Direct::Messages(part) => {
                    next = part.last().map_or(next, |stored| stored.sequence) + 1;
                    found.extend(part.into_iter().filter(|stored| range.contains(&stored.sequence)));
                }
            }
        }
        Ok(Some(found))
    }

    async fn read(&self, range: RangeInclusive<u64>) -> Result<Vec<Stored>, async_nats::Error> {
        let config = pull::Config {
            deliver_policy: DeliverPolicy::ByStartSequence { start_sequence: *range.start() },
            ack_policy: AckPolicy::None,
            inactive_threshold: FORGOTTEN_AFTER,
            memory_storage: true,
            num_replicas: 1,
            ..pull::Config::default()
        };
        let consumer = self.bus.jetstream.create_consumer_on_stream(config, &self.stream).await?;
        let mut found = Vec::new();
        let mut next = *range.start();
        while next <= *range.end() {
            let most = usize::try_from(range.end() - next + 1)?;
            let before = next;
            let mut messages = consumer.fetch().max_messages(most).messages().await?;
            while let Some(message) = messages.next().await {
                let stored = Stored::of(message?)?;
                next = stored.sequence + 1;
                found.push(stored);
            }
            if next == before {
                // The stream has dropped the rest since the reader was created.
                break;
            }
        }
        found.retain(|stored| range.contains(&stored.sequence));
        let name = &consumer.cached_info().name;
        if let Err(error) = self.bus.jetstream.delete_consumer_from_stream(name, &self.stream).await {
            tracing::debug!(stream = self.stream, %error, "cannot delete the consumer; it expires by itself");
        }
        Ok(found)
    }
}
