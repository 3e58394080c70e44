//! Inputs, effects and the stored state of the agent's core.
//!
//! `core.on(input, now) -> Vec<Effect>`: the core owns the order, the restart history and the cached containers; the shell
//! (or the simulator) owns Docker, the disk and the bus.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use contract::check::{CheckKind, Probe};
use contract::exit::ExitFacts;
use contract::labels::{Identity, Owner};
use contract::order::{Order, OrderMessage, OrderReply};
use contract::pod_id::{InstanceKey, PodId};
use contract::policy::Hardening;
use contract::report::{EngineState, NodeFacts, ReportMessage};
use contract::spec::PodSpec;
use contract::state::HealthState;
use contract::time::Timestamp;
use planner::check::CheckResult;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

pub use super::mutants::{Faults, Mutant};

/// The reply subject of a request, opaque to the core.
pub type Inbox = String;

#[derive(Debug, Clone)]
pub enum Input {
    Order {
        message: OrderMessage,
        reply: Inbox,
    },
    /// A write of the ledger ended.
    Persisted {
        /// The id in [`Effect::Persist`].
        id: u64,
        result: Result<(), String>,
    },
    /// All containers of this node in Docker; a cached container that is not listed is gone.
    Inventory(Vec<ContainerSeen>),
    /// One container was inspected; none when it is gone.
    Inspected {
        id: String,
        seen: Option<ContainerSeen>,
    },
    ActionDone {
        instance: InstanceKey,
        action: Action,
        /// On success the container afterwards; none when it is gone.
        result: Result<Option<ContainerSeen>, ActionFailure>,
    },
    /// A check ended.
    Checked {
        /// Docker's id of the container.
        id: String,
        /// As in [`Effect::Check`].
        started_at: Timestamp,
        kind: CheckKind,
        result: CheckResult,
    },
    /// A pull ended.
    Fetched {
        image: String,
        result: Result<(), ActionFailure>,
    },
    /// The state of Docker changed.
    Engine(EngineState),
    Bus {
        connected: bool,
    },
    /// A scheduler requests a whole report and a new inventory.
    FullReportRequested,
    /// `Core::wake_at` has come.
    Tick,
}

/// One container of this node as Docker shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerSeen {
    /// Docker's id.
    pub id: String,
    /// Pod and container index, from its labels.
    pub identity: Identity,
    pub phase: Phase,
    pub health: HealthState,
    pub exit_code: i64,
    pub oom_killed: bool,
    /// Docker's error text.
    pub error: String,
    pub started_at: Timestamp,
    /// Last exit.
    pub finished_at: Timestamp,
    /// Address on the pod's network.
    pub ip: String,
    /// Published port; 0 when none.
    pub node_port: u16,
    /// Digest of the spec it was created from; a label.
    pub spec_digest: String,
    /// Last line of its log; known only after [`Action::ReadEnd`].
    pub last_line: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Never started.
    Created,
    /// Also a paused container.
    Running,
    Exited,
    Removing,
    /// Docker failed to remove it.
    Dead,
}

// A report is the largest by far, and few are published in a second.
#[allow(clippy::large_enum_variant)]
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Write the ledger, fsync, reply with `Persisted`.
    Persist {
        id: u64,
        ledger: Box<Ledger>,
    },
    /// Reply to an order.
    Reply {
        inbox: Inbox,
        reply: OrderReply,
    },
    /// Perform an action; reply with `ActionDone`. An instance has at most one action in progress.
    Perform {
        instance: InstanceKey,
        action: Action,
    },
    /// Pull the image unless it is present; reply with `Fetched`. It may take minutes and belongs to no instance.
    Fetch {
        image: String,
    },
    /// Check a container once; reply with `Checked`. A container has at most one check of a kind in progress.
    Check {
        /// Docker's id of the container.
        id: String,
        /// Its start, by Docker's clock: a result that arrives after the next start counts for nothing.
        started_at: Timestamp,
        kind: CheckKind,
        probe: Probe,
        /// Where it is reached; empty when it has no address.
        ip: String,
        /// Deadline.
        within: Duration,
    },
    /// List all containers of this node; reply with `Inventory`.
    TakeInventory,
    Publish(ReportMessage),
}

