//! Enumerations of the API. In JSON each is the integer of the original API.

use serde_repr::{Deserialize_repr, Serialize_repr};

/// Run state of a pod, or of a group as a whole.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize_repr, Deserialize_repr)]
#[repr(u8)]
pub enum RunState {
    /// Accepted, not running yet.
    #[default]
    Pending = 0,
    /// Defined by the original, never set.
    Drift = 1,
    /// Every container runs.
    Success = 2,
    /// A container exited; Docker reports no error.
    Exit = 3,
    /// A container is down and Docker reports an error.
    Fail = 4,
    /// Transient in the original, never shown.
    Inconsistent = 5,
    /// The container is missing.
    Missing = 6,
    /// Removed; never visible.
    Removed = 7,
    /// Defined by the original, never set.
    Paused = 8,
    /// A call to Docker failed.
    Error = 9,
}

/// Result of the container's health check.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize_repr, Deserialize_repr)]
#[repr(u8)]
pub enum HealthState {
    /// There is no health check.
    #[default]
    None = 0,
    /// The check has not succeeded or failed yet.
    Starting = 1,
    /// The last check succeeded.
    Healthy = 2,
    /// The check failed repeatedly.
    Unhealthy = 3,
}

/// The state that the user wants for one instance.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize_repr, Deserialize_repr)]
#[repr(u8)]
pub enum TargetState {
    /// Keep it running.
    #[default]
    Run = 0,
    /// Keep it stopped.
    Stop = 1,
}

/// When the agent restarts a container that exited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize_repr, Deserialize_repr)]
#[repr(u8)]
pub enum RestartPolicy {
    /// Never.
    #[default]
    Never = 0,
    /// After every exit.
    Always = 1,
    /// After an exit with a non-zero code or a Docker error.
    OnFail = 2,
}

impl RestartPolicy {
    /// Parses the word of `cmd=replica`.
    pub fn from_word(word: &str) -> Option<Self> {
        match word {
            "never" => Some(Self::Never),
            "always" => Some(Self::Always),
            "onfail" => Some(Self::OnFail),
            _ => None,
        }
    }
    /// The word of `cmd=replica`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::Always => "always",
            Self::OnFail => "onfail",
        }
    }
}

/// Which pods share a dependency pod.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize_repr, Deserialize_repr)]
#[repr(u8)]
pub enum DependencyPolicy {
    /// One dependency pod per node and namespace.
    #[default]
    Namespace = 0,
    /// One dependency pod per node.
    Node = 1,
}
