//! Settings of the JetStream streams and of the consumer of notices, in one place. Only schedulers create them.

use std::time::Duration;

use crate::subjects;

/// Settings of one stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stream {
    /// Name of the stream.
    pub name: &'static str,
    /// Subjects that it stores.
    pub subjects: &'static [&'static str],
    /// JetStream deletes older messages.
    pub max_age: Duration,
    /// Size limit in bytes.
    pub max_bytes: i64,
    /// What happens when the limit is reached.
    pub when_full: WhenFull,
    /// Apiservers read it without a consumer: only schedulers may create consumers.
    pub is_read_directly: bool,
    /// Where JetStream publishes the headers of each message once it is stored.
    pub announced_on: Option<&'static str>,
}

/// What a full stream does with the next message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenFull {
    /// JetStream rejects it, and the publisher gets an error.
    Refuse,
    /// JetStream deletes the oldest messages.
    DropOldest,
}

/// Metadata of the command stream: the store whose leaders read it.
pub const STORE_NOTE: &str = "deployd-store";
/// Metadata of the command stream: sequence number after which that store started to read.
pub const BEGIN_NOTE: &str = "deployd-begins-after";

/// How long a notifier may hold a notice without saying that it still works on it.
pub const NOTICE_ACK_WAIT: Duration = Duration::from_secs(30);
/// No limit of notices that wait for an acknowledgement: notices that wait for a retry count, so with a limit one dead callback
/// with many notices would block all others. The size of the stream bounds them.
pub const NOTICES_PENDING: i64 = -1;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Commands. A full stream rejects new ones: an accepted command is never dropped. NATS reserves the bytes on disk.
pub const COMMANDS: Stream = Stream {
    name: subjects::COMMANDS_STREAM,
    subjects: &[subjects::COMMANDS],
    max_age: Duration::from_secs(7 * DAY.as_secs()),
    max_bytes: 256 << 20,
    when_full: WhenFull::Refuse,
    is_read_directly: true,
    announced_on: None,
};

/// Notices. The retry schedule ends after 17.6 hours, so older ones are useless.
pub const NOTICES: Stream = Stream {
    name: subjects::NOTICES_STREAM,
    subjects: &[subjects::ALL_NOTICES],
    max_age: Duration::from_secs(3 * DAY.as_secs()),
    max_bytes: 256 << 20,
    when_full: WhenFull::DropOldest,
    is_read_directly: false,
    announced_on: None,
};

/// Messages that could not be decoded or delivered, for operators to inspect.
pub const DEAD_LETTERS: Stream = Stream {
    name: subjects::DEAD_LETTERS_STREAM,
    subjects: &[subjects::ALL_DEAD_LETTERS],
    max_age: Duration::from_secs(30 * DAY.as_secs()),
    max_bytes: 64 << 20,
    when_full: WhenFull::DropOldest,
    is_read_directly: true,
    announced_on: None,
};

/// Events, for people.
pub const EVENTS: Stream = Stream {
    name: subjects::EVENTS_STREAM,
    subjects: &[subjects::EVENTS],
    max_age: Duration::from_secs(3 * DAY.as_secs()),
    max_bytes: 64 << 20,
    when_full: WhenFull::DropOldest,
    is_read_directly: true,
    announced_on: Some(subjects::STORED_EVENTS),
};
