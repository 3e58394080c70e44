//! The post lane: what must reach a stream, notices, events and dead letters.
//!
//! Each is tried a few times and the stream is ensured in between. A notice repeated by a new leader carries the same id,
//! so the stream keeps it once. Events and dead letters wait apart: there may be many of them, and they must not hold up or
//! crowd out a notice.

use std::time::Duration;

use contract::digest::Digest;
use contract::event::Event;
use contract::keys::{self, Key};
use contract::notice::{DeadLetter, Notice, NoticeBody};
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
/// Notices, and dead letters, that wait. When full the next is dropped and counted: a flood must not hold up decisions.
const QUEUE: usize = 4096;
/// Events that wait. When full an event is dropped and counted: it explains, and nothing is decided from it.
const EVENTS: usize = 16_384;
/// Events, or dead letters, on their way at a time; the stream syncs each to disk, and one after the other would be slow.
const AT_ONCE: usize = 32;

/// A lane could not take more.
#[derive(Debug, Clone, Copy)]
pub(super) struct Full;

/// The loop's end of the lane.
#[derive(Clone)]
pub(super) struct Lane {
    notices: mpsc::Sender<Notice>,
    dead: mpsc::Sender<(DeadLetterKind, DeadLetter)>,
    events: mpsc::Sender<Event>,
}

pub(super) fn start(bus: Bus) -> (Lane, [Scoped; 3]) {
    let (notices, noticed) = mpsc::channel(QUEUE);
    let (dead, unread) = mpsc::channel(QUEUE);
    let (events, happened) = mpsc::channel(EVENTS);
    let tasks = [
        spawn_scoped("post", run(bus.clone(), noticed)),
        spawn_scoped("dead letters", keep(bus.clone(), unread)),
        spawn_scoped("events", tell(bus, happened)),
    ];
    (Lane { notices, dead, events }, tasks)
}

/// What a letter the core buries was: a command, or a stored record named by its key.
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
        | Key::Store
        | Key::Progress
        | Key::Restore
        | Key::RestorePart(..) => DeadLetterKind::Record,
    }
}

impl Lane {
    pub(super) fn notice(&self, callback: String, body: NoticeBody) -> Result<(), Full> {
        self.notices.try_send(Notice { callback, body }).map_err(|_| Full)
    }

    pub(super) fn event(&self, event: Event) -> Result<(), Full> {
        self.events.try_send(event).map_err(|_| Full)
    }

    pub(super) fn bury(&self, kind: DeadLetterKind, letter: DeadLetter) -> Result<(), Full> {
        tracing::warn!(subject = letter.subject, reason = letter.reason, "a message could not be read");
        self.dead.try_send((kind, letter)).map_err(|_| Full)
    }
}

async fn run(bus: Bus, mut notices: mpsc::Receiver<Notice>) {
    while let Some(notice) = notices.recv().await {
        let subject = subjects::notice(&Digest::of(&notice.callback).to_string());
        deliver(&bus, &streams::NOTICES, &subject, &notice).await;
    }
}

/// Stores what nobody could read, several letters on their way at once.
async fn keep(bus: Bus, mut unread: mpsc::Receiver<(DeadLetterKind, DeadLetter)>) {
    let letters = futures_util::stream::poll_fn(|context| unread.poll_recv(context));
    let stored = letters.map(|(kind, letter)| {
        let bus = &bus;
        async move { deliver(bus, &streams::DEAD_LETTERS, &subjects::dead_letter(kind), &letter).await }
    });
    stored.buffer_unordered(AT_ONCE).for_each(|()| std::future::ready(())).await;
}

/// Stores events in the order they happened, several on their way at once.
async fn tell(bus: Bus, mut events: mpsc::Receiver<Event>) {
    let events = futures_util::stream::poll_fn(|context| events.poll_recv(context));
    let stored = events.map(|event| {
        let bus = &bus;
        async move { deliver(bus, &streams::EVENTS, subjects::EVENTS, &event).await }
    });
    stored.buffered(AT_ONCE).for_each(|()| std::future::ready(())).await;
}

async fn deliver<T: Serialize>(bus: &Bus, stream: &Stream, subject: &str, value: &T) {
    let id = Digest::of(value).to_string();
    for attempt in 1..=ATTEMPTS {
        match bus.publish_durable(subject, &id, &[], value, DEADLINE).await {
            Ok(_) => return,
            Err(error) if attempt == ATTEMPTS => {
                tracing::error!(stream = stream.name, %error, "a message was not kept")
            }
            Err(error) => {
                tracing::warn!(stream = stream.name, %error, attempt, "a message is not kept yet");
                ensure_again(bus, stream).await;
                tokio::time::sleep(backoff::delay(attempt, Duration::from_millis(200), Duration::from_secs(2))).await;
            }
        }
    }
}

async fn ensure_again(bus: &Bus, stream: &Stream) {
    let ensured: Result<_, Error> = bus.ensure_stream(&stream.into()).await;
    if let Err(error) = ensured {
        tracing::debug!(stream = stream.name, %error, "the stream is not there");
    }
}

#[cfg(test)]
mod tests {
    use contract::time::Timestamp;

    use super::*;

    #[test]
    fn a_letter_knows_whether_it_was_a_command_or_a_record() {
        let letter = |subject| DeadLetter::new(subject, "?".to_owned(), b"{", Timestamp::NEVER);
        assert_eq!(kind_of(&letter(subjects::COMMANDS)), DeadLetterKind::Command);
        assert_eq!(kind_of(&letter(keys::CURSOR)), DeadLetterKind::Record);
    }
}
