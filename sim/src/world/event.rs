//! Everything that can handle in the simulated world.

use agent::core::io as agent_io;
use contract::command::Outcome;
use contract::order::{OrderMessage, OrderReply};
use contract::query::{Query, Reply};
use contract::report::ReportMessage;
use contract::time::Timestamp;
use scheduler::core::io as scheduler_io;

use crate::faults::Fault;

/// One event.
#[derive(Debug)]
pub enum Event {
    /// Inside a scheduler process; dropped when that run of it is over, put off while it is paused.
    Scheduler {
        /// The scheduler.
        scheduler: usize,
        /// The run.
        life: u32,
        /// What.
        what: AtScheduler,
    },
    /// Inside an agent process or on its process; dropped when that run is over.
    Node {
        /// The node.
        node: usize,
        /// The run.
        life: u32,
        /// What.
        what: AtNode,
    },
    /// A commit reaches etcd, whatever became of its sender.
    Commit {
        /// The sender.
        scheduler: usize,
        /// Target sending.
        attempt: u64,
        /// The commit.
        commit: scheduler_io::Commit,
    },
    /// A message arrives.
    Arrival(Arrival),
    /// A step reaches the engine, whatever became of the agent that asked.
    Step {
        /// The node.
        node: usize,
        /// The run of the agent that asked.
        life: u32,
        /// The lane.
        lane: contract::pod_id::InstanceKey,
        /// The step.
        step: agent_io::Action,
    },
    /// A container that was started turns out to be what its image makes it.
    ContainerBehaviour {
        /// The engine.
        engine: usize,
        /// The container.
        id: String,
        /// Target start of it.
        starts: u32,
    },
    /// A user does the next thing on the list.
    User(AtUser),
    /// Something goes wrong, or right again.
    Fault(Fault),
}

/// What happens inside a scheduler process.
#[derive(Debug)]
pub enum AtScheduler {
    /// The election looks at its lease.
    Campaign,
    /// The state was read after an election was won.
    Loaded(contract::fence::Term),
    /// The core is fed.
    Input(Box<scheduler_io::Input>),
    /// The core asked to be woken now.
    Wake(Timestamp),
    /// The reader of the command stream looks for the next message.
    ReadCommand,
    /// No answer to an order came.
    OrderDeadline(u64),
    /// Effects decided before a pause are performed after it.
    Perform(Vec<scheduler_io::Effect>),
    /// The watch begins anew.
    MirrorReset,
    /// The client finds out whether it is connected to the bus.
    BusPing,
    /// A change arrives on a watch; dropped when that watch is over.
    Mirrored {
        /// Target watch.
        watch: u32,
        /// The change.
        change: scheduler_io::Mirror,
    },
    /// A commit was answered.
    CommitAnswered(u64, scheduler_io::CommitResult),
    /// A commit is not waited for any longer.
    CommitDeadline(u64),
}

/// What happens on a node.
#[derive(Debug)]
pub enum AtNode {
    /// The core is fed.
    Input(Box<agent_io::Input>),
    /// The core asked to be woken now.
    Wake(Timestamp),
    /// The disk has written what it was given.
    Written,
    /// The engine lists its containers.
    List,
    /// The engine is done fetching an image.
    Fetch(String),
    /// The agent's probe finds out how its engine is.
    Probe,
    /// The agent's client finds out whether it is connected.
    Ping,
}

/// A message that arrives.
#[derive(Debug)]
pub enum Arrival {
    /// A report at a scheduler.
    Report {
        /// Where.
        scheduler: usize,
        /// What.
        message: Box<ReportMessage>,
    },
    /// An order at an agent.
    Order {
        /// Where.
        node: usize,
        /// The request it belongs to.
        request: u64,
        /// What.
        message: Box<OrderMessage>,
    },
    /// The answer to an order.
    OrderReply {
        /// The request.
        request: u64,
        /// What.
        reply: OrderReply,
    },
    /// A request to report whole.
    AskWhole {
        /// Where.
        node: usize,
    },
    /// The outcome of a command at its user.
    Outcome(Outcome),
    /// A question at a scheduler.
    Query {
        /// Where.
        scheduler: usize,
        /// The question's number.
        number: u64,
        /// What.
        query: Query,
    },
    /// An answer at its user.
    Answer {
        /// The question's number.
        number: u64,
        /// What.
        reply: Box<Reply>,
    },
}

/// What a user does.
#[derive(Debug)]
pub enum AtUser {
    /// Publishes command `index` of the workload; `attempt` counts from 0.
    Publish {
        /// Target.
        index: usize,
        /// How often it was tried.
        attempt: u32,
    },
    /// PendingRequests about a group.
    Ask {
        /// Target of the workload's groups.
        group: usize,
    },
    /// Looks after releases.
    Tend,
}
