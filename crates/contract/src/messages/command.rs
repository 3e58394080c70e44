//! Commands: changes that users request, and their outcomes.
//!
//! The apiserver publishes a command to JetStream; from then on it is durable. The leader applies it exactly once,
//! because it commits the outcome in the same transaction as the effect.

use serde::{Deserialize, Serialize};

use crate::access::audit::RefusedRequests;
use crate::access::join::{Join, JoinTokenRecord};
use crate::access::token::{Credentials, TokenRecord};
use crate::backup::Step;
use crate::digest::Digest;
use crate::name::{CommandId, GroupName, NodeName};
use crate::node::{self, NodeChange};
use crate::policy::{Level, Policy};
use crate::spec::{PodGroupSpec, PodSpec};
use crate::state::RestartPolicy;
use crate::switches::Constraint;
use crate::time::Timestamp;

/// One change that a user requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Command {
    /// Unique id. The leader answers a second command with the same id with the outcome of the first.
    pub id: CommandId,
    /// When the apiserver accepted it.
    pub at: Timestamp,
    /// The user, as far as the apiserver knows.
    pub by: String,
    /// The requested change.
    pub verb: Verb,
    /// Digest of the request as the client sent it: reusing an id for another request is an error. Absent from older
    /// apiservers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
    /// Who sent it, as the leader checks it. Absent from older apiservers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<Box<Credentials>>,
}

