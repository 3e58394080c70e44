//! Commands: what users ask the cluster to change, and what became of it.
//!
//! A command is durable once JetStream has it and takes effect exactly once: its outcome is written in the same
//! transaction as its effect.

use serde::{Deserialize, Serialize};

use crate::brakes::Constraint;
use crate::name::{CommandId, GroupName};
use crate::spec::PodGroupSpec;
use crate::state::RestartPolicy;
use crate::time::Timestamp;

/// One change a user asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Command {
    /// Names the command for good; the same id twice is the same command.
    pub id: CommandId,
    /// When the apiserver took it.
    pub at: Timestamp,
    /// Who asked, as far as known.
    pub by: String,
    /// What is asked.
    pub verb: Verb,
}

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verb {
    /// Create a group and run it.
    CreateGroup {
        /// What to run; validated.
        spec: Box<PodGroupSpec>,
    },
    /// Stop a group and forget it.
    RemoveGroup {
        /// Which.
        name: GroupName,
    },
    /// Change the number of instances, the restart policy, or both.
    Replica {
        /// Which.
        name: GroupName,
        /// How many.
        num_instances: u32,
        /// New policy, if it shall change.
        restart_policy: Option<RestartPolicy>,
    },
    /// Tell a URL what goes wrong.
    AddCallback {
        /// Where notices go.
        url: String,
    },
    /// Stop telling a URL.
    RemoveCallback {
        /// Which.
        url: String,
    },
    /// Change the engine's configuration; what is none stays.
    Configure {
        /// Refuse changes.
        readonly: Option<bool>,
        /// Refuse changes and automatic restarts.
        maintenance: Option<bool>,
    },
    /// Make plans, or make none.
    RunEngine {
        /// Make plans.
        running: bool,
    },
    /// Send the guard to work or to sleep.
    Guard {
        /// To work.
        working: bool,
    },
    /// Put a constraint in the place of the one of its type.
    SetConstraint {
        /// Which.
        constraint: Constraint,
    },
    /// Drop the constraint of a type.
    RemoveConstraint {
        /// Which type.
        kind: String,
    },
}

impl Verb {
    /// It is obeyed even while changes are refused: somebody must be able to end that.
    pub fn passes_read_only(&self) -> bool {
        matches!(self, Self::Configure { .. })
    }
}

/// What became of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// The command.
    pub id: CommandId,
    /// When it was decided.
    pub at: Timestamp,
    /// How.
    pub verdict: Verdict,
}

/// Accepted or not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// In effect, and will be made true.
    Accepted,
    /// Nothing changed.
    Refused(Refusal),
}

/// Why nothing changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Refusal {
    /// No such group.
    #[error("PodGroup not existed")]
    GroupUnknown,
    /// A group of that name exists.
    #[error("PodGroup has already existed")]
    GroupExists,
    /// A group of that name is still going away.
    #[error("PodGroup is removing, need to wait for that")]
    GroupRemoving,
    /// Another operation on the group runs.
    #[error("Another operation {:?} is progressing", operation.word())]
    Locked {
        /// Which.
        operation: Operation,
    },
    /// No such callback.
    #[error("Notify uri not existed")]
    CallbackUnknown,
    /// No such constraint.
    #[error("Constraint not existed")]
    ConstraintUnknown,
    /// The engine refuses changes: it is read-only or in maintenance.
    #[error("Do ReadOnly Permitted.")]
    ReadOnly,
    /// A limit of the cluster would be passed.
    #[error("{what} would pass the limit of {limit}")]
    Limit {
        /// What is limited.
        what: String,
        /// The limit.
        limit: u64,
    },
    /// The message could not be read; it is in the dead letters.
    #[error("the command could not be read: {reason}")]
    Malformed {
        /// Why.
        reason: String,
    },
}

/// An operation that holds a group's lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Operation {
    /// First start of all instances.
    Deploying,
    /// The number of instances changes.
    Scheduling,
    /// The group goes away.
    Removing,
}

impl Operation {
    /// The word shown to users.
    pub fn word(self) -> &'static str {
        match self {
            Self::Deploying => "Deploying",
            Self::Scheduling => "Scheduling",
            Self::Removing => "Removing",
        }
    }
}
