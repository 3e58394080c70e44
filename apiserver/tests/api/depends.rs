//! Dependency pods: contract 1.4, 2.5, and console's requests.

use contract::command::Verb;
use serde_json::json;

use crate::leader::{Leader, Manner};
use crate::node;
use crate::world::{Seen, World};

const PORTAL: &str = r#"{"Name":"svc.portal.portal","Namespace":"svc","Containers":[{"Image":"p:1","MemoryLimit":16777216,
    "Expose":3306,"Env":["A=1"]}],"Annotation":"{}"}"#;

async fn with_leader() -> (World, Leader) {
    let world = World::start_with(&["--inspect-deadline", "300ms"]).await;
    let leader = Leader::start(&world.bus, Manner::Leads).await;
    (world, leader)
}

async fn put(world: &World, body: &str) -> Seen {
    world.call("PUT", "/api/depends", Some(("application/json", body))).await
}

fn promised(seen: &Seen) -> (u16, String, String) {
    let body = seen.json();
    let text = |field: &str| body[field].as_str().unwrap_or_default().to_owned();
    (seen.status, text("check_url"), text("message"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_have_the_contracts_answers_and_reach_the_leader() {
    let (world, leader) = with_leader().await;
    let url = "/api/depends?name=svc.portal.portal".to_owned();
    let told = |message: &str| (202, url.clone(), message.to_owned());
    let unknown = put(&world, PORTAL).await;
    assert_eq!((unknown.status, unknown.message().as_str()), (404, "DependencyPod not existed"));
    let created = world.post("/api/depends", PORTAL).await;
    assert_eq!(promised(&created), told("Dependency pod will be added into orc engine."));
    let again = world.post("/api/depends", PORTAL).await;
    assert_eq!((again.status, again.message().as_str()), (405, "DependencyPod has already existed"));
    assert_eq!(promised(&put(&world, PORTAL).await), told("Dependency PodSpec would be updated in orc engine."));
    for (query, force) in [("", false), ("&force=maybe", false), ("&force=true", true)] {
        let path = format!("{url}{query}");
        let removed = world.call("DELETE", &path, None).await;
        assert_eq!(promised(&removed), told("Dependency pod will be removed from the orc engine."), "{force}");
        let gone = world.call("DELETE", &path, None).await;
        assert_eq!((gone.status, gone.message().as_str()), (404, "DependencyPod not existed"));
        assert_eq!(world.post("/api/depends", PORTAL).await.status, 202);
    }
    let forced = |verb: &Verb| match verb {
        Verb::RemoveDependency { force, .. } => Some(*force),
        _ => None,
    };
    let seen: Vec<bool> = leader.stop().await.iter().filter_map(|command| forced(&command.verb)).collect();
    assert_eq!(seen, [false, false, false, false, true, true]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fields_that_console_reads_are_present_whether_the_node_answers_or_not() {
    let (world, _leader) = with_leader().await;
    assert_eq!(world.post("/api/depends", PORTAL).await.status, 202);
    let path = "/api/depends?name=svc.portal.portal";
    let silent = world.get(path).await.json();
    assert_eq!(silent["Spec"]["Name"], "svc.portal.portal");
    assert_eq!(silent["Spec"]["CreatedAt"], "0001-01-01T00:00:00Z");
    assert_eq!(silent["Pods"].as_object().unwrap().keys().collect::<Vec<_>>(), ["hello"]);
    let pod = &silent["Pods"]["hello"][0];
    assert_eq!((&pod["InstanceNo"], &pod["State"], &pod["LastError"]), (&json!(0), &json!(2), &json!("")));
    let container = &pod["Containers"][0];
    assert_eq!((&container["NodeName"], &container["ContainerPort"]), (&json!("n1"), &json!(3306)));
    let runtime = &container["Runtime"];
    assert_eq!(runtime["Name"], "/svc.portal.portal-n1-hello.v0-i0-d0");
    let env = ["A=1", "DEPLOYD_POD_INSTANCE_NO=0", "DEPLOYD_POD_NAME=svc.portal.portal-n1-hello"];
    let env = env.into_iter().chain(["DEPLOYD_POD_NAMESPACE=svc.portal.portal"]).collect::<Vec<_>>();
    assert_eq!(runtime["Config"]["Env"], json!(env));
    assert_eq!(runtime["HostConfig"]["NetworkMode"], "svc.portal.portal_hello");

    node::describes(&world.bus, "n1").await;
    let told = world.get(path).await.json();
    assert_eq!(told["Pods"]["hello"][0]["Containers"][0]["Runtime"]["Name"], "/engine");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_answers_too() {
    let world = World::start().await;
    let _standby = Leader::start(&world.bus, Manner::StandsBy).await;
    let seen = world.get("/api/depends?name=svc.portal.portal").await;
    assert_eq!((seen.status, seen.stale), (404, true));
}
