//! Commands: what users ask the cluster to change, and what became of it.
//!
//! A command is durable once JetStream has it and takes effect exactly once: its outcome is written in the same
//! transaction as its effect.

use serde::{Deserialize, Serialize};

use crate::backup::Step;
use crate::digest::Digest;
use crate::name::{CommandId, GroupName, NodeName};
use crate::node::{self, NodeChange};
use crate::spec::{PodGroupSpec, PodSpec};
use crate::state::RestartPolicy;
use crate::switches::Constraint;
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
    /// Of the request, as the client sent it: under one id only one request runs. Absent from older apiservers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
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
        /// What becomes of its containers.
        #[serde(default, skip_serializing_if = "Removal::is_usual")]
        removal: Removal,
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
        /// Why, in the asker's words.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        cause: String,
    },
    /// Change how a group wants to be changed.
    PatchStrategy {
        /// Which.
        name: GroupName,
        /// The release fields of a PodGroupSpec that change, by their names; `null` makes one unsaid.
        fields: serde_json::Map<String, serde_json::Value>,
    },
    /// Say something to the release of a group.
    Rollout {
        /// Which.
        name: GroupName,
        /// The release it is said to, by the revision it leads to; whichever is current when there is none.
        release: Option<u32>,
        /// What is said.
        action: RolloutAction,
    },
    /// Set a readiness gate of an instance.
    SetGate {
        /// Which group.
        name: GroupName,
        /// Which instance.
        instance: u32,
        /// Which gate; one the spec names.
        gate: String,
        /// To what.
        is_true: bool,
        /// Only of the pod of this version; of each pod of the instance when there is none.
        version: Option<u32>,
    },
    /// Say that an instance that is being taken out of service is drained.
    Drained {
        /// Which group.
        name: GroupName,
        /// Which instance.
        instance: u32,
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
    /// Change what is wanted of a node.
    Node {
        /// Which.
        node: NodeName,
        /// What changes.
        change: NodeChange,
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
    /// Bring a backup back, step by step.
    Restore {
        /// Which step.
        step: Step,
    },
}

impl Verb {
    /// It is obeyed even while changes are refused: somebody must be able to end that.
    pub fn passes_read_only(&self) -> bool {
        matches!(self, Self::Configure { .. })
    }
}

/// What somebody says to a release.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum RolloutAction {
    /// Nothing new starts.
    Pause,
    /// It goes on.
    Resume,
    /// The group with this ordinal is fine.
    Confirm {
        /// Which; from 1.
        group: u64,
    },
    /// The group with this ordinal is left as it is.
    Skip {
        /// Which; from 1.
        group: u64,
    },
    /// The mix of revisions stays.
    Abort,
    /// Back to an earlier revision.
    Undo {
        /// Which; the newest that completed before the present one when there is none.
        revision: Option<u32>,
        /// Why, in the asker's words.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        cause: String,
    },
    /// Nothing moves at all.
    Freeze,
    /// Things move again.
    Unfreeze,
}

/// What becomes of the containers of a group that is removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Removal {
    /// They go, and the name is free when the last one is gone.
    #[default]
    Foreground,
    /// They go, and the name is free at once.
    Background,
    /// They stay as they are; a group of that name adopts them.
    Orphan,
}

impl Removal {
    /// What the original does, and what nobody has to say.
    fn is_usual(&self) -> bool {
        match self {
            Self::Foreground => true,
            Self::Background | Self::Orphan => false,
        }
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
    /// [`Command::digest`] of the command that was decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
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
    /// The group has no release of that number, or none at all.
    #[error("{}", no_release(*release, *current))]
    ReleaseUnknown {
        /// Which was named.
        release: Option<u32>,
        /// The current one.
        current: Option<u32>,
    },
    /// The release is over.
    #[error("release {release} is over; nothing of it can be changed any more")]
    ReleaseOver {
        /// Which.
        release: u32,
    },
    /// The release does not wait to be confirmed: its group is not finished, or it asks for no confirmation.
    #[error(
        "group {group} of release {release} is not waiting to be confirmed; see GET /api/rollouts for what it waits for"
    )]
    NotWaiting {
        /// Which release.
        release: u32,
        /// Its current group.
        group: u64,
    },
    /// Another group of the release is the current one.
    #[error("group {asked} is not the current one of release {release}, group {current} is")]
    OtherGroup {
        /// Which release.
        release: u32,
        /// Which was asked for.
        asked: u64,
        /// The current one.
        current: u64,
    },
    /// There is no such revision to go back to.
    #[error("{}", no_revision(*revision, kept))]
    RevisionUnknown {
        /// Which was asked for.
        revision: Option<u32>,
        /// Those that are kept.
        kept: Vec<u32>,
    },
    /// The request cannot be met for this group as it is.
    #[error("{reason}")]
    Unfit {
        /// Why, and what would help.
        reason: String,
    },
    /// No such dependency pod.
    #[error("DependencyPod not existed")]
    DependencyUnknown,
    /// A dependency pod of that name exists, or is still going away.
    #[error("DependencyPod has already existed")]
    DependencyExists,
    /// No such node.
    #[error("{}", node::unknown(node))]
    NodeUnknown {
        /// Which was named.
        node: NodeName,
    },
    /// The node is not in a state for this.
    #[error("{reason}")]
    NodeBusy {
        /// Why, and what would help.
        reason: String,
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
    /// etcd is nearly full, and the command would store more.
    #[error("{}", store_full(*used, *quota))]
    StoreFull {
        /// Bytes in use.
        used: u64,
        /// Bytes that etcd accepts at most.
        quota: u64,
    },
    /// The message could not be read; it is in the dead letters.
    #[error("the command could not be read: {reason}")]
    Malformed {
        /// Why.
        reason: String,
    },
}

fn store_full(used: u64, quota: u64) -> String {
    format!(
        "etcd holds {} MiB of its quota of {} MiB, so creates, larger specs and scale-out are refused; delete what is not \
         needed, or raise etcd's --quota-backend-bytes and the schedulers' --etcd-quota-bytes",
        used >> 20,
        quota >> 20
    )
}

fn no_release(release: Option<u32>, current: Option<u32>) -> String {
    match (release, current) {
        (Some(release), Some(current)) => format!("release {release} is not the current one, release {current} is"),
        (_, None) | (None, _) => {
            "the PodGroup has no release: it names no Strategy, or nothing of it changed yet".to_owned()
        }
    }
}

fn no_revision(revision: Option<u32>, kept: &[u32]) -> String {
    let kept = kept.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    match revision {
        Some(revision) => format!("revision {revision} is not kept; those are: {kept}"),
        None => format!("there is no earlier revision that completed; kept are: {kept}"),
    }
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
