//! What goes into the scheduler's core and what comes out.
//!
//! The core is a value: `core.on(input, now) -> Vec<Effect>`. The shell, and the simulator in its place, feeds it
//! and performs the effects in the order given. Nothing here waits; whatever takes time comes back as an input.

use std::time::Duration;

use contract::command::{Command, Outcome};
use contract::event::Event;
use contract::fence::{Fence, Term};
use contract::name::NodeName;
use contract::notice::{DeadLetter, NoticeBody};
use contract::order::{OrderMessage, OrderReply};
use contract::progress::Progress;
use contract::query::{Query, Reply};
use contract::report::ReportMessage;
use planner::group::GroupTimeouts;

use super::dry_run::DryRun;

/// Where an answer is awaited: a NATS inbox, opaque to the core.
pub type Inbox = String;

/// What happened.
#[derive(Debug, Clone)]
pub enum Input {
    /// The stored state changed under a standby (or was read for the first time). Ignored while leading: the
    /// leader is the one writer and knows.
    Mirror(Mirror),
    /// This process leads now. `stored` was read after the election was won, so it holds everything any
    /// earlier leader managed to write.
    Elected {
        /// The new term.
        term: Term,
        /// Every stored key and value.
        stored: Vec<(String, Vec<u8>)>,
    },
    /// This process does not lead any more.
    Deposed,
    /// The next command of the stream, in stream order.
    Command(Delivery),
    /// An agent reported.
    Report(ReportMessage),
    /// Somebody asks.
    Query {
        /// What.
        query: Query,
        /// Where the answer goes.
        reply: Inbox,
    },
    /// A commit ended.
    Committed {
        /// Which: [`Commit::id`].
        id: u64,
        /// How.
        result: CommitResult,
    },
    /// An order was answered, or not.
    OrderReplied {
        /// By whom.
        node: NodeName,
        /// The order's fence.
        fence: Fence,
        /// The answer; none when none came in time.
        reply: Option<OrderReply>,
    },
    /// The connection to the bus came or went; told once at the beginning, and again even when it is back already.
    Bus {
        /// It stands.
        connected: bool,
    },
    /// The clock was compared with that of NATS.
    Clock {
        /// How far ahead ours is, in milliseconds; negative when it is behind.
        ahead_millis: i64,
    },
    /// How large etcd's database is, in bytes; sampled every few seconds.
    StoreSize {
        /// What holds data.
        in_use: u64,
        /// The file.
        allocated: u64,
    },
    /// The commits that the store holds; sampled every few seconds.
    StoredProgress(Progress),
    /// The time the core asked to be woken at has come.
    Tick,
}

/// A change of the stored state as a standby sees it.
#[derive(Debug, Clone)]
pub enum Mirror {
    /// Everything, anew: first read, or after a gap.
    Reset(Vec<(String, Vec<u8>)>),
    /// One key was written.
    Put(String, Vec<u8>),
    /// One key was removed.
    Delete(String),
}

/// One message of the command stream.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// Identity of the stream.
    pub stream: String,
    /// Its place in the stream.
    pub sequence: u64,
    /// When JetStream stored it, in nanoseconds since 1970; the next leader recognises the message by it.
    pub stored_at: Option<i64>,
    /// Who waits for the outcome.
    pub reply: Option<Inbox>,
    /// The command, or why it cannot be read.
    pub command: Result<Command, DeadLetter>,
}

/// How a commit ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommitResult {
    /// All of it is stored.
    Stored,
    /// The guard failed: somebody else leads. Nothing is stored.
    Fenced,
    /// The store lacks commits of this leadership: etcd came back with an older state. Nothing is stored.
    WentBack,
    /// etcd refuses this scheduler's credentials: trying again does not help. Nothing is stored.
    Denied,
    /// etcd has reached its quota and refuses every write until an operator made room. Nothing is stored.
    Full,
    /// Not known, or refused for a passing reason, after the shell's own retries. The core may send the same commit again; the
    /// shell must see to it that a copy which arrives late, after later commits, is refused.
    Unknown,
    /// The store refuses what is in it, and would refuse the same commit every time: too large, too many operations. Nothing
    /// is stored.
    Invalid {
        /// What the store said.
        reason: String,
    },
}

/// What to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Store these writes in one transaction guarded by the term. At most one commit is under way at a time.
    Commit(Commit),
    /// Send an order; answer with `OrderReplied`.
    SendOrder {
        /// To whom.
        node: NodeName,
        /// What.
        message: OrderMessage,
    },
    /// Ask a node to report whole.
    AskWhole {
        /// Whom.
        node: NodeName,
    },
    /// Tell whoever waits what became of a command.
    Resolve {
        /// Where.
        inbox: Inbox,
        /// What became of it.
        outcome: Outcome,
    },
    /// Answer a query.
    Answer {
        /// Where.
        inbox: Inbox,
        /// The answer.
        reply: Box<Reply>,
    },
    /// Compute a plan beside the decisions, and answer with it.
    Plan {
        /// Where the answer goes.
        inbox: Inbox,
        /// A standby answers: what the plan is computed from may be behind.
        stale: bool,
        /// The plan, with everything it is computed from.
        dry_run: Box<DryRun>,
    },
    /// Tell every callback.
    Notify {
        /// Where to.
        callbacks: Vec<String>,
        /// What.
        body: NoticeBody,
    },
    /// Tell people what happened; losing it loses an explanation.
    Record(Event),
    /// Keep a message nobody could read.
    Bury(DeadLetter),
    /// Give up leadership now: the election key goes, another leads.
    StepDown {
        /// Why, for the log.
        reason: String,
    },
}

