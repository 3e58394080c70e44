//! `deployctl node`: what it asks, what it says, and how it ends.

use std::time::Duration;

use serde_json::{Value, json};

use crate::server::{Ended, Server};

const NODE: &str = "/api/nodes/n1";

fn pod(name: &str, bound: bool) -> Value {
    json!({"Name": name, "PodGroup": "a.web.web", "State": 2, "Bound": bound})
}
fn node(pods: &[Value]) -> Value {
    json!({"Name": "n1", "State": "alive", "Engine": "up", "Labels": {"rack": "3"}, "Pods": pods,
        "HeardAt": "2026-01-01T00:00:00Z"})
}
fn ok() -> Value {
    json!({"message": "ok"})
}
async fn run(server: &Server, words: &str) -> Ended {
    server.run(&words.split(' ').collect::<Vec<_>>()).await
}

#[tokio::test]
async fn every_command_asks_for_its_change() {
    let answers = [
        ("PATCH /api/nodes/n1", 202, ok()),
        ("DELETE /api/nodes/n1", 202, ok()),
        ("GET /api/nodes/n1", 200, node(&[])),
    ];
    let server = Server::start(&answers).await;
    for (words, asked, body) in [
        ("node cordon n1", "PATCH /api/nodes/n1?cmd=cordon", ""),
        ("node cordon n1 --why disk", "PATCH /api/nodes/n1?cmd=cordon&why=disk", ""),
        ("node uncordon n1", "PATCH /api/nodes/n1?cmd=uncordon", ""),
        ("node drain n1 --no-wait --force", "PATCH /api/nodes/n1?cmd=drain&force=true", ""),
        ("node label n1 rack=3 old-", "PATCH /api/nodes/n1?cmd=label", r#"{"old":null,"rack":"3"}"#),
        ("node remove n1 --force", "DELETE /api/nodes/n1?force=true", ""),
    ] {
        let ended = run(&server, words).await;
        assert_eq!(ended.code, Some(0), "{words}: {ended:?}");
        assert_eq!(server.changes().last(), Some(&(asked.to_owned(), body.to_owned())), "{words}");
    }
}

#[tokio::test]
async fn a_drain_waits_until_the_node_is_empty() {
    let full = node(&[pod("a.web.web.v0-i1-d0", false)]);
    let answers = [
        ("PATCH /api/nodes/n1", 202, ok()),
        ("GET /api/nodes/n1", 200, full.clone()),
        ("GET /api/nodes/n1", 503, json!({"message": "no leader"})),
        ("GET /api/nodes/n1", 200, full),
        ("GET /api/nodes/n1", 200, node(&[])),
    ];
    let server = Server::start(&answers).await;
    let ended = run(&server, "node drain n1").await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(
        ended.err.contains("n1 is empty and stays cordoned") && ended.err.contains("node uncordon n1"),
        "{ended:?}"
    );
    assert_eq!(server.count(&format!("GET {NODE}")), 4);
}

#[tokio::test]
async fn a_drain_names_the_instances_that_stay_and_why() {
    let stays = node(&[pod("a.db.db.v0-i1-d0", true)]);
    let server = Server::start(&[("PATCH /api/nodes/n1", 202, ok()), ("GET /api/nodes/n1", 200, stays.clone())]).await;
    let ended = run(&server, "node drain n1").await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    for part in ["a.db.db.v0-i1-d0", "instances with local data", "--force"] {
        assert!(ended.err.contains(part), "{part}: {ended:?}");
    }
    let ended = run(&server, "node drain n1 --force --timeout 1s").await;
    assert_eq!(ended.code, Some(5), "forced, it is waited for: {ended:?}");
    assert!(ended.err.contains("a.db.db.v0-i1-d0") && ended.err.contains("node uncordon n1"), "{ended:?}");
}

#[tokio::test]
async fn an_interrupted_drain_prints_how_to_undo_it() {
    let full = node(&[pod("a.web.web.v0-i1-d0", false)]);
    let server = Server::start(&[("PATCH /api/nodes/n1", 202, ok()), ("GET /api/nodes/n1", 200, full)]).await;
    let child = server.command(&["node", "drain", "n1"]).spawn().expect("deployctl runs");
    let until = tokio::time::Instant::now() + Duration::from_secs(20);
    while server.count(&format!("GET {NODE}")) == 0 {
        assert!(tokio::time::Instant::now() < until, "it never looked");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(rustix::process::Pid::from_raw);
    rustix::process::kill_process(pid.expect("it runs"), rustix::process::Signal::INT).expect("the signal is sent");
    let output = tokio::time::timeout(Duration::from_secs(20), child.wait_with_output()).await;
    let ended = Ended::of(&output.expect("in time").expect("it ends"));
    assert_eq!(ended.code, Some(130), "{ended:?}");
    assert!(ended.err.contains("stays cordoned") && ended.err.contains("deployctl node uncordon n1"), "{ended:?}");
}

#[tokio::test]
async fn nodes_are_shown_and_unknown_ones_are_exit_code_3() {
    let list = json!([{"Name": "n1", "State": "suspect", "Engine": "up", "Instances": 4, "Cordon": {"Why": "disk"}}]);
    let events = json!({"Events": []});
    let answers = [
        ("GET /api/nodes", 202, list),
        ("GET /api/nodes/n1", 200, node(&[pod("a.web.web.v0-i1-d0", false)])),
        ("GET /api/nodes/n9", 404, json!({"message": "Node n9 not existed"})),
        (
            "DELETE /api/nodes/n1",
            409,
            json!({"message": "n1 reported 1.0 s ago: stop its agent, then retry after 15.0 s"}),
        ),
        ("GET /api/events", 200, events),
    ];
    let server = Server::start(&answers).await;
    let ended = run(&server, "node list").await;
    assert!(ended.code == Some(0) && ended.out.contains("suspect,cordoned"), "{ended:?}");
    let ended = run(&server, "node list -o json").await;
    assert_eq!(serde_json::from_str::<Value>(&ended.out).expect("JSON")[0]["Instances"], 4);
    let ended = run(&server, "node show n1").await;
    assert!(ended.code == Some(0) && ended.out.contains("a.web.web.v0-i1-d0"), "{ended:?}");
    assert_eq!(run(&server, "node show n9").await.code, Some(3));
    let ended = run(&server, "node remove n1").await;
    assert!(ended.code == Some(1) && ended.err.contains("stop its agent, then retry"), "{ended:?}");
    for wrong in ["node label n1", "node label n1 rack", "node show a/b", "node drain n1 --no-wait --timeout 5s"] {
        assert_eq!(run(&server, wrong).await.code, Some(2), "{wrong}");
    }
}

#[tokio::test]
async fn a_drain_without_a_terminal_says_what_it_waits_for_while_it_waits() {
    let reason = "waits for instance 3 on n3, which is suspect: it must report or become lost";
    let mut stuck = pod("a.web.web.v0-i1-d0", false);
    stuck["Why"] = json!(reason);
    let answers = [("PATCH /api/nodes/n1", 202, ok()), ("GET /api/nodes/n1", 200, node(&[stuck]))];
    let ended = run(&Server::start(&answers).await, "node drain n1 --timeout 8s").await;
    assert_eq!(ended.code, Some(5), "{ended:?}");
    let lines: Vec<&str> = ended.err.lines().filter(|line| line.contains(reason)).collect();
    assert!(lines.len() == 2 && !lines[0].starts_with("deployctl:"), "{ended:?}");
}
