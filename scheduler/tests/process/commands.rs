//! Each command takes effect exactly once, across changes of the leader and losses of NATS and etcd.

use std::time::Duration;

use contract::command::{Decision, Refusal, Verb};
use contract::streams::DEAD_LETTERS;
use contract::subjects::{NOTICES_CONSUMER, NOTICES_STREAM};
use rustix::process::Signal;
use tokio::time::Instant;

use crate::cluster::{Cluster, LIMIT, add_callback, outcome};

#[tokio::test]
async fn a_command_takes_effect_and_its_sender_receives_the_outcome() {
    let cluster = Cluster::start().await;
    let _scheduler = cluster.scheduler("only").await;
    let mut reply = cluster.command("c1", add_callback(1)).await;
    assert_eq!(outcome(&mut reply).await.decision, Decision::Accepted);
    assert_eq!(cluster.callbacks(1).await, ["http://127.0.0.1:1/0001"]);
    let mut reply = cluster
        .command("c2", Verb::RemoveGroup { name: "nothing".parse().unwrap(), removal: Default::default() })
        .await;
    assert_eq!(outcome(&mut reply).await.decision, Decision::Refused(Refusal::GroupUnknown));
}

#[tokio::test]
async fn a_command_sent_without_a_leader_takes_effect_under_the_next_one() {
    let cluster = Cluster::start().await;
    let scheduler = cluster.scheduler("first").await;
    cluster.leader().await;
    drop(scheduler); // kill -9
    let mut reply = cluster.command("waiting", add_callback(7)).await;
    let _second = cluster.scheduler("second").await;
    assert_eq!(outcome(&mut reply).await.decision, Decision::Accepted);
}

#[tokio::test]
async fn no_command_is_lost_or_repeated_when_the_leader_is_killed_in_the_middle() {
    let cluster = Cluster::start().await;
    let first = cluster.scheduler("first").await;
    assert_eq!(cluster.leader().await.0, "first");
    let _second = cluster.scheduler("second").await;
    for number in 0..60 {
        cluster.command(&format!("c{number}"), add_callback(number)).await;
        if number == 30 {
            first.signal(Signal::KILL);
        }
    }
    let killed = Instant::now();
    let urls = cluster.callbacks(60).await;
    assert!(killed.elapsed() < Duration::from_secs(8), "{:?}", killed.elapsed());
    let expected: Vec<String> = (0..60).map(|number| format!("http://127.0.0.1:1/{number:04}")).collect();
    assert_eq!(urls, expected);
    assert_eq!(cluster.leader().await.0, "second");
}

#[tokio::test]
async fn commands_take_effect_again_after_nats_and_etcd_were_killed() {
    let mut cluster = Cluster::start().await;
    let _scheduler = cluster.scheduler("only").await;
    outcome(&mut cluster.command("before", add_callback(1)).await).await;
    cluster.nats.kill();
    cluster.etcd.kill();
    cluster.nats.restart().await.unwrap();
    cluster.etcd.restart().await.unwrap();
    let mut reply = cluster.command("after", add_callback(2)).await;
    assert_eq!(outcome(&mut reply).await.decision, Decision::Accepted);
    assert_eq!(cluster.callbacks(2).await.len(), 2);
}

#[tokio::test]
async fn a_lost_and_re_created_stream_is_read_from_its_start_without_a_restart() {
    let mut cluster = Cluster::start().await;
    let _scheduler = cluster.scheduler("only").await;
    for number in 0..5 {
        outcome(&mut cluster.command(&format!("c{number}"), add_callback(number)).await).await;
    }
    cluster.nats.kill();
    std::fs::remove_dir_all(cluster.dir.path().join("nats").join("jetstream")).unwrap();
    cluster.nats.restart().await.unwrap();
    // Number 1 of the new stream: below the old cursor.
    let mut reply = cluster.command("new", add_callback(9)).await;
    assert_eq!(outcome(&mut reply).await.decision, Decision::Accepted);
    assert_eq!(cluster.callbacks(6).await.len(), 6);
}

/// Notifiers may not create them.
#[tokio::test]
async fn the_stream_and_the_consumer_of_notices_exist_again_after_nats_lost_its_data() {
    let mut cluster = Cluster::start().await;
    let _scheduler = cluster.scheduler("only").await;
    cluster.nats.kill();
    std::fs::remove_dir_all(cluster.dir.path().join("nats").join("jetstream")).unwrap();
    cluster.nats.restart().await.unwrap();
    let consumer = format!("$JS.API.CONSUMER.INFO.{NOTICES_STREAM}.{NOTICES_CONSUMER}");
    let deadline = Instant::now() + LIMIT;
    loop {
        let info = cluster.bus.request::<_, serde_json::Value>(&consumer, &serde_json::json!({}), LIMIT).await;
        if info.as_ref().is_ok_and(|info| info["name"] == NOTICES_CONSUMER) {
            return;
        }
        assert!(Instant::now() < deadline, "{info:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn an_unreadable_command_becomes_a_dead_letter_and_the_next_one_takes_effect() {
    let cluster = Cluster::start().await;
    let _scheduler = cluster.scheduler("only").await;
    cluster.send_raw("bad", &"this is no command").await;
    let mut reply = cluster.command("good", add_callback(1)).await;
    assert_eq!(outcome(&mut reply).await.decision, Decision::Accepted);
    let mut letters = cluster.bus.read_stream(DEAD_LETTERS.name, 0).await.unwrap();
    let letter = tokio::time::timeout(LIMIT, letters.next()).await.expect("in time").unwrap();
    let letter: contract::notice::DeadLetter = serde_json::from_slice(&letter.payload).unwrap();
    assert_eq!(letter.payload, "\"this is no command\"");
}

#[tokio::test]
async fn a_leader_that_was_suspended_past_its_lease_does_not_lead_and_changes_nothing() {
    let cluster = Cluster::start().await;
    let first = cluster.scheduler("first").await;
    let (_, term) = cluster.leader().await;
    let second = cluster.scheduler("second").await;
    outcome(&mut cluster.command("c1", add_callback(1)).await).await;
    first.signal(Signal::STOP);
    // Sent while the suspended leader still holds its lease; the other one takes over when the lease expires.
    let mut reply = cluster.command("c2", add_callback(2)).await;
    assert_eq!(outcome(&mut reply).await.decision, Decision::Accepted);
    first.signal(Signal::CONT);
    let started = Instant::now();
    while !first.get("/metrics").await.unwrap().1.contains("deployd_scheduler_leader 0") {
        assert!(started.elapsed() < Duration::from_secs(3), "it still leads");
    }
    assert!(second.get("/metrics").await.unwrap().1.contains("deployd_scheduler_leader 1"));
    let mut reply = cluster.command("c3", add_callback(3)).await;
    assert_eq!(outcome(&mut reply).await.decision, Decision::Accepted);
    let (name, next) = cluster.leader().await;
    assert_eq!(name, "second");
    assert!(next > term);
    assert_eq!(cluster.callbacks(3).await.len(), 3);
}
