//! What each process may do on a real nats-server with the generated accounts: every identity against every subject.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_nats::{Client, ConnectOptions, Event};
use contract::bus::{Identity, Member, exports, matches};
use contract::streams;
use contract::subjects::{self, DeadLetterKind};
use fabric::bus_accounts::{self, User};
use fabric::local::{NatsServer, Syncing};
use fabric::nats::{Args, Bus, Error, RequestError, SharedConsumer, Subscription};

const DEADLINE: Duration = Duration::from_secs(5);

pub(crate) struct Connected {
    pub(crate) identity: Identity,
    pub(crate) client: Client,
    /// What the server refused.
    violations: Arc<Mutex<Vec<String>>>,
    pub(crate) bus: Bus,
}

/// Who may do what on the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// The first file that `deployctl bus-keys` wrote: apiservers and notifiers were users of the account that has JetStream.
    First,
    Present,
}

impl Layout {
    fn config(self, users: &[User]) -> String {
        match self {
            Self::Present => bus_accounts::config(users),
            Self::First => users.iter().fold(include_str!("fixtures/bus-accounts-1.conf").to_owned(), |text, user| {
                text.replace(&format!("KEY({})", user.identity.user()), &user.public_key)
            }),
        }
    }
}

fn identity(member: Member, name: &str) -> Identity {
    Identity { member, name: name.parse().unwrap() }
}

fn identities() -> [Identity; 5] {
    [
        identity(Member::Scheduler, "scheduler-1"),
        identity(Member::Apiserver, "apiserver-1"),
        identity(Member::Notifier, "notifier"),
        identity(Member::Agent, "node-1"),
        identity(Member::Agent, "node-2.example"),
    ]
}

/// A server with one connection for each identity.
pub(crate) async fn start(layout: Layout) -> (NatsServer, Vec<Connected>, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let keys: Vec<(Identity, String, String)> = identities()
        .map(|identity| {
            let (seed, public_key) = bus_accounts::generate_key();
            (identity, seed, public_key)
        })
        .to_vec();
    let user = |(identity, _, public_key): &(Identity, String, String)| User {
        identity: identity.clone(),
        public_key: public_key.clone(),
    };
    let users: Vec<User> = keys.iter().map(user).collect();
    let server = NatsServer::start_configured(&dir.path().join("nats"), 0, Syncing::Always, &layout.config(&users))
        .await
        .unwrap();
    let mut all = Vec::new();
    for (identity, seed, _) in keys {
        let violations: Arc<Mutex<Vec<String>>> = Arc::default();
        let seen = Arc::clone(&violations);
        let options = ConnectOptions::new().nkey(seed.clone()).event_callback(move |event| {
            if let Event::ServerError(error) = event {
                seen.lock().unwrap().push(error.to_string().to_lowercase());
            }
            async {}
        });
        let client = options.connect(server.url()).await.unwrap();
        let file = dir.path().join(identity.user());
        std::fs::write(&file, format!("{}:{seed}\n", identity.user())).unwrap();
        let args = Args { credentials_file: Some(file), ..Args::at(server.url()) };
        let bus = Bus::connect(&args, "test").await.unwrap();
        all.push(Connected { identity, client, violations, bus });
    }
    (server, all, dir)
}

