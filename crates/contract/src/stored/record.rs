//! Records stored in etcd: everything a new leader needs after every process died, and nothing that agents report
//! anyway.
//!
//! The scheduler writes and reads them. [`crate::layout`] turns them into keys and values of schema 2.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::command::{Drift, Operation, Removal};
use crate::name::NodeName;
use crate::report::NodeFacts;
use crate::spec::{PodGroupSpec, PodSpec};
use crate::state::TargetState;
use crate::time::Timestamp;

/// Desired state of a group: `/deployd/state/intent/group/<name>`. `P` stands for a pod spec: see [`crate::layout`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(bound(deserialize = "P: Deserialize<'de> + Default"))]
pub struct GroupRecord<P = PodSpec> {
    /// The spec, with the defaults that the leader filled in.
    pub spec: PodGroupSpec<P>,
    /// The operation that holds the group's lock, if any.
    pub operation: Option<OperationRecord>,
    /// When an operation last changed the group.
    pub updated_at: Timestamp,
    /// Stream ports that another group already owned when this group claimed its own. While the list is not empty, the
    /// group owns no port and runs nothing; when it is empty, the group owns every port it declares.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taken_ports: Vec<u16>,
    /// Pod specs of earlier revisions that an instance still runs or that a rollback may need.
    #[serde(default = "BTreeMap::new", skip_serializing_if = "BTreeMap::is_empty")]
    pub former: BTreeMap<u32, P>,
    /// The last revision that every instance reached; a rollback returns to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proven: Option<u32>,
    /// Earlier revisions that count as the current one: a rollback copied them, so instances that run them need no
    /// change.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub equals: BTreeSet<u32>,
    /// Moves (`drift`) that wait for the lock. While the operation is `Drifting`, the first of them is in progress.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drifts: Vec<Drift>,
    /// Error of the last operation; shown until the next operation starts.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub last_error: String,
    /// How the group is removed, while it is being removed. The containers of an orphaned group stay until a new group
    /// adopts them or a user removes them.
    #[serde(default, skip_serializing_if = "is_default")]
    pub removal: Removal,
}

/// The operation that holds a group's lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperationRecord {
    /// Kind of the operation.
    pub kind: Operation,
    /// When it began.
    pub since: Timestamp,
    /// The next instance to process; 0 when the operation does not proceed instance by instance.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub next: u32,
    /// The last instance to process; 0 likewise.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub last: u32,
}

impl OperationRecord {
    /// An operation on the group as a whole.
    pub fn new(kind: Operation, since: Timestamp) -> Self {
        Self { kind, since, next: 0, last: 0 }
    }
}

/// The instances of a group. Schema 1 stored them in one value; schema 2 stores pages, see [`crate::layout`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacementRecord {
    /// One entry per instance; index k is instance k + 1.
    #[serde(rename = "slots")]
    pub instances: Vec<Instance>,
}

