//! `doctor`: many checks, each with a remedy, and an exit code for scripts.

use serde_json::{Value, json};

use crate::server::{Ended, Server};

async fn doctor(leader: &str, flags: &[&str]) -> Ended {
    let version = env!("CARGO_PKG_VERSION");
    let node = json!([{"Name": "n1", "State": "alive", "Engine": "up", "AgentVersion": version, "Memory": 100}]);
    let cluster = json!({"apiserver": "a1", "version": version, "leader": leader, "term": 3});
    let server = Server::start(&[
        ("GET /api/cluster", 200, cluster),
        ("GET /api/nodes", 200, node),
        ("GET /api/podgroups", 200, json!({"PodGroups": []})),
        ("GET /api/deadletters", 200, json!({"DeadLetters": []})),
        ("GET /api/status", 200, json!({"status": "started"})),
        ("GET /api/guard", 200, json!({"guard": "working"})),
        ("GET /api/engine/config", 200, json!({"readonly": false, "maintenance": true})),
    ])
    .await;
    server.run(&[&["doctor"], flags].concat()).await
}

#[tokio::test]
async fn doctor_makes_at_least_25_checks_and_fails_only_for_failures() {
    let ended = doctor("s1", &["-o", "json"]).await;
    let checks: Vec<Value> = serde_json::from_str(&ended.out).expect("JSON");
    assert!(ended.code == Some(0) && checks.len() >= 25, "{} checks: {ended:?}", checks.len());
    let of = |name: &str| checks.iter().find(|check| check["Name"] == name).map(|check| check["Verdict"].clone());
    assert_eq!((of("leader"), of("maintenance")), (Some(json!("ok")), Some(json!("warning"))), "{ended:?}");
    for check in &checks {
        assert!(check["Detail"].as_str().is_some_and(|detail| !detail.is_empty()), "{check}");
    }
}

#[tokio::test]
async fn a_failed_check_is_repeated_in_full_below_the_table() {
    let ended = doctor("", &[]).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.out.contains("1 failed\n") && ended.out.contains("CHECK"), "{ended:?}");
    assert!(ended.out.ends_with("failed: leader: no scheduler leads; changes wait\n"), "{ended:?}");
}

#[tokio::test]
async fn doctor_reports_an_api_that_does_not_answer() {
    let server = Server::start(&[]).await;
    server.stop();
    let ended = server.run(&["doctor"]).await;
    assert!(ended.code == Some(1) && ended.out.contains("no apiserver answers"), "{ended:?}");
}
