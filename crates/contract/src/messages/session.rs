//! Sessions: what an apiserver reads from an agent piece by piece, such as the log of a container.
//!
//! NATS has no flow control between two processes, so an agent sends nothing that was not asked for. An apiserver opens a
//! session, reads it with one request after the other, and closes it. The agent reads ahead into a bounded buffer and stops
//! reading from Docker while the buffer is full.
//!
//! Each read names the number of the first line that the apiserver does not have yet. The agent keeps lines until a later read
//! shows that they arrived, so a lost reply neither loses nor repeats lines.

use serde::{Deserialize, Serialize};

use crate::logs::{LogLine, LogTime};
use crate::pod_id::PodId;
use crate::time::Timestamp;

/// Longest time that an agent waits for output before it answers a read.
pub const LONGEST_WAIT_MILLIS: u64 = 10_000;

/// A request to an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum SessionRequest {
    /// Opens a session.
    Open {
        /// What to read.
        what: SessionContent,
    },
    /// Reads on: answered as soon as there is something, or empty after a while.
    Read {
        /// The session.
        session: String,
        /// Number of the first line that the apiserver does not have yet: 0, then [`SessionReply::Lines::next`].
        from: u64,
        /// How long to wait for output, in milliseconds; at most [`LONGEST_WAIT_MILLIS`].
        wait_millis: u64,
    },
    /// Ends a session. Not answered.
    Close {
        /// The session.
        session: String,
    },
}

/// What a session reads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum SessionContent {
    /// The log of a container.
    Log(LogSelection),
}

/// The lines of one container that a session reads, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogSelection {
    /// The pod; it must be on the agent's node.
    pub pod: PodId,
    /// Index of the container in the pod, from 0.
    pub container: u32,
    /// Only the last lines; none means all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tail: Option<u32>,
    /// Only lines from this time; none means from the first one that Docker still has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<LogTime>,
    /// Only lines from before the last start of the container.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub previous: bool,
    /// Continue with new lines until the container exits.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub follow: bool,
}

/// An agent's answer to a [`SessionRequest`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum SessionReply {
    /// The session is open.
    Opened {
        /// Its id.
        session: String,
        /// When the container last started; never for one that was not started yet.
        started_at: Timestamp,
        /// When the session was opened, by the clock of the node.
        at: Timestamp,
    },
    /// The answer to a read.
    Lines {
        /// The lines; empty when there was no output in time.
        lines: Vec<LogLine>,
        /// Number of the line after these.
        next: u64,
        /// No line will follow.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_end: bool,
    },
    /// The agent cannot do what was asked for.
    Refused(SessionRefusal),
}

/// Why an agent refuses to open or to read a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum SessionRefusal {
    /// The agent has as many sessions as it may have.
    Full {
        /// How many that is.
        limit: u32,
    },
    /// There is no such container on the node.
    NoContainer,
    /// The container's log driver cannot be read.
    Unreadable {
        /// Docker's name of the driver.
        driver: String,
    },
    /// There is no such session, any more or after a restart of the agent: open another one.
    NoSession,
    /// Docker failed, or does not answer.
    Engine {
        /// The error.
        reason: String,
    },
    /// The agent cannot read the request: it is older than the apiserver.
    Unsupported,
}
