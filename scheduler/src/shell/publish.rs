//! Publishes notices, events and dead letters to their JetStream streams.
//!
//! Each message is tried up to [`ATTEMPTS`] times; between two attempts the stream is created again if it is missing. The message
//! id is the digest of the message, so the stream keeps a notice once when a new leader repeats it. Each kind has its own queue:
//! many events or dead letters must not delay or displace a notice.

use std::time::Duration;

use contract::digest::Digest;
use contract::event::Event;
use contract::keys::{self, Key};
use contract::notice::{DeadLetter, Notice};
use contract::streams::{self, Stream};
use contract::subjects::{self, DeadLetterKind};
use fabric::backoff;
use fabric::nats::{Bus, Error};
use fabric::tasks::{Scoped, spawn_scoped};
use futures_util::StreamExt;
use serde::Serialize;
use tokio::sync::mpsc;

const DEADLINE: Duration = Duration::from_secs(5);
const ATTEMPTS: usize = 5;
/// Notices, and dead letters, that wait. When full, the next one is dropped and counted: the loop never waits.
const QUEUE: usize = 4096;
/// Events that wait. When full, the next event is dropped and counted: an event explains, no decision depends on it.
const EVENT_QUEUE: usize = 16_384;
/// Events, or dead letters, in flight. The stream syncs each to disk, so one at a time would be slow.
const MAX_IN_FLIGHT: usize = 32;

#[derive(Debug, Clone, Copy)]
pub(super) struct QueueFull;

#[derive(Clone)]
pub(super) struct Publisher {
    notices: mpsc::Sender<Notice>,
    dead_letters: mpsc::Sender<(DeadLetterKind, DeadLetter)>,
    events: mpsc::Sender<Event>,
}

pub(super) fn start(bus: Bus) -> (Publisher, [Scoped; 3]) {
    let (notices, queued_notices) = mpsc::channel(QUEUE);
    let (dead_letters, queued_dead_letters) = mpsc::channel(QUEUE);
    let (events, queued_events) = mpsc::channel(EVENT_QUEUE);
    let tasks = [
        spawn_scoped("notices", publish_notices(bus.clone(), queued_notices)),
        spawn_scoped("dead letters", publish_dead_letters(bus.clone(), queued_dead_letters)),
        spawn_scoped("events", publish_events(bus, queued_events)),
    ];
    (Publisher { notices, dead_letters, events }, tasks)
}

/// The kind of a dead letter of the core: a command, or a stored record, whose subject is its key.
pub(super) fn kind_of(letter: &DeadLetter) -> DeadLetterKind {
    match keys::parse(&letter.subject) {
        Key::Unknown if letter.subject == subjects::COMMANDS => DeadLetterKind::Command,
        Key::Unknown
        | Key::Group(_)
        | Key::Placement(..)
        | Key::Release(_)
        | Key::Revision(..)
        | Key::GroupSpec(..)
        | Key::Dependency(_)
        | Key::Pairs(..)
        | Key::DependencySpec(..)
        | Key::Staged(_)
        | Key::StagedReady
        | Key::FormerPlacement(_)
        | Key::FormerRevisions(_)
        | Key::FormerPairs(_)
        | Key::History(..)
        | Key::Node(_)
        | Key::NodeIntent(_)
        | Key::Outcome(_)
        | Key::Cursor
        | Key::Callbacks
        | Key::Engine
        | Key::Constraints
        | Key::Policy(_)
        | Key::AccessMode
        | Key::Token(_)
        | Key::JoinToken(_)
        | Key::NodeKey(_)
        | Key::AuditHead
        | Key::Store
        | Key::Progress
        | Key::Restore
        | Key::RestorePart(..) => DeadLetterKind::Record,
    }
}

impl Publisher {
    pub(super) fn notice(&self, notice: Notice) -> Result<(), QueueFull> {
        self.notices.try_send(notice).map_err(|_| QueueFull)
    }

    pub(super) fn event(&self, event: Event) -> Result<(), QueueFull> {
        self.events.try_send(event).map_err(|_| QueueFull)
    }

    pub(super) fn dead_letter(&self, kind: DeadLetterKind, letter: DeadLetter) -> Result<(), QueueFull> {
        tracing::warn!(subject = letter.subject, reason = letter.reason, "cannot read a message or a record");
        self.dead_letters.try_send((kind, letter)).map_err(|_| QueueFull)
    }
}

async fn publish_notices(bus: Bus, mut notices: mpsc::Receiver<Notice>) {
    while let Some(notice) = notices.recv().await {
        let subject = subjects::notice(&Digest::of(&notice.callback).to_string());
        publish(&bus, &streams::NOTICES, &subject, &notice).await;
    }
}

async fn publish_dead_letters(bus: Bus, mut letters: mpsc::Receiver<(DeadLetterKind, DeadLetter)>) {
    let letters = futures_util::stream::poll_fn(|context| letters.poll_recv(context));
    let stored = letters.map(|(kind, letter)| {
        let bus = &bus;
        async move { publish(bus, &streams::DEAD_LETTERS, &subjects::dead_letter(kind), &letter).await }
    });
    stored.buffer_unordered(MAX_IN_FLIGHT).for_each(|()| std::future::ready(())).await;
}

/// Publishes events in the order in which they happened.
async fn publish_events(bus: Bus, mut events: mpsc::Receiver<Event>) {
    let events = futures_util::stream::poll_fn(|context| events.poll_recv(context));
    let stored = events.map(|event| {
        let bus = &bus;
        async move { publish(bus, &streams::EVENTS, subjects::EVENTS, &event).await }
    });
    stored.buffered(MAX_IN_FLIGHT).for_each(|()| std::future::ready(())).await;
}

async fn publish<T: Serialize>(bus: &Bus, stream: &Stream, subject: &str, value: &T) {
    let id = Digest::of(value).to_string();
    for attempt in 1..=ATTEMPTS {
        match bus.publish_durable(subject, &id, &[], value, DEADLINE).await {
            Ok(_) => return,
            Err(error) if attempt == ATTEMPTS => {
                tracing::error!(stream = stream.name, %error, attempt, "gave up publishing a message")
            }
            Err(error) => {
                tracing::warn!(stream = stream.name, %error, attempt, "cannot publish a message yet");
                ensure_again(bus, stream).await;
                tokio::time::sleep(backoff::delay(attempt, Duration::from_millis(200), Duration::from_secs(2))).await;
            }
        }
    }
}

async fn ensure_again(bus: &Bus, stream: &Stream) {
    let ensured: Result<_, Error> = bus.ensure_stream(&stream.into()).await;
    if let Err(error) = ensured {
        tracing::debug!(stream = stream.name, %error, "cannot create the stream");
    }
}

#[cfg(test)]
mod tests {
    use contract::time::Timestamp;

    use super::*;

    #[test]
    fn the_subject_of_a_dead_letter_shows_whether_it_was_a_command_or_a_record() {
        let letter = |subject| DeadLetter::new(subject, "?".to_owned(), b"{", Timestamp::NEVER);
        assert_eq!(kind_of(&letter(subjects::COMMANDS)), DeadLetterKind::Command);
        assert_eq!(kind_of(&letter(keys::CURSOR)), DeadLetterKind::Record);
    }
}
