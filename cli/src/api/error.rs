//! Why the API did not do something, and whether another attempt makes sense.

use std::path::PathBuf;
use std::time::Duration;

use crate::credential;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("--api {url:?} is not a URL such as http://127.0.0.1:9003: {reason}")]
    Url { url: String, reason: String },
    #[error(
        "no apiserver answers at {urls}; start a local cluster with `deployctl up`, or name the right one with --api"
    )]
    Unreachable {
        urls: String,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error("cannot use --ca {}", path.display())]
    Ca {
        path: PathBuf,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The connection failed because of TLS.
    #[error("the API at {urls} cannot be used: {problem}; --ca FILE names the CA that signed its certificate")]
    Untrusted { urls: String, problem: String },
    #[error("{0}")]
    NotFound(String),
    #[error("no PodGroup {0:?}; `deployctl get podgroup` lists them")]
    NoGroup(String),
    #[error("no node {0:?}; `deployctl get nodes` lists them")]
    NoNode(String),
    /// 401, and no token was sent.
    #[error("not logged in at {url}: {message}; `deployctl login {url}` stores a token, --token-file FILE sends one")]
    NotLoggedIn { url: String, message: String },
    /// 401 to a token.
    #[error("{url} does not accept the token of {token}: {message}; `deployctl login {url}` stores a new one")]
    TokenRefused { url: String, token: String, message: String },
    /// 403.
    #[error("not allowed (403): {message}")]
    Denied { message: String },
    #[error("{urls} has no access control: the apiserver or its schedulers are older than this deployctl")]
    NoAccessControl { urls: String },
    #[error(
        "it is unknown whether the token was created ({reason}); `{list}` shows it, then revoke it and create another: its secret \
         is lost"
    )]
    TokenInDoubt {
        reason: String,
        list: &'static str,
        #[source]
        source: Box<Error>,
    },
    #[error(transparent)]
    Credential(#[from] credential::Error),
    #[error("the context has no readable certificate authorities; run `deployctl login URL --ca FILE` again")]
    Authorities,
    #[error("the API refused ({status}): {message}")]
    Refused { status: u16, message: String, retry_after: Option<Duration> },
    #[error("the answer of {url} cannot be read; is it an apiserver of this version?")]
    Malformed {
        url: String,
        #[source]
        source: serde_json::Error,
    },
    /// There is no leader, and the answer of a standby may be out of date.
    #[error("no scheduler leads at the moment, and the answer of a standby may be out of date")]
    Stale,
    /// A change was sent, and whether it was accepted is not known.
    #[error(
        "the outcome of the change is unknown, and it may still be made: {reason}; GET /api/operations?id={operation} shows its \
         outcome; check it before you send the change again"
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
         GET /api/operations?id={operation} shows its outcome"
    )]
    RetryRefused {
        /// The refusal of the retry.
        refusal: Box<Error>,
        /// Id of the operation, which is the idempotency key of all attempts.
        operation: String,
        /// Why the outcome of the earlier attempt is unknown.
        reason: String,
    },
    #[error("gave up after {} s: {waiting_for}", after.as_secs())]
    Deadline { after: Duration, waiting_for: String },
}

/// How to repeat a change after an attempt that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RetryWith {
    /// Another operation holds the group. The scheduler remembers the refusal of this key, so the retry needs a new one.
    NewKey,
    /// The change is not decided; with the same key a retry is the same change.
    SameKey,
    /// The refusal is final; do not retry.
    Nothing,
}

impl Error {
    pub fn no_group(name: &str) -> Self {
        Self::NoGroup(name.to_owned())
    }

    /// A refusal after which another attempt makes no sense.
    pub fn refused(status: u16, message: impl Into<String>) -> Self {
        Self::Refused { status, message: message.into(), retry_after: None }
    }

    /// Whether to repeat a read: a failover, an apiserver restart and a rate limit end by themselves.
    pub fn is_temporary(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::Stale | Self::Refused { status: 408 | 425 | 429 | 500.., .. })
    }

    pub(super) fn retry_with(&self) -> RetryWith {
        match self {
            Self::Refused { status: 423, .. } => RetryWith::NewKey,
            // The scheduler's answer while a group of the same name is still being removed.
            Self::Refused { status: 500, message, .. } if message.contains("is removing") => RetryWith::NewKey,
            Self::Refused { status: 408 | 425 | 429 | 502..=504, .. }
            | Self::Unreachable { .. }
            | Self::Deadline { .. }
            | Self::Stale => RetryWith::SameKey,
            Self::Url { .. }
            | Self::Ca { .. }
            | Self::Untrusted { .. }
            | Self::NotFound(_)
            | Self::NoGroup(_)
            | Self::NoNode(_)
            | Self::NotLoggedIn { .. }
            | Self::TokenRefused { .. }
            | Self::Denied { .. }
            | Self::NoAccessControl { .. }
            | Self::TokenInDoubt { .. }
            | Self::Credential(_)
            | Self::Authorities
            | Self::Refused { .. }
            | Self::Malformed { .. }
            | Self::Unknown { .. }
            | Self::RetryRefused { .. } => RetryWith::Nothing,
        }
    }

    /// The `Retry-After` of the answer.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}
