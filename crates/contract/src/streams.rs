//! How long each JetStream stream keeps what, in one place: whoever starts first creates them, and two processes
//! that disagree would rewrite each other's settings for ever.

use std::time::Duration;

use crate::subjects;

/// What one stream is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stream {
    /// Name.
    pub name: &'static str,
    /// The subjects it stores.
    pub subjects: &'static [&'static str],
    /// Messages older than this go.
    pub max_age: Duration,
    /// Most bytes it holds.
    pub max_bytes: i64,
    /// What happens when it is full.
    pub when_full: WhenFull,
}

/// What a full stream does with the next message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenFull {
    /// Refuse it: the sender is told.
    Refuse,
    /// Drop the oldest.
    DropOldest,
}

/// Note on the stream of commands: the store whose leaders read it.
pub const STORE_NOTE: &str = "deployd-store";
/// Note on the stream of commands: that store begins after this message.
pub const BEGIN_NOTE: &str = "deployd-begins-after";

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Commands. A full stream refuses: an accepted command is never dropped. The server sets the bytes aside on disk.
pub const COMMANDS: Stream = Stream {
    name: subjects::COMMANDS_STREAM,
    subjects: &[subjects::COMMANDS],
    max_age: Duration::from_secs(7 * DAY.as_secs()),
    max_bytes: 256 << 20,
    when_full: WhenFull::Refuse,
};

/// Notices. Older than the retry schedule (17.6 hours) is of no use; when full the oldest go.
pub const NOTICES: Stream = Stream {
    name: subjects::NOTICES_STREAM,
    subjects: &[subjects::ALL_NOTICES],
    max_age: Duration::from_secs(3 * DAY.as_secs()),
    max_bytes: 256 << 20,
    when_full: WhenFull::DropOldest,
};

/// Messages nobody could read or deliver, kept for a person to look at.
pub const DEAD_LETTERS: Stream = Stream {
    name: subjects::DEAD_LETTERS_STREAM,
    subjects: &[subjects::ALL_DEAD_LETTERS],
    max_age: Duration::from_secs(30 * DAY.as_secs()),
    max_bytes: 64 << 20,
    when_full: WhenFull::DropOldest,
};

/// What happened and why, for people; the oldest go first.
pub const EVENTS: Stream = Stream {
    name: subjects::EVENTS_STREAM,
    subjects: &[subjects::EVENTS],
    max_age: Duration::from_secs(3 * DAY.as_secs()),
    max_bytes: 64 << 20,
    when_full: WhenFull::DropOldest,
};
