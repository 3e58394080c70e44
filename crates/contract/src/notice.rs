//! Notices: what the outside is told when something goes wrong.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::time::{Timestamp, rfc3339};

/// One notice for one callback; the notifier keeps one queue per callback.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// Where it goes.
    pub callback: String,
    /// What is posted.
    pub body: NoticeBody,
}

/// The body deployd's receivers know.
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
    /// What happened.
    pub message: String,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Incident {
    /// A container ended and is started again.
    Down,
    /// A container was ended by the kernel for memory and is started again.
    DownWithOom,
    /// The restart budget is spent.
    CrashLooping,
    /// A container vanished and is created anew.
    Missing,
    /// A running container has no address.
    LostAddress,
    /// The health check has failed for long.
    Unhealthy,
    /// The first instance of an upgrade did not become well and was rolled back.
    BadUpgrade {
        /// The version that failed.
        version: u32,
    },
    /// The engine of a node does not answer.
    EngineAway,
    /// So many nodes went silent that the engine was stopped.
    NodesLost,
}

impl Incident {
    /// The text receivers match.
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

/// A message nobody could read, kept with the reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadLetter {
    /// Where it arrived.
    pub subject: String,
    /// Why it could not be read, or not be delivered.
    pub reason: String,
    /// The message, as text where it is text.
    pub payload: String,
    /// When.
    pub at: Timestamp,
}

impl DeadLetter {
    /// Longest payload kept: enough to find the sender, small enough for the bus.
    pub const LONGEST_PAYLOAD: usize = 4096;

    /// A dead letter that keeps the beginning of `payload`.
    pub fn new(subject: &str, reason: String, payload: &[u8], at: Timestamp) -> Self {
        let kept = &payload[..payload.len().min(Self::LONGEST_PAYLOAD)];
        Self { subject: subject.to_owned(), reason, payload: String::from_utf8_lossy(kept).into_owned(), at }
    }
}