/// Every subject of the system, of both nodes, and what an attacker would try.
fn all_subjects() -> Vec<String> {
    let mut all: BTreeSet<String> = [
        subjects::COMMANDS,
        subjects::EVENTS,
        subjects::QUERY_LEADER,
        subjects::QUERY_CALLBACKS,
        subjects::QUERY_STANDBY,
        subjects::STORE,
        subjects::STORED_EVENTS,
        "_INBOX.abc",
        "$JS.API.INFO",
        "$JS.API.STREAM.NAMES",
        "$JS.API.STREAM.MSG.GET.COMMANDS",
        "$SYS.REQ.SERVER.PING.CONNZ",
        "$SYS.REQ.SERVER.PING.VARZ",
        "$SYS.REQ.SERVER.PING.IDZ",
        "$SYS.REQ.SERVER.abc.RELOAD",
        "$SYS.REQ.SERVER.abc.KICK",
        "deployd.unknown",
    ]
    .map(str::to_owned)
    .into();
    for stream in ["COMMANDS", "NOTICES", "EVENTS", "DEAD_LETTERS"] {
        all.extend(
            ["INFO", "CREATE", "UPDATE", "DELETE", "PURGE"].map(|call| format!("$JS.API.STREAM.{call}.{stream}")),
        );
        all.extend(["CREATE", "MSG.NEXT", "DELETE"].map(|call| format!("$JS.API.CONSUMER.{call}.{stream}.abc")));
        all.insert(format!("$JS.API.DIRECT.GET.{stream}"));
        all.insert(format!("$JS.ACK.{stream}.notifier.1.1.1.1.0"));
    }
    // What passes between the accounts, in the table: later calls are tried too.
    all.extend(exports().into_iter().map(|export| export.subject.replace(['*', '>'], "abc")));
    for kind in [DeadLetterKind::Order, DeadLetterKind::Command, DeadLetterKind::Notice, DeadLetterKind::Question] {
        all.insert(subjects::dead_letter(kind));
    }
    all.insert(subjects::notice("abc"));
    for identity in identities() {
        all.insert(format!("{}.x", Identity::inbox_of(&identity.user())));
        if identity.member == Member::Agent {
            let node = &identity.name;
            all.extend([
                subjects::order(node),
                subjects::report(node),
                subjects::resync(node),
                subjects::inspect(node),
                subjects::session(node),
                subjects::presence(node),
            ]);
        }
    }
    all.into_iter().collect()
}

/// The subjects among `tried` that the server refused.
fn refused(violations: &[String], what: &str, tried: &[String]) -> BTreeSet<String> {
    let names = |subject: &&String| {
        let quoted = format!("\"{}\"", subject.to_lowercase());
        violations.iter().any(|text| text.contains(&format!("for {what} to {quoted}")))
    };
    tried.iter().filter(names).cloned().collect()
}

pub(crate) async fn settled(connected: &Connected) {
    connected.client.flush().await.unwrap();
    // Violations come before the answer to a ping, but the callback runs on its own task.
    let mut count = usize::MAX;
    for _ in 0..100 {
        tokio::time::sleep(Duration::from_millis(20)).await;
        let now = connected.violations.lock().unwrap().len();
        if now == count {
            return;
        }
        count = now;
    }
}

#[tokio::test]
async fn every_identity_may_use_exactly_its_subjects() {
    let (_server, all, _dir) = start(Layout::Present).await;
    let tried = all_subjects();
    let mut cells = 0;
    for connected in &all {
        let identity = &connected.identity;
        // The client drops refusals when many wait.
        for some in tried.chunks(25) {
            for subject in some {
                connected.client.publish(subject.clone(), "x".into()).await.unwrap();
                // Kept open: an unsubscribe could overtake the refusal.
                std::mem::forget(connected.client.subscribe(subject.clone()).await.unwrap());
            }
            settled(connected).await;
        }
        let violations = connected.violations.lock().unwrap().clone();
        for (what, allowed) in [("publish", identity.publishes()), ("subscription", identity.subscribes())] {
            let may = |subject: &&String| !allowed.iter().any(|pattern| matches(pattern, subject));
            let wanted: BTreeSet<String> = tried.iter().filter(may).cloned().collect();
            assert_eq!(refused(&violations, what, &tried), wanted, "{what} of {}", identity.user());
            cells += tried.len();
        }
    }
    assert!(cells >= 240, "{cells} cells");
    println!("{cells} cells, 0 wrong");
}

#[tokio::test]
async fn no_question_makes_an_agent_or_a_scheduler_send_an_order() {
    let (_server, all, _dir) = start(Layout::Present).await;
    let (scheduler, agent) = (&all[0], &all[3]);
    let target = subjects::order(&all[4].identity.name);
    for from in [scheduler, agent] {
        let answer = from.bus.answer(&target, &"an order").await;
        assert!(matches!(answer, Err(Error::NoInbox { .. })), "{answer:?}");
    }
    // An agent that asks itself, with the subject of another node's orders as the reply, gains no right to publish there.
    let own = subjects::presence(&agent.identity.name);
    let mut questions = agent.client.subscribe(own.clone()).await.unwrap();
    agent.client.publish_with_reply(own, target.clone(), "x".into()).await.unwrap();
    let question = futures_util::StreamExt::next(&mut questions).await.unwrap();
    agent.client.publish(question.reply.unwrap(), "an order".into()).await.unwrap();
    settled(agent).await;
    let violations = agent.violations.lock().unwrap().clone();
    assert_eq!(
        refused(&violations, "publish", std::slice::from_ref(&target)),
        BTreeSet::from([target]),
        "{violations:?}"
    );
}

