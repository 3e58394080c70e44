//! What is stored in etcd: everything needed to go on after losing every process, and nothing that reports can tell.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::command::{Drift, Operation, Removal};
use crate::name::NodeName;
use crate::report::NodeFacts;
use crate::spec::{PodGroupSpec, PodSpec};
use crate::state::TargetState;
use crate::time::Timestamp;

/// A group as users want it: `/deployd/state/intent/group/<name>`. `P` stands for a pod spec: see [`crate::layout`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(bound(deserialize = "P: Deserialize<'de> + Default"))]
pub struct GroupRecord<P = PodSpec> {
    /// What is wanted.
    pub spec: PodGroupSpec<P>,
    /// The operation that holds the lock.
    pub operation: Option<OperationRecord>,
    /// Last operation.
    pub updated_at: Timestamp,
    /// Stream ports another group had when this one claimed its own. While there are any it owns no port and runs
    /// nothing; without any it owns every port it declares.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taken_ports: Vec<u16>,
    /// Pod specs of earlier versions that an instance still runs or a rollback may need.
    #[serde(default = "BTreeMap::new", skip_serializing_if = "BTreeMap::is_empty")]
    pub former: BTreeMap<u32, P>,
    /// The last version every instance reached: what a rollback goes back to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proven: Option<u32>,
    /// Earlier versions that count as the present one: a rollback made it their copy and left their instances alone.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub equals: BTreeSet<u32>,
    /// Drifts that wait for the lock; the first is under way while the operation is `Drifting`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drifts: Vec<Drift>,
    /// What the last operation ran into; shown until the next one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub last_error: String,
    /// How it is removed, while it is; an orphan's containers stay until somebody adopts or removes them.
    #[serde(default, skip_serializing_if = "is_default")]
    pub removal: Removal,
}

/// An operation in progress.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperationRecord {
    /// Which.
    pub kind: Operation,
    /// Since when.
    pub since: Timestamp,
    /// The next instance it turns to; 0 when it does not go by instances.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub next: u32,
    /// The last instance it turns to.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub last: u32,
}

impl OperationRecord {
    /// An operation on the group as a whole.
    pub fn new(kind: Operation, since: Timestamp) -> Self {
        Self { kind, since, next: 0, last: 0 }
    }
}

/// Where the instances of a group are. Schema 1 stored it whole; now it is stored in pages, see [`crate::layout`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacementRecord {
    /// One slot per instance; the first is instance 1.
    pub slots: Vec<Slot>,
}

/// Where one instance is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Slot {
    /// Node; none while it waits for a place.
    pub node: Option<NodeName>,
    /// Version of the spec it runs.
    pub version: u32,
    /// How often it was created anew.
    pub drift: u32,
    /// What the user wants of it.
    pub target: TargetState,
    /// Attempts in a row that failed, for the back-off.
    #[serde(skip_serializing_if = "is_zero")]
    pub failures: u32,
    /// Not tried again before this.
    #[serde(skip_serializing_if = "is_never")]
    pub retry_at: Timestamp,
    /// Why it has no place, or why the last attempt failed.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// Why the last drift left it on its node; cleared when an operation changes the instance.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub not_moved: String,
    /// The node that must have let go of it before it starts on `node`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leaves: Option<NodeName>,
    /// The end of the pause after the node it leaves has let go of it.
    #[serde(skip_serializing_if = "is_never")]
    pub pause_until: Timestamp,
    /// When it was last given a place, a version or a restart by an operation.
    #[serde(skip_serializing_if = "is_never")]
    pub since: Timestamp,
    /// How often somebody asked for its start.
    #[serde(rename = "starts_asked", skip_serializing_if = "is_zero")]
    pub starts_requested: u32,
    /// How often somebody asked for its restart.
    #[serde(rename = "restarts_asked", skip_serializing_if = "is_zero")]
    pub restarts_requested: u32,
    /// Its last known addresses, one per container; kept while it is down.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
    /// Whether it has a pod at all.
    #[serde(skip_serializing_if = "is_default")]
    pub filling: Filling,
    /// The deployment unit it belongs to; empty when the group has none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub unit: String,
    /// The version its containers were made from and are called after, when they were updated live since.
    #[serde(rename = "made_as", skip_serializing_if = "Option::is_none")]
    pub created_from: Option<u32>,
    /// The addresses its containers get, one per container: those of the pod it took the place of. Empty: any.
    #[serde(rename = "lease", skip_serializing_if = "Vec::is_empty")]
    pub reserved_addresses: Vec<String>,
    /// Readiness gates that are true, and since when.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub gates: BTreeMap<String, Timestamp>,
    /// When one of its gates was last made false.
    #[serde(skip_serializing_if = "is_never")]
    pub gates_closed_at: Timestamp,
    /// It is being taken out of service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub draining: Option<Draining>,
    /// Its node fetches what it is to become; meanwhile it serves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fetching: Option<Fetching>,
    /// Since when no node has room for it.
    #[serde(skip_serializing_if = "is_never")]
    pub unplaced_since: Timestamp,
    /// The pod that is to take its place and runs beside it; it has none itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<Box<Slot>>,
}

