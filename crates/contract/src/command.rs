//! Commands: what users ask the cluster to change, and what became of it.
//!
//! A command is durable once JetStream has it and takes effect exactly once: its outcome is written in the same
//! transaction as its effect.

use serde::{Deserialize, Serialize};

use crate::brakes::Constraint;
use crate::name::{CommandId, GroupName, NodeName};
use crate::spec::{PodGroupSpec, PodSpec};
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
    /// Give a group another pod spec: instance by instance it is made anew from it.
    PatchSpec {
        /// Which.
        name: GroupName,
        /// What the client sent; merged with the present spec by the leader.
        pod: Box<PodSpec>,
    },
    /// Start, stop or restart instances.
    Operate {
        /// Which group.
        name: GroupName,
        /// What to do.
        act: Act,
        /// Which instance; 0 means all.
        instance: u32,
    },
    /// Move instances off a node.
    Drift {
        /// What to move.
        drift: Drift,
        /// Only of this group; otherwise of every group.
        group: Option<GroupName>,
    },
    /// Move everything off a node and keep new work away from it.
    Evacuate {
        /// Which.
        node: NodeName,
    },
    /// Make a dependency pod known; it runs once an instance needs it.
    CreateDependency {
        /// What to run beside the instances; validated.
        pod: Box<PodSpec>,
    },
    /// Give a dependency pod another spec.
    UpdateDependency {
        /// What the client sent; merged with the present spec by the leader. Its name says which.
        pod: Box<PodSpec>,
    },
    /// Forget a dependency pod.
    RemoveDependency {
        /// Which.
        name: GroupName,
        /// At once, used or not; otherwise once nothing uses it any more.
        force: bool,
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

/// What to do to instances.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Act {
    /// Run them, and forgive what they did.
    Start,
    /// Keep them stopped.
    Stop,
    /// End and start them, one after another.
    Restart,
    /// Nothing: the original takes unknown words and does nothing.
    Nothing,
}

/// Instances that shall leave a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drift {
    /// The node they leave.
    pub from: NodeName,
    /// The node they go to; any other when there is none.
    pub to: Option<NodeName>,
    /// Even those that are bound to their data.
    pub force: bool,
    /// Only this instance.
    pub instance: Option<u32>,
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
    /// The group has no such instance.
    #[error("instance {instance} not existed, the PodGroup has {instances}")]
    InstanceUnknown {
        /// Which was asked for.
        instance: u32,
        /// How many there are.
        instances: u32,
    },
    /// No such dependency pod.
    #[error("DependencyPod not existed")]
    DependencyUnknown,
    /// A dependency pod of that name exists, or is still going away.
    #[error("DependencyPod has already existed")]
    DependencyExists,
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
    /// The instances are made anew from another spec.
    Upgrading,
    /// Instances leave a node.
    Drifting,
    /// Instances are started.
    Starting,
    /// Instances are stopped.
    Stopping,
    /// Instances are restarted.
    Restarting,
    /// The group goes away.
    Removing,
}

impl Operation {
    /// The word shown to users.
    pub fn word(self) -> &'static str {
        match self {
            Self::Deploying => "Deploying",
            Self::Scheduling => "Scheduling",
            Self::Upgrading => "Upgrading",
            Self::Drifting => "Drifting",
            Self::Starting => "Starting",
            Self::Stopping => "Stopping",
            Self::Restarting => "Restarting",
            Self::Removing => "Removing",
        }
    }
}
