//! `/api/nodes/{name}`: one node and its changes.

use contract::command::Verb;
use contract::node::NodeChange;
use serde_json::json;

use crate::leader::{Leader, Manner};
use crate::world::World;

const JSON: &str = "application/json";

async fn started() -> (World, Leader) {
    let world = World::start().await;
    let leader = Leader::start(&world.bus, Manner::Leads).await;
    (world, leader)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_node_is_answered_with_everything_known_of_it() {
    let (world, _leader) = started().await;
    let seen = world.get("/api/nodes/n1").await;
    let body = seen.json();
    assert_eq!((seen.status, &body["Name"], &body["State"]), (200, &json!("n1"), &json!("alive")), "{}", seen.text);
    assert_eq!(body["Cordon"], json!({"By": "alice", "At": "2023-11-14T22:13:20Z", "Why": "disk"}));
    assert_eq!(body["SaidLabels"], json!({"rack": "3", "old": null}));
    assert_eq!((&body["Identity"], &body["Twin"]["Identity"]), (&json!("01JCK0"), &json!("01JCK1")));
    let pod = &body["Pods"][0];
    assert_eq!(
        (&pod["Name"], &pod["PodGroup"], &pod["Bound"]),
        (&json!("hello.web.web.v0-i2-d1"), &json!("hello.web.web"), &json!(true))
    );
    let absent = world.get("/api/nodes/absent").await;
    assert_eq!(absent.status, 404);
    assert!(absent.message().contains("Node absent not existed"), "{}", absent.text);
    let list = world.get("/api/nodes").await.json();
    assert!(list[0]["Instances"].is_number() && list[0]["AgentVersion"].is_string(), "{list}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_change_becomes_its_command() {
    let (world, leader) = started().await;
    let label = Some((JSON, r#"{"rack": "3", "old": null}"#));
    for (method, path, body) in [
        ("PATCH", "/api/nodes/n1?cmd=cordon&why=disk+swap", None),
        ("PATCH", "/api/nodes/n1?cmd=uncordon", None),
        ("PATCH", "/api/nodes/n1?cmd=drain&force=true", None),
        ("PATCH", "/api/nodes/n1?cmd=label", label),
        ("DELETE", "/api/nodes/n1", None),
        ("DELETE", "/api/nodes/n1?force=true", None),
    ] {
        let seen = world.call(method, path, body).await;
        assert_eq!(
            (seen.status, seen.json()["check_url"].as_str()),
            (202, Some("/api/nodes/n1")),
            "{path}: {}",
            seen.text
        );
    }
    let busy = world.call("DELETE", "/api/nodes/heard", None).await;
    assert_eq!((busy.status, busy.message().contains("stop its agent, then retry")), (409, true), "{}", busy.text);
    assert_eq!(world.call("PATCH", "/api/nodes/absent?cmd=uncordon", None).await.status, 404);
    let changes: Vec<NodeChange> = leader
        .stop()
        .await
        .into_iter()
        .take(6)
        .map(|command| match command.verb {
            Verb::Node { node, change } if node.as_str() == "n1" => change,
            other => panic!("{other:?}"),
        })
        .collect();
    let labels = [("rack".to_owned(), Some("3".to_owned())), ("old".to_owned(), None)].into();
    assert_eq!(
        changes,
        [
            NodeChange::Cordon { why: "disk swap".to_owned() },
            NodeChange::Uncordon,
            NodeChange::Drain { why: String::new(), force: true },
            NodeChange::Label { labels },
            NodeChange::Remove { force: false },
            NodeChange::Remove { force: true },
        ]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_answer_names_every_flaw_and_nothing_is_sent() {
    let (world, leader) = started().await;
    let long = format!("/api/nodes/n1?cmd=drain&force=maybe&why={}", "x".repeat(1025));
    let label = |body: &'static str| Some((JSON, body));
    for (method, path, body, parts) in [
        ("PATCH", "/api/nodes/n1", None, vec!["cmd", "cordon, uncordon, drain, label or approve"]),
        ("PATCH", "/api/nodes/n1?cmd=reboot", None, vec!["cmd", "reboot"]),
        (
            "PATCH",
            "/api/nodes/n1?cmd=uncordon&why=x&force=true",
            None,
            vec!["why: it has no meaning", "force: it has no"],
        ),
        ("PATCH", &long, None, vec!["force: should be true or false", "why: at most 1024"]),
        ("PATCH", "/api/nodes/n1?cmd=label", None, vec!["body: should be JSON"]),
        ("PATCH", "/api/nodes/n1?cmd=label", label("{}"), vec!["labels: none are named"]),
        (
            "PATCH",
            "/api/nodes/n1?cmd=label",
            label(r#"{"node":"x","1":"a"}"#),
            vec!["labels[\"node\"]", "labels[\"1\"]"],
        ),
        ("DELETE", "/api/nodes/n1?force=yes&why=x", None, vec!["force: should be", "why: it has no meaning"]),
        ("PATCH", "/api/nodes/a%20b?cmd=cordon", None, vec!["name:"]),
    ] {
        let seen = world.call(method, path, body).await;
        assert_eq!(seen.status, 400, "{path}: {}", seen.text);
        let told = seen.message();
        assert!(parts.iter().all(|part| told.contains(part)), "{path}: {parts:?} in {told}");
    }
    for method in ["POST", "PUT"] {
        assert_eq!(world.call(method, "/api/nodes/n1", None).await.status, 405);
    }
    assert_eq!(leader.stop().await, []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_only_engine_changes_no_node_and_still_tells() {
    let (world, _leader) = started().await;
    let closed = Some((JSON, r#"{"readonly": true}"#));
    assert_eq!(world.call("PATCH", "/api/engine/config", closed).await.status, 200);
    assert_eq!(world.call("PATCH", "/api/nodes/n1?cmd=cordon", None).await.status, 403);
    assert_eq!(world.call("DELETE", "/api/nodes/n1", None).await.status, 403);
    assert_eq!(world.get("/api/nodes/n1").await.status, 200);
}
