//! Reads the streams people look into: what happened, and what nobody could read or deliver.
//!
//! No scheduler is asked, so this works without a leader. A stream that is not there yet holds nothing.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use contract::streams::Stream;
use contract::time::Timestamp;
use fabric::clock::Clock;
use fabric::nats::{Bus, Error, Stored, StreamReader};
use fabric::shutdown::Shutdown;
use tokio::sync::Semaphore;

use crate::peers::{Full, Place, Places};

/// Looks into the past at a time; more wait for their turn.
const READERS: usize = 8;
/// Followers at a time; more are refused. Each has a subscription of its own.
const FOLLOWERS: usize = 256;
/// Messages read at a time; one is at most 64 KiB.
const PART: u64 = 250;
/// Messages looked at for one answer: who filters finds what he wants among so many of the newest, or not at all.
const MOST_READ: u64 = 100_000;
/// After a stream was found lost.
const AFTER_LOSS: Duration = Duration::from_secs(1);

/// The way into the streams; clones share the limits.
#[derive(Debug, Clone)]
pub struct Past {
    bus: Bus,
    clock: Clock,
    readers: Arc<Semaphore>,
    followers: Places,
    /// Raised when followers shall end.
    pub leaving: Shutdown,
}

/// What one message is to whoever looks for something.
#[derive(Debug)]
pub enum Found<T> {
    /// What is looked for.
    Wanted(T),
    /// Something else.
    Other,
    /// From before the time that matters: nothing older is looked at.
    TooOld,
}

/// The newest that were found.
#[derive(Debug)]
pub struct Newest<T> {
    /// Oldest first.
    pub found: Vec<T>,
    /// Where the stream ended: what comes later is after this.
    pub last: u64,
}

impl Past {
    /// Reads over `bus`; bounds the followers of one peer and of all peers.
    pub fn new(bus: Bus, followers_per_peer: usize) -> Self {
        let readers = Arc::new(Semaphore::new(READERS));
        let followers = Places::new(FOLLOWERS, followers_per_peer);
        Self { bus, clock: Clock::start(), readers, followers, leaving: Shutdown::new() }
    }

    /// Now, for spans that end now.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The newest `most` messages that `look` wants.
    pub async fn newest<T>(
        &self,
        stream: &Stream,
        most: usize,
        mut look: impl FnMut(&Stored) -> Found<T>,
    ) -> Result<Newest<T>, Error> {
        // Never closed; if it were, an unbounded look would still be better than none.
        let _turn = self.readers.acquire().await.ok();
        let Some(mut reader) = self.bus.read_back(stream.name).await? else {
            return Ok(Newest { found: Vec::new(), last: 0 });
        };
        let (mut found, mut read, mut too_old) = (Vec::new(), 0, false);
        while found.len() < most && read < MOST_READ && !too_old {
            let Some(part) = reader.part(PART).await? else { break };
            read += PART;
            for stored in part.iter().rev() {
                match look(stored) {
                    Found::Wanted(value) => found.push(value),
                    Found::Other => {}
                    Found::TooOld => too_old = true,
                }
            }
        }
        found.truncate(most);
        found.reverse();
        Ok(Newest { found, last: reader.last() })
    }

    /// Where the stream ends now: what comes later is after this.
    pub async fn end(&self, stream: &Stream) -> Result<u64, Error> {
        Ok(self.bus.read_back(stream.name).await?.map_or(0, |reader| reader.last()))
    }

    /// Takes the place of one more follower.
    pub fn place(&self, peer: IpAddr) -> Result<Place, Full> {
        self.followers.take(peer)
    }

    /// Follows the stream from the message after `after`.
    pub fn follow(&self, stream: &'static Stream, after: u64, place: Place) -> Follower {
        Follower { bus: self.bus.clone(), stream, after, reader: None, _place: place }
    }
}

/// Follows one stream; dropping it gives its place back.
#[derive(Debug)]
pub struct Follower {
    bus: Bus,
    stream: &'static Stream,
    after: u64,
    reader: Option<StreamReader>,
    _place: Place,
}

impl Follower {
    /// The next message, whatever happens to the bus meanwhile. May be cancelled without loss.
    pub async fn next(&mut self) -> Stored {
        loop {
            match self.attempt().await {
                Ok(stored) => {
                    self.after = stored.sequence;
                    return stored;
                }
                Err(error) => {
                    tracing::debug!(stream = self.stream.name, %error, "follows again");
                    self.reader = None;
                    self.after = match error {
                        // The messages that are stored now may have the numbers of lost ones that were shown: all are
                        // shown, because one shown twice does less harm than one that is never shown.
                        Error::StreamLost { .. } | Error::StreamBehind { .. } | Error::StreamRewound { .. } => 0,
                        _ => self.after,
                    };
                    tokio::time::sleep(AFTER_LOSS).await;
                }
            }
        }
    }

    async fn attempt(&mut self) -> Result<Stored, Error> {
        let reader = match &mut self.reader {
            Some(reader) => reader,
            None => {
                // Whoever comes first makes the stream.
                self.bus.ensure_stream(&self.stream.into()).await?;
                self.reader.insert(self.bus.read_stream(self.stream.name, self.after).await?)
            }
        };
        reader.next().await
    }
}
