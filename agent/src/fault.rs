//! Why a call to the engine did not work, in the words the contract's clients know, and what its words about an image mean.

use std::time::Duration;

use crate::core::io::{ActionFailure, ImageTrouble};

/// What registries and the engine say when trying again is no use. Whoever may not pull an image hears the same as
/// whoever asks for one that does not exist.
const DENIED: [&str; 8] = [
    "pull access denied",
    "requested access to the resource is denied",
    "unauthorized",
    "manifest unknown",
    "name unknown",
    "repository name not known",
    "no matching manifest",
    "invalid reference format",
];
/// What the engine says when nobody answers under the registry's name.
const NO_REGISTRY: [&str; 5] =
    ["no such host", "server misbehaving", "connection refused", "no route to host", "network is unreachable"];

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
    /// It does not have an image and could not pull it.
    #[error("{status}: {status} {}, {text}", reason(*status))]
    NoImage {
        /// HTTP status.
        status: u16,
        /// Its words.
        text: String,
        /// What they mean.
        trouble: ImageTrouble,
    },
    /// No addresses are left for another network.
    #[error(
        "no addresses for the network {network}: each of the {blocks} networks that --network-pool {pool} is for is in \
         use, or the machine has a route to it; give the agent another --network-pool, or remove networks that nothing uses \
         (docker network prune)"
    )]
    NoAddresses {
        /// The network.
        network: String,
        /// The ranges that networks are made from.
        pool: String,
        /// How many networks they are for.
        blocks: u32,
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
            Self::Refused { status, .. } | Self::NoImage { status, .. } => *status,
            Self::NoAddresses { .. } | Self::TimedOut(_) | Self::Unconnected(_) | Self::Unreadable(_) => 0,
        }
    }
    /// Whether the engine refused with these words.
    pub fn says(&self, words: &str) -> bool {
        match self {
            Self::Refused { text, .. } | Self::NoImage { text, .. } => text.contains(words),
            Self::NoAddresses { .. } | Self::TimedOut(_) | Self::Unconnected(_) | Self::Unreadable(_) => false,
        }
    }
}

impl From<Error> for ActionFailure {
    fn from(error: Error) -> Self {
        match error {
            Error::NoImage { trouble, .. } => Self::NoImage { text: error.to_string(), trouble },
            Error::Refused { .. } | Error::NoAddresses { .. } | Error::Unreadable(_) => {
                Self::Refused(error.to_string())
            }
            Error::TimedOut(_) | Error::Unconnected(_) => Self::Unreachable(error.to_string()),
        }
    }
}

/// What the engine's words about a pull that failed mean; none when they are not known and may be about anything.
pub fn image_trouble(text: &str) -> Option<ImageTrouble> {
    let says = |words: &str| text.contains(words);
    if text.contains("toomanyrequests") {
        Some(ImageTrouble::Passing)
    } else if DENIED.iter().any(|words| says(words)) {
        Some(ImageTrouble::Denied)
    } else {
        NO_REGISTRY.iter().any(|words| says(words)).then_some(ImageTrouble::NoRegistry)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_engine_says_about_an_image_is_understood() {
        let denied = [
            "pull access denied for nosuch, repository does not exist or may require 'docker login': denied: requested access to the resource is denied",
            "manifest for alpine:nosuch not found: manifest unknown: manifest unknown",
            "name unknown: repository name not known to registry",
            "Head \"https://r/v2/a/manifests/1\": unauthorized: authentication required",
            "no matching manifest for linux/amd64 in the manifest list entries",
            "invalid reference format: repository name must be lowercase",
        ];
        let nowhere = [
            "Get \"https://registry-1.docker.io/v2/\": dial tcp: lookup registry-1.docker.io on 10.0.0.1:53: no such host",
            "Get \"https://r/v2/\": dial tcp: lookup r on 10.0.0.1:53: server misbehaving",
            "Get \"http://127.0.0.1:1/v2/\": dial tcp 127.0.0.1:1: connect: connection refused",
        ];
        let unclear = [
            "received unexpected HTTP status: 503 Service Unavailable",
            "Get \"https://r/v2/\": net/http: request canceled (Client.Timeout exceeded while awaiting headers)",
            "write /var/lib/docker/tmp/x: no space left on device",
        ];
        let all =
            |texts: &[&str], trouble| texts.iter().for_each(|text| assert_eq!(image_trouble(text), trouble, "{text}"));
        all(&denied, Some(ImageTrouble::Denied));
        all(&nowhere, Some(ImageTrouble::NoRegistry));
        all(&unclear, None);
        let many = "toomanyrequests: You have reached your unauthenticated pull rate limit";
        assert_eq!(image_trouble(many), Some(ImageTrouble::Passing));
    }
}