#[tokio::test]
async fn requests_and_streams_pass_between_the_accounts() {
    let (_server, all, _dir) = start(Layout::Present).await;
    let (scheduler, agent) = (&all[0].bus, &all[3].bus);
    let node = &all[3].identity.name;
    let mut orders = agent.subscribe(&subjects::order(node)).await.unwrap();
    let mut resyncs = agent.subscribe(&subjects::resync(node)).await.unwrap();
    let mut reports = scheduler.subscribe(subjects::ALL_REPORTS).await.unwrap();
    for bus in [scheduler, agent] {
        bus.flush().await.unwrap();
    }
    let large = "x".repeat(3 << 20);
    let answering = async {
        let order = orders.next().await.unwrap();
        let size = order.decode::<String>().unwrap().len();
        agent.answer(&order.reply.unwrap(), &size).await.unwrap();
    };
    let subject = subjects::order(node);
    let asking = scheduler.request::<_, usize>(&subject, &large, Duration::from_secs(10));
    let (size, ()) = tokio::join!(asking, answering);
    assert_eq!(size.unwrap(), large.len(), "an order in parts and its reply");
    agent.publish(&subjects::report(node), &"report").await.unwrap();
    scheduler.publish(&subjects::resync(node), &"again").await.unwrap();
    assert_eq!(reports.next().await.unwrap().decode::<String>().unwrap(), "report");
    assert_eq!(resyncs.next().await.unwrap().decode::<String>().unwrap(), "again");
}

fn notices() -> SharedConsumer<'static> {
    SharedConsumer {
        stream: subjects::NOTICES_STREAM,
        name: subjects::NOTICES_CONSUMER,
        filter: subjects::ALL_NOTICES,
        ack_wait: DEADLINE,
        max_ack_pending: 16,
    }
}

/// The table says what a process may do; this says that it is enough: every call that the processes make, under their identity.
#[tokio::test]
async fn every_process_may_make_the_calls_that_it_makes() {
    let (_server, all, _dir) = start(Layout::Present).await;
    let [scheduler, apiserver, notifier] = [0, 1, 2].map(|index| all[index].bus.clone());
    let mut missing = notifier.consume(&notices());
    let waiting = fabric::tasks::spawn("answering", async move {
        tokio::time::timeout(DEADLINE * 2, missing.next()).await.expect("a notice").ack().await
    });
    for stream in ["COMMANDS", "EVENTS"] {
        assert!(!apiserver.has_stream(stream).await.unwrap(), "{stream}: no scheduler has started");
    }
    let refused = apiserver.publish_durable(subjects::COMMANDS, "early", &[], &"early", DEADLINE).await;
    assert!(matches!(refused, Err(Error::NoStream { .. })), "{refused:?}");
    // The first leader, and the one that takes over from it.
    for _ in 0..2 {
        create(&scheduler).await;
        scheduler.ensure_consumer(&notices()).await.unwrap();
    }
    scheduler.publish_durable(&subjects::notice("abc"), "first", &[], &"notice", DEADLINE).await.unwrap();
    waiting.await.unwrap().unwrap();
    for stream in ["COMMANDS", "EVENTS"] {
        assert!(apiserver.has_stream(stream).await.unwrap(), "{stream}");
    }
    calls(&scheduler, &apiserver, &notifier, subjects::QUERY_CALLBACKS).await;
}

/// The operator has replaced the programs and not yet the accounts: a file that the version before wrote.
#[tokio::test]
async fn every_process_may_make_the_calls_that_it_makes_with_accounts_of_the_first_layout() {
    let (_server, all, _dir) = start(Layout::First).await;
    let [scheduler, apiserver, notifier] = [0, 1, 2].map(|index| all[index].bus.clone());
    create(&scheduler).await;
    let refused = scheduler.ensure_consumer(&notices()).await;
    assert!(matches!(refused, Err(Error::NoConsumer { .. })), "{refused:?}");
    notifier.ensure_consumer(&notices()).await.unwrap();
    let query = notifier.request::<_, String>(subjects::QUERY_CALLBACKS, &"query", DEADLINE).await;
    assert!(matches!(query, Err(RequestError::NotPermitted { .. })), "then a notifier asks as before: {query:?}");
    calls(&scheduler, &apiserver, &notifier, subjects::QUERY_LEADER).await;
}

