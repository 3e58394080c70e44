//! The inputs and effects of the scheduler's core.
//!
//! The core is a value: `core.on(input, now) -> Vec<Effect>`. The shell, or the simulator in its place, passes inputs and
//! performs the effects in the given order. Nothing here waits; the result of everything that takes time comes back as an input.

use std::collections::BTreeSet;
use std::time::Duration;

use contract::access::AnonymousBinding;
use contract::access::audit::Chain;
use contract::access::join::names_node;
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

pub use super::mutants::{Faults, Mutant};
use super::queries::dry_run::DryRun;

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
    /// A client sends a query.
    Query {
        query: Query,
        /// Where the answer goes.
        reply: Inbox,
    },
    /// A commit ended.
    Committed {
        /// [`Commit::id`].
        id: u64,
        result: CommitResult,
    },
    /// An order was answered, or not.
    OrderReplied {
        node: NodeName,
        /// The order's fence.
        fence: Fence,
        /// The answer; none when none came in time.
        reply: Option<OrderReply>,
    },
    /// The connection to the bus was established or lost. Also sent at the start, and after a reconnect that was faster than its
    /// loss was noticed.
    Bus { connected: bool },
    /// The clock was compared with that of NATS.
    Clock {
        /// How far ahead ours is, in milliseconds; negative when it is behind.
        ahead_millis: i64,
    },
    /// How large etcd's database is, in bytes; sampled every few seconds.
    StoreSize {
        /// Bytes of live data.
        in_use: u64,
        /// Bytes of etcd's file; it shrinks only by defragmentation.
        allocated: u64,
    },
    /// The commits that the store holds; sampled every few seconds.
    StoredProgress(Progress),
    /// An audit log is full: its records up to this one may go.
    DropAudit {
        chain: Chain,
        /// Number of the last record that goes.
        up_to: u64,
        hash: String,
        /// A scheduler's signature over both; none when it has no key.
        signature: Option<String>,
    },
    /// The time of [`super::Core::wake_at`] has come.
    Tick,
}

/// A change of the stored state as a standby sees it.
#[derive(Debug, Clone)]
pub enum Mirror {
    /// Everything: the first read, or the read after a gap.
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
    /// Where a client waits for the outcome.
    pub reply: Option<Inbox>,
    /// The command, or why it cannot be read.
    pub command: Result<Command, DeadLetter>,
}

/// How a commit ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommitResult {
    /// All of it is stored.
    Stored,
    /// The guard failed: another scheduler leads. Nothing is stored.
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
        /// The error of the store.
        reason: String,
    },
}

/// What to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Store these writes in one transaction guarded by the term. At most one commit is in flight.
    Commit(Commit),
    /// Send an order; answer with `OrderReplied`.
    SendOrder { node: NodeName, message: OrderMessage },
    /// Ask a node to report whole.
    AskWhole { node: NodeName },
    /// Send the outcome of a command to the client that waits for it.
    Resolve {
        inbox: Inbox,
        /// What became of it.
        outcome: Outcome,
    },
    /// Answer a query.
    Answer { inbox: Inbox, reply: Box<Reply> },
    /// Compute a plan in a worker thread, and answer with it.
    Plan {
        /// Where the answer goes.
        inbox: Inbox,
        /// A standby answers: its state may be behind the leader's.
        stale: bool,
        dry_run: Box<DryRun>,
    },
    /// Tell every callback. Internal addresses are open to the former ones.
    Notify { callbacks: Vec<String>, former: BTreeSet<String>, body: NoticeBody },
    /// Tell people what happened; losing it loses an explanation.
    Record(Event),
    /// Store a message that cannot be read.
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
    /// etcd accepts 128 operations in a transaction; some are reserved for the guard.
    pub const MOST_WRITES: usize = 120;
}

/// One write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Write {
    /// Store a value.
    Put {
        /// Key, from `contract::keys`.
        key: String,
        value: Vec<u8>,
        /// It may be forgotten after [`OUTCOME_KEPT`].
        expires: bool,
    },
    /// Remove a key.
    Delete { key: String },
}

impl Write {
    /// What it writes.
    pub fn key(&self) -> &str {
        match self {
            Self::Put { key, .. } | Self::Delete { key } => key,
        }
    }
}

/// How long the outcome of a command is remembered.
pub const OUTCOME_KEPT: Duration = Duration::from_secs(3600);

/// Timing and limits of the core.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Name of this scheduler, for people.
    pub name: String,
    /// A node that is silent for this time is suspect: nothing new is placed there.
    pub suspect_after: Duration,
    /// A node that is silent for this time is lost: its stateless instances are placed elsewhere.
    pub lost_after: Duration,
    /// A new leader declares no node lost before it has listened for this time.
    pub failover_grace: Duration,
    /// An operation returns its lock after this time, finished or not.
    pub operation_limit: Duration,
    /// An instance of an upgrade or a restart gets five times this, or five times its setup time if that is longer, to become
    /// well before the next one is touched.
    pub health_poll: Duration,
    /// An instance of a serial upgrade that exits with a non-zero code within this time of its start fails its version.
    pub early_exit: Duration,
    /// An unused dependency pod is removed after this time.
    pub dependency_grace: Duration,
    /// A condition that persists is reported to callbacks again after this time.
    pub tell_again_after: Duration,
    /// Scheduling stops when at least this many nodes, and at least 10 % of all nodes, become suspect within [`Settings::losses_within`]; 0: never.
    pub losses_stop: u32,
    /// See `losses_stop`.
    pub losses_within: Duration,
    /// Callbacks are notified when an engine has not answered for this time.
    pub engine_away_after: Duration,
    /// Cores a CPU level is a share of (deployd's `resources.cpu`).
    pub quota_cores: u32,
    /// Bytes that etcd accepts at most; 0 when etcd's quota is not known, which refuses nothing.
    pub store_quota: u64,
    /// Outcomes of commands that are stored, at most, also when they are less than an hour old.
    pub most_outcomes: usize,
    /// Bindings of clients without a token. An apiserver may use only these.
    pub anonymous: Vec<AnonymousBinding>,
    /// Whether a new store asks clients who they are; false in tests of other subjects.
    pub enforces_access: bool,
    /// Orders in flight, at most. Other nodes wait for an answer to one of them.
    pub orders_at_once: usize,
    /// Names of nodes that are accepted without approval: exact ones, or prefixes with `*`.
    pub accepted_nodes: Vec<String>,
    /// The public keys of the schedulers, for nodes that join; empty when orders are not signed.
    pub order_keys: String,
    /// Guards that the simulator or a test switches off; empty in the programs.
    pub faults: Faults,
}

impl Settings {
    /// Whether a node of this name is accepted without approval.
    pub(super) fn accepts(&self, node: &NodeName) -> bool {
        self.accepted_nodes.iter().any(|pattern| names_node(pattern, node))
    }

    /// How long planning waits for what.
    pub(super) fn patience(&self) -> GroupTimeouts {
        let Self { operation_limit: operation, health_poll, early_exit, .. } = *self;
        GroupTimeouts { operation, health_poll, early_exit }
    }
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
            anonymous: Vec::new(),
            enforces_access: false,
            // An agent answers within milliseconds, a fsync included: thousands of orders a second, and few enough that none of
            // them waits long for its node when the nodes are busy.
            orders_at_once: 64,
            accepted_nodes: vec!["*".to_owned()],
            order_keys: String::new(),
            faults: Faults::default(),
        }
    }
}
