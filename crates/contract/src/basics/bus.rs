//! Permissions on NATS: one identity for each process, with the subjects that it may publish and subscribe.
//!
//! Schedulers, apiservers and notifiers are in the account `DEPLOYD`, which also
//! owned the streams before there were identities, agents in `AGENTS`: an agent neither sees nor reaches
//! JetStream, commands, queries or another node. [`EXPORTS`] lists what passes between the accounts.
//!
//! Replies go to the inbox of the process that asks: `_INBOX.<user>.…`, which only that process may read. Agents reply to
//! `_R_.…`, the subject under which NATS passes a reply to the other account. `allow_responses` is never used: it lets a process
//! that asks itself publish to any subject, with that subject as the reply.

use crate::name::NodeName;
use crate::subjects::{
    self, ALL_INSPECTIONS, ALL_ORDERS, ALL_REPORTS, ALL_RESYNCS, COMMANDS, COMMANDS_STREAM, DEAD_LETTERS_STREAM,
    DeadLetterKind, EVENTS, EVENTS_STREAM, NOTICES_CONSUMER, NOTICES_STREAM, QUERY_LEADER, QUERY_STANDBY,
    STANDBY_QUEUE, STORE, dead_letter, token,
};

/// The prefix of all inboxes.
pub const INBOX: &str = "_INBOX";
/// The prefix of replies that pass from one account to the other.
pub const ACROSS_ACCOUNTS: &str = "_R_";
/// The subject for the settings of the server, which tell whether JetStream syncs before it acknowledges.
pub const SERVER_SETTINGS: &str = "$SYS.REQ.SERVER.PING.VARZ";

/// The calls that create a stream, or raise its replicas.
const ENSURE: [&str; 3] = ["INFO", "CREATE", "UPDATE"];

/// What a process is on the bus.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Member {
    /// Reads commands and reports, sends orders.
    Scheduler,
    /// Sends commands and queries.
    Apiserver,
    /// Reads notices.
    Notifier,
    /// Reads the orders of one node.
    Agent,
}

/// A NATS account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Account {
    /// Schedulers, apiservers, notifiers; has JetStream.
    Control,
    /// Agents.
    Agents,
}

impl Account {
    /// Its name in the configuration of the server.
    pub fn name(self) -> &'static str {
        match self {
            // JetStream's data belongs to the account of this name: another one would abandon the streams of older clusters.
            Self::Control => "DEPLOYD",
            Self::Agents => "AGENTS",
        }
    }
}

/// Something that passes from one account to the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Export {
    /// The account that owns the subject.
    pub from: Account,
    /// The account that may use it.
    pub to: Account,
    /// The subject.
    pub subject: &'static str,
    /// What passes.
    pub what: Passes,
}

/// What passes through an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passes {
    /// Messages.
    Messages,
    /// Requests, each with one reply.
    Requests,
    /// Requests whose reply may come in parts.
    RequestsWithParts,
}

/// All that passes between the accounts.
pub const EXPORTS: [Export; 6] = [
    Export { from: Account::Agents, to: Account::Control, subject: ALL_ORDERS, what: Passes::Requests },
    Export { from: Account::Agents, to: Account::Control, subject: ALL_INSPECTIONS, what: Passes::RequestsWithParts },
    Export { from: Account::Agents, to: Account::Control, subject: ALL_REPORTS, what: Passes::Messages },
    Export { from: Account::Agents, to: Account::Control, subject: subjects::DEAD_ORDERS, what: Passes::Messages },
    Export { from: Account::Agents, to: Account::Control, subject: subjects::DEAD_QUESTIONS, what: Passes::Messages },
    Export { from: Account::Control, to: Account::Agents, subject: ALL_RESYNCS, what: Passes::Messages },
];

impl Member {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Scheduler, Self::Apiserver, Self::Notifier, Self::Agent];

    /// As the first part of a user's name.
    pub fn word(self) -> &'static str {
        match self {
            Self::Scheduler => "scheduler",
            Self::Apiserver => "apiserver",
            Self::Notifier => "notifier",
            Self::Agent => "agent",
        }
    }

    /// The account of its users.
    pub fn account(self) -> Account {
        match self {
            Self::Scheduler | Self::Apiserver | Self::Notifier => Account::Control,
            Self::Agent => Account::Agents,
        }
    }
}

/// One process on the bus.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Identity {
    /// What it is.
    pub member: Member,
    /// Its name; of an agent the name of its node.
    pub name: NodeName,
}

