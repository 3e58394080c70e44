//! What is stored in etcd: everything needed to go on after losing every process, and nothing that reports can tell.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::command::Operation;
use crate::name::NodeName;
use crate::report::NodeFacts;
use crate::spec::PodGroupSpec;
use crate::state::TargetState;
use crate::time::Timestamp;

/// A group as users want it: `/deployd/intent/group/<name>`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
}

/// An operation in progress.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperationRecord {
    /// Which.
    pub kind: Operation,
    /// Since when.
    pub since: Timestamp,
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