/// One operation on one instance's containers in Docker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Create and start a container. An existing container of that name is adopted.
    Create {
        pod: PodId,
        index: usize,
        spec: Arc<PodSpec>,
        /// Reserved address; empty means any.
        address: String,
        /// What the order says about its group.
        hardening: Option<Hardening>,
    },
    /// Stop and remove a container and start another in its place. The new one may be created earlier, but starts only after
    /// the old one exited.
    Replace {
        /// Docker's id of the old container.
        old: String,
        /// Kill timeout of the old container.
        grace: Duration,
        pod: PodId,
        index: usize,
        spec: Arc<PodSpec>,
        /// Reserved address; empty means any.
        address: String,
        /// What the order says about its group.
        hardening: Option<Hardening>,
    },
    /// Apply the limits of the spec to an existing container, running or not.
    Update { id: String, pod: PodId, index: usize, spec: Arc<PodSpec> },
    /// Read the last line of an exited container's log. Changes nothing.
    ReadEnd { id: String },
    /// Start an existing container.
    Start { id: String },
    /// Stop a container, kill it after the grace.
    Stop { id: String, grace: Duration },
    /// Remove a container; stop it first.
    Remove { id: String, grace: Duration },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ActionFailure {
    /// Docker refused; an immediate retry is useless.
    Refused(String),
    /// An image is not on the node and cannot be pulled.
    NoImage { text: String, trouble: ImageTrouble },
    /// Docker did not answer: the effect is unknown.
    Unreachable(String),
}

/// Why an image could not be pulled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImageTrouble {
    /// Unknown image or access denied: retrying is useless.
    Denied,
    /// No registry answers: the name is wrong or the network is down.
    NoRegistry,
    /// A temporary failure of the registry, the network or this machine.
    Passing,
}

/// The durable state of the agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ledger {
    /// The current order; its fence is the highest accepted.
    pub order: Arc<Order>,
    /// Memory of the pods in the order. Shared with the copy being written: with hundreds of pods a deep copy per write would
    /// cost more than the orders.
    pub memory: Arc<BTreeMap<PodId, PodMemory>>,
    /// Pods that left the order while their creation was in flight: they may still appear, also after a restart.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub coming: BTreeSet<PodId>,
}

/// Memory of one pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PodMemory {
    /// All containers existed once: an absent one is missing, not pending.
    pub created: bool,
    /// Its containers were created from another spec of the same revision (the group was deleted and created again): they are
    /// removed before new ones are created.
    pub outdated: bool,
    /// Containers stopped by order, by index: their next start is a request, whatever the restart policy is.
    #[serde(rename = "halted")]
    pub stopped_by_order: BTreeSet<usize>,
    /// Restarts in the current window.
    pub restarts: u32,
    pub restarted_at: Timestamp,
    /// The immediate restarts are used up; further ones follow with back-off.
    #[serde(rename = "let_go")]
    pub is_crash_looping: bool,
    /// Last exit of each container, by index.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub exits: BTreeMap<usize, ExitFacts>,
    /// When the agent recorded `exits`, by its own clock. Absent in ledgers of older agents.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub exits_seen: BTreeMap<usize, Timestamp>,
    /// Failed attempts in a row.
    pub failures: u32,
    pub retry_at: Timestamp,
    pub last_error: String,
    /// Requested starts that are done.
    #[serde(rename = "starts_answered")]
    pub starts_done: u32,
    /// Requested restarts that are done.
    #[serde(rename = "restarts_answered")]
    pub restarts_done: u32,
    /// Last start of its containers, by Docker's clock, when the last start or restart was requested: a container started
    /// later has been restarted since. Never when the pod's first order contained the request.
    pub asked_at: Timestamp,
    /// Containers already started for the pending request, by index.
    pub renewed: BTreeSet<usize>,
    pub live: LiveMemory,
    pub well: WellMemory,
}

/// In-place updates of one pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LiveMemory {
    /// Containers with another spec than the one they were created from, by index.
    pub updated: BTreeMap<usize, Updated>,
    /// Refused updates in a row.
    pub failures: u32,
    pub retry_at: Timestamp,
    pub last_error: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Updated {
    /// Docker's id: a later container at this index was not updated.
    pub id: String,
    /// Digest of its current spec.
    pub digest: String,
}

/// Since when a pod is healthy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WellMemory {
    /// When the agent first saw it healthy; never when it is not.
    pub since: Timestamp,
    /// Last start of its containers at that time, by Docker's clock: after a later start it must become healthy again, even
    /// when the agent did not see it unhealthy.
    pub started_at: Timestamp,
}

impl WellMemory {
    /// Whether the pod was healthy after this start of its containers.
    pub(super) fn covers(&self, started_at: Timestamp) -> bool {
        self.since.happened() && self.started_at >= started_at
    }
}

/// Timing and limits of the core.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Cluster and node: identifies this agent's containers.
    pub owner: Owner,
    /// Permanent id of the agent; empty disables the check for duplicate agents.
    pub identity: String,
    /// Id of this process.
    pub incarnation: String,
    pub facts: NodeFacts,
    pub heartbeat: Duration,
    /// Interval of inventories.
    pub reread: Duration,
    /// Immediate restarts within `restart_window`; further ones follow with back-off.
    pub most_restarts: u32,
    pub restart_window: Duration,
    /// After this time without a message of a scheduler the agent recreates missing containers itself.
    pub alone_after: Duration,
    /// Safety rules that the simulator or a test disables; empty in the programs.
    pub faults: Faults,
}