/// The requested change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verb {
    /// Creates a group and runs it.
    CreateGroup {
        /// The group; the apiserver validated it.
        spec: Box<PodGroupSpec>,
    },
    /// Removes a group.
    RemoveGroup {
        /// The group to remove.
        name: GroupName,
        /// What happens to its containers.
        #[serde(default, skip_serializing_if = "Removal::is_usual")]
        removal: Removal,
    },
    /// Changes the number of instances, the restart policy, or both.
    Replica {
        /// The group to scale.
        name: GroupName,
        /// Desired number of instances.
        num_instances: u32,
        /// New restart policy; none leaves it unchanged.
        restart_policy: Option<RestartPolicy>,
    },
    /// Changes the pod spec of a group, which starts a rollout.
    PatchSpec {
        /// The group to update.
        name: GroupName,
        /// The spec as the client sent it; the leader merges it with the current spec.
        pod: Box<PodSpec>,
        /// The user's reason; empty when not given.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        cause: String,
    },
    /// Changes the rollout settings of a group.
    PatchStrategy {
        /// The group to update.
        name: GroupName,
        /// The rollout fields of a PodGroupSpec to change, by name; `null` resets a field to its default.
        fields: serde_json::Map<String, serde_json::Value>,
    },
    /// Controls the rollout of a group.
    Rollout {
        /// The group.
        name: GroupName,
        /// The revision that the rollout leads to; none means the current rollout.
        release: Option<u32>,
        /// What to do with the rollout.
        action: RolloutAction,
    },
    /// Sets a readiness gate of an instance.
    SetGate {
        /// The group.
        name: GroupName,
        /// The instance, from 1.
        instance: u32,
        /// Name of the gate; the pod spec must declare it.
        gate: String,
        /// The new value.
        is_true: bool,
        /// Only for the pod at this revision; none means both pods of the instance.
        version: Option<u32>,
    },
    /// Confirms that an instance is drained: it no longer receives traffic.
    Drained {
        /// The group.
        name: GroupName,
        /// The instance, from 1.
        instance: u32,
    },
    /// Starts, stops or restarts instances.
    Operate {
        /// The group.
        name: GroupName,
        /// What to do with them.
        act: Act,
        /// The instance, from 1; 0 means all.
        instance: u32,
    },
    /// Moves instances off a node.
    Drift {
        /// Which instances, from where to where.
        drift: Drift,
        /// Only instances of this group; none means all groups.
        group: Option<GroupName>,
    },
    /// Moves all instances off a node, stateful ones too, and sets a soft constraint against it.
    Evacuate {
        /// The node to evacuate.
        node: NodeName,
    },
    /// Cordons, drains, labels or removes a node.
    Node {
        /// The node.
        node: NodeName,
        /// The change.
        change: NodeChange,
    },
    /// Declares a dependency pod. It starts on a node when an instance there needs it.
    CreateDependency {
        /// The pod; the apiserver validated it.
        pod: Box<PodSpec>,
    },
    /// Changes the spec of a dependency pod.
    UpdateDependency {
        /// The spec as the client sent it; the leader merges it with the current spec of the same name.
        pod: Box<PodSpec>,
    },
    /// Removes a dependency pod.
    RemoveDependency {
        /// The dependency pod.
        name: GroupName,
        /// Stop it now even if it is used; otherwise the leader removes it when no instance uses it any more.
        force: bool,
    },
    /// Adds a callback URL.
    AddCallback {
        /// The notifier posts every notice to this URL.
        url: String,
    },
    /// Removes a callback URL.
    RemoveCallback {
        /// The URL to remove.
        url: String,
    },
    /// Sets the read-only and maintenance switches; none leaves a switch unchanged.
    Configure {
        /// Refuse changes by users.
        readonly: Option<bool>,
        /// Refuse changes by users and stop automatic restarts.
        maintenance: Option<bool>,
    },
    /// Turns scheduling on or off.
    RunEngine {
        /// True: the leader reconciles groups.
        running: bool,
    },
    /// Turns the guard on or off. The guard recreates missing instances.
    Guard {
        /// True: the guard is on.
        working: bool,
    },
    /// Sets the placement constraint of a type, replacing the previous one.
    SetConstraint {
        /// The constraint.
        constraint: Constraint,
    },
    /// Removes the placement constraint of a type.
    RemoveConstraint {
        /// Type of the constraint, for example `node`.
        kind: String,
    },
    /// Sets the workload policy of a namespace.
    SetPolicy {
        /// The namespace, or `*` for all namespaces without a policy of their own.
        namespace: String,
        /// Its policy.
        policy: Box<Policy>,
    },
    /// Removes the workload policy of a namespace: the default of the cluster applies. The default itself returns to
    /// `baseline`.
    RemovePolicy {
        /// The namespace, or `*`.
        namespace: String,
    },
    /// One step of restoring a backup.
    Restore {
        /// The step.
        step: Step,
    },
    /// Creates a token. The leader sets who created it and when.
    CreateToken {
        /// The token, without its secret.
        token: Box<TokenRecord>,
    },
    /// Revokes a token.
    RevokeToken {
        /// Public part of the token.
        id: String,
    },
    /// Creates a join token. The leader sets who created it and when.
    CreateJoinToken {
        /// The token, without its secret.
        token: Box<JoinTokenRecord>,
    },
    /// Revokes a join token. Nodes that joined with it stay.
    RevokeJoinToken {
        /// Public part of the token.
        id: String,
    },
    /// A node joins.
    Join {
        /// The node with its key, and the proof of its token.
        join: Box<Join>,
    },
    /// An apiserver reports requests that it refused because of who sent them. Changes nothing but the audit log.
    ReportRefused {
        /// By client, route and status; at most [`MOST_REFUSED`](crate::access::audit::MOST_REFUSED).
        requests: Vec<RefusedRequests>,
    },
    /// Says whether clients must prove who they are.
    EnforceAccess {
        /// True: a request needs a token, or a binding for clients without one.
        enforced: bool,
    },
}

impl Verb {
    /// Whether the leader may accept it while the cluster is read-only. `Configure` must pass, or read-only mode could not
    /// end. So must everything that takes access away: an operator who makes the cluster read-only during an attack needs it.
    /// [`passes_read_only`](crate::access::routes::passes_read_only) has the same rule for requests.
    pub fn passes_read_only(&self) -> bool {
        match self {
            Self::Configure { .. } | Self::ReportRefused { .. } => true,
            Self::RevokeToken { .. } | Self::RevokeJoinToken { .. } | Self::EnforceAccess { enforced: true } => true,
            // The leader refuses it for a node without a key.
            Self::Node { change: NodeChange::Remove { .. }, .. } => true,
            _ => false,
        }
    }
}

/// A user's control over a rollout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum RolloutAction {
    /// Starts no further pods; those that have started finish.
    Pause,
    /// Ends a pause.
    Resume,
    /// Confirms a finished batch, so that the next one starts.
    Confirm {
        /// Ordinal of the batch, from 1.
        group: u64,
    },
    /// Leaves the pods of a batch as they are and continues with the next batch.
    Skip {
        /// Ordinal of the batch, from 1.
        group: u64,
    },
    /// Ends the rollout; the mix of revisions stays.
    Abort,
    /// Rolls back to an earlier revision.
    Undo {
        /// The revision; none means the newest that completed before the current one.
        revision: Option<u32>,
        /// The user's reason; empty when not given.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        cause: String,
    },
    /// Stops the rollout and scaling of the group.
    Freeze,
    /// Ends a freeze.
    Unfreeze,
}

