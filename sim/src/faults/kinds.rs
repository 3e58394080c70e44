//! What can go wrong in a history. Target of it does, and when, is in the scenario; what that means to the world is in `mishap`,
//! `outage` and `hardship`.

use std::time::Duration;

use crate::world::bus::BusConditions;

/// Target scheduler a fault hits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// Whoever holds the leader key then.
    Leader,
    /// This one.
    Scheduler(usize),
}

/// One thing that goes wrong, or right again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The bus treats messages so from now on.
    BusConditions(BusConditions),
    /// A scheduler stands still and then goes on where it was.
    Pause {
        /// Target.
        which: Target,
        /// For how long.
        span: Duration,
        /// Not now, but between its next decision and the performing of it.
        armed: bool,
    },
    /// A scheduler dies and starts again.
    KillScheduler {
        /// Target.
        which: Target,
        /// For how long it is away.
        down: Duration,
    },
    /// All schedulers die at once: the next leader has heard nobody.
    KillAllSchedulers {
        /// For how long they are away.
        down: Duration,
    },
    /// A scheduler process starts.
    StartScheduler(usize),
    /// A scheduler does not reach etcd.
    CutStore {
        /// Target.
        which: Target,
        /// For how long.
        span: Duration,
    },
    /// It does again.
    JoinStore(usize),
    /// A scheduler does not reach the bus.
    CutBus {
        /// Target.
        which: Target,
        /// For how long.
        span: Duration,
    },
    /// It does again.
    JoinBus(usize),
    /// etcd forgets old revisions: every watch ends and begins with a new list.
    Compact,
    /// etcd has no room: it reads and keeps leases, and refuses to write, or it can again.
    StoreFull(bool),
    /// etcd has no quorum: nobody reads or writes.
    QuorumLost {
        /// For how long.
        span: Duration,
    },
    /// It has one again.
    QuorumBack,
    /// Commits stay without answer, or take long.
    StoreTrouble {
        /// Unknown results in percent.
        unknown: u64,
        /// Slowest commit in milliseconds.
        slowest: u64,
    },
    /// A node does not reach the bus.
    CutNode {
        /// Target.
        node: usize,
        /// For how long.
        span: Duration,
    },
    /// It does again.
    JoinNode(usize),
    /// An agent dies and starts again; its containers run on.
    KillAgent {
        /// Target.
        node: usize,
        /// For how long it is away.
        down: Duration,
    },
    /// An agent process starts.
    StartAgent(usize),
    /// An agent dies, and starts again with an empty disk or with what was on it some time ago.
    LoseLedger {
        /// Target.
        node: usize,
        /// Something older is there, not nothing.
        old: bool,
        /// For how long it is away.
        down: Duration,
    },
    /// A process starts anew: agents and containers on it end, and only the agents are started by the process.
    Reboot {
        /// Its engine.
        engine: usize,
        /// For how long it is away.
        down: Duration,
    },
    /// An agent is started anew with a clock that is wrong by so many milliseconds: processes read it at their start.
    ClockJump {
        /// Target.
        node: usize,
        /// How wrong.
        skew: i64,
    },
    /// An agent is started anew on a process that offers so many MiB to pods.
    Memory {
        /// Target.
        node: usize,
        /// How many.
        mebibytes: u64,
    },
    /// An agent cannot write its ledger.
    DiskFull {
        /// Target.
        node: usize,
        /// It cannot, or it can again.
        full: bool,
    },
    /// A container of ours ends.
    Crash(u64),
    /// A container of ours is ended by the kernel, for want of memory.
    OutOfMemory(u64),
    /// A container of ours that is checked is found unhealthy.
    Sicken(u64),
    /// All that became unhealthy is well again.
    Heal,
    /// A container of ours is removed by somebody else.
    Vanish(u64),
    /// An engine goes away.
    EngineDown {
        /// Target.
        engine: usize,
        /// For how long.
        span: Duration,
        /// Its containers run on; otherwise everything on it ends.
        keeps: bool,
    },
    /// An engine answers nobody; what it was asked for it may do afterwards.
    EngineHang {
        /// Target.
        engine: usize,
        /// For how long.
        span: Duration,
    },
    /// It is back.
    EngineUp(usize),
    /// No image can be fetched, or they can again.
    RegistryAway(bool),
    /// Engines refuse steps and lose answers.
    EngineTrouble {
        /// Refused in percent.
        refuses: u64,
        /// Answers lost in percent.
        loses: u64,
    },
    /// The stream of commands is lost and created anew.
    RecreateStream,
}