async fn create(scheduler: &Bus) {
    for stream in [streams::COMMANDS, streams::NOTICES, streams::DEAD_LETTERS, streams::EVENTS] {
        scheduler.ensure_stream(&(&stream).into()).await.unwrap();
    }
    assert_eq!(scheduler.syncs_always().await, Some(true));
}

/// `callbacks` is the subject on which notifiers ask for them.
async fn calls(scheduler: &Bus, apiserver: &Bus, notifier: &Bus, callbacks: &str) {
    commands(scheduler, apiserver).await;
    events_and_dead_letters(scheduler, apiserver, notifier).await;
    // Notices: written by the leader, consumed and acknowledged by notifiers.
    scheduler.publish_durable(&subjects::notice("abc"), "notice", &[], &"notice", DEADLINE).await.unwrap();
    let mut jobs = notifier.consume(&notices());
    let job = jobs.next().await;
    job.progress().await.unwrap();
    job.retry_after(Duration::ZERO).await.unwrap();
    jobs.next().await.ack().await.unwrap();
    queries(scheduler, apiserver, (notifier, callbacks)).await;
}

async fn commands(scheduler: &Bus, apiserver: &Bus) {
    // Commands: an apiserver writes, a new leader checks its cursor and reads on, purges and leaves a note.
    let headers = [(subjects::REPLY_HEADER, "_INBOX.apiserver.apiserver-1.x")];
    for id in ["one", "two"] {
        apiserver.publish_durable(subjects::COMMANDS, id, &headers, &id, DEADLINE).await.unwrap();
    }
    let mut commands = scheduler.read_stream(subjects::COMMANDS_STREAM, 0).await.unwrap();
    let first = commands.next().await.unwrap();
    assert_eq!(scheduler.holds(subjects::COMMANDS_STREAM, first.place()).await.unwrap(), Some(true));
    assert!(apiserver.payload(subjects::COMMANDS_STREAM, first.sequence).await.unwrap().is_some());
    let mut rest = scheduler.read_stream(subjects::COMMANDS_STREAM, first.place()).await.unwrap();
    assert_eq!(rest.next().await.unwrap().sequence, first.sequence + 1);
    scheduler.stream_state(subjects::COMMANDS_STREAM).await.unwrap();
    scheduler.note_on_stream(subjects::COMMANDS_STREAM, &[("deployd-store", "a".to_owned())]).await.unwrap();
    scheduler.stream_notes(subjects::COMMANDS_STREAM).await.unwrap();
    scheduler.purge_up_to(subjects::COMMANDS_STREAM, first.sequence).await.unwrap();

    // The outcome goes to the inbox that the command names.
    hears(apiserver, scheduler, &apiserver.inbox()).await;
}

/// What one process publishes, the other receives.
async fn hears(listener: &Bus, speaker: &Bus, subject: &str) {
    let mut messages = listener.subscribe(subject).await.unwrap();
    let hearing = async {
        loop {
            // The server may see the message before the subscription.
            speaker.publish(subject, &"text").await.unwrap();
            if let Ok(Some(message)) = tokio::time::timeout(Duration::from_millis(200), messages.next()).await {
                return message.decode::<String>().unwrap();
            }
        }
    };
    assert_eq!(tokio::time::timeout(DEADLINE, hearing).await.expect(subject), "text");
}

/// Written by the leader, dead letters by notifiers too; read backwards and followed by apiservers.
async fn events_and_dead_letters(scheduler: &Bus, apiserver: &Bus, notifier: &Bus) {
    let event = async |number: u64| {
        let text = number.to_string();
        scheduler.publish_durable(subjects::EVENTS, &text, &[], &text, DEADLINE).await.unwrap();
    };
    let dead = subjects::dead_letter(DeadLetterKind::Command);
    scheduler.publish_durable(&dead, "letter", &[], &"letter", DEADLINE).await.unwrap();
    let letter = subjects::dead_letter(DeadLetterKind::Notice);
    notifier.publish_durable(&letter, "undelivered", &[], &"undelivered", DEADLINE).await.unwrap();
    for number in 1..=2 {
        event(number).await;
    }
    for stream in [subjects::EVENTS_STREAM, subjects::DEAD_LETTERS_STREAM] {
        let mut past = apiserver.read_back(stream).await.unwrap().unwrap();
        assert_eq!(past.part(10).await.unwrap().unwrap().len(), 2, "{stream}");
    }
    let mut follower = apiserver.follow(subjects::EVENTS_STREAM, subjects::STORED_EVENTS, 1).await.unwrap();
    assert_eq!(follower.next().await.unwrap().sequence, 2);
    // A follower that waits is woken by the next event.
    let (next, ()) = tokio::join!(follower.next(), event(3));
    assert_eq!((next.as_ref().unwrap().sequence, &*next.unwrap().payload), (3, b"\"3\"".as_slice()));
}

