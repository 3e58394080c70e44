//! Commands of another version: taken when this one understands them, refused with the remedy when it would misread them.

use std::time::Duration;

use contract::WIRE_VERSION;
use contract::command::{Command, Refusal, Verdict};
use contract::query::{Answer, Query};
use contract::subjects;
use contract::time::Timestamp;

use crate::stage::{Stage, add_callback, outcome};

/// Stores a command that needs so new a reader; what became of it, by its name.
async fn fate(stage: &Stage, number: usize, wire: &str) -> Verdict {
    let id = format!("wire-{number}");
    let (at, verb) = (Timestamp::from_millis(1), add_callback(number));
    let command = Command { id: id.parse().unwrap(), at, by: "test".to_owned(), verb, digest: None };
    let inbox = stage.bus.inbox();
    let mut heard = stage.bus.subscribe(&inbox).await.unwrap();
    let headers = [(subjects::REPLY_HEADER, inbox.as_str()), (subjects::WIRE_HEADER, wire)];
    let patience = Duration::from_secs(5);
    stage.bus.publish_durable(subjects::COMMANDS, &id, &headers, &command, patience).await.unwrap();
    let heard = outcome(&mut heard).await;
    assert_eq!(heard.id, command.id, "whoever waits knows what for");
    let asked = stage.ask_leader(&Query::Operation { id: command.id }).await.expect("a leader");
    assert_eq!(asked.answer, Answer::Operation(Some(heard.clone())), "and so does whoever asks later");
    heard.verdict
}

#[tokio::test]
async fn a_command_is_judged_by_the_version_it_needs() {
    let stage = Stage::set().await;
    let _scheduler = stage.scheduler("only").await;
    stage.leader().await;
    for wire in 1..=WIRE_VERSION {
        assert_eq!(fate(&stage, wire as usize, &wire.to_string()).await, Verdict::Accepted);
    }
    let newer = fate(&stage, 99, &(WIRE_VERSION + 1).to_string()).await;
    let Verdict::Refused(Refusal::Malformed { reason }) = newer else { panic!("{newer:?}") };
    assert!(reason.contains("upgrade the schedulers"), "{reason}");
    assert_eq!(stage.callbacks(1).await.len(), WIRE_VERSION as usize, "what was refused changed nothing");
}
