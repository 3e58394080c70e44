//! Notices: messages that the notifier posts to callback URLs when something fails.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::time::{Timestamp, rfc3339};

/// One notice for one callback; the notifier keeps one queue per callback.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// The callback URL.
    pub callback: String,
    /// The callback was stored before access control, which is not enforced yet: its address may be internal.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_former: bool,
    /// The JSON body of the POST.
    pub body: NoticeBody,
}

/// Body of a notice, in the form of the original API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct NoticeBody {
    /// Always `Error`.
    pub level: String,
    /// Namespace of the pod, or `Cluster`.
    pub namespace: String,
    /// Name of the pod.
    pub pod_name: String,
    /// Instance number.
    pub instance_no: u32,
    /// When it happened.
    #[serde(with = "rfc3339")]
    pub timestamp: Timestamp,
    /// Text of [`Incident::text`].
    pub message: String,
}

/// Kinds of failures that are reported to callbacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Incident {
    /// A container exited; the agent restarts it.
    Down,
    /// The kernel killed a container for exceeding its memory limit; the agent restarts it.
    DownWithOom,
    /// The pod is crash-looping: the immediate restarts are used up.
    CrashLooping,
    /// A container is missing; it is recreated.
    Missing,
    /// A running container has no IP address.
    LostAddress,
    /// The health check has been failing for long.
    Unhealthy,
    /// The first instance of an upgrade failed and the group rolled back.
    BadUpgrade {
        /// The revision that failed.
        version: u32,
    },
    /// The Docker engine of a node does not answer.
    EngineAway,
    /// Too many nodes were lost at the same time, so the leader turned scheduling off.
    NodesLost,
}

impl Incident {
    /// The text of the original API, which receivers match.
    pub fn text(self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Self::Down => "LAIN found pod down, ready to restart it",
            Self::DownWithOom => "LAIN found pod down with OOM, ready to restart it",
            Self::CrashLooping => "LAIN found pod restart too many times in a short period, will let it go",
            Self::Missing => "LAIN found pod missing, ready to redeployd it",
            Self::LostAddress => "LAIN found pod lost IP, please inform the SA team",
            Self::Unhealthy => "LAIN found pod Unhealthy, please check your service",
            Self::BadUpgrade { version } => {
                return Cow::Owned(format!(
                    "LAIN found Last version:{version} upgrade is terrrible, please check your code carefully!!"
                ));
            }
            Self::EngineAway => "LAIN found Cluster Manager Unhealthy, please check your cluster",
            Self::NodesLost => {
                "LAIN found too many cluster nodes stoped in a short period, need stop the engine, please check your cluster"
            }
        })
    }
}

/// A dead letter: a message that could not be decoded, or a notice that could not be delivered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadLetter {
    /// Subject that the message arrived on.
    pub subject: String,
    /// Why decoding or delivery failed.
    pub reason: String,
    /// The first bytes of the message, as text.
    pub payload: String,
    /// When the message was set aside.
    pub at: Timestamp,
}

impl DeadLetter {
    /// Limit of payload bytes: enough to find the sender, small enough for NATS.
    pub const LONGEST_PAYLOAD: usize = 4096;

    /// Limit of reason bytes: decoders quote what they read, which may be a whole message.
    pub const LONGEST_REASON: usize = 1024;

    /// A dead letter with the first bytes of `payload`.
    pub fn new(subject: &str, mut reason: String, payload: &[u8], at: Timestamp) -> Self {
        let kept = &payload[..payload.len().min(Self::LONGEST_PAYLOAD)];
        reason.truncate(reason.floor_char_boundary(Self::LONGEST_REASON));
        Self { subject: subject.to_owned(), reason, payload: String::from_utf8_lossy(kept).into_owned(), at }
    }

    /// Limit of bytes of the subject, and of the reason, in a letter of an agent.
    const LONGEST_TEXT: usize = 256;

    /// The letter, cut to what is kept of a letter of an agent.
    #[must_use]
    pub fn bounded(mut self) -> Self {
        let texts = [(&mut self.subject, Self::LONGEST_TEXT), (&mut self.reason, Self::LONGEST_TEXT)];
        for (text, most) in texts.into_iter().chain([(&mut self.payload, Self::LONGEST_PAYLOAD)]) {
            text.truncate(text.floor_char_boundary(most));
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dead_letter_of_a_huge_message_stays_small() {
        let huge = "\u{fc}".repeat(500_000);
        let letter = DeadLetter::new("deployd.command", format!("invalid: {huge}"), huge.as_bytes(), Timestamp::NEVER);
        assert!(letter.reason.starts_with("invalid: \u{fc}") && letter.reason.len() <= DeadLetter::LONGEST_REASON);
        assert!(letter.payload.len() <= DeadLetter::LONGEST_PAYLOAD);
    }
}
