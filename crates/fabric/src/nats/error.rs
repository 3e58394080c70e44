//! What may go wrong on the bus, and why a request has no answer.

use std::time::Duration;

/// What may go wrong on the bus.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address list is no address list.
    #[error("{addresses:?} is not a list of NATS addresses such as nats://host:4222")]
    Address {
        /// What was given.
        addresses: String,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// The credentials file cannot be used.
    #[error("cannot read NATS credentials from {path}")]
    Credentials {
        /// The file.
        path: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// No server was found in time.
    #[error("no NATS server answered at {addresses} within {waited:?}")]
    Unreachable {
        /// Where.
        addresses: String,
        /// For how long it was tried.
        waited: Duration,
        /// The last error.
        #[source]
        source: async_nats::ConnectError,
    },
    /// The server does not let us in.
    #[error("the NATS server at {addresses} refused our credentials")]
    Refused {
        /// Where.
        addresses: String,
        /// Its words.
        #[source]
        source: async_nats::ConnectError,
    },
    /// The server is too old to be trusted with commands.
    #[error(
        "nats-server {version} is too old: it cannot sync JetStream to disk before it acknowledges; \
         run nats-server 2.10 or newer (2.12.6 or newer is recommended)"
    )]
    TooOld {
        /// Its version.
        version: String,
    },
    /// The value could not be written as JSON.
    #[error("cannot encode the message for {subject}")]
    Encode {
        /// Where it should have gone.
        subject: String,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// The value is larger than anything the bus carries.
    #[error("a message of {size} bytes for {subject} is larger than the {limit} bytes allowed")]
    TooLarge {
        /// Where it should have gone.
        subject: String,
        /// Its size.
        size: usize,
        /// The limit.
        limit: usize,
    },
    /// The connection is down and did not come back in time.
    #[error("not connected to NATS")]
    Disconnected,
    /// It took too long.
    #[error("no answer from NATS in time while {doing}")]
    TimedOut {
        /// What we were doing.
        doing: String,
    },
    /// The client refused or the server answered with an error.
    #[error("NATS failed while {doing}")]
    Failed {
        /// What we were doing.
        doing: String,
        /// Why.
        #[source]
        source: async_nats::Error,
    },
    /// The stream is gone, or another one of the same name took its place: ensure it and read from its start.
    #[error("stream {stream} was removed or re-created")]
    StreamLost {
        /// Which.
        stream: String,
    },
    /// The stream ends before the place to read from: it lost messages.
    #[error("stream {stream} ends at {last}, but {after} was already read: it lost messages")]
    StreamBehind {
        /// Which.
        stream: String,
        /// The place to read from.
        after: u64,
        /// Its last message.
        last: u64,
    },
    /// The stream lost messages and gave their numbers to others.
    #[error("stream {stream} has another message at {sequence} than the one already read: it lost messages")]
    StreamRewound {
        /// Which.
        stream: String,
        /// The place to read from.
        sequence: u64,
    },
}

/// Why a request has no answer.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// Nobody listens on the subject.
    #[error("nobody answers on {subject}")]
    NoResponders {
        /// Which.
        subject: String,
    },
    /// Somebody may listen, but no answer came in time.
    #[error("no answer on {subject} in time")]
    TimedOut {
        /// Which.
        subject: String,
    },
    /// The connection is down and did not come back in time: nothing was sent.
    #[error("not connected to NATS")]
    Disconnected,
    /// An answer came and cannot be read.
    #[error("the answer cannot be read: {0}")]
    Malformed(String),
    /// The question is too large for the bus.
    #[error("a request of {size} bytes is larger than the {limit} bytes allowed")]
    TooLarge {
        /// Its size.
        size: usize,
        /// The limit.
        limit: usize,
    },
    /// The question could not be sent.
    #[error("cannot send the request")]
    Send(#[source] Box<Error>),
}

impl From<Error> for RequestError {
    fn from(error: Error) -> Self {
        match error {
            Error::TooLarge { size, limit, .. } => Self::TooLarge { size, limit },
            Error::Disconnected => Self::Disconnected,
            error @ (Error::Address { .. }
            | Error::Credentials { .. }
            | Error::Unreachable { .. }
            | Error::Refused { .. }
            | Error::TooOld { .. }
            | Error::Encode { .. }
            | Error::TimedOut { .. }
            | Error::Failed { .. }
            | Error::StreamLost { .. }
            | Error::StreamBehind { .. }
            | Error::StreamRewound { .. }) => Self::Send(Box::new(error)),
        }
    }
}
