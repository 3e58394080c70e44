//! Why a call to the engine did not work, in the words the contract's clients know.

use std::time::Duration;

use crate::core::io::StepFailure;

/// Why a call to the engine did not work.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It said no.
    #[error("{status}: {status} {}, {text}", reason(*status))]
    Refused {
        /// HTTP status.
        status: u16,
        /// Its words.
        text: String,
    },
    /// It did not answer in time.
    #[error("no answer from the engine within {} s", .0.as_secs())]
    TimedOut(Duration),
    /// It could not be reached.
    #[error("cannot reach the engine: {0}")]
    Unconnected(String),
    /// It answered something that makes no sense.
    #[error("cannot read the engine's answer: {0}")]
    Unreadable(String),
}

impl Error {
    /// The engine's status, 0 when it did not answer.
    pub fn status(&self) -> u16 {
        match self {
            Self::Refused { status, .. } => *status,
            Self::TimedOut(_) | Self::Unconnected(_) | Self::Unreadable(_) => 0,
        }
    }
    /// Whether the engine refused with these words.
    pub fn says(&self, words: &str) -> bool {
        match self {
            Self::Refused { text, .. } => text.contains(words),
            Self::TimedOut(_) | Self::Unconnected(_) | Self::Unreadable(_) => false,
        }
    }
}

impl From<Error> for StepFailure {
    fn from(error: Error) -> Self {
        match error {
            Error::Refused { .. } | Error::Unreadable(_) => Self::Refused(error.to_string()),
            Error::TimedOut(_) | Error::Unconnected(_) => Self::Unreachable(error.to_string()),
        }
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        304 => "Not Modified",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        409 => "Conflict",
        500 => "Internal Server Error",
        503 => "Service Unavailable",
        _ => "Error",
    }
}
