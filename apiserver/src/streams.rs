//! Reads the streams of events and dead letters.
//!
//! Reads JetStream directly, so it works without a leader. A stream that does not exist yet counts as empty.

use std::sync::Arc;
use std::time::Duration;

use contract::streams::Stream;
use contract::time::Timestamp;
use fabric::clock::Clock;
use fabric::nats::{Bus, Error, Stored, StreamFollower};
use fabric::shutdown::Shutdown;
use tokio::sync::Semaphore;

use crate::peers::{Full, PeerLimit, Permit};
use crate::rates::Payer;

/// Concurrent reads; more wait.
const READERS: usize = 8;
/// Concurrent followers; more are refused. Each has its own subscription.
const FOLLOWERS: usize = 1024;
/// Messages per read; one is at most 64 KiB.
const PART: u64 = 250;
/// Messages scanned for one answer: a filter sees only the newest 100,000.
const MOST_READ: u64 = 100_000;
/// Pause before a follower reconnects.
const RECONNECT_AFTER: Duration = Duration::from_secs(1);

/// Clones share the limits.
#[derive(Debug, Clone)]
pub struct Streams {
    bus: Bus,
    clock: Clock,
    readers: Arc<Semaphore>,
    followers: PeerLimit<Payer>,
    /// Ends all followers.
    pub leaving: Shutdown,
}

/// What a filter says about one message.
#[derive(Debug)]
pub enum Filtered<T> {
    Match(T),
    Skip,
    /// Before the requested time: no older message is read.
    TooOld,
}

/// The newest matches.
#[derive(Debug)]
pub struct Newest<T> {
    /// Oldest first.
    pub found: Vec<T>,
    /// Sequence number of the last message in the stream; a follower continues after it.
    pub last: u64,
}

impl Streams {
    /// Bounds the followers of one client and of all clients.
    pub fn new(bus: Bus, followers_per_peer: usize) -> Self {
        let readers = Arc::new(Semaphore::new(READERS));
        let followers = PeerLimit::new(FOLLOWERS, followers_per_peer);
        Self { bus, clock: Clock::start(), readers, followers, leaving: Shutdown::new() }
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The newest `most` messages that match `filter`.
    pub async fn newest<T>(
        &self,
        stream: &Stream,
        most: usize,
        mut filter: impl FnMut(&Stored) -> Filtered<T>,
    ) -> Result<Newest<T>, Error> {
        // The semaphore is never closed; if it were, an unbounded read would be better than none.
        let _permit = self.readers.acquire().await.ok();
        let Some(mut reader) = self.bus.read_back(stream.name).await? else {
            return Ok(Newest { found: Vec::new(), last: 0 });
        };
        let (mut found, mut read, mut too_old) = (Vec::new(), 0, false);
        while found.len() < most && read < MOST_READ && !too_old {
            let Some(part) = reader.part(PART).await? else { break };
            read += PART;
            for stored in part.iter().rev() {
                match filter(stored) {
                    Filtered::Match(value) => found.push(value),
                    Filtered::Skip => {}
                    Filtered::TooOld => too_old = true,
                }
            }
        }
        found.truncate(most);
        found.reverse();
        Ok(Newest { found, last: reader.last() })
    }

    /// Sequence number of the last message; 0 for an empty stream.
    pub async fn end(&self, stream: &Stream) -> Result<u64, Error> {
        Ok(self.bus.read_back(stream.name).await?.map_or(0, |reader| reader.last()))
    }

    pub fn follower_permit(&self, client: Payer) -> Result<Permit<Payer>, Full> {
        self.followers.acquire(client)
    }

    /// Follows the stream from the first message after `after`.
    pub fn follow(&self, stream: &'static Stream, after: u64, permit: Permit<Payer>) -> Follower {
        Follower { bus: self.bus.clone(), stream, after, reader: None, _permit: permit }
    }
}

/// Follows one stream; dropping it releases its permit.
#[derive(Debug)]
pub struct Follower {
    bus: Bus,
    stream: &'static Stream,
    after: u64,
    reader: Option<StreamFollower>,
    _permit: Permit<Payer>,
}

impl Follower {
    /// The next message; reconnects by itself. Cancel-safe.
    pub async fn next(&mut self) -> Stored {
        loop {
            match self.attempt().await {
                Ok(stored) => {
                    self.after = stored.sequence;
                    return stored;
                }
                Err(error) => {
                    tracing::debug!(stream = self.stream.name, %error, "reconnecting to the stream");
                    self.reader = None;
                    self.after = match error {
                        // New messages may reuse the sequence numbers of lost ones. The follower starts over: an event
                        // shown twice does less harm than one never shown.
                        Error::StreamLost { .. } | Error::StreamBehind { .. } | Error::StreamRewound { .. } => 0,
                        _ => self.after,
                    };
                    tokio::time::sleep(RECONNECT_AFTER).await;
                }
            }
        }
    }

    async fn attempt(&mut self) -> Result<Stored, Error> {
        let reader = match &mut self.reader {
            Some(reader) => reader,
            None => {
                let announcements = self.stream.announced_on.unwrap_or_default();
                self.reader.insert(self.bus.follow(self.stream.name, announcements, self.after).await?)
            }
        };
        reader.next().await
    }
}
