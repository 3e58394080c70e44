//! `plan`: text, JSON, and what the exit code says when it is asked to.

use serde_json::{Value, json};

use crate::server::Server;

const PLAN: &str = "POST /api/podgroups/plan";

fn plan(fate: &str, completes: bool) -> Value {
    let deeds = json!([{"Instance": 1, "Deed": "Renew", "Unit": ""}]);
    let step = json!({"Group": 1, "Kind": "Beta", "Deeds": deeds, "Available": {"": 5}});
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
    for words in ["made anew: 1", "group 1, Beta", "step 1: replace 1; meanwhile 5 available", "n1: is full"] {
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
