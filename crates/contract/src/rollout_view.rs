//! What is told about releases: bodies of `/api/rollouts`, `/api/revisions` and `/api/podgroups/plan`, as the scheduler
//! answers them and the API passes them on.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::name::NodeName;
use crate::record::RevisionOutcome;
use crate::rollout::StrategyType;
use crate::spec::PodSpec;
use crate::time::{Timestamp, rfc3339};

/// Where the release of a group stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct RolloutView {
    /// The group.
    pub name: String,
    /// The release: the revision it leads to.
    pub release: u32,
    /// How it is made.
    pub strategy: StrategyType,
    /// The revision it leads to is a copy of an earlier one.
    pub is_rollback: bool,
    /// Where it is.
    pub phase: RolloutPhase,
    /// How it is doing.
    #[serde(rename = "Stand")]
    pub status: RolloutStatus,
    /// What it waits for, and what would help, for people.
    pub message: String,
    /// Since when it stands so.
    #[serde(with = "rfc3339")]
    pub since: Timestamp,
    /// Instances wanted.
    pub replicas: i64,
    /// Instances that must be available while it goes on.
    pub min_available: i64,
    /// Pods there may be while it goes on.
    pub max_total: i64,
    /// The group under way or just done, from 1; 0 before the first and where there are none.
    pub group: u64,
    /// The groups, done and to come; empty where there are none.
    pub groups: Vec<RolloutGroup>,
    /// The deployment units; one without a name where there are none.
    pub units: Vec<RolloutUnit>,
    /// The instances it waits for.
    pub waits_for: Vec<u32>,
    /// The instances.
    pub instances: Vec<RolloutInstance>,
    /// Somebody paused it.
    pub is_paused: bool,
    /// Somebody froze it.
    pub is_frozen: bool,
    /// What could not be honoured in dividing the replicas over units.
    pub warnings: Vec<String>,
}

/// Where a release is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RolloutPhase {
    /// Opened, nothing started.
    Idle,
    /// Under way.
    Running,
    /// A group is done, and somebody is to say whether to go on.
    WaitingForConfirm,
    /// Every instance is at the target revision.
    Completed,
    /// Given up; the mix of revisions stays.
    Aborted,
}

/// How a release is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RolloutStatus {
    /// It goes on.
    Progressing,
    /// Every instance is at the target revision and available.
    Complete,
    /// The rollout completed, but instances are not available now.
    Degraded,
    /// No progress for too long.
    Stuck,
    /// A failure waits for an answer.
    Held,
    /// A group is done and waits to be confirmed.
    WaitingForConfirm,
    /// Somebody paused it.
    Paused,
    /// Somebody froze it.
    Frozen,
    /// Somebody gave it up.
    Aborted,
}

/// One group of a release.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct RolloutGroup {
    /// From 1.
    pub ordinal: u64,
    /// `Beta` or `Batch`; empty when it is not known any more.
    pub kind: String,
    /// `Done`, `Current` or `ToCome`.
    pub state: String,
    /// Pods of each unit; empty when it is not known any more.
    pub units: BTreeMap<String, i64>,
}

/// One unit of a release.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct RolloutUnit {
    /// Its name; empty where there are no units.
    pub name: String,
    /// Pods it is to have.
    pub target: i64,
    /// Pods committed to the target revision.
    pub committed: i64,
    /// Pods ordered at the target revision.
    pub updated: i64,
    /// Pods at the target revision that are available.
    pub updated_available: i64,
    /// Pods that are available.
    pub available: i64,
    /// Pods no unit has room for.
    pub unplaced: i64,
}

/// One instance of a release.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct RolloutInstance {
    /// Its number.
    pub instance: u32,
    /// Its unit; empty where there are none.
    pub unit: String,
    /// Its pods: its own, then the one beside it.
    pub pods: Vec<RolloutPod>,
}

