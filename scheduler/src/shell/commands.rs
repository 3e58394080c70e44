//! Reads the command stream in order, starting after the cursor, and recovers when the stream was lost or lost messages.
//!
//! A re-created stream has another identity; the leader reads it from its start. A stream of the same identity may have lost its
//! newest messages, for example because NATS was restored from an older copy of its files: it ends before the cursor, or has
//! another message at the cursor's number. Its next messages reuse numbers that the cursor has passed, so the leader reads it
//! again from its start under a new name. Messages that JetStream had stored by the time of the cursor's message are in effect
//! and do not run again; every later message is new.

use std::time::Duration;

use contract::command::Command;
use contract::event::{Event, Kind};
use contract::notice::DeadLetter;
use contract::record::Cursor;
use contract::store::Stores;
use contract::{streams, subjects, wire};
use fabric::backoff;
use fabric::clock::Clock;
use fabric::nats::{Error, Stored, StreamPosition, StreamReader};
use tokio::sync::mpsc;

use super::publish::Publisher;
use super::{Context, stream_claim};
use crate::core::io::{Delivery, Input};

pub(super) struct Reader {
    context: Context,
    publisher: Publisher,
    /// The names of the leader's store.
    stores: Stores,
    out: mpsc::Sender<Input>,
}

/// The open stream, positioned at the first message to read.
struct Opened {
    reader: StreamReader,
    /// The name of the stream in cursors from here on.
    stream: String,
    /// Set when the stream lost messages: those stored by this time, in nanoseconds since 1970, are in effect already.
    in_effect_until: Option<i64>,
}

impl Reader {
    pub(super) fn new(context: Context, publisher: Publisher, stores: Stores, out: mpsc::Sender<Input>) -> Self {
        Self { context, publisher, stores, out }
    }

    /// Sends the commands after `cursor` to the loop until this leadership ends.
    pub(super) async fn run(self, mut cursor: Cursor) {
        let mut attempt = 0;
        // Each reconnect opens the stream again; one loss of messages is reported once.
        let mut reported = None;
        while !self.out.is_closed() {
            match self.open(&cursor, &mut reported).await {
                Ok(mut opened) => {
                    attempt = 0;
                    tracing::info!(stream = opened.stream, after = cursor.sequence, "reading commands");
                    self.forward(&mut opened, &mut cursor).await;
                }
                Err(error) => {
                    attempt += 1;
                    tracing::warn!(%error, attempt, "cannot read commands yet");
                    let wait = backoff::delay(attempt, Duration::from_millis(100), Duration::from_secs(2));
                    tokio::time::sleep(wait).await;
                }
            }
        }
    }

    /// Opens the stream at the cursor.
    async fn open(&self, cursor: &Cursor, reported: &mut Option<Cursor>) -> Result<Opened, Error> {
        let bus = &self.context.bus;
        let identity = bus.ensure_stream(&(&streams::COMMANDS).into()).await?;
        let place = resume(cursor, identity.as_str());
        let begin = stream_claim::claim(bus, &self.stores, place.sequence).await?;
        let stored_at = place.stored_at.filter(|_| begin <= place.sequence);
        let after = StreamPosition { sequence: place.sequence.max(begin), stored_at };
        let opened = match bus.read_stream(streams::COMMANDS.name, after).await {
            Err(error @ (Error::StreamBehind { .. } | Error::StreamRewound { .. })) => {
                if reported.as_ref() != Some(cursor) {
                    self.report_loss(&error);
                    *reported = Some(cursor.clone());
                }
                let reader = bus.read_stream(streams::COMMANDS.name, 0).await?;
                Opened { reader, stream: read_again(&place.stream), in_effect_until: place.stored_at }
            }
            opened => Opened { reader: opened?, stream: place.stream, in_effect_until: None },
        };
        match opened.reader.identity() == Some(&identity) {
            true => Ok(opened),
            false => Err(Error::StreamLost { stream: streams::COMMANDS.name.to_owned() }),
        }
    }

    fn report_loss(&self, error: &Error) {
        tracing::error!(%error, "the command stream lost messages; reading it again from its start");
        self.context.metrics.stream_losses.inc();
        let message = format!(
            "{error}. Commands stored before the loss are in effect and are not run again, commands stored since then run \
             now; a queued command that was in the lost part must be sent again (GET /api/operations?id=KEY does not know it)"
        );
        let event = Event {
            at: self.context.clock.now(),
            kind: Kind::Leader,
            group: None,
            instance: 0,
            node: None,
            message,
            namespace: None,
            reasons: std::collections::BTreeMap::new(),
        };
        if self.publisher.event(event).is_err() {
            self.context.metrics.dropped.inc();
        }
    }