impl Identity {
    /// The user of this process: `agent.node-1`.
    pub fn user(&self) -> String {
        format!("{}.{}", self.member.word(), token(self.name.as_str()))
    }

    /// The process of a user; none when it is no user of ours.
    pub fn of_user(user: &str) -> Option<Self> {
        let (word, name) = user.split_once('.')?;
        let member = Member::ALL.into_iter().find(|member| member.word() == word)?;
        Some(Self { member, name: name.replace("%2e", ".").parse().ok()? })
    }

    /// The prefix of the inboxes of a user.
    pub fn inbox_of(user: &str) -> String {
        format!("{INBOX}.{user}")
    }

    fn own_inboxes(&self) -> String {
        format!("{}.>", Self::inbox_of(&self.user()))
    }

    /// Subjects that it may publish to.
    pub fn publishes(&self) -> Vec<String> {
        let inboxes_of = |member: Member| format!("{INBOX}.{}.>", member.word());
        let mut allowed = match self.member {
            Member::Scheduler => {
                let mut allowed = vec![
                    ALL_ORDERS.to_owned(),
                    ALL_RESYNCS.to_owned(),
                    subjects::EACH_NOTICE.to_owned(),
                    EVENTS.to_owned(),
                    subjects::EACH_DEAD_LETTER.to_owned(),
                    STORE.to_owned(),
                    inboxes_of(Member::Apiserver),
                    inboxes_of(Member::Notifier),
                ];
                for stream in [COMMANDS_STREAM, NOTICES_STREAM, DEAD_LETTERS_STREAM, EVENTS_STREAM] {
                    allowed.extend(ENSURE.map(|call| stream_call(call, stream)));
                }
                // The message at the cursor tells whether the stream lost its newest messages.
                allowed.extend(["PURGE", "MSG.GET"].map(|call| stream_call(call, COMMANDS_STREAM)));
                allowed.extend(reads(COMMANDS_STREAM));
                allowed
            }
            Member::Apiserver => {
                let mut allowed = vec![
                    COMMANDS.to_owned(),
                    QUERY_LEADER.to_owned(),
                    QUERY_STANDBY.to_owned(),
                    ALL_INSPECTIONS.to_owned(),
                    stream_call("INFO", DEAD_LETTERS_STREAM),
                    // A repeated `Idempotency-Key` is compared with the stored command.
                    stream_call("MSG.GET", COMMANDS_STREAM),
                ];
                for stream in [COMMANDS_STREAM, EVENTS_STREAM] {
                    allowed.extend(ENSURE.map(|call| stream_call(call, stream)));
                }
                allowed.extend([EVENTS_STREAM, DEAD_LETTERS_STREAM].into_iter().flat_map(reads));
                allowed
            }
            Member::Notifier => {
                let mut allowed = vec![QUERY_LEADER.to_owned(), dead_letter(DeadLetterKind::Notice)];
                for stream in [NOTICES_STREAM, DEAD_LETTERS_STREAM] {
                    allowed.extend(ENSURE.map(|call| stream_call(call, stream)));
                }
                allowed.extend([
                    consumer_call("CREATE", &format!("{NOTICES_STREAM}.{NOTICES_CONSUMER}.>")),
                    consumer_call("CREATE", &format!("{NOTICES_STREAM}.{NOTICES_CONSUMER}")),
                    consumer_call("DURABLE.CREATE", &format!("{NOTICES_STREAM}.{NOTICES_CONSUMER}")),
                    consumer_call("INFO", &format!("{NOTICES_STREAM}.{NOTICES_CONSUMER}")),
                    consumer_call("MSG.NEXT", &format!("{NOTICES_STREAM}.{NOTICES_CONSUMER}")),
                    format!("$JS.ACK.{NOTICES_STREAM}.{NOTICES_CONSUMER}.>"),
                ]);
                allowed
            }
            Member::Agent => vec![
                subjects::report(&self.name),
                subjects::presence(&self.name),
                dead_letter(DeadLetterKind::Order),
                dead_letter(DeadLetterKind::Question),
                format!("{ACROSS_ACCOUNTS}.>"),
                // The answer to another agent of the same name.
                self.own_inboxes(),
            ],
        };
        if self.member.account() == Account::Control {
            allowed.push(SERVER_SETTINGS.to_owned());
        }
        allowed
    }

