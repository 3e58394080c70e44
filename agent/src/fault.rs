//! Errors of engine calls, in the original's format, and the classification of pull errors.

use std::time::Duration;

use crate::core::io::{ActionFailure, ImageTrouble};

/// Errors after which a retry is useless. Registries give the same error for a forbidden and a missing image.
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
/// Errors when no registry answers under the image's name.
const NO_REGISTRY: [&str; 5] =
    ["no such host", "server misbehaving", "connection refused", "no route to host", "network is unreachable"];

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("{status}: {status} {}, {text}", reason(*status))]
    Refused { status: u16, text: String },
    /// The image is missing and could not be pulled.
    #[error("{status}: {status} {}, {text}", reason(*status))]
    NoImage { status: u16, text: String, trouble: ImageTrouble },
    #[error(
        "no addresses for the network {network}: each of the {blocks} networks that --network-pool {pool} is for is in \
         use, or the machine has a route to it; give the agent another --network-pool, or remove networks that nothing uses \
         (docker network prune)"
    )]
    NoAddresses { network: String, pool: String, blocks: u32 },
    /// A policy or the state of a volume does not allow it.
    #[error("{0}")]
    Forbidden(String),
    #[error("no answer from the engine within {} s", .0.as_secs())]
    TimedOut(Duration),
    #[error("cannot reach the engine: {0}")]
    Unconnected(String),
    /// The answer cannot be decoded.
    #[error("cannot read the engine's answer: {0}")]
    Unreadable(String),
}

impl Error {
    /// HTTP status; 0 without an answer.
    pub fn status(&self) -> u16 {
        match self {
            Self::Refused { status, .. } | Self::NoImage { status, .. } => *status,
            Self::NoAddresses { .. }
            | Self::Forbidden(_)
            | Self::TimedOut(_)
            | Self::Unconnected(_)
            | Self::Unreadable(_) => 0,
        }
    }
    /// Whether the error text contains `words`.
    pub fn mentions(&self, words: &str) -> bool {
        match self {
            Self::Refused { text, .. } | Self::NoImage { text, .. } => text.contains(words),
            Self::NoAddresses { .. }
            | Self::Forbidden(_)
            | Self::TimedOut(_)
            | Self::Unconnected(_)
            | Self::Unreadable(_) => false,
        }
    }
}

impl From<Error> for ActionFailure {
    fn from(error: Error) -> Self {
        match error {
            Error::NoImage { trouble, .. } => Self::NoImage { text: error.to_string(), trouble },
            Error::Refused { .. } | Error::NoAddresses { .. } | Error::Forbidden(_) | Error::Unreadable(_) => {
                Self::Refused(error.to_string())
            }
            Error::TimedOut(_) | Error::Unconnected(_) => Self::Unreachable(error.to_string()),
        }
    }
}

/// Classifies the error of a failed pull; none for an unknown text.
pub fn image_trouble(text: &str) -> Option<ImageTrouble> {
    let mentions = |words: &str| text.contains(words);
    if text.contains("toomanyrequests") {
        Some(ImageTrouble::Passing)
    } else if DENIED.iter().any(|words| mentions(words)) {
        Some(ImageTrouble::Denied)
    } else {
        NO_REGISTRY.iter().any(|words| mentions(words)).then_some(ImageTrouble::NoRegistry)
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
    fn pull_errors_are_classified() {
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
