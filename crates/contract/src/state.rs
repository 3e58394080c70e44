//! The enumerations of the API. In JSON each is the integer deployd's clients know.

use serde_repr::{Deserialize_repr, Serialize_repr};

/// What a pod, or a group as a whole, is doing.
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
    /// A container ended and the engine reports no error of its own.
    Exit = 3,
    /// A container is down and the engine says why.
    Fail = 4,
    /// Transient in the original, never shown.
    Inconsistent = 5,
    /// The container is gone though it should be there.
    Missing = 6,
    /// Removed; never visible.
    Removed = 7,
    /// Defined by the original, never set.
    Paused = 8,
    /// A call to the engine failed.
    Error = 9,
}

/// What the container's health check says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize_repr, Deserialize_repr)]
#[repr(u8)]
pub enum HealthState {
    /// There is no health check.
    #[default]
    None = 0,
    /// Not decided yet.
    Starting = 1,
    /// Healthy.
    Healthy = 2,
    /// Unhealthy.
    Unhealthy = 3,
}

/// What the user wants of one instance.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize_repr, Deserialize_repr)]
#[repr(u8)]
pub enum TargetState {
    /// Keep it running.
    #[default]
    Run = 0,
    /// Keep it stopped.
    Stop = 1,
}

/// When a container that ended is started again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize_repr, Deserialize_repr)]
#[repr(u8)]
pub enum RestartPolicy {
    /// Never.
    #[default]
    Never = 0,
    /// Whenever it ended.
    Always = 1,
    /// When it ended with a non-zero code or an engine error.
    OnFail = 2,
}

impl RestartPolicy {
    /// Reads the word that `cmd=replica` takes.
    pub fn from_word(word: &str) -> Option<Self> {
        match word {
            "never" => Some(Self::Never),
            "always" => Some(Self::Always),
            "onfail" => Some(Self::OnFail),
            _ => None,
        }
    }
    /// The word that `cmd=replica` takes.
    pub fn word(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::Always => "always",
            Self::OnFail => "onfail",
        }
    }
}

/// How far a dependency pod is shared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize_repr, Deserialize_repr)]
#[repr(u8)]
pub enum DependencyPolicy {
    /// One per node and namespace.
    #[default]
    Namespace = 0,
    /// One per node.
    Node = 1,
}