impl Slot {
    /// The version in the names of its containers.
    pub fn named_version(&self) -> u32 {
        self.created_from.unwrap_or(self.version)
    }

    /// Its pod and the one beside it.
    pub fn pods(&self) -> impl Iterator<Item = &Self> {
        std::iter::once(self).chain(self.next.as_deref()).filter(|slot| slot.filling == Filling::Pod)
    }
}

/// What an instance number stands for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Filling {
    /// An instance with a pod, placed or not.
    #[default]
    Pod,
    /// An instance whose pod went and has no successor yet.
    Retired,
    /// No instance: the number is free for the next one.
    Nothing,
}

/// An instance that is being taken out of service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Draining {
    /// Since when.
    pub since: Timestamp,
    /// Somebody outside said that it is drained.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_answered: bool,
    /// The instance goes for good: when nobody says in time that it is drained, it goes all the same.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_final: bool,
}

/// An instance whose node fetches the images of another version before anything happens to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fetching {
    /// The version.
    pub version: u32,
    /// Since when.
    pub since: Timestamp,
}

/// The revisions of a group, oldest first. Schema 1 stored them together; now each has a key, see [`crate::layout`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RevisionsRecord {
    /// The present one is the last.
    pub revisions: Vec<RevisionRecord>,
}

/// One revision of a group: `/deployd/state/revisions/<name>/<number>`. `P` stands for a pod spec: see [`crate::layout`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RevisionRecord<P = PodSpec> {
    /// Its number: the version of the group's spec.
    pub number: u32,
    /// When it was asked for.
    pub at: Timestamp,
    /// Who asked; empty when a failure did.
    pub by: String,
    /// Why, in the asker's words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cause: String,
    /// What it runs.
    pub pod: P,
    /// The revision it is a copy of: it is a rollback.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copies: Option<u32>,
    /// What became of its release.
    pub outcome: RevisionOutcome,
    /// When that was known.
    #[serde(default, skip_serializing_if = "is_never")]
    pub ended_at: Timestamp,
}

/// What became of a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RevisionOutcome {
    /// It is under way.
    Open,
    /// Every instance reached it.
    Completed,
    /// Another revision was asked for before.
    Superseded,
    /// It failed and was taken back.
    RolledBack,
    /// It was given up.
    Aborted,
}

/// A dependency pod as users want it: `/deployd/state/intent/dependency/<name>`. `P` stands for a pod spec: see
/// [`crate::layout`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DependencyRecord<P = PodSpec> {
    /// What is wanted; its version is ours.
    pub spec: P,
    /// Specs of earlier versions that a pair still runs.
    #[serde(default = "BTreeMap::new", skip_serializing_if = "BTreeMap::is_empty")]
    pub former: BTreeMap<u32, P>,
    /// It goes once nothing uses it any more.
    #[serde(rename = "doomed", default, skip_serializing_if = "std::ops::Not::not")]
    pub delete_when_unused: bool,
    /// It goes now, used or not; to users it does not exist any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removing_since: Option<Timestamp>,
}

/// Where a dependency pod runs: a page of it at `/deployd/state/plan/dependency/<name>/<page>`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PairsRecord {
    /// One per node and namespace, in that order.
    pub pairs: Vec<Pair>,
}

/// A dependency pod beside the instances of one namespace on one node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pair {
    /// The node.
    pub node: NodeName,
    /// Namespace of the instances; the node's name when it serves the whole node.
    pub namespace: String,
    /// Version of the spec it runs.
    pub version: u32,
    /// When it got that version.
    #[serde(default, skip_serializing_if = "is_never")]
    pub since: Timestamp,
    /// Since when no instance needs it.
    #[serde(default, skip_serializing_if = "is_never")]
    pub idle_since: Timestamp,
}

/// A node as last known: `/deployd/node/<name>`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRecord {
    /// What it has.
    pub facts: NodeFacts,
    /// It was found lost, and its work was given to others.
    pub lost: bool,
    /// The agent that speaks for it; empty for one that is older than this.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub identity: String,
    /// When it was last reported that its engine does not answer; never while the engine answers.
    #[serde(default, skip_serializing_if = "is_never")]
    pub engine_reported_at: Timestamp,
}

/// How far the commands of which stream are in effect: `/deployd/cursor`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cursor {
    /// Identity of the stream: a re-created stream counts anew.
    pub stream: String,
    /// Sequence number of the last command in effect.
    pub sequence: u64,
    /// When JetStream stored that command, in nanoseconds since 1970; absent in a cursor of an older scheduler. A stream that
    /// lost messages uses their numbers again, but never with the same time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stored_at: Option<i64>,
}

/// Where notices go: `/deployd/intent/callbacks`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallbacksRecord {
    /// The URLs.
    pub urls: BTreeSet<String>,
}

/// Shape of everything under the prefix: `/deployd/schema`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SchemaRecord {
    /// Raised when stored records change their meaning.
    pub version: u32,
    /// Set while they are being changed: some of them may have that version already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub migrating_to: Option<u32>,
}

/// The schema this build reads and writes.
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
