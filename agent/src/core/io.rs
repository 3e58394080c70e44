//! What goes into the agent's core and what comes out.
//!
//! The core is a value: `core.on(input, now) -> Vec<Effect>`. It owns the order, the memory of restarts and the
//! last known containers; the shell (or the simulator) owns Docker, the disk and the bus.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use contract::exit::ExitFacts;
use contract::labels::{Identity, Owner};
use contract::order::{Order, OrderMessage, OrderReply};
use contract::pod_id::{InstanceKey, PodId};
use contract::report::{EngineState, NodeFacts, ReportMessage};
use contract::spec::PodSpec;
use contract::state::HealthState;
use contract::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Where an answer is awaited: a NATS inbox, opaque to the core.
pub type Inbox = String;

/// What happened.
#[derive(Debug, Clone)]
pub enum Input {
    /// An order arrived.
    Order {
        /// The order.
        message: OrderMessage,
        /// Where the answer goes.
        reply: Inbox,
    },
    /// A ledger is on disk, or could not be written.
    Persisted {
        /// Which: the id in [`Effect::Persist`].
        id: u64,
        /// Why not.
        result: Result<(), String>,
    },
    /// Every container of ours the engine has. Anything the core knew and does not find here is gone.
    Inventory(Vec<ContainerSeen>),
    /// One container was looked at again; none when it is gone.
    Inspected {
        /// The engine's id.
        id: String,
        /// What it looks like.
        seen: Option<ContainerSeen>,
    },
    /// A step ended. What it left behind is in `seen`, by container id.
    ActionDone {
        /// The lane that worked.
        instance: InstanceKey,
        /// The step.
        action: Action,
        /// How it went; on success the container afterwards (none when it is gone).
        result: Result<Option<ContainerSeen>, ActionFailure>,
    },
    /// A fetch ended: the image is on the node, or could not be had.
    Fetched {
        /// The image.
        image: String,
        /// Why not.
        result: Result<(), ActionFailure>,
    },
    /// The engine answers, hangs or is away.
    Engine(EngineState),
    /// The bus can be reached, or not.
    Bus {
        /// It can.
        connected: bool,
    },
    /// A scheduler asks for the whole report, and for a new look at the containers soon.
    FullReportRequested,
    /// The time the core asked to be woken at has come.
    Tick,
}

/// One container of ours as the engine shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerSeen {
    /// The engine's id.
    pub id: String,
    /// Which container of which pod, from its labels.
    pub identity: Identity,
    /// What it is doing.
    pub phase: Phase,
    /// Health check's word.
    pub health: HealthState,
    /// Exit code of the last end.
    pub exit_code: i64,
    /// Ended for memory.
    pub oom_killed: bool,
    /// The engine's own error text.
    pub error: String,
    /// Last start.
    pub started_at: Timestamp,
    /// Last end.
    pub finished_at: Timestamp,
    /// Address on the pod's network.
    pub ip: String,
    /// Published port; 0 when none.
    pub node_port: u16,
    /// Digest of the spec it was created from, from its label.
    pub spec_digest: String,
    /// The last line it logged; only known after [`Step::ReadEnd`].
    pub last_line: String,
}

/// What a container is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Made, never started.
    Created,
    /// Runs (a paused container counts as running).
    Running,
    /// Ended.
    Exited,
    /// The engine is removing it.
    Removing,
    /// The engine failed to remove it.
    Dead,
}

/// What to do.
// A report is the largest by far, and few are published in a second.
#[allow(clippy::large_enum_variant)]
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Put the ledger on disk, fsync, answer with `Persisted`. A newer one may overtake an older one that waits.
    Persist {
        /// Names the write.
        id: u64,
        /// What to write.
        ledger: Box<Ledger>,
    },
    /// Answer an order.
    Reply {
        /// Where.
        inbox: Inbox,
        /// What.
        reply: OrderReply,
    },
    /// Do one step in a lane; answer with `Stepped`. A lane has at most one step under way.
    Perform {
        /// The lane.
        instance: InstanceKey,
        /// The step.
        action: Action,
    },
    /// See to it that the image is on the node; answer with `Fetched`. It may take minutes and belongs to no lane.
    Fetch {
        /// The image.
        image: String,
    },
    /// List all containers of ours; answer with `Inventory`.
    TakeInventory,
    /// Publish a report.
    Publish(ReportMessage),
}

/// One thing to do to the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Make the container and start it. A container of that name that is already there is adopted.
    Create {
        /// Which pod.
        pod: PodId,
        /// Which of its containers.
        index: usize,
        /// What it is.
        spec: Arc<PodSpec>,
        /// The address it shall have if that can be done; empty when any will do.
        address: String,
    },
    /// Make the container and start it in the place of another, which is stopped with its grace and removed. The new one
    /// may be made meanwhile, and is not started before the old one has ended.
    Replace {
        /// The engine's id of the one that goes.
        old: String,
        /// Its grace.
        grace: Duration,
        /// Which pod comes.
        pod: PodId,
        /// Which of its containers.
        index: usize,
        /// What it is.
        spec: Arc<PodSpec>,
        /// The address it shall have if that can be done; empty when any will do.
        address: String,
    },
    /// Give a container that is there, running or not, the limits of its spec.
    Update {
        /// The engine's id.
        id: String,
        /// Which pod.
        pod: PodId,
        /// Which of its containers.
        index: usize,
        /// What it shall be.
        spec: Arc<PodSpec>,
    },
    /// Read the last line that a container logged before it ended. It changes nothing.
    ReadEnd {
        /// The engine's id.
        id: String,
    },
    /// Start a container that is there and not running.
    Start {
        /// The engine's id.
        id: String,
    },
    /// Ask it to end, kill it after the grace.
    Stop {
        /// The engine's id.
        id: String,
        /// The grace.
        grace: Duration,
    },
    /// Remove it; a running one is stopped first with the grace.
    Remove {
        /// The engine's id.
        id: String,
        /// The grace.
        grace: Duration,
    },
}

