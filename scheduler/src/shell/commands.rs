//! Reads the command stream in order, from the cursor on, and finds its way when the stream was lost.
//!
//! A re-created stream has another identity and is read from its start. A stream of the same identity that ends before
//! the cursor has lost messages: its next messages would get numbers the cursor has passed. It is read again under a
//! new name, from the start; commands that took effect are recognised by their outcome.

use std::time::Duration;

use contract::command::Command;
use contract::notice::DeadLetter;
use contract::record::Cursor;
use contract::store::Stores;
use contract::{streams, subjects, wire};
use fabric::backoff;
use fabric::clock::Clock;
use fabric::nats::{Bus, Error, Stored, StreamReader};
use tokio::sync::mpsc;

use super::claim;
use crate::core::io::{Delivery, Input};

/// Where a leader reads on.
pub(super) struct Place {
    /// What is stored; the default when nothing is.
    pub(super) cursor: Cursor,
    /// The names of its store.
    pub(super) stores: Stores,
}

/// Feeds commands until nobody listens.
pub(super) async fn read(bus: Bus, from: Place, clock: Clock, out: mpsc::Sender<Input>) {
    let Place { mut cursor, stores } = from;
    let mut attempt = 0;
    while !out.is_closed() {
        match open(&bus, &cursor, &stores).await {
            Ok((mut reader, place)) => {
                attempt = 0;
                tracing::info!(stream = place.stream, after = place.sequence, "reads commands");
                cursor = pass_on(&mut reader, place, clock, &out).await;
            }
            Err(error) => {
                attempt += 1;
                tracing::warn!(%error, attempt, "cannot read commands yet");
                tokio::time::sleep(backoff::delay(attempt, Duration::from_millis(100), Duration::from_secs(2))).await;
            }
        }
    }
}

/// Opens the stream where the cursor stands; what the cursor is then.
async fn open(bus: &Bus, cursor: &Cursor, stores: &Stores) -> Result<(StreamReader, Cursor), Error> {
    let identity = bus.ensure_stream(&(&streams::COMMANDS).into()).await?;
    let mut place = resume(cursor, identity.as_str());
    let begin = claim::claim(bus, stores, place.sequence).await?;
    place.sequence = place.sequence.max(begin);
    let reader = match bus.read_stream(streams::COMMANDS.name, place.sequence).await {
        Err(error @ Error::StreamBehind { .. }) => {
            tracing::error!(%error, "the command stream lost messages; it is read again from its start");
            place = Cursor { stream: format!("{identity}~{}", place.sequence), sequence: 0 };
            bus.read_stream(streams::COMMANDS.name, 0).await?
        }
        opened => opened?,
    };
    match reader.identity() == Some(&identity) {
        true => Ok((reader, place)),
        false => Err(Error::StreamLost { stream: streams::COMMANDS.name.to_owned() }),
    }
}

/// Where to go on in the stream of this identity.
fn resume(cursor: &Cursor, identity: &str) -> Cursor {
    let same =
        cursor.stream == identity || cursor.stream.strip_prefix(identity).is_some_and(|rest| rest.starts_with('~'));
    if same { cursor.clone() } else { Cursor { stream: identity.to_owned(), sequence: 0 } }
}

/// Hands commands on until the stream is lost or nobody listens; how far it came.
async fn pass_on(reader: &mut StreamReader, mut place: Cursor, clock: Clock, out: &mpsc::Sender<Input>) -> Cursor {
    loop {
        match reader.next().await {
            Ok(stored) => {
                place.sequence = stored.sequence;
                if out.send(Input::Command(delivery(&place.stream, &stored, clock))).await.is_err() {
                    return place;
                }
            }
            Err(error) => {
                tracing::warn!(%error, "the command stream is opened anew");
                return place;
            }
        }
    }
}

fn delivery(stream: &str, stored: &Stored, clock: Clock) -> Delivery {
    let command = decode(stored);
    Delivery {
        stream: stream.to_owned(),
        sequence: stored.sequence,
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
        Cursor { stream: stream.to_owned(), sequence }
    }

    #[test]
    fn a_cursor_of_this_stream_goes_on_and_one_of_another_starts_anew() {
        assert_eq!(resume(&at("C@1", 7), "C@1"), at("C@1", 7));
        assert_eq!(resume(&at("C@1", 7), "C@2"), at("C@2", 0));
        assert_eq!(resume(&Cursor::default(), "C@1"), at("C@1", 0));
    }

    #[test]
    fn a_cursor_of_the_same_stream_read_again_goes_on_too() {
        assert_eq!(resume(&at("C@1~900", 5), "C@1"), at("C@1~900", 5));
        assert_eq!(resume(&at("C@12", 5), "C@1"), at("C@1", 0));
    }
}
