//! Permissions on NATS: one identity for each process, with the subjects that it may publish and subscribe.
//!
//! JetStream answers on whatever reply subject a request names, and publishes wherever a stream or a consumer is set to, with the
//! rights of its account. So the account that has JetStream (`DEPLOYD`, which also owned the streams before there were
//! identities) has only schedulers as users, and only they create streams and consumers. Apiservers, notifiers and agents have
//! accounts of their own. NATS hands a reply back to the account that asked, where it reaches only what that account imports:
//! what its users may use anyway. [`exports`] lists what passes between the accounts.
//!
//! Replies go to the inbox of the process that asks: `_INBOX.<user>.…`, which only that process may read. Processes that answer
//! another account reply to `_R_.…`, the subject under which NATS passes a reply on. `allow_responses` is never used: it lets a
//! process that asks itself publish to any subject, with that subject as the reply.

use crate::name::NodeName;
use crate::subjects::{
    self, ALL_INSPECTIONS, ALL_ORDERS, ALL_REPORTS, ALL_RESYNCS, ALL_SESSIONS, COMMANDS, COMMANDS_STREAM,
    DEAD_LETTERS_STREAM, DeadLetterKind, EVENTS, EVENTS_STREAM, NOTICES_CONSUMER, NOTICES_STREAM, QUERY_CALLBACKS,
    QUERY_LEADER, QUERY_STANDBY, STANDBY_QUEUE, STORE, STORED_EVENTS, dead_letter, token,
};

/// The prefix of all inboxes.
pub const INBOX: &str = "_INBOX";
/// The prefix of replies that pass from one account to the other.
pub const ACROSS_ACCOUNTS: &str = "_R_";
/// The subject for the settings of the server, which tell whether JetStream syncs before it acknowledges.
pub const SERVER_SETTINGS: &str = "$SYS.REQ.SERVER.PING.VARZ";
/// The subject on which every server of a cluster names itself.
pub const ALL_SERVERS: &str = "$SYS.REQ.SERVER.PING.IDZ";
/// The subjects with which a server reads its configuration again: for schedulers, which write the keys of nodes into it.
pub const SERVER_RELOADS: &str = "$SYS.REQ.SERVER.*.RELOAD";

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
    /// Schedulers; has JetStream.
    Control,
    /// Apiservers.
    Apiservers,
    /// Notifiers.
    Notifiers,
    /// Agents.
    Agents,
}

impl Account {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Control, Self::Apiservers, Self::Notifiers, Self::Agents];

    /// Its name in the configuration of the server.
    pub fn name(self) -> &'static str {
        match self {
            // JetStream's data belongs to the account of this name: another one would abandon the streams of older clusters.
            Self::Control => "DEPLOYD",
            Self::Apiservers => "APISERVERS",
            Self::Notifiers => "NOTIFIERS",
            Self::Agents => "AGENTS",
        }
    }
}

/// Something that passes from one account to the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Export {
    /// The account that owns the subject.
    pub from: Account,
    /// The account that may use it.
    pub to: Account,
    /// The subject.
    pub subject: String,
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
pub fn exports() -> Vec<Export> {
    let of_agents = [
        (Account::Control, ALL_ORDERS, Passes::Requests),
        (Account::Apiservers, ALL_INSPECTIONS, Passes::RequestsWithParts),
        (Account::Apiservers, ALL_SESSIONS, Passes::RequestsWithParts),
        (Account::Control, ALL_REPORTS, Passes::Messages),
    ];
    let of_control =
        [(Account::Agents, ALL_RESYNCS), (Account::Apiservers, STORE), (Account::Apiservers, STORED_EVENTS)];
    let mut all: Vec<Export> = of_agents
        .map(|(to, subject, what)| Export { from: Account::Agents, to, subject: subject.to_owned(), what })
        .into();
    all.extend(of_control.map(|(to, subject)| Export {
        from: Account::Control,
        to,
        subject: subject.to_owned(),
        what: Passes::Messages,
    }));
    all.push(Export {
        from: Account::Control,
        to: Account::Apiservers,
        // Outcomes of commands.
        subject: inboxes_of(Member::Apiserver),
        what: Passes::Messages,
    });
    for (to, calls) in [(Account::Apiservers, calls_of_apiservers()), (Account::Notifiers, calls_of_notifiers())] {
        all.extend(calls.into_iter().map(|(subject, what)| Export { from: Account::Control, to, subject, what }));
    }
    all
}

/// What apiservers ask schedulers and JetStream. There is no call that creates a consumer, because it can name the subject on which
/// JetStream delivers. Nor is there one that the API of JetStream answers itself (`STREAM.INFO`): it also answers in an account
/// without JetStream, with an error that arrives first.
fn calls_of_apiservers() -> Vec<(String, Passes)> {
    let queries = [QUERY_LEADER, QUERY_STANDBY].map(str::to_owned);
    let reads = [COMMANDS_STREAM, EVENTS_STREAM, DEAD_LETTERS_STREAM].map(direct_get);
    let mut calls = vec![(COMMANDS.to_owned(), Passes::Requests)];
    calls.extend(queries.into_iter().chain(reads).map(|subject| (subject, Passes::RequestsWithParts)));
    calls
}