    /// Sends commands to the loop until the stream is lost or this leadership ends, and advances the cursor with each of them.
    async fn forward(&self, opened: &mut Opened, cursor: &mut Cursor) {
        let Opened { reader, stream, in_effect_until } = opened;
        let mut skipped: u64 = 0;
        loop {
            let stored = match reader.next().await {
                Ok(stored) => stored,
                Err(error) => return tracing::warn!(%error, "lost the command stream; opening it again"),
            };
            if in_effect_until.is_some_and(|until| stored.stored_at <= until) {
                skipped += 1;
                continue;
            }
            if in_effect_until.take().is_some() {
                tracing::warn!(
                    skipped,
                    first = stored.sequence,
                    "skipped commands from before the loss, which are in effect already"
                );
            }
            let (sequence, stored_at) = (stored.sequence, Some(stored.stored_at));
            *cursor = Cursor { stream: stream.clone(), sequence, stored_at };
            if self.out.send(Input::Command(delivery(stream, &stored, self.context.clock))).await.is_err() {
                return;
            }
        }
    }
}

/// The position at which to continue in the stream of this identity.
fn resume(cursor: &Cursor, identity: &str) -> Cursor {
    match is_of(cursor, identity) {
        true => cursor.clone(),
        false => Cursor { stream: identity.to_owned(), ..Cursor::default() },
    }
}

/// Whether the cursor belongs to the stream of this identity: `C@1`, or `C@1~2` after the stream has lost messages twice.
pub(super) fn is_of(cursor: &Cursor, identity: &str) -> bool {
    let rest = cursor.stream.strip_prefix(identity);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('~'))
}

/// The name under which the leader reads a stream again after it lost messages. It differs from all earlier names, so that the
/// core does not mistake a reused number for a command that it has seen.
fn read_again(stream: &str) -> String {
    let (identity, times) = stream.split_once('~').unwrap_or((stream, "0"));
    let times: u64 = times.parse().unwrap_or(0);
    format!("{identity}~{}", times.saturating_add(1))
}

fn delivery(stream: &str, stored: &Stored, clock: Clock) -> Delivery {
    let command = decode(stored);
    Delivery {
        stream: stream.to_owned(),
        sequence: stored.sequence,
        stored_at: Some(stored.stored_at),
        reply: stored.header(subjects::REPLY_HEADER).map(str::to_owned),
        command: command.map_err(|reason| DeadLetter::new(&stored.subject, reason, &stored.payload, clock.now())),
    }
}

fn decode(stored: &Stored) -> Result<Command, String> {
    let needed = stored.header(subjects::WIRE_HEADER).and_then(|text| text.parse::<u32>().ok());
    if let Some(refusal) = wire::refusal(needed.unwrap_or(wire::FIRST), "scheduler") {
        return Err(refusal);
    }
    serde_json::from_slice(&stored.payload).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(stream: &str, sequence: u64) -> Cursor {
        Cursor { stream: stream.to_owned(), sequence, stored_at: None }
    }

    #[test]
    fn a_cursor_of_this_stream_continues_and_one_of_another_starts_at_the_beginning() {
        assert_eq!(resume(&at("C@1", 7), "C@1"), at("C@1", 7));
        assert_eq!(resume(&at("C@1", 7), "C@2"), at("C@2", 0));
        assert_eq!(resume(&Cursor::default(), "C@1"), at("C@1", 0));
    }

    #[test]
    fn each_loss_gives_the_stream_another_name() {
        assert_eq!(read_again("C@1"), "C@1~1");
        assert_eq!(read_again("C@1~1"), "C@1~2");
        assert_eq!(read_again("C@1~900"), "C@1~901", "older schedulers wrote the cursor's number there");
    }

    #[test]
    fn a_cursor_continues_in_a_stream_that_has_lost_messages() {
        assert_eq!(resume(&at("C@1~900", 5), "C@1"), at("C@1~900", 5));
        assert_eq!(resume(&at("C@12", 5), "C@1"), at("C@1", 0));
    }
}
