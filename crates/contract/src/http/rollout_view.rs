//! Views of rollouts, revisions and plans: bodies of `/api/rollouts`, `/api/revisions` and `/api/podgroups/plan`. The
//! scheduler computes them and the apiserver passes them on.
//!
//! Wire names that keep an older word: `Release` is a revision, `Group` in a rollout is a batch.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::name::NodeName;
use crate::record::RevisionOutcome;
use crate::rollout::StrategyType;
use crate::spec::PodSpec;
use crate::time::{Timestamp, rfc3339};

/// The current or last rollout of a group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct RolloutView {
    /// Name of the group.
    pub name: String,
    /// The revision that the rollout leads to.
    pub release: u32,
    /// The strategy in effect.
    pub strategy: StrategyType,
    /// The target revision is a copy of an earlier one.
    pub is_rollback: bool,
    /// Progress through the phases of R-48.
    pub phase: RolloutPhase,
    /// Status, as shown to users.
    #[serde(rename = "Stand")]
    pub status: RolloutStatus,
    /// What the rollout waits for and the remedy, for people.
    pub message: String,
    /// Since when it has this status.
    #[serde(with = "rfc3339")]
    pub since: Timestamp,
    /// Desired number of instances.
    pub replicas: i64,
    /// Instances that must stay available during the rollout.
    pub min_available: i64,
    /// Limit of pods during the rollout, surge included.
    pub max_total: i64,
    /// Ordinal of the current or last finished batch, from 1; 0 before the first, and for strategies without batches.
    pub group: u64,
    /// Finished, current and future batches; empty for strategies without batches.
    pub groups: Vec<RolloutGroup>,
    /// Counts per deployment unit; one entry with an empty name for a group without units.
    pub units: Vec<RolloutUnit>,
    /// Instances that the rollout waits for.
    pub waits_for: Vec<u32>,
    /// All instances with their pods.
    pub instances: Vec<RolloutInstance>,
    /// A user paused it.
    pub is_paused: bool,
    /// A user froze it.
    pub is_frozen: bool,
    /// Preferences of `UnitReplicas` that could not be honoured.
    pub warnings: Vec<String>,
}

/// Phase of a rollout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RolloutPhase {
    /// Nothing has started yet.
    Idle,
    /// A batch, or the rollout as a whole, is in progress.
    Running,
    /// A batch is finished and waits for a user to confirm it.
    WaitingForConfirm,
    /// Every instance is at the target revision.
    Completed,
    /// A user aborted it; the mix of revisions stays.
    Aborted,
}

/// Status of a rollout. `Held` and `Stuck` are the ones that need an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RolloutStatus {
    /// It makes progress.
    Progressing,
    /// Every instance is at the target revision and available.
    Complete,
    /// The rollout completed, but instances are not available now.
    Degraded,
    /// No progress within `ProgressDeadlineSeconds`.
    Stuck,
    /// It failed and waits for a user to resume, skip, abort or undo it.
    Held,
    /// A batch is finished and waits for a user to confirm it.
    WaitingForConfirm,
    /// A user paused it.
    Paused,
    /// A user froze it.
    Frozen,
    /// A user aborted it.
    Aborted,
}

/// One batch of a rollout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct RolloutGroup {
    /// Ordinal, from 1.
    pub ordinal: u64,
    /// `Beta` or `Batch`; empty for finished batches whose kind is no longer stored.
    pub kind: String,
    /// `Done`, `Current` or `ToCome`.
    pub state: String,
    /// Number of pods per unit; empty for finished batches whose sizes are no longer stored.
    pub units: BTreeMap<String, i64>,
}

/// Counts of one deployment unit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct RolloutUnit {
    /// Name of the unit; empty for a group without units.
    pub name: String,
    /// Desired number of pods.
    pub target: i64,
    /// Pods that must be at the target revision by now.
    pub committed: i64,
    /// Pods that orders have set to the target revision.
    pub updated: i64,
    /// Pods at the target revision that are available.
    pub updated_available: i64,
    /// Pods that are available, at any revision.
    pub available: i64,
    /// Unschedulable pods.
    pub unplaced: i64,
}

/// One instance with its pods.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct RolloutInstance {
    /// Instance number, from 1.
    pub instance: u32,
    /// Its unit; empty for a group without units.
    pub unit: String,
    /// The current pod, then the surge pod, if any.
    pub pods: Vec<RolloutPod>,
}