/// What notifiers ask schedulers and JetStream. Schedulers create the consumer.
fn calls_of_notifiers() -> Vec<(String, Passes)> {
    let consumer = format!("{NOTICES_STREAM}.{NOTICES_CONSUMER}");
    vec![
        (QUERY_CALLBACKS.to_owned(), Passes::RequestsWithParts),
        (consumer_call("MSG.NEXT", &consumer), Passes::RequestsWithParts),
        (dead_letter(DeadLetterKind::Notice), Passes::Requests),
        (format!("$JS.ACK.{consumer}.>"), Passes::Requests),
    ]
}

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
            Self::Scheduler => Account::Control,
            Self::Apiserver => Account::Apiservers,
            Self::Notifier => Account::Notifiers,
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
        let subjects_of = |calls: Vec<(String, Passes)>| calls.into_iter().map(|(subject, _)| subject);
        match self.member {
            Member::Scheduler => published_by_schedulers(),
            Member::Apiserver => {
                let of_agents = [ALL_INSPECTIONS, ALL_SESSIONS].map(str::to_owned);
                subjects_of(calls_of_apiservers()).chain(of_agents).collect()
            }
            Member::Notifier => subjects_of(calls_of_notifiers()).collect(),
            Member::Agent => vec![
                subjects::report(&self.name),
                subjects::presence(&self.name),
                format!("{ACROSS_ACCOUNTS}.>"),
                // The answer to another agent of the same name.
                self.own_inboxes(),
            ],
        }
    }

    /// Subjects that it may subscribe to; `subject queue` allows a queue group.
    pub fn subscribes(&self) -> Vec<String> {
        let mut allowed = match self.member {
            Member::Scheduler => {
                let queries = [QUERY_LEADER, QUERY_CALLBACKS].map(str::to_owned);
                let of_standby = format!("{QUERY_STANDBY} {STANDBY_QUEUE}");
                queries.into_iter().chain([ALL_REPORTS.to_owned(), of_standby]).collect()
            }
            Member::Apiserver => vec![STORE.to_owned(), STORED_EVENTS.to_owned()],
            Member::Notifier => Vec::new(),
            Member::Agent => vec![
                subjects::order(&self.name),
                subjects::inspect(&self.name),
                subjects::session(&self.name),
                subjects::resync(&self.name),
                subjects::presence(&self.name),
            ],
        };
        allowed.push(self.own_inboxes());
        allowed
    }
}

fn published_by_schedulers() -> Vec<String> {
    let mut allowed = vec![
        ALL_ORDERS.to_owned(),
        ALL_RESYNCS.to_owned(),
        subjects::EACH_NOTICE.to_owned(),
        EVENTS.to_owned(),
        subjects::EACH_DEAD_LETTER.to_owned(),
        STORE.to_owned(),
        // Outcomes of commands, and answers to queries.
        inboxes_of(Member::Apiserver),
        format!("{ACROSS_ACCOUNTS}.>"),
        SERVER_SETTINGS.to_owned(),
        ALL_SERVERS.to_owned(),
        SERVER_RELOADS.to_owned(),
    ];
    for stream in [COMMANDS_STREAM, NOTICES_STREAM, DEAD_LETTERS_STREAM, EVENTS_STREAM] {
        allowed.extend(ENSURE.map(|call| stream_call(call, stream)));
    }
    // The message at the cursor tells whether the stream lost its newest messages.
    allowed.extend(["PURGE", "MSG.GET"].map(|call| stream_call(call, COMMANDS_STREAM)));
    allowed.push(consumer_call("CREATE", COMMANDS_STREAM));
    let own = format!("{COMMANDS_STREAM}.>");
    allowed.extend(["CREATE", "MSG.NEXT", "DELETE", "INFO"].map(|call| consumer_call(call, &own)));
    let of_notifiers = format!("{NOTICES_STREAM}.{NOTICES_CONSUMER}");
    allowed.push(consumer_call("CREATE", &format!("{of_notifiers}.>")));
    allowed.extend(["CREATE", "DURABLE.CREATE", "INFO"].map(|call| consumer_call(call, &of_notifiers)));
    allowed
}

/// The subject that reloads one server.
pub fn server_reload(id: &str) -> String {
    SERVER_RELOADS.replace('*', id)
}

fn inboxes_of(member: Member) -> String {
    format!("{INBOX}.{}.>", member.word())
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

fn direct_get(stream: &str) -> String {
    format!("$JS.API.DIRECT.GET.{stream}")
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
    fn only_apiservers_may_ask_the_leader_for_more_than_the_callbacks() {
        for member in Member::ALL {
            let it = identity(member, "a");
            assert_eq!(may_publish(&it, QUERY_LEADER), member == Member::Apiserver, "{member:?}");
            assert_eq!(may_publish(&it, QUERY_CALLBACKS), member == Member::Notifier, "{member:?}");
        }
    }

    #[test]
    fn only_schedulers_are_in_the_account_that_has_jetstream_and_only_they_create_streams_and_consumers() {
        for member in Member::ALL {
            assert_eq!(member.account() == Account::Control, member == Member::Scheduler, "{member:?}");
            let allowed = identity(member, "a").publishes();
            let creates = |subject: &&String| ["CREATE", "UPDATE", "PURGE"].iter().any(|call| subject.contains(call));
            assert_eq!(allowed.iter().any(|subject| creates(&subject)), member == Member::Scheduler, "{member:?}");
        }
        let exported = exports();
        assert!(exported.iter().all(|export| !export.subject.contains("CREATE") && export.from != export.to));
    }

    #[test]
    fn what_passes_into_an_account_is_what_its_users_may_use() {
        for export in exports() {
            let member = Member::ALL.into_iter().find(|member| member.account() == export.to).expect("a member");
            let it = identity(member, "a");
            let allowed = match export.what {
                Passes::Requests | Passes::RequestsWithParts => it.publishes(),
                Passes::Messages => it.subscribes(),
            };
            let part = export.subject.replace('*', "a").replace("_INBOX.apiserver.>", "_INBOX.apiserver.a.b");
            let is_allowed = allowed.iter().any(|pattern| *pattern == export.subject || matches(pattern, &part));
            assert!(is_allowed, "{export:?}");
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