/// What happens to the containers of a removed group.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Removal {
    /// The agents remove them. The name is free when the last container is gone.
    #[default]
    Foreground,
    /// The agents remove them. The name is free immediately.
    Background,
    /// They keep running. A new group of the same name adopts them.
    Orphan,
}

impl Removal {
    /// The default, which is not serialised.
    fn is_usual(&self) -> bool {
        match self {
            Self::Foreground => true,
            Self::Background | Self::Orphan => false,
        }
    }
}

/// What to do with instances.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Act {
    /// Run them and reset their restart counters.
    Start,
    /// Stop them and keep them stopped.
    Stop,
    /// Stop and start them, one after the other.
    Restart,
    /// Does nothing: the original API accepts unknown words and ignores them.
    Nothing,
}

/// A request to move instances off a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drift {
    /// The node to leave.
    pub from: NodeName,
    /// The node to move to; none lets the planner choose.
    pub to: Option<NodeName>,
    /// Also move stateful instances, which are otherwise bound to the data on their node.
    pub force: bool,
    /// Only this instance, from 1; none means all.
    pub instance: Option<u32>,
}

/// The result of a command: `/deployd/outcome/<id>`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// Id of the command.
    pub id: CommandId,
    /// When the leader decided it.
    pub at: Timestamp,
    /// Accepted or refused.
    #[serde(rename = "verdict")]
    pub decision: Decision,
    /// [`Command::digest`] of the decided command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
    /// Owner of the token that the client showed; only this client gets the outcome for a repeated request. None for clients without
    /// a token, whose proof may differ from one request to the next, and for nodes that join.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
}

/// Whether the leader accepted a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Decision {
    /// The change is committed; the leader reconciles the cluster to it.
    Accepted,
    /// The command changed nothing.
    Refused(Refusal),
}

