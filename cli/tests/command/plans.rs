//! `plan`: text, JSON, and what the exit code says when it is asked to.

use serde_json::{Value, json};

use crate::server::{Ended, Server};

const PLAN: &str = "POST /api/podgroups/plan";

fn plan(fate: &str, completes: bool) -> Value {
    let actions = json!([{"Instance": 1, "Deed": "Renew", "Unit": ""}]);
    let step = json!({"Group": 1, "Kind": "Beta", "Deeds": actions, "Available": {"": 5}});
    json!({
        "Name": "demo.beta.web", "Release": 2, "Strategy": "Beta", "IsNew": false,
        "Steps": if fate == "Untouched" { json!([]) } else { json!([step]) }, "Fates": {"1": fate},
        "PeakExtraPods": 0, "PeakExtraMemory": 0, "PeakExtraCpuMillis": 0, "MinAvailable": {"": 5}, "Completes": completes,
        "Unplaced": if completes { json!([]) } else { json!([{"Instance": 1, "Unit": "", "Nodes": {"n1": ["is full"]}}]) },
        "Warnings": [],
    })
}

fn example() -> String {
    format!("{}/../deploy/demo-beta.yaml", env!("CARGO_MANIFEST_DIR"))
}

#[tokio::test]
async fn a_plan_is_text_or_json_and_succeeds_whatever_it_says() {
    let server = Server::start(&[(PLAN, 200, plan("Recreated", false))]).await;
    let text = server.run(&["plan", "-f", &example()]).await;
    assert_eq!(text.code, Some(0), "{text:?}");
    for words in ["replace: 1", "batch 1 (Beta)", "step 1: replace 1; meanwhile 5 available", "n1: is full"] {
        assert!(text.out.contains(words), "{words}: {text:?}");
    }
    let json = server.run(&["plan", "-f", &example(), "-o", "json"]).await;
    assert_eq!(serde_json::from_str::<Value>(&json.out).expect("JSON"), plan("Recreated", false));
    let sent: Value = serde_json::from_str(&server.changes()[0].1).expect("JSON");
    assert_eq!((&sent["Name"], &sent["Strategy"]["Type"]), (&json!("demo.beta.web"), &json!("Beta")));
}

#[tokio::test]
async fn the_exit_code_says_what_a_plan_comes_to_when_asked() {
    for (answer, code) in [(plan("Untouched", true), 0), (plan("InPlace", true), 10), (plan("InPlace", false), 11)] {
        let server = Server::start(&[(PLAN, 200, answer)]).await;
        assert_eq!(server.run(&["plan", "--detailed-exitcode", "-f", &example()]).await.code, Some(code));
    }
}

#[tokio::test]
async fn what_the_cluster_would_refuse_is_refused() {
    let refusal = json!({"message": "Pod.Filters: cannot be changed in place"});
    let ended = Server::start(&[(PLAN, 400, refusal)]).await.run(&["plan", "-f", &example()]).await;
    assert!(ended.code == Some(1) && ended.err.contains("cannot be changed in place"), "{ended:?}");
}

/// `a.web.web` as it runs, and a document that names neither RestartPolicy nor Paused.
fn running(policy: u8, image: &str) -> Value {
    json!({"Name": "a.web.web", "Namespace": "a", "NumInstances": 1, "RestartPolicy": policy, "Paused": true,
        "Strategy": {"Type": "RollingUpdate"},
        "Pod": {"Name": "a.web.web", "Namespace": "a", "Containers": [{"Image": image}]}})
}

async fn planned(server: &Server, lines: &str, words: &[&str]) -> Ended {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let text = "Name: a.web.web\nNamespace: a\nNumInstances: 1\nStrategy: {Type: RollingUpdate}\n";
    std::fs::write(file.path(), format!("{text}{lines}")).expect("written");
    server.run(&[words, &["-f", file.path().to_str().expect("a path")]].concat()).await
}

const POD: &str = "Pod: {Containers: [{Image: i}]}\n";

#[tokio::test]
async fn a_plan_sends_what_apply_would_leave_of_a_group_that_exists() {
    for policy in [0, 2] {
        let answers = [("GET /api/podgroups", 200, json!({"Spec": running(policy, "i")}))];
        let server = Server::start(&[&answers[..], &[(PLAN, 200, plan("Untouched", true))]].concat()).await;
        let ended = planned(&server, POD, &["plan", "--detailed-exitcode"]).await;
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let sent: Value = serde_json::from_str(&server.changes()[0].1).expect("JSON");
        assert_eq!((&sent["RestartPolicy"], &sent["Paused"]), (&json!(policy), &json!(true)));
        let applied = planned(&server, POD, &["apply", "--detach"]).await;
        assert!(applied.code == Some(0) && applied.err.contains("is unchanged"), "{applied:?}");
    }
    let server = Server::start(&[(PLAN, 200, plan("Created", true))]).await;
    assert_eq!(planned(&server, POD, &["plan"]).await.code, Some(0));
    let sent: Value = serde_json::from_str(&server.changes()[0].1).expect("JSON");
    assert_eq!(sent["RestartPolicy"], json!(1), "a new group restarts always");
}

#[tokio::test]
async fn a_change_that_touches_no_instance_is_a_change() {
    let group = ("GET /api/podgroups", 200, json!({"Spec": running(0, "i")}));
    let server = Server::start(&[group, (PLAN, 200, plan("Untouched", true))]).await;
    let document = format!("{POD}RestartPolicy: onfail\nMinReadySeconds: 20\n");
    let ended = planned(&server, &document, &["plan", "--detailed-exitcode"]).await;
    assert_eq!(ended.code, Some(10), "{ended:?}");
    assert!(ended.out.contains("  + MinReadySeconds 20\n  ~ restart never => onfail\n"), "{ended:?}");
}

#[tokio::test]
async fn a_plan_refuses_what_apply_refuses() {
    let group = ("GET /api/podgroups", 200, json!({"Spec": running(1, "i")}));
    let server = Server::start(&[group, (PLAN, 200, plan("Untouched", true))]).await;
    for command in ["plan", "apply"] {
        let ended = planned(&server, "Pod: {Network: other, Containers: [{Image: i}]}\n", &[command]).await;
        assert!(ended.code == Some(1) && ended.err.contains("differs in Pod.Network"), "{command}: {ended:?}");
    }
    assert_eq!(server.changes(), []);
}
