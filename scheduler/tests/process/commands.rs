//! Commands: once in effect, whoever leads and whatever is lost.

use std::time::Duration;

use contract::command::{Refusal, Verb, Verdict};
use contract::streams::DEAD_LETTERS;
use rustix::process::Signal;
use tokio::time::Instant;

use crate::stage::{LIMIT, Stage, add_callback, outcome};

#[tokio::test]
async fn a_command_takes_effect_and_its_sender_hears_so() {
    let stage = Stage::set().await;
    let _scheduler = stage.scheduler("only").await;
    let mut heard = stage.command("c1", add_callback(1)).await;
    assert_eq!(outcome(&mut heard).await.verdict, Verdict::Accepted);
    assert_eq!(stage.callbacks(1).await, ["http://127.0.0.1:1/0001"]);
    let mut heard =
        stage.command("c2", Verb::RemoveGroup { name: "nothing".parse().unwrap(), removal: Default::default() }).await;
    assert_eq!(outcome(&mut heard).await.verdict, Verdict::Refused(Refusal::GroupUnknown));
}

#[tokio::test]
async fn a_command_stored_while_nobody_leads_takes_effect_when_somebody_does() {
    let stage = Stage::set().await;
    let scheduler = stage.scheduler("first").await;
    stage.leader().await;
    drop(scheduler); // kill -9
    let mut heard = stage.command("waiting", add_callback(7)).await;
    let _second = stage.scheduler("second").await;
    assert_eq!(outcome(&mut heard).await.verdict, Verdict::Accepted);
}

#[tokio::test]
async fn no_command_is_lost_or_repeated_when_the_leader_is_killed_in_the_middle() {
    let stage = Stage::set().await;
    let first = stage.scheduler("first").await;
    assert_eq!(stage.leader().await.0, "first");
    let _second = stage.scheduler("second").await;
    for number in 0..60 {
        stage.command(&format!("c{number}"), add_callback(number)).await;
        if number == 30 {
            first.signal(Signal::KILL);
        }
    }
    let killed = Instant::now();
    let urls = stage.callbacks(60).await;
    assert!(killed.elapsed() < Duration::from_secs(8), "{:?}", killed.elapsed());
    let expected: Vec<String> = (0..60).map(|number| format!("http://127.0.0.1:1/{number:04}")).collect();
    assert_eq!(urls, expected);
    assert_eq!(stage.leader().await.0, "second");
}

#[tokio::test]
async fn commands_go_on_after_nats_and_etcd_were_killed() {
    let mut stage = Stage::set().await;
    let _scheduler = stage.scheduler("only").await;
    outcome(&mut stage.command("before", add_callback(1)).await).await;
    stage.nats.kill();
    stage.etcd.kill();
    stage.nats.restart().await.unwrap();
    stage.etcd.restart().await.unwrap();
    let mut heard = stage.command("after", add_callback(2)).await;
    assert_eq!(outcome(&mut heard).await.verdict, Verdict::Accepted);
    assert_eq!(stage.callbacks(2).await.len(), 2);
}

#[tokio::test]
async fn a_lost_and_re_created_stream_is_read_from_its_start_without_a_restart() {
    let mut stage = Stage::set().await;
    let _scheduler = stage.scheduler("only").await;
    for number in 0..5 {
        outcome(&mut stage.command(&format!("c{number}"), add_callback(number)).await).await;
    }
    stage.nats.kill();
    std::fs::remove_dir_all(stage.dir.path().join("nats").join("jetstream")).unwrap();
    stage.nats.restart().await.unwrap();
    // Number 1 of the new stream: below the old cursor.
    let mut heard = stage.command("new", add_callback(9)).await;
    assert_eq!(outcome(&mut heard).await.verdict, Verdict::Accepted);
    assert_eq!(stage.callbacks(6).await.len(), 6);
}

#[tokio::test]
async fn a_command_nobody_can_read_is_buried_and_the_next_one_takes_effect() {
    let stage = Stage::set().await;
    let _scheduler = stage.scheduler("only").await;
    stage.store_raw("bad", &"this is no command").await;
    let mut heard = stage.command("good", add_callback(1)).await;
    assert_eq!(outcome(&mut heard).await.verdict, Verdict::Accepted);
    let mut letters = stage.bus.read_stream(DEAD_LETTERS.name, 0).await.unwrap();
    let letter = tokio::time::timeout(LIMIT, letters.next()).await.expect("in time").unwrap();
    let letter: contract::notice::DeadLetter = serde_json::from_slice(&letter.payload).unwrap();
    assert_eq!(letter.payload, "\"this is no command\"");
}

#[tokio::test]
async fn a_leader_that_was_paused_and_comes_back_leads_no_more_and_changes_nothing() {
    let stage = Stage::set().await;
    let first = stage.scheduler("first").await;
    let (_, term) = stage.leader().await;
    let second = stage.scheduler("second").await;
    outcome(&mut stage.command("c1", add_callback(1)).await).await;
    first.signal(Signal::STOP);
    // Stored while the paused one still counts as leader; the other takes over when the lease ends.
    let mut heard = stage.command("c2", add_callback(2)).await;
    assert_eq!(outcome(&mut heard).await.verdict, Verdict::Accepted);
    first.signal(Signal::CONT);
    let started = Instant::now();
    while !first.get("/metrics").await.unwrap().1.contains("deployd_scheduler_leader 0") {
        assert!(started.elapsed() < Duration::from_secs(3), "it still leads");
    }
    assert!(second.get("/metrics").await.unwrap().1.contains("deployd_scheduler_leader 1"));
    let mut heard = stage.command("c3", add_callback(3)).await;
    assert_eq!(outcome(&mut heard).await.verdict, Verdict::Accepted);
    let (name, next) = stage.leader().await;
    assert_eq!(name, "second");
    assert!(next > term);
    assert_eq!(stage.callbacks(3).await.len(), 3);
}
