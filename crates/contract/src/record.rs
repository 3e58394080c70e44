//! What is stored in etcd: everything needed to go on after losing every process, and nothing that reports can tell.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::command::{Drift, Operation};
use crate::name::NodeName;
use crate::report::NodeFacts;
use crate::spec::{PodGroupSpec, PodSpec};
use crate::state::TargetState;
use crate::time::Timestamp;

/// A group as users want it: `/deployd/intent/group/<name>`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupRecord {
    /// What is wanted.
    pub spec: PodGroupSpec,
    /// The operation that holds the lock.
    pub operation: Option<OperationRecord>,
    /// Last operation.
    pub updated_at: Timestamp,
    /// Stream ports another group had when this one claimed its own. While there are any it owns no port and runs
    /// nothing; without any it owns every port it declares.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taken_ports: Vec<u16>,
    /// Pod specs of earlier versions that an instance still runs or a rollback may need.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub former: BTreeMap<u32, PodSpec>,
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

/// Where the instances of a group are: `/deployd/plan/group/<name>`.
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
    /// The node that must have let go of it before it starts on `node`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leaves: Option<NodeName>,
    /// When it was last given a place, a version or a restart by an operation.
    #[serde(skip_serializing_if = "is_never")]
    pub since: Timestamp,
    /// How often somebody asked for its start.
    #[serde(skip_serializing_if = "is_zero")]
    pub starts_asked: u32,
    /// How often somebody asked for its restart.
    #[serde(skip_serializing_if = "is_zero")]
    pub restarts_asked: u32,
    /// Its last known addresses, one per container; kept while it is down.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
}

/// A dependency pod as users want it: `/deployd/state/intent/dependency/<name>`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DependencyRecord {
    /// What is wanted; its version is ours.
    pub spec: PodSpec,
    /// Specs of earlier versions that a pair still runs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub former: BTreeMap<u32, PodSpec>,
    /// It goes once nothing uses it any more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub doomed: bool,
    /// It goes now, used or not; to users it does not exist any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removing_since: Option<Timestamp>,
}

/// Where a dependency pod runs: `/deployd/state/plan/dependency/<name>`.
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
}

/// How far the commands of which stream are in effect: `/deployd/cursor`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cursor {
    /// Identity of the stream: a re-created stream counts anew.
    pub stream: String,
    /// Sequence number of the last command in effect.
    pub sequence: u64,
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
}

/// The schema this build reads and writes.
pub const SCHEMA_VERSION: u32 = 1;

fn is_zero(number: &u32) -> bool {
    *number == 0
}
fn is_never(time: &Timestamp) -> bool {
    !time.happened()
}
