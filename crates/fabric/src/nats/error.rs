//! Errors of the NATS client.

use std::time::Duration;

/// Errors of the NATS client.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{addresses:?} is not a list of NATS addresses such as nats://host:4222")]
    Address {
        addresses: String,
        #[source]
        source: std::io::Error,
    },
    #[error("cannot read NATS credentials from {path}")]
    Credentials {
        path: String,
        #[source]
        source: std::io::Error,
    },
    #[error("no NATS server answered at {addresses} within {waited:?}")]
    Unreachable {
        addresses: String,
        waited: Duration,
        #[source]
        source: async_nats::ConnectError,
    },
    #[error("the NATS server at {addresses} refused our credentials")]
    Refused {
        addresses: String,
        #[source]
        source: async_nats::ConnectError,
    },
    #[error(
        "the NATS server at {addresses} cannot be used: {problem}; check --nats-ca, --nats-cert and the address in --nats"
    )]
    Tls {
        addresses: String,
        problem: String,
        #[source]
        source: async_nats::ConnectError,
    },
    /// The server cannot sync to disk before it acknowledges, so commands could be lost.
    #[error(
        "nats-server {version} is too old: it cannot sync JetStream to disk before it acknowledges; \
         run nats-server 2.10 or newer (2.12.6 or newer is recommended)"
    )]
    TooOld { version: String },
    #[error("cannot encode the message for {subject}")]
    Encode {
        subject: String,
        #[source]
        source: serde_json::Error,
    },
    #[error("a message of {size} bytes for {subject} is larger than the {limit} bytes allowed")]
    TooLarge { subject: String, size: usize, limit: usize },
    /// Nothing was stored: the stream does not exist yet.
    #[error("no stream stores {subject} yet: a scheduler creates it when it starts")]
    NoStream { subject: String },
    #[error("cannot use the consumer of stream {stream}: {reason}")]
    NoConsumer { stream: String, reason: &'static str },
    #[error("{subject:?} is not an inbox, so no reply is sent there")]
    NoInbox { subject: String },
    /// The connection is down and did not return in time.
    #[error("not connected to NATS")]
    Disconnected,
    #[error("no answer from NATS in time while {doing}")]
    TimedOut { doing: String },
    #[error("NATS failed while {doing}")]
    Failed {
        doing: String,
        #[source]
        source: async_nats::Error,
    },
    /// The stream was deleted, or replaced by another of the same name: ensure it and read from its start.
    #[error("stream {stream} was removed or re-created")]
    StreamLost { stream: String },
    /// The stream ends before the position to read from: it lost messages.
    #[error("stream {stream} ends at {last}, but {after} was already read: it lost messages")]
    StreamBehind {
        stream: String,
        /// The position to read from.
        after: u64,
        /// Sequence number of its last message.
        last: u64,
    },
    /// The stream lost messages and reused their sequence numbers.
    #[error("stream {stream} has another message at {sequence} than the one already read: it lost messages")]
    StreamRewound {
        stream: String,
        /// The position to read from.
        sequence: u64,
    },
}

/// Why a request got no reply.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// No process subscribes to the subject.
    #[error("no process answers on {subject}")]
    NoResponders { subject: String },
    /// A process may be subscribed, but no reply arrived in time.
    #[error("no answer on {subject} in time")]
    TimedOut { subject: String },
    /// The server does not let this process publish to the subject: nothing was delivered.
    #[error("NATS does not allow requests to {subject}: its accounts are of another version")]
    NotPermitted { subject: String },
    /// The connection is down and did not return in time: nothing was sent.
    #[error("not connected to NATS")]
    Disconnected,
    /// The reply cannot be decoded.
    #[error("the reply cannot be decoded: {0}")]
    Malformed(String),
    #[error("a request of {size} bytes is larger than the {limit} bytes allowed")]
    TooLarge { size: usize, limit: usize },
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
            | Error::Tls { .. }
            | Error::TooOld { .. }
            | Error::Encode { .. }
            | Error::TimedOut { .. }
            | Error::Failed { .. }
            | Error::StreamLost { .. }
            | Error::NoInbox { .. }
            | Error::NoStream { .. }
            | Error::NoConsumer { .. }
            | Error::StreamBehind { .. }
            | Error::StreamRewound { .. }) => Self::Send(Box::new(error)),
        }
    }
}