/// One pod of an instance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct RolloutPod {
    /// The revision it runs.
    pub revision: u32,
    /// Where it is.
    pub node: Option<NodeName>,
    /// Ready: it runs, is well, its gates are true and it is not being taken out.
    pub ready: bool,
    /// Ready for long enough.
    pub available: bool,
    /// It is being taken out of service.
    pub draining: bool,
    /// Its readiness gates.
    pub gates: BTreeMap<String, bool>,
    /// Addresses of its containers on their network.
    #[serde(rename = "IPs")]
    pub ips: Vec<String>,
    /// Ports published on the node, one per container; 0 where there is none.
    pub node_ports: Vec<u16>,
    /// Ids of its containers.
    pub containers: Vec<String>,
    /// Why it is not ready, as far as known.
    pub why: String,
}

/// The revisions of a group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct RevisionsView {
    /// The group.
    pub name: String,
    /// The revision it is at or on its way to.
    pub current: u32,
    /// Oldest first.
    pub revisions: Vec<RevisionView>,
}

/// One revision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct RevisionView {
    /// Its number.
    pub revision: u32,
    /// When it was asked for.
    #[serde(with = "rfc3339")]
    pub at: Timestamp,
    /// Who asked; empty when a failure did.
    pub by: String,
    /// Why, in the asker's words.
    pub cause: String,
    /// What became of its release.
    pub outcome: RevisionOutcome,
    /// When that was known.
    #[serde(with = "rfc3339")]
    pub ended_at: Timestamp,
    /// The revision it is a copy of.
    pub copies: Option<u32>,
    /// Instances that run it now.
    pub instances: u32,
    /// What it runs.
    pub pod: PodSpec,
}

/// What a spec would do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct PlanView {
    /// The group.
    pub name: String,
    /// The revision it would lead to.
    pub release: u32,
    /// How it is made.
    pub strategy: StrategyType,
    /// There is no such group yet.
    pub is_new: bool,
    /// Step by step, as long as everything that is ordered comes up.
    pub steps: Vec<PlanStep>,
    /// What becomes of each instance in the end, by number.
    #[serde(rename = "Fates")]
    pub changes: BTreeMap<u32, InstanceChange>,
    /// The most pods beyond those there are now.
    pub peak_extra_pods: i64,
    /// The most memory beyond what is used now, in bytes.
    pub peak_extra_memory: u64,
    /// The most CPU beyond what is used now, in thousandths of a core.
    pub peak_extra_cpu_millis: u64,
    /// The fewest instances available, by unit.
    pub min_available: BTreeMap<String, i64>,
    /// Instances without a place, each with every node and every reason.
    pub unplaced: Vec<Unplaced>,
    /// It comes to an end.
    pub completes: bool,
    /// What could not be honoured in dividing the replicas over units.
    pub warnings: Vec<String>,
}

/// What one step of a release does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct PlanStep {
    /// The group it belongs to, from 1; 0 where there are none.
    pub group: u64,
    /// `Beta` or `Batch`; empty where there are none.
    pub kind: String,
    /// What is done to whom, in this order.
    #[serde(rename = "Deeds")]
    pub actions: Vec<PlanAction>,
    /// Instances of each unit that serve while it is done.
    pub available: BTreeMap<String, i64>,
}

/// What is done to one instance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct PlanAction {
    /// Which.
    pub instance: u32,
    /// What, as one word: `Create`, `Surge`, `Promote`, `Renew`, `InPlace`, `Drop`, `Retire`, `Remove`, `Move`.
    #[serde(rename = "Deed")]
    pub action: String,
    /// Its unit afterwards; empty where there are none.
    pub unit: String,
}

/// What becomes of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum InstanceChange {
    /// Nothing.
    Untouched,
    /// It is changed without another container, or gets one with the same address.
    InPlace,
    /// It is made anew.
    Recreated,
    /// It goes to another unit.
    Moved,
    /// It is new.
    Created,
    /// It goes.
    Removed,
}

/// An instance without a place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Unplaced {
    /// Which.
    pub instance: u32,
    /// Its unit; empty where there are none.
    pub unit: String,
    /// Every node with every reason.
    pub nodes: BTreeMap<NodeName, Vec<String>>,
}
