//! What a process that was taken over tries on the bus, with the right key and beyond its role.
//!
//! JetStream answers on any reply subject and delivers to any subject, with the rights of its account. Each attack is also run
//! against the first layout of the accounts, where it succeeds: an attack that fails for another reason would prove nothing.

use std::time::Duration;

use async_nats::HeaderMap;
use contract::bus::Member;
use contract::streams;
use contract::subjects::{self, DeadLetterKind};
use futures_util::StreamExt;
use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::bus_accounts::{Connected, Layout, settled, start};

const DEADLINE: Duration = Duration::from_secs(5);
/// Longer than any attack takes that succeeds.
const PATIENCE: Duration = Duration::from_secs(3);
/// Deletes the commands when its request is empty, as the answer of a consumer without messages is.
const DELETE: &str = "$JS.API.STREAM.DELETE.COMMANDS";
const MESSAGES_OF_X: &str = "$JS.API.CONSUMER.MSG.NEXT.EVENTS.x";
const NOTICES: &str = "$JS.API.CONSUMER.MSG.NEXT.NOTICES.notifier";
const CREATE_NOTIFIER: &str = "$JS.API.CONSUMER.DURABLE.CREATE.NOTICES.notifier";

fn report() -> String {
    subjects::report(&"node-1".parse().unwrap())
}

fn report_of_another() -> String {
    subjects::report(&"node-2.example".parse().unwrap())
}

/// The dead letters that agents wrote in the first layout.
fn dead_order() -> String {
    subjects::dead_letter(DeadLetterKind::Order)
}

fn dead_notice() -> String {
    subjects::dead_letter(DeadLetterKind::Notice)
}

/// One message of the attacker.
struct Sent {
    subject: String,
    reply: String,
    payload: Value,
}

fn sent(subject: impl AsRef<str>, reply: impl AsRef<str>, payload: Value) -> Sent {
    Sent { subject: subject.as_ref().to_owned(), reply: reply.as_ref().to_owned(), payload }
}

struct Attack {
    name: &'static str,
    by: Member,
    /// Where the server shall describe the way of the first message, if anywhere.
    trace: Option<String>,
    sends: Vec<Sent>,
}

fn attack(name: &'static str, by: Member, sends: Vec<Sent>) -> Attack {
    Attack { name, by, trace: None, sends }
}

fn consumer(stream: &str, config: &Value) -> Value {
    json!({ "stream_name": stream, "config": config })
}

/// Those that succeeded in the first layout.
fn known() -> Vec<Attack> {
    use Member::{Agent, Apiserver, Notifier};
    let pull =
        |stream, name| consumer(stream, &json!({ "name": name, "durable_name": name, "ack_policy": "explicit" }));
    // JetStream delivers where a subscription names exactly this subject, as that of a stream does.
    let push = |stream, name, to: &str| {
        consumer(stream, &json!({ "name": name, "durable_name": name, "ack_policy": "none", "deliver_subject": to }))
    };
    let no_wait = || json!({ "batch": 1, "no_wait": true });
    let republishing = json!({ "name": "EVENTS", "subjects": [subjects::EVENTS], "storage": "file",
        "max_age": streams::EVENTS.max_age.as_nanos(), "max_bytes": streams::EVENTS.max_bytes, "num_replicas": 1,
        "duplicate_window": 120_000_000_000_u64, "republish": { "src": subjects::EVENTS, "dest": report() } });
    vec![
        attack(
            "an apiserver deletes the commands by the answer of a consumer",
            Apiserver,
            vec![
                sent("$JS.API.CONSUMER.CREATE.EVENTS.x", "", pull("EVENTS", "x")),
                sent(MESSAGES_OF_X, "", no_wait()),
                sent(MESSAGES_OF_X, DELETE, no_wait()),
            ],
        ),
        attack(
            "a notifier deletes the commands by the answer of its consumer",
            Notifier,
            vec![
                sent(CREATE_NOTIFIER, "", pull("NOTICES", "notifier")),
                sent(NOTICES, "", no_wait()),
                sent(NOTICES, DELETE, no_wait()),
            ],
        ),
        attack(
            "an apiserver reports for a node by an acknowledgement",
            Apiserver,
            vec![sent(subjects::COMMANDS, report(), json!("another"))],
        ),
        attack(
            "a notifier reports for a node by an acknowledgement",
            Notifier,
            vec![sent(dead_notice(), report(), json!("one"))],
        ),
        attack(
            "an agent reports for another node by an acknowledgement",
            Agent,
            vec![sent(dead_order(), report_of_another(), json!("one"))],
        ),
        attack(
            "an apiserver makes the stream of events report for a node",
            Apiserver,
            vec![sent("$JS.API.STREAM.UPDATE.EVENTS", "", republishing)],
        ),
        attack(
            "an apiserver makes a consumer write events",
            Apiserver,
            vec![sent("$JS.API.CONSUMER.CREATE.DEAD_LETTERS.x", "", push("DEAD_LETTERS", "x", subjects::EVENTS))],
        ),
        attack(
            "a notifier makes its consumer command",
            Notifier,
            vec![sent(CREATE_NOTIFIER, "", push("NOTICES", "notifier", subjects::COMMANDS))],
        ),
        attack(
            "an apiserver reports for a node by an answer",
            Apiserver,
            vec![sent("$JS.API.STREAM.MSG.GET.COMMANDS", report(), json!({ "seq": 1 }))],
        ),
        attack(
            "a notifier reports for a node by an answer",
            Notifier,
            vec![sent("$JS.API.STREAM.INFO.NOTICES", report(), Value::Null)],
        ),
    ]
}

