//! Commands of another wire version: the leader runs those that it understands and refuses newer ones with a remedy.

use std::time::Duration;

use contract::WIRE_VERSION;
use contract::command::{Command, Decision, Refusal};
use contract::query::{Answer, Query, Reply};
use contract::subjects;
use contract::time::Timestamp;
use testkit::samples::admin;

use crate::cluster::{Cluster, add_callback, outcome};

/// Sends a command that needs wire version `wire`.
async fn send_with_version(cluster: &Cluster, number: usize, wire: &str) -> Decision {
    let id = format!("wire-{number}");
    let (at, verb) = (Timestamp::from_millis(1), add_callback(number));
    let command =
        Command { id: id.parse().unwrap(), at, by: "test".to_owned(), verb, digest: None, credentials: admin() };
    let inbox = cluster.bus.inbox();
    let mut reply = cluster.bus.subscribe(&inbox).await.unwrap();
    let headers = [(subjects::REPLY_HEADER, inbox.as_str()), (subjects::WIRE_HEADER, wire)];
    let patience = Duration::from_secs(5);
    cluster.bus.publish_durable(subjects::COMMANDS, &id, &headers, &command, patience).await.unwrap();
    let outcome = outcome(&mut reply).await;
    assert_eq!(outcome.id, command.id);
    let queried = cluster.ask_leader(&Query::Operation { id: command.id }).await.expect("a leader");
    assert_eq!(queried.answer, Answer::Operation(Some(outcome.clone())), "the leader remembers the outcome");
    outcome.decision
}

#[tokio::test]
async fn a_command_that_needs_a_newer_wire_version_is_refused() {
    let cluster = Cluster::start().await;
    let _scheduler = cluster.scheduler("only").await;
    cluster.leader().await;
    for wire in 1..=WIRE_VERSION {
        assert_eq!(send_with_version(&cluster, wire as usize, &wire.to_string()).await, Decision::Accepted);
    }
    let newer = send_with_version(&cluster, 99, &(WIRE_VERSION + 1).to_string()).await;
    let Decision::Refused(Refusal::Malformed { reason }) = newer else { panic!("{newer:?}") };
    assert!(reason.contains("upgrade the schedulers"), "{reason}");
    assert_eq!(cluster.callbacks(1).await.len(), WIRE_VERSION as usize, "a refused command changes nothing");
}

#[tokio::test]
async fn the_subject_of_notifiers_is_answered_for_callbacks_and_nothing_else() {
    let cluster = Cluster::start().await;
    let _scheduler = cluster.scheduler("only").await;
    cluster.leader().await;
    let ask = async |query: Query| {
        let limit = Duration::from_secs(1);
        cluster.bus.request::<_, Reply>(subjects::QUERY_CALLBACKS, &query, limit).await.ok()
    };
    let answer = ask(Query::Callbacks).await.expect("an answer").answer;
    assert_eq!(answer, Answer::Callbacks(Vec::new()));
    for query in [Query::Backup { revision: None, after: None }, Query::Access { known: None }, Query::Nodes] {
        assert_eq!(ask(query.clone()).await, None, "{query:?}");
    }
}
