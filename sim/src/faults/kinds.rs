//! The kinds of faults.

use std::time::Duration;

use crate::world::bus::BusConditions;

/// The scheduler that a fault hits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// The one that holds the leader key at that time.
    Leader,
    Scheduler(usize),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The bus treats messages like this from now on.
    BusConditions(BusConditions),
    /// A scheduler pauses and then continues.
    Pause {
        which: Target,
        span: Duration,
        /// The pause begins after its next decision, before it performs the effects.
        armed: bool,
    },
    /// A scheduler dies and starts again.
    KillScheduler {
        which: Target,
        down: Duration,
    },
    /// All schedulers die: the next leader has no reports yet.
    KillAllSchedulers {
        down: Duration,
    },
    StartScheduler(usize),
    /// Cuts a scheduler off etcd.
    CutStore {
        which: Target,
        span: Duration,
    },
    JoinStore(usize),
    /// Cuts a scheduler off the bus.
    CutBus {
        which: Target,
        span: Duration,
    },
    JoinBus(usize),
    /// etcd drops old revisions: every watch ends and starts again with a list.
    Compact,
    /// etcd is full: it reads and renews leases, and refuses writes. False ends the fault.
    StoreFull(bool),
    /// etcd has no quorum: no reads and no writes.
    QuorumLost {
        span: Duration,
    },
    QuorumBack,
    /// Some commits stay without an answer or are slow.
    StoreTrouble {
        /// Unknown results in percent.
        unknown: u64,
        /// Slowest commit in milliseconds.
        slowest: u64,
    },
    /// Cuts a node off the bus.
    CutNode {
        node: usize,
        span: Duration,
    },
    JoinNode(usize),
    /// An agent dies and starts again; its containers keep running.
    KillAgent {
        node: usize,
        down: Duration,
    },
    StartAgent(usize),
    /// An agent dies and starts again with an empty or an old ledger.
    LoseLedger {
        node: usize,
        /// With an old ledger instead of an empty one.
        old: bool,
        down: Duration,
    },
    /// A machine reboots: its agents and containers stop, and only the agents start by themselves.
    Reboot {
        engine: usize,
        down: Duration,
    },
    /// Restarts an agent with a clock error of `skew` milliseconds.
    ClockJump {
        node: usize,
        skew: i64,
    },
    /// Restarts an agent on a node with this much memory for pods.
    Memory {
        node: usize,
        mebibytes: u64,
    },
    /// The ledger cannot be written. `full: false` ends the fault.
    DiskFull {
        node: usize,
        full: bool,
    },
    /// One of our containers exits; the number selects which.
    Crash(u64),
    /// The kernel kills one of our containers for lack of memory.
    OutOfMemory(u64),
    /// One of our containers with a health check becomes unhealthy.
    Sicken(u64),
    /// All unhealthy containers become healthy.
    Heal,
    /// A person removes one of our containers.
    Vanish(u64),
    /// An engine stops.
    EngineDown {
        engine: usize,
        span: Duration,
        /// Its containers keep running; otherwise they exit.
        keeps: bool,
    },
    /// An engine hangs: requests time out, and it may perform them later.
    EngineHang {
        engine: usize,
        span: Duration,
    },
    EngineUp(usize),
    /// No image can be pulled. False ends the fault.
    RegistryAway(bool),
    /// Engines refuse actions and lose answers.
    EngineTrouble {
        /// Refused in percent.
        refuses: u64,
        /// Answers lost in percent.
        loses: u64,
    },
    /// The command stream is deleted and created again.
    RecreateStream,
}
