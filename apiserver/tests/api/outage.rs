//! No leader, no scheduler, no bus, too many waiting requests.

use std::time::{Duration, Instant};

use bytes::Bytes;
use contract::store::StoreWord;
use contract::time::Timestamp;
use contract::{streams, subjects};
use serde_json::json;

use crate::bodies::spec_with;
use crate::leader::{Leader, Manner};
use crate::world::{World, eventually, seen};

const QUICK: [&str; 4] = ["--outcome-deadline", "300ms", "--query-deadline", "300ms"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_leader_a_change_is_queued_and_the_next_leader_does_it() {
    let world = World::start_with(&QUICK).await;
    let queued = world.post("/api/podgroups", &spec_with(":2,", ":2,")).await;
    let body = queued.json();
    assert_eq!((queued.status, &body["queued"]), (202, &json!(true)));
    let operation = body["operation"].as_str().unwrap();
    let leader = Leader::start(&world.bus, Manner::Leads).await;
    let decided = async || {
        let seen = world.get(&format!("/api/operations?id={operation}")).await;
        (seen.status == 200).then(|| seen.json())
    };
    assert_eq!(eventually("the queued change is decided", decided).await["state"], "accepted");
    assert_eq!(leader.stop().await.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_leader_a_used_key_is_refused_for_another_change_and_answered_for_the_same() {
    let world = World::start_with(&QUICK).await;
    let post = async |body: String| {
        let request = world.client.post(world.at("/api/podgroups")).header("Idempotency-Key", "deploy-1").body(body);
        seen(request.send().await.unwrap()).await
    };
    for _ in 0..2 {
        let same = post(spec_with(":2,", ":2,")).await;
        assert_eq!((same.status, &same.json()["queued"]), (202, &json!(true)), "{}", same.text);
        let other = post(spec_with(":2,", ":3,")).await;
        assert_eq!(other.status, 409, "{}", other.text);
        assert!(other.message().contains("Idempotency-Key: deploy-1 was used for another change"), "{}", other.text);
    }
    // The bus keeps the key longer than the message: without the message the answer is that of the first request.
    world.bus.purge_up_to(subjects::COMMANDS_STREAM, 1).await.unwrap();
    assert_eq!(post(spec_with(":2,", ":3,")).await.status, 202);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_leader_a_standby_answers_and_the_answer_is_marked_stale() {
    let world = World::start_with(&QUICK).await;
    let unanswered = world.get("/api/nodes").await;
    assert_eq!(unanswered.status, 503);
    assert!(unanswered.retry_after && unanswered.message().contains("no scheduler answered"), "{}", unanswered.text);
    let _standby = Leader::start(&world.bus, Manner::StandsBy).await;
    let stale = world.get("/api/nodes").await;
    assert_eq!((stale.status, stale.stale), (202, true));
    let unknown = world.get("/api/podgroups?name=unknown").await;
    assert_eq!((unknown.status, unknown.stale), (404, true), "also what it does not know may be behind");
    assert!(world.get("/metrics").await.text.contains("deployd_api_stale_answers_total 2"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_bus_nothing_is_accepted_and_it_recovers_by_itself() {
    let mut world = World::start_with(&QUICK).await;
    let leader = Leader::start(&world.bus, Manner::Leads).await;
    eventually("ready", async || (world.get("/readyz").await.status == 200).then_some(())).await;
    world.nats.kill();
    eventually("not ready", async || (world.get("/readyz").await.status == 503).then_some(())).await;
    let started = Instant::now();
    let post = world.post("/api/podgroups", &spec_with(":2,", ":2,")).await;
    assert!(post.status == 503 && post.retry_after && post.message().contains("nothing was accepted"), "{}", post.text);
    let get = world.get("/api/podgroups?name=hello.web.web").await;
    assert!(get.status == 503 && get.retry_after, "{}", get.text);
    assert!(started.elapsed() < Duration::from_secs(2), "answers at once: {:?}", started.elapsed());
    assert_eq!(world.get("/api/status").await.status, 200);
    world.nats.restart().await.unwrap();
    let created = async || {
        let seen = world.post("/api/podgroups", &spec_with(":2,", ":2,")).await;
        (seen.status == 202).then(|| seen.json())
    };
    eventually("a change is accepted again", created).await;
    eventually("and seen", async || (world.get("/api/podgroups?name=hello.web.web").await.status == 200).then_some(()))
        .await;
    assert_eq!(leader.stop().await.len(), 1, "what was answered 503 was not sent later");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_the_bus_does_not_confirm_is_answered_as_unknown_with_a_safe_retry() {
    let mut world = World::start_with(&["--publish-deadline", "500ms"]).await;
    // A stopped process keeps its connections: the apiserver still believes that it is connected.
    let pid = world.nats.pid().to_string();
    let signal = |name: &str| std::process::Command::new("kill").args([name, &pid]).status().unwrap();
    assert!(signal("-STOP").success());
    let body = spec_with(":2,", ":2,");
    let request = world.client.post(world.at("/api/podgroups")).header("Idempotency-Key", "once").body(body.clone());
    let response = request.send().await.unwrap();
    let outcome = response.headers().get("Deployd-Outcome").cloned();
    let unknown = seen(response).await;
    assert!(signal("-CONT").success());
    assert_eq!(unknown.status, 503);
    assert_eq!(outcome.as_ref().map(|outcome| outcome.as_bytes()), Some(&b"unknown"[..]));
    let message = unknown.message();
    assert!(message.contains("once is unknown") && message.contains("Idempotency-Key: once"), "{message}");
    let leader = Leader::start(&world.bus, Manner::Leads).await;
    let retried = async || {
        let retry = world.client.post(world.at("/api/podgroups")).header("Idempotency-Key", "once").body(body.clone());
        let seen = seen(retry.send().await.unwrap()).await;
        (seen.status == 202).then_some(seen)
    };
    assert_eq!(eventually("the retry", retried).await.json()["operation"], "once");
    assert_eq!(leader.stop().await.len(), 1);
    world.nats.kill();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_changes_than_may_wait_are_refused_and_not_accepted() {
    let world = World::start_with(&["--most-waiting", "3", "--outcome-deadline", "2s"]).await;
    let requests = (0..8).map(|n| world.client.delete(world.at(&format!("/api/podgroups?name=g{n}"))).send());
    let answers = futures_util::future::join_all(requests).await;
    let statuses: Vec<u16> = answers.into_iter().map(|answer| answer.unwrap().status().as_u16()).collect();
    assert_eq!(statuses.iter().filter(|status| **status == 202).count(), 3, "{statuses:?}");
    assert_eq!(statuses.iter().filter(|status| **status == 503).count(), 5, "{statuses:?}");
    let leader = Leader::start(&world.bus, Manner::Leads).await;
    let drained = async || (world.call("DELETE", "/api/podgroups?name=last", None).await.status == 404).then_some(());
    eventually("places come back", drained).await;
    assert_eq!(leader.stop().await.len(), 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bus_that_lost_its_data_takes_commands_again_when_a_scheduler_has_created_the_stream() {
    let mut world = World::start_with(&QUICK).await;
    assert_eq!(world.post("/api/podgroups", &spec_with(":2,", ":2,")).await.status, 202);
    world.nats.kill();
    std::fs::remove_dir_all(world.directory.path().join("jetstream")).unwrap();
    world.nats.restart().await.unwrap();
    let missing = async || {
        let ready = world.get("/readyz").await;
        (ready.status == 503 && ready.text.contains("no scheduler has created their stream")).then_some(())
    };
    eventually("not ready", missing).await;
    let refused = world.post("/api/podgroups", &spec_with(":2,", ":2,")).await;
    assert!(refused.status == 503 && refused.message().contains("nothing was accepted"), "{}", refused.text);
    world.bus.ensure_stream(&(&streams::COMMANDS).into()).await.unwrap();
    eventually("ready", async || (world.get("/readyz").await.status == 200).then_some(())).await;
    let queued = async || {
        let seen = world.post("/api/podgroups", &spec_with(":2,", ":2,")).await;
        (seen.status == 202).then(|| seen.json())
    };
    assert_eq!(eventually("a change is stored", queued).await["queued"], true);
}

/// Says that etcd does not answer, or does again, as a scheduler would.
async fn say(world: &World, away_since: Option<Timestamp>) {
    let word = StoreWord { by: "scheduler-1".to_owned(), away_since };
    world.bus.publish(subjects::STORE, &word).await.unwrap();
    world.bus.flush().await.unwrap();
}

/// Says again and again that etcd does not answer, until a change is refused for it.
async fn refused_for_the_store(world: &World) -> String {
    let refused = async || {
        say(world, Some(Timestamp::from_millis(1_794_794_639_000))).await;
        let seen = world.call("DELETE", "/api/podgroups?name=refused", None).await;
        (seen.status == 503 && seen.retry_after).then(|| seen.message())
    };
    eventually("a change is refused", refused).await
}

async fn stored(world: &World) -> u64 {
    world.bus.stream_notes(subjects::COMMANDS_STREAM).await.unwrap().last_sequence
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn during_an_etcd_outage_changes_are_refused_and_not_stored() {
    let world = World::start_with(&QUICK).await;
    let _standby = Leader::start(&world.bus, Manner::StandsBy).await;
    let message = refused_for_the_store(&world).await;
    for words in ["the store (etcd) has not answered since 2026-11-16T", "nothing was accepted", "send it again"] {
        assert!(message.contains(words), "{message}");
    }
    // The first tries may precede the report of the outage; from now on it is known.
    let before = stored(&world).await;
    say(&world, Some(Timestamp::from_millis(1_794_794_639_000))).await;
    assert_eq!(world.call("DELETE", "/api/podgroups?name=refused", None).await.status, 503);
    assert_eq!(stored(&world).await, before, "nothing was stored");
    let read = world.get("/api/nodes").await;
    assert_eq!((read.status, read.stale), (202, true), "reads are still answered");
    say(&world, None).await;
    let queued = async || {
        let seen = world.call("DELETE", "/api/podgroups?name=queued", None).await;
        (seen.status == 202).then(|| seen.json())
    };
    assert_eq!(eventually("changes are queued again", queued).await["queued"], true);
    assert_eq!(stored(&world).await, before + 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_report_of_an_etcd_outage_expires() {
    let world = World::start_with(&QUICK).await;
    refused_for_the_store(&world).await;
    let said = Instant::now();
    let queued = async || {
        let seen = world.call("DELETE", "/api/podgroups?name=queued", None).await;
        (seen.status == 202).then_some(())
    };
    eventually("changes are queued again", queued).await;
    assert!(said.elapsed() > Duration::from_secs(1), "{:?}", said.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scheduler_that_alone_lost_etcd_refuses_nothing_while_another_leads() {
    let world = World::start_with(&QUICK).await;
    refused_for_the_store(&world).await;
    let leader = Leader::start(&world.bus, Manner::Leads).await;
    for _ in 0..5 {
        say(&world, Some(Timestamp::from_millis(1))).await;
        let seen = world.call("DELETE", "/api/podgroups?name=decided", None).await;
        assert_eq!(seen.status, 404, "decided by the leader: {}", seen.text);
    }
    assert!(leader.stop().await.len() >= 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_apiserver_is_not_ready_while_the_stream_of_commands_is_gone() {
    let world = World::start().await;
    let is = async |status: u16| (world.get("/readyz").await.status == status).then_some(());
    eventually("ready", async || is(200).await).await;
    let delete = format!("$JS.API.STREAM.DELETE.{}", streams::COMMANDS.name);
    let _: serde_json::Value =
        world.bus.request_bytes(&delete, Bytes::new(), None, Duration::from_secs(5)).await.unwrap();
    eventually("not ready", async || is(503).await).await;
    world.bus.ensure_stream(&(&streams::COMMANDS).into()).await.unwrap();
    eventually("ready again", async || is(200).await).await;
}