/// Those that use a call of the present layout only, or that the server itself refuses.
fn others() -> Vec<Attack> {
    use Member::{Agent, Apiserver, Notifier};
    let missing = || json!({ "seq": 99 });
    let traced = |name, by, subject: &str| Attack {
        trace: Some(if by == Agent { report_of_another() } else { report() }),
        ..attack(name, by, vec![sent(subject, "", json!("x"))])
    };
    vec![
        attack(
            "an apiserver deletes the commands by a direct read",
            Apiserver,
            vec![sent("$JS.API.DIRECT.GET.EVENTS", DELETE, missing())],
        ),
        attack(
            "an apiserver reports for a node by a direct read",
            Apiserver,
            vec![sent("$JS.API.DIRECT.GET.EVENTS", report(), missing())],
        ),
        attack("an agent deletes the commands by its report", Agent, vec![sent(report(), DELETE, Value::Null)]),
        traced("an apiserver makes the server trace a command as a report", Apiserver, subjects::COMMANDS),
        traced("a notifier makes the server trace a dead letter as a report", Notifier, &dead_notice()),
        traced(
            "an agent makes the server trace an answer as a report of another node",
            Agent,
            &subjects::presence(&"node-1".parse().unwrap()),
        ),
    ]
}

/// Runs an attack against a server of its own; whether it had an effect that its process must not have.
async fn succeeds(attack: &Attack, layout: Layout) -> bool {
    let (_server, all, _dir) = start(layout).await;
    let scheduler = &all[0].bus;
    for stream in [streams::COMMANDS, streams::NOTICES, streams::DEAD_LETTERS, streams::EVENTS] {
        scheduler.ensure_stream(&(&stream).into()).await.unwrap();
    }
    let attacker = all.iter().find(|one| one.identity.member == attack.by).unwrap();
    let apiserver = &all[1].bus;
    apiserver.publish_durable(subjects::COMMANDS, "one", &[], &"one", DEADLINE).await.unwrap();
    let mut reports = all[0].client.subscribe(subjects::ALL_REPORTS).await.unwrap();
    settled(&all[0]).await;
    for one in &attack.sends {
        send(attacker, one, attack.trace.as_deref()).await;
        settled(attacker).await;
    }
    // A stream or a consumer of the attacker waits for messages of the leader.
    let record = subjects::dead_letter(DeadLetterKind::Record);
    for subject in [subjects::EVENTS, &record, &subjects::notice("abc")] {
        scheduler.publish_durable(subject, subject, &[], &subject, DEADLINE).await.unwrap();
    }
    let forged = async {
        // An agent may report for its own node.
        while reports.next().await.is_some_and(|it| attack.by == Member::Agent && *it.subject == *report()) {}
    };
    let changed = async {
        while !has_changed(&all[0], attack.by).await {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::select! {
        () = forged => true,
        () = changed => true,
        () = tokio::time::sleep(PATIENCE) => false,
    }
}

/// Whether the command was lost, another was sent by a process other than an apiserver, or an event by one other than the leader.
async fn has_changed(scheduler: &Connected, by: Member) -> bool {
    let last = async |stream| scheduler.bus.stream_notes(stream).await.map(|found| found.last_sequence).ok();
    let lost = match scheduler.bus.stream_state(subjects::COMMANDS_STREAM).await {
        Ok(state) => state.first_sequence != 1,
        Err(_) => true,
    };
    lost || (by != Member::Apiserver && last(subjects::COMMANDS_STREAM).await != Some(1))
        || last(subjects::EVENTS_STREAM).await != Some(1)
}

async fn send(attacker: &Connected, one: &Sent, trace: Option<&str>) {
    let reply = match one.reply.as_str() {
        "" => format!("_INBOX.{}.x", attacker.identity.user()),
        reply => reply.to_owned(),
    };
    let payload = if one.payload.is_null() { String::new() } else { one.payload.to_string() };
    let mut headers = HeaderMap::new();
    if let Some(trace) = trace {
        headers.insert("Nats-Trace-Dest", trace);
    }
    let client = &attacker.client;
    if headers.is_empty() {
        client.publish_with_reply(one.subject.clone(), reply, payload.into()).await.unwrap();
    } else {
        client.publish_with_reply_and_headers(one.subject.clone(), reply, headers, payload.into()).await.unwrap();
    }
}

async fn successes(attacks: Vec<Attack>, layout: Layout) -> Vec<&'static str> {
    let mut names = Vec::new();
    for some in attacks.chunks(4) {
        let results = join_all(some.iter().map(async |attack| (attack.name, succeeds(attack, layout).await))).await;
        names.extend(results.into_iter().filter(|(_, success)| *success).map(|(name, _)| name));
    }
    names
}

#[tokio::test]
async fn no_process_reaches_beyond_its_role_by_an_answer_or_a_delivery_of_jetstream() {
    let all = known().into_iter().chain(others()).collect();
    assert_eq!(successes(all, Layout::Present).await, Vec::<&str>::new());
}

#[tokio::test]
async fn the_attacks_succeeded_in_the_first_layout_of_the_accounts() {
    let names: Vec<&str> = known().iter().map(|attack| attack.name).collect();
    assert_eq!(successes(known(), Layout::First).await, names);
    assert_eq!(successes(others(), Layout::First).await, Vec::<&str>::new());
}