/// One instance: its pod, and in [`Self::next`] the surge pod that will replace it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Instance {
    /// The node it is placed on; none while it is pending.
    pub node: Option<NodeName>,
    /// Revision of the pod spec it runs.
    pub version: u32,
    /// How many times it was recreated under a new container name; part of [`crate::pod_id::PodId`].
    pub drift: u32,
    /// The state the user wants: running or stopped.
    pub target: TargetState,
    /// Consecutive failed attempts; determines the back-off.
    #[serde(skip_serializing_if = "is_zero")]
    pub failures: u32,
    /// End of the back-off: the leader does not retry earlier.
    #[serde(skip_serializing_if = "is_never")]
    pub retry_at: Timestamp,
    /// Why it is unschedulable, or why the last attempt failed.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// Why the last move left it on its node; cleared when an operation changes the instance.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub not_moved: String,
    /// The node it moves away from. That node must have removed its containers before it starts on [`Self::node`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leaves: Option<NodeName>,
    /// End of the pause after the old node removed the containers.
    #[serde(skip_serializing_if = "is_never")]
    pub pause_until: Timestamp,
    /// When an operation last gave it a node, a revision or a restart.
    #[serde(skip_serializing_if = "is_never")]
    pub since: Timestamp,
    /// Number of start requests so far. The agent compares it with the number it has handled.
    #[serde(rename = "starts_asked", skip_serializing_if = "is_zero")]
    pub starts_requested: u32,
    /// Number of restart requests so far. The agent compares it with the number it has handled.
    #[serde(rename = "restarts_asked", skip_serializing_if = "is_zero")]
    pub restarts_requested: u32,
    /// Last known IP addresses, one per container; kept while it is down.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
    /// Whether the instance has a pod.
    #[serde(rename = "filling", skip_serializing_if = "is_default")]
    pub presence: Presence,
    /// Deployment unit it belongs to; empty for a group without units.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub unit: String,
    /// The revision in its containers' names, when a later update in place changed them to [`Self::version`].
    #[serde(rename = "made_as", skip_serializing_if = "Option::is_none")]
    pub created_from: Option<u32>,
    /// Reserved addresses: IPs inherited from the replaced pod, one per container. Empty means any address.
    #[serde(rename = "lease", skip_serializing_if = "Vec::is_empty")]
    pub reserved_addresses: Vec<String>,
    /// Readiness gates that are true, and since when.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub gates: BTreeMap<String, Timestamp>,
    /// When one of its gates was last set to false.
    #[serde(skip_serializing_if = "is_never")]
    pub gates_closed_at: Timestamp,
    /// Present while it is being drained.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub draining: Option<Draining>,
    /// Present while its node pulls the images of the next revision; the pod still serves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fetching: Option<Fetching>,
    /// Since when it is unschedulable.
    #[serde(skip_serializing_if = "is_never")]
    pub unplaced_since: Timestamp,
    /// The surge pod that will replace this pod and runs beside it. A surge pod has no `next` itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<Box<Instance>>,
}

impl Instance {
    /// The revision in the names of its containers.
    pub fn named_version(&self) -> u32 {
        self.created_from.unwrap_or(self.version)
    }

    /// The current pod and the surge pod, those that exist.
    pub fn pods(&self) -> impl Iterator<Item = &Self> {
        std::iter::once(self).chain(self.next.as_deref()).filter(|instance| instance.presence == Presence::Pod)
    }
}

/// Whether an instance number has a pod.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Presence {
    /// The instance has a pod, placed or pending.
    #[default]
    Pod,
    /// The instance exists, its pod was removed and has no successor yet.
    #[serde(rename = "Retired")]
    Vacant,
    /// The instance does not exist; the next new instance may take the number.
    #[serde(rename = "Nothing")]
    Free,
}

/// State of an instance that is being drained.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Draining {
    /// When draining began.
    pub since: Timestamp,
    /// A `cmd=drained` command confirmed that it no longer receives traffic.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_answered: bool,
    /// The instance is being removed, not replaced: the leader removes it after the timeout even without an answer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_final: bool,
}

/// A node pulls the images of the next revision before the leader replaces the pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fetching {
    /// The revision whose images are pulled.
    pub version: u32,
    /// When the pull was requested.
    pub since: Timestamp,
}

/// The revisions of a group. Schema 1 stored them in one value; schema 2 stores one key each, see [`crate::layout`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RevisionsRecord {
    /// Oldest first; the current one is last.
    pub revisions: Vec<RevisionRecord>,
}

/// One revision of a group: `/deployd/state/revisions/<name>/<number>`. `P` stands for a pod spec: see [`crate::layout`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RevisionRecord<P = PodSpec> {
    /// Revision number: the version of the group's pod spec.
    pub number: u32,
    /// When the user requested it.
    pub at: Timestamp,
    /// The user who requested it; empty when the leader created it for an automatic rollback.
    pub by: String,
    /// The user's reason (`cause`); empty when not given.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cause: String,
    /// The pod spec of the revision.
    pub pod: P,
    /// For a rollback: the revision that it copies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copies: Option<u32>,
    /// How its rollout ended.
    pub outcome: RevisionOutcome,
    /// When its rollout ended; never while it is open.
    #[serde(default, skip_serializing_if = "is_never")]
    pub ended_at: Timestamp,
}