/// Apiservers and notifiers ask, a scheduler answers, also in parts.
async fn queries(scheduler: &Bus, apiserver: &Bus, (notifier, callbacks): (&Bus, &str)) {
    let large = "x".repeat(3 << 20);
    for (bus, subject) in [(apiserver, subjects::QUERY_LEADER), (notifier, callbacks)] {
        let early = bus.request::<_, String>(subject, &"query", DEADLINE).await;
        assert!(matches!(early, Err(RequestError::NoResponders { .. })), "{early:?}");
    }
    for (bus, subject) in
        [(apiserver, subjects::QUERY_LEADER), (notifier, callbacks), (apiserver, subjects::QUERY_STANDBY)]
    {
        let queries = match subject == subjects::QUERY_STANDBY {
            true => scheduler.queue_subscribe(subject, subjects::STANDBY_QUEUE).await.unwrap(),
            false => scheduler.subscribe(subject).await.unwrap(),
        };
        scheduler.flush().await.unwrap();
        assert_eq!(answered(bus, scheduler, subject, queries, large.clone()).await, large.len());
    }
    hears(apiserver, scheduler, subjects::STORE).await;
}

/// Asks, lets the other process answer, and returns the length of the answer.
async fn answered(asks: &Bus, answers: &Bus, subject: &str, mut questions: Subscription, text: String) -> usize {
    let answers = answers.clone();
    let answering = fabric::tasks::spawn("answering", async move {
        let question = questions.next().await.unwrap();
        answers.answer(&question.reply.unwrap(), &text).await.unwrap();
    });
    // The server may see the question before the subscription.
    let answer = loop {
        match asks.request::<_, String>(subject, &"question", DEADLINE).await {
            Err(RequestError::NoResponders { .. }) => {}
            answer => break answer.unwrap(),
        }
    };
    answering.await.unwrap();
    answer.len()
}

#[tokio::test]
async fn an_apiserver_inspects_a_pod_on_its_node() {
    for layout in [Layout::Present, Layout::First] {
        let (_server, all, _dir) = start(layout).await;
        let (apiserver, agent) = (&all[1].bus, &all[3]);
        let subject = subjects::inspect(&agent.identity.name);
        let questions = agent.bus.subscribe(&subject).await.unwrap();
        agent.bus.flush().await.unwrap();
        let size = answered(apiserver, &agent.bus, &subject, questions, "x".repeat(3 << 20)).await;
        assert_eq!(size, (3 << 20), "{layout:?}");
    }
}

#[tokio::test]
async fn an_apiserver_reads_logs_from_a_node_and_learns_at_once_that_older_accounts_do_not_let_it() {
    let (_server, all, _dir) = start(Layout::Present).await;
    let (apiserver, agent) = (&all[1].bus, &all[3]);
    let subject = subjects::session(&agent.identity.name);
    let silent = apiserver.request::<_, String>(&subject, &"read", DEADLINE).await;
    assert!(matches!(silent, Err(RequestError::NoResponders { .. })), "{silent:?}");
    let requests = agent.bus.subscribe(&subject).await.unwrap();
    agent.bus.flush().await.unwrap();
    assert_eq!(answered(apiserver, &agent.bus, &subject, requests, "x".repeat(3 << 20)).await, 3 << 20);

    let (_server, all, _dir) = start(Layout::First).await;
    let began = std::time::Instant::now();
    let refused = all[1].bus.request::<_, String>(&subject, &"read", DEADLINE * 4).await;
    assert!(matches!(refused, Err(RequestError::NotPermitted { .. })), "{refused:?}");
    assert!(began.elapsed() < DEADLINE, "{:?}", began.elapsed());
}
