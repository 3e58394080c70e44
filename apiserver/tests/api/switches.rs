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
async fn the_engines_configuration_is_shown_and_changed_in_parts() {
    let world = World::start().await;
    let _leader = Leader::start(&world.bus, Manner::Leads).await;
    let config = world.get("/api/engine/config").await;
    assert_eq!(config.text, "{\n  \"readonly\": false,\n  \"maintenance\": false\n}\n");
    for (body, readonly, maintenance) in [
        (r#"{"maintenance":true}"#, false, true),
        (r#"{"READONLY":true,"unknown":1}"#, true, true),
        (r#"{"maintenance":false,"readonly":null}"#, true, false),
        ("{}", true, false),
        (r#"{"readonly":false}"#, false, false),
    ] {
        let seen = patch(&world, "/api/engine/config", body).await;
        let expected = json!({"readonly": readonly, "maintenance": maintenance});
        assert_eq!((seen.status, seen.json()), (200, expected.clone()), "{body}");
        assert_eq!(world.get("/api/engine/config").await.json(), expected, "{body}");
    }
    for bad in ["", "[1]", r#"{"readonly":"yes"}"#, "{"] {
        let seen = patch(&world, "/api/engine/config", bad).await;
        assert_eq!(seen.status, 400, "{bad}");
        assert!(seen.message().starts_with("Invalid Engine Config params format: "), "{}", seen.text);
    }
    for (query, on) in [("?on=true", true), ("?on=maybe", false), ("?on=1", true), ("", false)] {
        let seen = patch(&world, &format!("/api/engine/maintenance{query}"), "").await;
        assert_eq!((seen.status, seen.json()), (200, json!({"readonly": false, "maintenance": on})), "{query}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_changes_are_refused_everything_but_reading_and_the_engine_is_403_in_plain_text() {
    let world = World::start().await;
    let leader = Leader::start(&world.bus, Manner::Leads).await;
    for switch in ["readonly", "maintenance"] {
        let on = patch(&world, "/api/engine/config", &format!("{{\"{switch}\":true}}")).await;
        assert_eq!((on.status, &on.json()[switch]), (200, &json!(true)));
        for path in
            ["/api/podgroups", "/api/status", "/api/guard", "/api/nowhere", "/", "/debug/vars", "/api/constraints"]
        {
            for method in ["POST", "PUT", "PATCH", "DELETE", "TRACE"] {
                assert_refused(&world.call(method, path, None).await, &format!("{switch} {method} {path}"));
            }
            let head = world.call("HEAD", path, None).await;
            assert_eq!((head.status, head.text.as_str()), (403, ""), "{switch} HEAD {path}");
        }
        let whole = world.post("/api/podgroups", &spec_with("hello.web.web", "hello.web.web")).await;
        assert_refused(&whole, "a body that would be accepted");
        for path in ["/api/status", "/api/guard", "/api/engine/config", "/debug/vars", "/api/podgroups?all=true"] {
            assert_eq!(world.get(path).await.status, 200, "{switch} GET {path}");
        }
        assert_eq!(world.get("/api/nowhere").await.status, 404);
        for (method, path, status) in [
            ("OPTIONS", "/api/podgroups", 200),
            ("OPTIONS", "/api/nowhere", 404),
            ("POST", "/api/engine/config", 405),
            ("HEAD", "/api/engine/config", 405),
            ("DELETE", "/api/engine/nothing", 404),
        ] {
            assert_eq!(world.call(method, path, None).await.status, status, "{switch} {method} {path}");
        }
        let way = world.client.post(world.at("/api/PODGROUPS/")).send().await.unwrap();
        assert_eq!(way.status().as_u16(), 307, "redirects come before the switch");
        let off = patch(&world, "/api/engine/config", &format!("{{\"{switch}\":false}}")).await;
        assert_eq!(off.status, 200);
        // A closed gate is never remembered.
        let accepted = world.call("POST", "/api/notifies?callback=http://a/", None).await;
        assert_eq!(accepted.status, 202, "{}", accepted.text);
    }
    let refused = |verb: &Verb| matches!(verb, Verb::CreateGroup { .. });
    assert!(!leader.stop().await.iter().any(|command| refused(&command.verb)), "refused at the door");
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
    };
    let headers = [(contract::subjects::REPLY_HEADER, "no-inbox")];
    let deadline = Duration::from_secs(5);
    world.bus.publish_durable(contract::subjects::COMMANDS, "elsewhere", &headers, &command, deadline).await.unwrap();
    let created = world.post("/api/podgroups", &spec_with("hello.web.web", "hello.web.web")).await;
    assert_refused(&created, "the leader's refusal");
    let closed = async || (world.call("HEAD", "/api/podgroups", None).await.status == 403).then_some(());
    eventually("the gate is closed", closed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_engine_is_stopped_and_started() {
    let world = World::start().await;
    let leader = Leader::start(&world.bus, Manner::Leads).await;
    assert_eq!(world.get("/api/status").await.text, "{\n  \"status\": \"started\"\n}\n");
    for (body, status) in [("stop", "stopped"), ("stop", "stopped"), ("start", "started")] {
        let seen = patch(&world, "/api/status", &json!({"status": body}).to_string()).await;
        assert_eq!((seen.status, seen.text.as_str()), (202, "\"Accept\"\n"));
        let told = world.get("/api/status").await;
        assert_eq!((told.status, told.json(), told.stale), (200, json!({"status": status}), false));
    }
    const FORMAT: &str = "Invalid Status params format: ";
    const WORD: &str = "Invalid Status, it should be start or stop";
    for (body, message) in
        [("", FORMAT), ("{", FORMAT), (r#"{"status":1}"#, FORMAT), ("{}", WORD), (r#"{"status":"Stop"}"#, WORD)]
    {
        let seen = patch(&world, "/api/status", body).await;
        assert_eq!(seen.status, 400, "{body}");
        assert!(seen.message().starts_with(message), "{body}: {}", seen.text);
    }
    // Without a scheduler the last known value is answered.
    patch(&world, "/api/status", r#"{"status":"stop"}"#).await;
    assert_eq!(world.get("/api/status").await.json()["status"], "stopped");
    leader.stop().await;
    let told = world.get("/api/status").await;
    assert_eq!((told.status, &told.json()["status"], told.stale), (200, &json!("stopped"), true));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_guard_is_sent_to_sleep_and_to_work() {
    let world = World::start_with(&["--outcome-deadline", "2s"]).await;
    let leader = Leader::start(&world.bus, Manner::Leads).await;
    assert_eq!(world.get("/api/guard").await.text, "{\n  \"guard\": \"working\"\n}\n");
    for (query, word) in [("", "sleeping"), ("?work=true", "working"), ("?work=no", "sleeping"), ("?work=T", "working")]
    {
        let seen = world.call("POST", &format!("/api/guard{query}"), None).await;
        assert_eq!((seen.status, seen.text.as_str()), (200, "{\n  \"successed\": \"OK\"\n}\n"), "{query}");
        assert_eq!(world.get("/api/guard").await.json(), json!({"guard": word}), "{query}");
    }
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
