//! Follows a stream: reads it directly, and again whenever the server announces a stored message.
//!
//! An announcement only wakes the follower, which reads from its own position, so a lost one delays a message and loses none.
//! Where direct reads are not available, a [`StreamReader`] takes its place.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::sync::watch;

use super::direct::{Direct, announced_sequence};
use super::{Bus, Error, Message, Stored, StreamPosition, StreamReader, Subscription};
use crate::backoff;

/// Messages per read.
const PART: u64 = 250;
/// How often a follower that hears nothing reads anyway and checks that the stream is still the same.
const CHECK: Duration = Duration::from_secs(10);

/// Follows one stream.
#[derive(Debug)]
pub struct StreamFollower(Way);

#[derive(Debug)]
enum Way {
    Direct(Box<DirectFollower>),
    Consumer(Box<StreamReader>),
}

#[derive(Debug)]
struct DirectFollower {
    bus: Bus,
    stream: String,
    last: StreamPosition,
    read: VecDeque<Stored>,
    announcements: Subscription,
    /// The highest announced number: a lower one after it comes from another stream.
    announced: u64,
    connections: watch::Receiver<u64>,
}

impl Bus {
    /// Follows a stream from the first message after `after`. The server announces stored messages on `announcements`.
    pub async fn follow(&self, stream: &str, announcements: &str, after: u64) -> Result<StreamFollower, Error> {
        let connections = self.connections.clone();
        // Before the first read: what is stored in between is announced.
        let announcements = self.subscribe(announcements).await?;
        let way = match self.read_direct(stream, after + 1, PART).await? {
            Direct::Unavailable => Way::Consumer(Box::new(self.read_stream(stream, after).await?)),
            Direct::Messages(read) => Way::Direct(Box::new(DirectFollower {
                bus: self.clone(),
                stream: stream.to_owned(),
                last: after.into(),
                read: read.into(),
                announcements,
                announced: 0,
                connections,
            })),
        };
        let follower = StreamFollower(way);
        if let Way::Direct(direct) = &follower.0 {
            direct.verify().await?;
        }
        Ok(follower)
    }
}

impl StreamFollower {
    /// The next message. Waits through restarts of the server; only a lost stream is an error. Cancel-safe.
    pub async fn next(&mut self) -> Result<Stored, Error> {
        match &mut self.0 {
            Way::Direct(follower) => follower.next().await,
            Way::Consumer(reader) => reader.next().await,
        }
    }
}

impl DirectFollower {
    async fn next(&mut self) -> Result<Stored, Error> {
        let mut attempt = 0;
        loop {
            if let Some(stored) = self.read.pop_front() {
                self.last = stored.place();
                return Ok(stored);
            }
            match self.read_more().await {
                Ok(()) => attempt = 0,
                Err(error @ (Error::StreamLost { .. } | Error::StreamBehind { .. } | Error::StreamRewound { .. })) => {
                    return Err(error);
                }
                Err(error) => {
                    attempt += 1;
                    tracing::debug!(stream = self.stream, %error, attempt, "cannot read the stream, retrying");
                    let wait = backoff::delay(attempt, Duration::from_millis(50), Duration::from_secs(1));
                    tokio::time::sleep(wait).await;
                }
            }
        }
    }

    /// Reads from the last message that was shown, which proves that the stream is still the same: a server that was restored
    /// from a copy may hold other messages under the numbers of lost ones, and may answer before we know of the new connection.
    async fn read_more(&mut self) -> Result<(), Error> {
        let from = if self.last.stored_at.is_some() { self.last.sequence } else { self.last.sequence + 1 };
        match self.bus.read_direct(&self.stream, from, PART).await? {
            Direct::Messages(read) => {
                self.compare(&read)?;
                self.read = read.into();
                if self.read.front().is_some_and(|first| first.sequence == self.last.sequence) {
                    self.read.pop_front();
                }
                if self.read.is_empty() { self.wait().await } else { Ok(()) }
            }
            // A server that starts has not opened the stream yet.
            Direct::Unavailable => match self.bus.has_stream(&self.stream).await? {
                true => Err(Error::TimedOut { doing: format!("opening stream {}", self.stream) }),
                false => Err(self.lost()),
            },
        }
    }

    /// An error when a message has the number of the last one that was shown and another time.
    fn compare(&self, read: &[Stored]) -> Result<(), Error> {
        let Some(stored_at) = self.last.stored_at else { return Ok(()) };
        let sequence = self.last.sequence;
        match read.iter().any(|found| found.sequence == sequence && found.stored_at != stored_at) {
            true => Err(Error::StreamRewound { stream: self.stream.clone(), sequence }),
            false => Ok(()),
        }
    }

    /// Returns when there may be more to read.
    async fn wait(&mut self) -> Result<(), Error> {
        loop {
            let announced = tokio::select! {
                message = self.announcements.next() => message.as_ref().and_then(sequence_of),
                _ = self.connections.changed() => None,
                () = tokio::time::sleep(CHECK) => None,
            };
            match announced {
                Some(sequence) if sequence > self.announced => {
                    self.announced = sequence;
                    if sequence > self.last.sequence {
                        return Ok(());
                    }
                }
                Some(_) | None => {
                    self.announced = 0;
                    return self.verify().await;
                }
            }
        }
    }

    /// Checks that the stream still holds what was read.
    async fn verify(&self) -> Result<(), Error> {
        let (stream, after) = (self.stream.clone(), self.last.sequence);
        let opening = || Error::TimedOut { doing: format!("opening stream {}", self.stream) };
        let Direct::Messages(last) = self.bus.last_direct(&self.stream).await? else { return Err(opening()) };
        let last = last.first().map_or(0, |last| last.sequence);
        if last < after {
            return match last {
                // All messages have expired, or the stream is new.
                0 if self.last.stored_at.is_none() => Ok(()),
                _ => Err(Error::StreamBehind { stream, after, last }),
            };
        }
        match self.bus.read_direct(&self.stream, after, 1).await? {
            Direct::Messages(found) => self.compare(&found),
            Direct::Unavailable => Err(opening()),
        }
    }

    fn lost(&self) -> Error {
        Error::StreamLost { stream: self.stream.clone() }
    }
}

fn sequence_of(message: &Message) -> Option<u64> {
    message.headers.as_ref().and_then(announced_sequence)
}
