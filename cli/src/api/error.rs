//! Why the API did not do something, and whether another attempt makes sense.

use std::time::Duration;

/// Why the API did not do something.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Not a URL.
    #[error("--api {url:?} is not a URL such as http://127.0.0.1:9003: {reason}")]
    Url {
        /// The text.
        url: String,
        /// Why.
        reason: String,
    },
    /// No apiserver answers.
    #[error(
        "no apiserver answers at {urls}; start a local cluster with `deployctl up`, or name the right one with --api"
    )]
    Unreachable {
        /// Where we tried.
        urls: String,
        /// Of the last try.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// No such thing.
    #[error("{0}")]
    NotFound(String),
    /// The API said no.
    #[error("the API refused ({status}): {message}")]
    Refused {
        /// HTTP status.
        status: u16,
        /// Its reason.
        message: String,
        /// When the API wants to be asked again.
        retry_after: Option<Duration>,
    },
    /// The answer is not what the API promises.
    #[error("the answer of {url} cannot be read; is it an apiserver of this version?")]
    Malformed {
        /// Who answered.
        url: String,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// There is no leader, and the answer of a standby may be out of date.
    #[error("no scheduler leads at the moment, and the answer of a standby may be out of date")]
    Stale,
    /// A change was sent, and whether it was accepted is not known.
    #[error(
        "the outcome of the change is unknown, and it may still be made: {reason}; GET /api/operations?id={operation} answers \
         what became of it, look before you send it again"
    )]
    Unknown {
        /// Id of the operation, which is the idempotency key of all attempts.
        operation: String,
        /// Why the outcome is unknown.
        reason: String,
    },
    /// The API refused a retry, and the outcome of an earlier attempt is unknown. An apiserver that refuses a request before a
    /// scheduler sees it leads here. A refusal by the scheduler does not: it is the one outcome of the key, and
    /// `/api/operations` confirms it.
    #[error(
        "{refusal}; the outcome of an earlier attempt is unknown, and it may still be made: {reason}; \
         GET /api/operations?id={operation} answers what became of it"
    )]
    RetryRefused {
        /// The refusal of the retry.
        refusal: Box<Error>,
        /// Id of the operation, which is the idempotency key of all attempts.
        operation: String,
        /// Why the outcome of the earlier attempt is unknown.
        reason: String,
    },
    /// It took too long.
    #[error("gave up after {} s: {waiting_for}", after.as_secs())]
    Deadline {
        /// How long we tried.
        after: Duration,
        /// What did not come.
        waiting_for: String,
    },
}

/// What an unsuccessful attempt of a change means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Refused for now, and remembered so: another attempt needs another key.
    Busy,
    /// Not decided: another attempt with the same key is the same change.
    Undecided,
    /// Refused; another attempt would be refused too.
    Final,
}

impl Error {
    /// No group has this name.
    pub fn no_group(name: &str) -> Self {
        Self::NotFound(format!("no PodGroup is called {name:?}; `deployctl get podgroup` lists them"))
    }

    /// A refusal after which another attempt makes no sense.
    pub fn refused(status: u16, message: impl Into<String>) -> Self {
        Self::Refused { status, message: message.into(), retry_after: None }
    }

    /// Whether a read that failed so is worth repeating: a failover, a restarted apiserver and a rate limit pass.
    pub fn is_temporary(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::Stale | Self::Refused { status: 408 | 425 | 429 | 500.., .. })
    }

    pub(super) fn verdict(&self) -> Verdict {
        match self {
            Self::Refused { status: 423, .. } => Verdict::Busy,
            // deployd's own answer while a group of the same name is still going away.
            Self::Refused { status: 500, message, .. } if message.contains("is removing") => Verdict::Busy,
            Self::Refused { status: 408 | 425 | 429 | 502..=504, .. }
            | Self::Unreachable { .. }
            | Self::Deadline { .. }
            | Self::Stale => Verdict::Undecided,
            Self::Url { .. }
            | Self::NotFound(_)
            | Self::Refused { .. }
            | Self::Malformed { .. }
            | Self::Unknown { .. }
            | Self::RetryRefused { .. } => Verdict::Final,
        }
    }

    /// When the API wants to be asked again, if it says so.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}