/// Why a command was refused. The messages of the original API stay as they are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Refusal {
    /// The group does not exist.
    #[error("PodGroup not existed")]
    GroupUnknown,
    /// A group of that name exists.
    #[error("PodGroup has already existed")]
    GroupExists,
    /// A group of that name is still being removed.
    #[error("PodGroup is removing, need to wait for that")]
    GroupRemoving,
    /// Another operation holds the group's lock.
    #[error("Another operation {:?} is progressing", operation.word())]
    Locked {
        /// The operation that holds the lock.
        operation: Operation,
    },
    /// The group has no such instance.
    #[error("instance {instance} not existed, the PodGroup has {instances}")]
    InstanceUnknown {
        /// The requested instance.
        instance: u32,
        /// Number of instances the group has.
        instances: u32,
    },
    /// The group has no rollout of that number, or no rollout at all.
    #[error("{}", no_rollout(*release, *current))]
    ReleaseUnknown {
        /// The requested revision.
        release: Option<u32>,
        /// Revision of the current rollout, if any.
        current: Option<u32>,
    },
    /// The rollout has ended.
    #[error("the rollout to revision {release} has ended and cannot be changed")]
    ReleaseOver {
        /// Revision of the rollout.
        release: u32,
    },
    /// The rollout does not wait for a confirmation: the batch is not finished, or the strategy asks for none.
    #[error(
        "batch {group} of the rollout to revision {release} does not wait for confirmation; GET /api/rollouts shows what it \
         waits for"
    )]
    NotWaiting {
        /// Revision of the rollout.
        release: u32,
        /// Ordinal of the current batch.
        group: u64,
    },
    /// The confirmation names a batch that is not the current one.
    #[error("batch {asked} is not the current batch of the rollout to revision {release}; batch {current} is")]
    #[serde(rename = "OtherGroup")]
    OtherBatch {
        /// Revision of the rollout.
        release: u32,
        /// The requested batch.
        asked: u64,
        /// The current batch.
        current: u64,
    },
    /// There is no such revision to roll back to.
    #[error("{}", no_revision(*revision, kept))]
    RevisionUnknown {
        /// The requested revision.
        revision: Option<u32>,
        /// The revisions in the history.
        kept: Vec<u32>,
    },
    /// The group in its present state does not allow the change.
    #[error("{reason}")]
    Unfit {
        /// The problem and the remedy.
        reason: String,
    },
    /// The dependency pod does not exist.
    #[error("DependencyPod not existed")]
    DependencyUnknown,
    /// A dependency pod of that name exists, or is still being removed.
    #[error("DependencyPod has already existed")]
    DependencyExists,
    /// The node does not exist.
    #[error("{}", node::unknown(node))]
    NodeUnknown {
        /// The requested node.
        node: NodeName,
    },
    /// The node in its present state does not allow the change.
    #[error("{reason}")]
    NodeBusy {
        /// The problem and the remedy.
        reason: String,
    },
    /// The callback URL is not registered.
    #[error("Notify uri not existed")]
    CallbackUnknown,
    /// There is no constraint of that type.
    #[error("Constraint not existed")]
    ConstraintUnknown,
    /// The namespace has no policy of its own.
    #[error("the namespace has no policy of its own: that of * applies")]
    PolicyUnknown,
    /// The workload policy of the namespace does not allow the spec.
    #[error("the policy of namespace {namespace:?} ({level}) does not allow it: {reason}")]
    Forbidden {
        /// The namespace.
        namespace: String,
        /// Its level.
        level: Level,
        /// Every violation with rule, field and remedy.
        reason: String,
    },
    /// The cluster is read-only or in maintenance.
    #[error("Do ReadOnly Permitted.")]
    ReadOnly,
    /// The client did not prove who it is.
    #[error("{reason}")]
    Unauthenticated {
        /// The problem and the remedy.
        reason: String,
    },
    /// The client's roles do not allow the command.
    #[error(
        "{principal} may not {right} {object}; ask an admin for a binding that allows it (deployctl auth matrix shows the roles)"
    )]
    Denied {
        /// The principal.
        principal: String,
        /// The missing right.
        right: String,
        /// The object.
        object: String,
    },
    /// There is no such token.
    #[error("there is no token {id:?}; `deployctl token list` shows those that exist")]
    TokenUnknown {
        /// The requested id.
        id: String,
    },
    /// There is no such join token, or it was revoked or has expired.
    #[error(
        "there is no join token {id:?}, or it was revoked or has expired; `deployctl node token list` shows those that exist"
    )]
    JoinTokenUnknown {
        /// The id.
        id: String,
    },
    /// The change would exceed a limit of the cluster.
    #[error("{what} would pass the limit of {limit}")]
    Limit {
        /// What is limited, for example the number of groups.
        what: String,
        /// The limit.
        limit: u64,
    },
    /// etcd is nearly full, and the command would store more.
    #[error("{}", store_full(*used, *quota))]
    StoreFull {
        /// Bytes in use.
        used: u64,
        /// etcd's quota, in bytes.
        quota: u64,
    },
    /// The leader could not decode the command and put it into the dead letters.
    #[error("the command could not be read: {reason}")]
    Malformed {
        /// The decoding error.
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

fn no_rollout(release: Option<u32>, current: Option<u32>) -> String {
    match (release, current) {
        (Some(release), Some(current)) => {
            format!("revision {release} is not the current one; revision {current} is")
        }
        (_, None) | (None, _) => {
            "the PodGroup has no rollout: it has no Strategy, or its spec has not changed yet".to_owned()
        }
    }
}

fn no_revision(revision: Option<u32>, kept: &[u32]) -> String {
    let kept = kept.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    match revision {
        Some(revision) => format!("revision {revision} is not in the history; kept are: {kept}"),
        None => format!("there is no earlier revision that completed; kept are: {kept}"),
    }
}

/// An operation that holds a group's lock. The names are those of the original API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Operation {
    /// The first start of all instances.
    Deploying,
    /// The number of instances changes.
    Scheduling,
    /// A rollout without a strategy replaces the instances one by one.
    Upgrading,
    /// Instances move off a node.
    Drifting,
    /// Instances start.
    Starting,
    /// Instances stop.
    Stopping,
    /// Instances restart.
    Restarting,
    /// The group is being removed.
    Removing,
}

impl Operation {
    /// The word that the API shows.
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