/// One pod of an instance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct RolloutPod {
    /// Revision of the pod spec it runs.
    pub revision: u32,
    /// The node it is placed on; none while it is pending.
    pub node: Option<NodeName>,
    /// It runs, is healthy, its gates are true and it is not being drained.
    pub ready: bool,
    /// Ready for at least `MinReadySeconds`.
    pub available: bool,
    /// It is being drained.
    pub draining: bool,
    /// Readiness gates by name.
    pub gates: BTreeMap<String, bool>,
    /// IP addresses of its containers on the pod's network.
    #[serde(rename = "IPs")]
    pub ips: Vec<String>,
    /// Published host ports, one per container; 0 when none is published.
    pub node_ports: Vec<u16>,
    /// Docker's ids of its containers.
    pub containers: Vec<String>,
    /// Why it is not ready, if known.
    pub why: String,
}

/// Answer of `GET /api/revisions`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct RevisionsView {
    /// Name of the group.
    pub name: String,
    /// The revision that the group is at or on its way to.
    pub current: u32,
    /// The revisions in the history, oldest first.
    pub revisions: Vec<RevisionView>,
}

/// One revision in the history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct RevisionView {
    /// Revision number.
    pub revision: u32,
    /// When the user requested it.
    #[serde(with = "rfc3339")]
    pub at: Timestamp,
    /// The user who requested it; empty for an automatic rollback.
    pub by: String,
    /// The user's reason; empty when not given.
    pub cause: String,
    /// How its rollout ended.
    pub outcome: RevisionOutcome,
    /// When its rollout ended; never while it is open.
    #[serde(with = "rfc3339")]
    pub ended_at: Timestamp,
    /// For a rollback: the revision that it copies.
    pub copies: Option<u32>,
    /// Number of instances that run it now.
    pub instances: u32,
    /// Its pod spec.
    pub pod: PodSpec,
}

/// Answer of `POST /api/podgroups/plan`: what the rollout of a spec would do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct PlanView {
    /// Name of the group.
    pub name: String,
    /// The revision that the rollout would lead to.
    pub release: u32,
    /// The strategy in effect.
    pub strategy: StrategyType,
    /// The group does not exist yet.
    pub is_new: bool,
    /// The steps in order, assuming that every new pod becomes available.
    pub steps: Vec<PlanStep>,
    /// The final change of each instance, by number.
    #[serde(rename = "Fates")]
    pub changes: BTreeMap<u32, InstanceChange>,
    /// Peak of additional pods, compared with now.
    pub peak_extra_pods: i64,
    /// Peak of additional memory, in bytes.
    pub peak_extra_memory: u64,
    /// Peak of additional CPU, in thousandths of a core.
    pub peak_extra_cpu_millis: u64,
    /// Lowest number of available instances during the rollout, per unit.
    pub min_available: BTreeMap<String, i64>,
    /// Unschedulable instances, with the reasons of every node.
    pub unplaced: Vec<Unplaced>,
    /// Whether the rollout would complete.
    pub completes: bool,
    /// Preferences of `UnitReplicas` that could not be honoured.
    pub warnings: Vec<String>,
    /// What the plan assumes, for example that an operation in progress has finished.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// One step of a planned rollout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct PlanStep {
    /// Ordinal of its batch, from 1; 0 for strategies without batches.
    pub group: u64,
    /// `Beta` or `Batch`; empty for strategies without batches.
    pub kind: String,
    /// What the step does, in this order.
    #[serde(rename = "Deeds")]
    pub actions: Vec<PlanAction>,
    /// Available instances per unit during the step.
    pub available: BTreeMap<String, i64>,
}

/// One action of a plan on one instance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct PlanAction {
    /// Instance number, from 1.
    pub instance: u32,
    /// One of `Create`, `Surge`, `Promote`, `Renew`, `InPlace`, `Drop`, `Retire`, `Remove`, `Move`.
    #[serde(rename = "Deed")]
    pub action: String,
    /// Its unit afterwards; empty for a group without units.
    pub unit: String,
}

/// The final change of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum InstanceChange {
    /// No change.
    Untouched,
    /// Updated in place: the container stays, or is replaced under the same address.
    InPlace,
    /// Its pod is replaced by a new one.
    Recreated,
    /// It moves to another unit.
    Moved,
    /// It is new.
    Created,
    /// It is removed.
    Removed,
}

/// An unschedulable instance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Unplaced {
    /// Instance number, from 1.
    pub instance: u32,
    /// Its unit; empty for a group without units.
    pub unit: String,
    /// Reasons by node.
    pub nodes: BTreeMap<NodeName, Vec<String>>,
}
