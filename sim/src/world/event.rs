//! The events of the simulated world.

use agent::core::io as agent_io;
use contract::command::Outcome;
use contract::order::{OrderMessage, OrderReply};
use contract::query::{Query, Reply};
use contract::report::ReportMessage;
use contract::time::Timestamp;
use scheduler::core::io as scheduler_io;

use crate::faults::Fault;

#[derive(Debug)]
pub enum Event {
    /// Inside a scheduler process. A restart drops the event, a pause delays it.
    Scheduler {
        scheduler: usize,
        life: u32,
        what: AtScheduler,
    },
    /// Inside an agent process. A restart drops the event.
    Node {
        node: usize,
        life: u32,
        what: AtNode,
    },
    /// A commit reaches etcd, even if its sender is dead.
    Commit {
        scheduler: usize,
        attempt: u64,
        commit: scheduler_io::Commit,
    },
    Arrival(Arrival),
    /// An action reaches the engine, even if the agent that requested it is dead.
    Action {
        node: usize,
        life: u32,
        instance: contract::pod_id::InstanceKey,
        action: agent_io::Action,
    },
    /// A started container shows the behaviour of its image: it becomes healthy or unhealthy, or exits.
    ContainerBehaviour {
        engine: usize,
        id: String,
        starts: u32,
    },
    User(AtUser),
    /// A fault begins or ends.
    Fault(Fault),
}

#[derive(Debug)]
pub enum AtScheduler {
    /// The election renews its lease, or campaigns.
    Campaign,
    /// The scheduler won the election and has read the store.
    Loaded(contract::fence::Term),
    Input(Box<scheduler_io::Input>),
    /// The core's `wake_at` has come.
    Wake(Timestamp),
    ReadCommand,
    OrderDeadline(u64),
    /// Performs effects that the core decided before a pause.
    Perform(Vec<scheduler_io::Effect>),
    /// The watch lists all keys and starts again.
    MirrorReset,
    /// The client notices whether it is connected to the bus.
    BusPing,
    /// A change arrives on a watch. A new watch drops it.
    Mirrored {
        watch: u32,
        change: scheduler_io::Mirror,
    },
    CommitAnswered(u64, scheduler_io::CommitResult),
    CommitDeadline(u64),
}

#[derive(Debug)]
pub enum AtNode {
    Input(Box<agent_io::Input>),
    /// The core's `wake_at` has come.
    Wake(Timestamp),
    /// The ledger is on disk.
    Written,
    List,
    Fetch(String),
    Probe,
    /// The agent's client notices whether it is connected to the bus.
    Ping,
}

#[derive(Debug)]
pub enum Arrival {
    Report {
        scheduler: usize,
        message: Box<ReportMessage>,
    },
    Order {
        node: usize,
        request: u64,
        message: Box<OrderMessage>,
    },
    OrderReply {
        request: u64,
        reply: OrderReply,
    },
    /// The leader requests a full report.
    AskWhole {
        node: usize,
    },
    Outcome(Outcome),
    Query {
        scheduler: usize,
        number: u64,
        query: Query,
    },
    Answer {
        number: u64,
        reply: Box<Reply>,
    },
}

#[derive(Debug)]
pub enum AtUser {
    /// Publishes command `index` of the workload.
    Publish { index: usize, attempt: u32 },
    /// Queries a group, by its index in the workload.
    Ask { group: usize },
    /// The operator confirms, resumes and opens gates.
    OperateRollouts,
}