/// How the rollout of a revision ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RevisionOutcome {
    /// The rollout is in progress.
    Open,
    /// Every instance reached the revision.
    Completed,
    /// A newer revision replaced it before it completed.
    Superseded,
    /// The rollout failed and the group returned to an earlier revision.
    RolledBack,
    /// A user aborted the rollout.
    Aborted,
}

/// Desired state of a dependency pod: `/deployd/state/intent/dependency/<name>`. `P` stands for a pod spec: see
/// [`crate::layout`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DependencyRecord<P = PodSpec> {
    /// The pod spec; the leader numbers its versions.
    pub spec: P,
    /// Specs of earlier versions that a pair still runs.
    #[serde(default = "BTreeMap::new", skip_serializing_if = "BTreeMap::is_empty")]
    pub former: BTreeMap<u32, P>,
    /// A user removed it: the leader deletes it when no instance uses it any more.
    #[serde(rename = "doomed", default, skip_serializing_if = "std::ops::Not::not")]
    pub delete_when_unused: bool,
    /// A user removed it with `force`: the leader stops it now, used or not. The API reports it as unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removing_since: Option<Timestamp>,
}

/// Where a dependency pod runs; one page is `/deployd/state/plan/dependency/<name>/<page>`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PairsRecord {
    /// Sorted by node, then namespace.
    pub pairs: Vec<Pair>,
}

/// A dependency pod beside the instances of one namespace on one node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pair {
    /// The node it runs on.
    pub node: NodeName,
    /// Namespace of the instances it serves; the node's name when it serves the whole node.
    pub namespace: String,
    /// Version of the spec it runs.
    pub version: u32,
    /// When it was set to that version.
    #[serde(default, skip_serializing_if = "is_never")]
    pub since: Timestamp,
    /// Since when no instance needs it.
    #[serde(default, skip_serializing_if = "is_never")]
    pub idle_since: Timestamp,
}

/// A node as last known: `/deployd/state/node/<name>`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRecord {
    /// What its agent last reported about the machine.
    pub facts: NodeFacts,
    /// The leader declared the node lost and moved its instances to other nodes.
    pub lost: bool,
    /// Identity of its agent; empty for agents that do not send one yet.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub identity: String,
    /// When the scheduler last reported that the node's Docker engine does not answer; never while the engine answers.
    #[serde(default, skip_serializing_if = "is_never")]
    pub engine_reported_at: Timestamp,
}

/// Position in the command stream: `/deployd/state/cursor`. All commands up to it are committed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cursor {
    /// Identity of the stream: a re-created stream restarts its sequence numbers.
    pub stream: String,
    /// Sequence number of the last committed command.
    pub sequence: u64,
    /// When JetStream stored that command, in nanoseconds since 1970; absent in cursors of older schedulers. A stream
    /// that lost messages reuses their sequence numbers, but with another time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stored_at: Option<i64>,
}

/// Callback URLs: `/deployd/state/intent/callbacks`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallbacksRecord {
    /// The notifier posts every notice to each of them.
    pub urls: BTreeSet<String>,
}

/// Schema version of everything under the prefix: `/deployd/schema`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SchemaRecord {
    /// Raised when stored records change their meaning.
    pub version: u32,
    /// Target of a migration in progress: some records may already have this version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub migrating_to: Option<u32>,
}

/// The schema version that this build reads and writes.
pub const SCHEMA_VERSION: u32 = 2;

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
fn is_zero(number: &u32) -> bool {
    *number == 0
}
fn is_never(time: &Timestamp) -> bool {
    !time.happened()
}