/// Why a step did not work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ActionFailure {
    /// The engine refused: trying the same again at once is no use.
    Refused(String),
    /// An image of the pod is not on the node and cannot be fetched.
    NoImage {
        /// What the engine says.
        text: String,
        /// Whose fault that is.
        trouble: ImageTrouble,
    },
    /// The engine could not be asked, or did not answer in time: nothing is known.
    Unreachable(String),
}

/// Why an image could not be fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImageTrouble {
    /// There is no such image, or it is not for us: trying again is no use.
    Denied,
    /// No registry answers under the image's name: the name may be wrong, or the network down.
    NoRegistry,
    /// The registry, the way to it or this machine has a bad time.
    Passing,
}

/// What survives a restart of the agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ledger {
    /// The order obeyed; its fence is the highest ever accepted.
    pub order: Arc<Order>,
    /// What is remembered of pods in the order. Shared with the copy that is on its way to the disk: a copy of everything for
    /// each write would cost a node with hundreds of pods more than its orders do.
    pub memory: Arc<BTreeMap<PodId, PodMemory>>,
    /// Pods that left the order while the engine was asked to make them: they may still come, also after a restart.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub coming: BTreeSet<PodId>,
}

/// What is remembered of one pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PodMemory {
    /// Its containers were made once: if one is not there it is missing, not new.
    pub created: bool,
    /// Its containers were made from another spec of the same version (a group removed and made again under its old
    /// name): they go before new ones are made.
    pub outdated: bool,
    /// Its containers that were stopped by order, by index: their next start is somebody's wish, whatever the restart
    /// policy says.
    #[serde(rename = "halted")]
    pub stopped_by_order: BTreeSet<usize>,
    /// Restarts counted in the present window.
    pub restarts: u32,
    /// When it was last restarted.
    pub restarted_at: Timestamp,
    /// It is crash-looping: the immediate restarts are spent, further ones follow with back-off.
    #[serde(rename = "let_go")]
    pub is_crash_looping: bool,
    /// How its containers last ended by themselves, by container index.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub exits: BTreeMap<usize, ExitFacts>,
    /// When the agent read `exits`, by its own clock, by container index. Absent from ledgers of older agents.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub exits_seen: BTreeMap<usize, Timestamp>,
    /// Attempts in a row that failed.
    pub failures: u32,
    /// Not tried again before this.
    pub retry_at: Timestamp,
    /// What went wrong last.
    pub last_error: String,
    /// The last start asked for that was done, as far as it can be.
    #[serde(rename = "starts_answered")]
    pub starts_done: u32,
    /// The last restart asked for that was done, as far as it can be.
    #[serde(rename = "restarts_answered")]
    pub restarts_done: u32,
    /// The last start of its containers, by the engine's clock, when the last start or restart was asked for; kept with the
    /// order that asks. Never when the pod was ordered so from its first moment. A container that was started later was
    /// not left as it was.
    pub asked_at: Timestamp,
    /// Containers that were started for it, by index.
    pub renewed: BTreeSet<usize>,
    /// How its standing containers were updated.
    pub live: LiveMemory,
    /// Since when its health checks say it is well.
    pub well: WellMemory,
}

/// What is remembered of the live updates of one pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LiveMemory {
    /// Containers that have another spec than the one they were made from, by index.
    pub updated: BTreeMap<usize, Updated>,
    /// Updates in a row the engine refused.
    pub failures: u32,
    /// Not tried again before this.
    pub retry_at: Timestamp,
    /// What it said.
    pub last_error: String,
}

/// A container that was updated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Updated {
    /// The engine's id of it: one that is made in its place was not updated.
    pub id: String,
    /// Digest of the spec it has now.
    pub digest: String,
}

/// Since when a pod is well.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WellMemory {
    /// When this agent first saw it; never when it is not.
    pub since: Timestamp,
    /// The last start of its containers at that time, by the engine's clock: one that was started later has to become
    /// well anew, even when nobody saw it ill.
    pub started_at: Timestamp,
}

/// Timing and limits of the core.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Which containers are ours.
    pub owner: Owner,
    /// Who the agent is, whichever process; empty when nobody asks.
    pub identity: String,
    /// Run of this process.
    pub incarnation: String,
    /// What the node is and has.
    pub facts: NodeFacts,
    /// Between two signs of life.
    pub heartbeat: Duration,
    /// Between two full looks at the engine.
    pub reread: Duration,
    /// Restarts within `restart_window` that come at once; further ones follow with back-off.
    pub most_restarts: u32,
    /// See `most_restarts`.
    pub restart_window: Duration,
    /// Without a word from a scheduler for so long the agent repairs missing containers itself.
    pub alone_after: Duration,
    /// Switches off one guard, to show that the simulator would notice. Never set outside it.
    pub mutant: Option<Mutant>,
}

/// A guard that can be switched off to prove that it is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutant {
    /// Orders of deposed leaders are obeyed.
    NoFence,
    /// Orders are obeyed and acknowledged without being kept on disk.
    NoLedger,
    /// That a restart was done is not kept on disk.
    ForgetsRestarts,
    /// Orders are acknowledged before they are on disk.
    AcknowledgesFirst,
    /// A change of an order is applied to whatever order there is.
    AnyBase,
    /// Containers are listed once; from then on memory is trusted, whatever the engine went through.
    ListsOnce,
    /// A lane whose step is under way is worked on all the same.
    WorksTwice,
    /// Working on an instance of a group called `panic…` panics, for the test that the others are worked on.
    PanicsOnPurpose,
}