    /// Subjects that it may subscribe to; `subject queue` allows a queue group.
    pub fn subscribes(&self) -> Vec<String> {
        let mut allowed = match self.member {
            Member::Scheduler => {
                vec![ALL_REPORTS.to_owned(), QUERY_LEADER.to_owned(), format!("{QUERY_STANDBY} {STANDBY_QUEUE}")]
            }
            Member::Apiserver => vec![STORE.to_owned()],
            Member::Notifier => Vec::new(),
            Member::Agent => vec![
                subjects::order(&self.name),
                subjects::inspect(&self.name),
                subjects::resync(&self.name),
                subjects::presence(&self.name),
            ],
        };
        allowed.push(self.own_inboxes());
        allowed
    }
}

/// Whether a subject is an inbox. Replies go nowhere else: otherwise a question with the subject of an order as its reply would
/// make the process that answers send an order.
pub fn is_inbox(subject: &str) -> bool {
    subject.split_once('.').is_some_and(|(first, rest)| {
        [INBOX, ACROSS_ACCOUNTS].contains(&first) && !rest.is_empty() && !rest.contains(['*', '>', ' '])
    })
}

/// Whether a NATS subject matches a pattern with `*` and `>`.
pub fn matches(pattern: &str, subject: &str) -> bool {
    let (mut pattern, mut subject) = (pattern.split('.'), subject.split('.'));
    loop {
        match (pattern.next(), subject.next()) {
            (Some(">"), Some(_)) | (None, None) => return true,
            (Some(wanted), Some(word)) if wanted == "*" || wanted == word => {}
            (Some(_) | None, Some(_)) | (Some(_), None) => return false,
        }
    }
}

fn stream_call(call: &str, stream: &str) -> String {
    format!("$JS.API.STREAM.{call}.{stream}")
}

fn consumer_call(call: &str, rest: &str) -> String {
    format!("$JS.API.CONSUMER.{call}.{rest}")
}

/// The calls of a reader with a consumer of its own.
fn reads(stream: &str) -> Vec<String> {
    let mut calls = vec![consumer_call("CREATE", stream)];
    calls.extend(["CREATE", "MSG.NEXT", "DELETE", "INFO"].map(|call| consumer_call(call, &format!("{stream}.>"))));
    calls
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(member: Member, name: &str) -> Identity {
        Identity { member, name: name.parse().expect("a name") }
    }

    fn may_publish(identity: &Identity, subject: &str) -> bool {
        identity.publishes().iter().any(|pattern| matches(pattern, subject))
    }

    #[test]
    fn only_schedulers_send_orders_and_only_apiservers_send_commands() {
        let node: NodeName = "node-1".parse().expect("a name");
        for member in Member::ALL {
            let it = identity(member, "node-1");
            assert_eq!(may_publish(&it, &subjects::order(&node)), member == Member::Scheduler, "{member:?}");
            assert_eq!(may_publish(&it, COMMANDS), member == Member::Apiserver, "{member:?}");
        }
    }

    #[test]
    fn an_agent_speaks_for_its_own_node_only() {
        let (it, other) = (identity(Member::Agent, "a.b"), "c".parse().expect("a name"));
        assert!(may_publish(&it, "deployd.report.a%2eb"));
        assert!(!may_publish(&it, &subjects::report(&other)) && !may_publish(&it, "deployd.report.a.b"));
        assert!(!it.subscribes().iter().any(|pattern| matches(pattern, &subjects::order(&other))));
    }

    #[test]
    fn a_user_names_its_process() {
        let it = identity(Member::Agent, "node-1.example");
        assert_eq!(Identity::of_user(&it.user()), Some(it));
        assert_eq!(Identity::of_user("visitor.node-1"), None);
    }

    #[test]
    fn replies_go_to_inboxes_only() {
        for inbox in ["_INBOX.a", "_INBOX.agent.node-1.x", "_R_.abc"] {
            assert!(is_inbox(inbox), "{inbox}");
        }
        for subject in
            ["", "_INBOX", "_INBOX.", "_INBOXES.a", "deployd.order.node-2", "_R_", "_INBOX.>", "$JS.API.INFO"]
        {
            assert!(!is_inbox(subject), "{subject:?}");
        }
    }

    #[test]
    fn patterns_match_as_in_nats() {
        for (pattern, subject, expected) in [
            ("a.*", "a.b", true),
            ("a.*", "a.b.c", false),
            ("a.>", "a.b.c", true),
            ("a.>", "a", false),
            ("a", "a", true),
            ("a.b", "a", false),
        ] {
            assert_eq!(matches(pattern, subject), expected, "{pattern} {subject}");
        }
    }
}