/// Writes that are stored together or not at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// Names the commit in `Committed`.
    pub id: u64,
    /// The term every write is guarded by.
    pub term: Term,
    /// The writes; fewer than [`Commit::MOST_WRITES`].
    pub writes: Vec<Write>,
}

impl Commit {
    /// etcd takes 128 operations in a transaction; the guard and some room are kept free.
    pub const MOST_WRITES: usize = 120;
}

/// One write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Write {
    /// Store a value.
    Put {
        /// Key, from `contract::keys`.
        key: String,
        /// JSON.
        value: Vec<u8>,
        /// It may be forgotten after [`OUTCOME_KEPT`].
        expires: bool,
    },
    /// Remove a key.
    Delete {
        /// Key.
        key: String,
    },
}

/// How long the outcome of a command is remembered.
pub const OUTCOME_KEPT: Duration = Duration::from_secs(3600);

/// Timing and limits of the core.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Name of this scheduler, for people.
    pub name: String,
    /// A node silent for so long is suspect: nothing new is placed there.
    pub suspect_after: Duration,
    /// A node silent for so long is lost: its stateless instances are placed elsewhere.
    pub lost_after: Duration,
    /// A fresh leader calls no node lost before it has listened for so long.
    pub failover_grace: Duration,
    /// An operation gives its lock back after so long, done or not.
    pub operation_limit: Duration,
    /// An instance of an upgrade or a restart gets five times this, or five times its setup time if that is longer, to become
    /// well before the next one is touched.
    pub health_poll: Duration,
    /// An instance of a serial upgrade that exits with a non-zero code within this time of its start fails its version.
    pub early_exit: Duration,
    /// A dependency pod nothing needs is removed after so long.
    pub dependency_grace: Duration,
    /// A condition that persists is reported to callbacks again after this time.
    pub tell_again_after: Duration,
    /// The engine stops when this many nodes, and at least 10 % of all nodes, go silent within [`Settings::losses_within`]; 0: never.
    pub losses_stop: u32,
    /// See `losses_stop`.
    pub losses_within: Duration,
    /// An engine that does not answer for so long is told to callbacks.
    pub engine_away_after: Duration,
    /// Cores a CPU level is a share of (deployd's `resources.cpu`).
    pub quota_cores: u32,
    /// Bytes that etcd accepts at most; 0 when etcd's quota is not known, which refuses nothing.
    pub store_quota: u64,
    /// Outcomes of commands that are kept at most, also when they are less than an hour old.
    pub most_outcomes: usize,
    /// Orders that are under way at once; whoever else has to be told waits for an answer to one of them.
    pub orders_at_once: usize,
    /// Switches off one guard, to show that the simulator would notice. Never set outside it.
    pub mutant: Option<Mutant>,
}

impl Settings {
    /// How long planning waits for what.
    pub(super) fn patience(&self) -> GroupTimeouts {
        let Self { operation_limit: operation, health_poll, early_exit, .. } = *self;
        GroupTimeouts { operation, health_poll, early_exit }
    }
}

/// A guard that can be switched off to prove that it is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutant {
    /// Effects are let go before their commit is stored.
    EffectsBeforeCommit,
    /// A command seen twice takes effect twice.
    NoDeduplication,
    /// A fresh leader calls silent nodes lost at once.
    NoFailoverGrace,
    /// What is reported of one pod of an instance is taken for true of each.
    CountsByName,
    /// A stopped engine plans, and a read-only one takes changes.
    NoBrakes,
    /// A group takes its stream ports, whoever has them.
    NoPortClaims,
    /// An instance is ordered elsewhere before the node it leaves has let go of it.
    NoLettingGo,
    /// An upgraded instance runs, whatever was wanted of it.
    ForgetsStops,
    /// A drift takes the lock from whoever has it.
    NoLock,
    /// A patch gets the version its client sent.
    ClientsVersion,
    /// A rollback takes the number of the version it goes back to.
    VersionGoesBack,
    /// A new leader's orders hold no dependency pods.
    ForgetsPairs,
    /// Instances that do not run need no dependency pods.
    NeedsOfRunning,
    /// A release goes on without being confirmed.
    ConfirmsItself,
    /// How far a release is is not stored with the instances it changed.
    ForgetsReleases,
    /// A release surges by two more than it may.
    SurgesMore,
    /// A release takes two more out of service than it may.
    TakesMore,
    /// A pod is touched without being taken out of service.
    SkipsDrains,
    /// A way back renews every instance, those that run what it goes back to too.
    SparesNobody,
    /// Nodes are not told to spare orphans.
    SweepsOrphans,
    /// A new leader does not know which nodes are cordoned.
    ForgetsCordons,
    /// Reconciling a group or a dependency pod with an image called `panic…` panics, for tests of the quarantine.
    PanicsOnPurpose,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            name: "scheduler".to_owned(),
            suspect_after: Duration::from_secs(15),
            lost_after: Duration::from_secs(300),
            failover_grace: Duration::from_secs(30),
            operation_limit: Duration::from_secs(600),
            health_poll: Duration::from_secs(20),
            early_exit: Duration::from_secs(10),
            dependency_grace: Duration::from_secs(300),
            tell_again_after: Duration::from_secs(3600),
            losses_stop: 3,
            losses_within: Duration::from_secs(180),
            engine_away_after: Duration::from_secs(30),
            quota_cores: 8,
            store_quota: 4 << 30,
            // Half a GiB of etcd.
            most_outcomes: 1_000_000,
            // An agent answers within milliseconds, a fsync included: thousands of orders a second, and few enough that none of
            // them waits long for its node when the nodes are busy.
            orders_at_once: 64,
            mutant: None,
        }
    }
}
