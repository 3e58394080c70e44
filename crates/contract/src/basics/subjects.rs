//! Every NATS subject, stream and header. No other file contains one (`sim/tests/house.rs` checks it).

use crate::name::NodeName;

/// Stream of commands, in the order the leader applies them. apiservers write, the leader reads.
pub const COMMANDS_STREAM: &str = "COMMANDS";
/// Subject of commands.
pub const COMMANDS: &str = "deployd.command";

/// Stream of notices. The leader writes, notifiers read.
pub const NOTICES_STREAM: &str = "NOTICES";
/// All notices.
pub const ALL_NOTICES: &str = "deployd.notice.>";
/// All notices, one token after the prefix.
pub const EACH_NOTICE: &str = "deployd.notice.*";
/// Durable consumer that all notifiers share.
pub const NOTICES_CONSUMER: &str = "notifier";

/// Stream of messages that could not be decoded or delivered.
pub const DEAD_LETTERS_STREAM: &str = "DEAD_LETTERS";
/// All dead letters.
pub const ALL_DEAD_LETTERS: &str = "deployd.dead.>";

/// All dead letters, one token after the prefix.
pub const EACH_DEAD_LETTER: &str = "deployd.dead.*";
/// Stream of events. The leader writes, apiservers read.
pub const EVENTS_STREAM: &str = "EVENTS";
/// Subject of events.
pub const EVENTS: &str = "deployd.event";
/// JetStream publishes the headers of each event here once it is stored. It tells followers that there is more to read.
pub const STORED_EVENTS: &str = "deployd.stored.event";

/// Queries to the leader.
pub const QUERY_LEADER: &str = "deployd.query.leader";
/// Queries of notifiers to the leader, which answers no others there than [`Query::Callbacks`](crate::query::Query::Callbacks).
pub const QUERY_CALLBACKS: &str = "deployd.query.callbacks";
/// Queries that any standby may answer.
pub const QUERY_STANDBY: &str = "deployd.query.standby";
/// Queue group of the standbys.
pub const STANDBY_QUEUE: &str = "standby";

/// Status of etcd, published by schedulers that cannot reach it.
pub const STORE: &str = "deployd.store";

/// Orders of all nodes.
pub const ALL_ORDERS: &str = "deployd.order.*";
/// Requests for a whole report, of all nodes.
pub const ALL_RESYNCS: &str = "deployd.resync.*";
/// Inspect queries to all nodes.
pub const ALL_INSPECTIONS: &str = "deployd.inspect.*";
/// Sessions with all nodes.
pub const ALL_SESSIONS: &str = "deployd.session.*";
/// Reports of all nodes.
pub const ALL_REPORTS: &str = "deployd.report.*";

/// Header with the inbox that waits for a command's outcome.
pub const REPLY_HEADER: &str = "Deployd-Reply";
/// Header of an order: the id of the scheduler's key and its signature.
pub const SIGNATURE_HEADER: &str = "Deployd-Signature";
/// Header of a dead letter that an agent sends on the subject of its reports: the [`DeadLetterKind`]. Without it the message is
/// a report.
pub const DEAD_LETTER_HEADER: &str = "Deployd-Dead-Letter";
/// Header with the lowest wire version that understands the message; absent means the first.
pub const WIRE_HEADER: &str = "Deployd-Wire";

/// Orders to one node, as requests; the agent answers each.
pub fn order(node: &NodeName) -> String {
    format!("deployd.order.{}", token(node.as_str()))
}
/// Reports of one node.
pub fn report(node: &NodeName) -> String {
    format!("deployd.report.{}", token(node.as_str()))
}
/// Requests for a whole report of one node.
pub fn resync(node: &NodeName) -> String {
    format!("deployd.resync.{}", token(node.as_str()))
}
/// Inspect queries to one node.
pub fn inspect(node: &NodeName) -> String {
    format!("deployd.inspect.{}", token(node.as_str()))
}
/// Sessions with one node; see [`crate::session`].
pub fn session(node: &NodeName) -> String {
    format!("deployd.session.{}", token(node.as_str()))
}
/// Question to other agents with the same node name; see [`crate::node::Presence`].
pub fn presence(node: &NodeName) -> String {
    format!("deployd.presence.{}", token(node.as_str()))
}
/// Notices for the callback with this digest.
pub fn notice(callback_digest: &str) -> String {
    format!("deployd.notice.{}", token(callback_digest))
}
/// Dead letters of one kind.
pub fn dead_letter(kind: DeadLetterKind) -> String {
    format!("deployd.dead.{}", kind.word())
}

/// Kinds of messages that can become dead letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeadLetterKind {
    /// A command.
    Command,
    /// A report.
    Report,
    /// An order.
    Order,
    /// A notice that could not be delivered.
    Notice,
    /// A stored record.
    Record,
    /// A query to a scheduler or an agent.
    Question,
}

impl DeadLetterKind {
    /// Its word in subjects and headers.
    pub fn word(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::Report => "report",
            Self::Order => "order",
            Self::Notice => "notice",
            Self::Record => "record",
            Self::Question => "question",
        }
    }

    /// The kind of a dead letter of an agent, by its word; none for kinds that agents have no messages of.
    pub fn of_agent(word: &str) -> Option<Self> {
        [Self::Order, Self::Question].into_iter().find(|kind| kind.word() == word)
    }
}

/// One token of a subject. Names may contain dots, tokens may not; `%` is not allowed in names, so this is unambiguous.
pub(crate) fn token(name: &str) -> String {
    name.replace('.', "%2e")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_with_dots_is_one_token() {
        let node: NodeName = "node1.example.com".parse().expect("a name");
        assert_eq!(order(&node), "deployd.order.node1%2eexample%2ecom");
        assert_eq!(report(&node).matches('.').count(), 2);
    }
}
