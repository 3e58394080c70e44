//! What holds the cluster back: 1.1 the read-only switch, 1.6, 1.7, 1.8, 1.11 and 1.13.

use std::time::Duration;

use contract::command::Verb;
use serde_json::json;

use crate::bodies::spec_with;
use crate::leader::{Leader, Manner};
use crate::world::{Seen, World, eventually};

const REFUSED: &str = "Do ReadOnly Permitted.\n";

async fn patch(world: &World, path: &str, body: &str) -> Seen {
    world.call("PATCH", path, Some(("application/json", body))).await
}

fn assert_refused(seen: &Seen, what: &str) {
    let shown = (seen.status, seen.content_type.as_str(), seen.text.as_str());
    assert_eq!(shown, (403, "text/plain; charset=utf-8", REFUSED), "{what}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_the_leader_refuses_as_read_only_has_the_same_plain_answer() {
    let world = World::start().await;
    let _leader = Leader::start(&world.bus, Manner::Leads).await;
    // The gate believes for a second that it is open; then the switch is turned behind its back.
    assert_eq!(world.call("HEAD", "/api/podgroups", None).await.status, 405);
    let command = contract::command::Command {
        id: "elsewhere".parse().unwrap(),
        at: contract::time::Timestamp::from_millis(1),
        by: "another apiserver".to_owned(),
        verb: Verb::Configure { readonly: Some(true), maintenance: None },
        digest: None,
        credentials: None,
    };
    let headers = [(contract::subjects::REPLY_HEADER, "_INBOX.none")];
    let deadline = Duration::from_secs(5);
    world.bus.publish_durable(contract::subjects::COMMANDS, "elsewhere", &headers, &command, deadline).await.unwrap();
    let created = world.post("/api/podgroups", &spec_with("hello.web.web", "hello.web.web")).await;
    assert_refused(&created, "the leader's refusal");
    let closed = async || (world.call("HEAD", "/api/podgroups", None).await.status == 403).then_some(());
    eventually("the gate is closed", closed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn access_can_be_taken_away_while_the_cluster_is_read_only() {
    let world = World::start().await;
    let _leader = Leader::start(&world.bus, Manner::Leads).await;
    assert_eq!(patch(&world, "/api/engine/config", r#"{"readonly":true}"#).await.status, 200);
    eventually("the gate is closed", async || {
        (world.call("HEAD", "/api/podgroups", None).await.status == 403).then_some(())
    })
    .await;
    for path in ["/api/tokens?id=0123456789abcdef", "/api/jointokens?id=0123456789abcdef"] {
        assert_eq!(world.call("DELETE", path, None).await.status, 404, "the leader looked for it: {path}");
    }
    assert_refused(&patch(&world, "/api/access", r#"{"Enforced":false}"#).await, "opening the cluster");
    assert_refused(&world.call("POST", "/api/tokens", Some(("application/json", "{}"))).await, "a new token");
    assert_refused(&patch(&world, "/api/nodes/a?cmd=cordon", "").await, "another change of a node");
    assert_eq!(patch(&world, "/api/access", r#"{"Enforced":true}"#).await.status, 202);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_scheduler_the_last_known_status_is_answered() {
    let world = World::start().await;
    let leader = Leader::start(&world.bus, Manner::Leads).await;
    assert_eq!(world.get("/api/status").await.text, "{\n  \"status\": \"started\"\n}\n");
    patch(&world, "/api/status", r#"{"status":"stop"}"#).await;
    let told = world.get("/api/status").await;
    assert_eq!((told.json(), told.stale), (json!({"status": "stopped"}), false));
    leader.stop().await;
    let told = world.get("/api/status").await;
    assert_eq!((told.status, &told.json()["status"], told.stale), (200, &json!("stopped"), true));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_bus_the_guard_cannot_be_switched_and_the_answer_says_so() {
    let world = World::start_with(&["--outcome-deadline", "2s"]).await;
    let leader = Leader::start(&world.bus, Manner::Leads).await;
    assert_eq!(world.call("POST", "/api/guard?work=true", None).await.json(), json!({"successed": "OK"}));
    leader.stop().await;
    let mut world = world;
    world.nats.kill();
    let failed = eventually("the bus is known to be away", async || {
        let seen = world.call("POST", "/api/guard?work=true", None).await;
        assert_eq!(seen.status, 200, "{}", seen.text);
        (seen.json()["successed"] == "Failed").then_some(())
    });
    failed.await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn there_is_one_constraint_per_type() {
    let world = World::start().await;
    let leader = Leader::start(&world.bus, Manner::Leads).await;
    const PATCHED: &str = "Constraints will be patched";
    const DELETED: &str = "Constraint will be deleted from the orc engine.";
    for (method, query, status, message) in [
        ("GET", "", 404, "No constraint found"),
        ("PATCH", "", 400, "constraint type required"),
        ("PATCH", "?value=a", 400, "constraint type required"),
        ("PATCH", "?type=node", 400, "constraint value required"),
        ("PATCH", "?type=node&value=a", 202, PATCHED),
        ("PATCH", "?type=node&value=b&equal=true&soft=false", 202, PATCHED),
        ("PATCH", "?type=rack&value=r1", 202, PATCHED),
        ("DELETE", "?type=zone", 404, "Constraint not existed"),
        ("DELETE", "?type=rack&value=ignored", 202, DELETED),
        ("GET", "?type=rack", 404, "No constraint found"),
    ] {
        let seen = world.call(method, &format!("/api/constraints{query}"), None).await;
        assert_eq!((seen.status, seen.message().as_str()), (status, message), "{method} {query}");
    }
    let shown = world.get("/api/constraints").await;
    let text = "{\n  \"Type\": \"node\",\n  \"Equal\": true,\n  \"Value\": \"b\",\n  \"Soft\": false\n}\n";
    assert_eq!((shown.status, shown.text.as_str()), (200, text));
    let deleted = world.call("DELETE", "/api/constraints", None).await;
    assert_eq!((deleted.status, &deleted.json()["check_url"]), (202, &json!("/api/constraints?type=node")));
    let sent = leader.stop().await.into_iter().filter_map(|command| match command.verb {
        Verb::SetConstraint { constraint } => Some(constraint.expression()),
        _ => None,
    });
    let sent: Vec<String> = sent.collect();
    assert_eq!(sent, ["constraint:node!=~a", "constraint:node==b", "constraint:rack!=~r1"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn monitors_read_counts_in_every_mode() {
    let world = World::start().await;
    assert_eq!(world.get("/api/nowhere").await.status, 404);
    let page = world.get("/debug/vars").await;
    let body = page.json();
    assert_eq!((page.status, page.content_type.as_str()), (200, "application/json; charset=UTF-8"));
    assert_eq!(
        (&body["hits_total"], &body["hits_4xx_per_5min"]),
        (&json!(1), &json!(1)),
        "the page itself is not counted"
    );
    assert_eq!(body["cmdline"], json!(["deployd-apiserver"]));
    assert_eq!(body["at_server_start"].as_str().unwrap().len(), "2026-01-01 00:00:00".len());
    for key in ["cpu_count", "hits_per_minute", "hits_5xx_per_5min", "hits_pageviews", "latency_recent", "latency_p95"]
    {
        assert!(body.get(key).is_some(), "{key}");
    }
    let post = world.call("POST", "/debug/vars", None).await;
    assert_eq!((post.status, post.json()), (405, json!({"message": "Method is not allowed", "data": ""})));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_leader_switches_are_kept_and_the_status_is_answered() {
    let world = World::start_with(&["--outcome-deadline", "1s"]).await;
    let config = patch(&world, "/api/engine/config", r#"{"readonly":true}"#).await;
    assert_eq!((config.status, &config.json()["queued"]), (202, &json!(true)), "the result is not known yet");
    assert_eq!(patch(&world, "/api/status", r#"{"status":"stop"}"#).await.text, "\"Accept\"\n");
    assert_eq!(world.call("POST", "/api/guard", None).await.json(), json!({"successed": "OK"}));
    let told = world.get("/api/status").await;
    assert_eq!((told.status, &told.json()["status"], told.stale), (200, &json!("started"), true));
    // The first leader decides in the order of the stream: read-only first, and then nothing else.
    let leader = Leader::start(&world.bus, Manner::Leads).await;
    let closed = async || (world.call("HEAD", "/api/nodes", None).await.status == 403).then_some(());
    eventually("the switch is in effect", closed).await;
    assert_eq!(world.get("/api/status").await.json()["status"], "started");
    assert_eq!(leader.stop().await.len(), 3);
}
