//! Stream ports and histories: contract 1.10, 1.12, 2.8, 2.9.

use serde_json::json;

use crate::bodies::spec_with;
use crate::leader::{Leader, Manner};
use crate::world::World;

async fn with_ports() -> (World, Leader) {
    let world = World::start().await;
    let leader = Leader::start(&world.bus, Manner::Leads).await;
    let annotation =
        r#""{\"ports\":[{\"srcport\":9001,\"dstport\":8080},{\"srcport\":9002,\"dstport\":53,\"proto\":\"udp\"}]}""#;
    let created = world.post("/api/podgroups", &spec_with(r#""{}""#, annotation)).await;
    assert_eq!(created.status, 202, "{}", created.text);
    (world, leader)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ports_are_listed_with_their_groups() {
    let (world, _leader) = with_ports().await;
    let seen = world.get("/api/ports").await;
    let row = |srcport: u16, dstport: u16, proto: &str| {
        json!({"srcport": srcport, "dstport": dstport, "proto": proto,
            "NameSpace": "hello", "ProcName": "hello.web.web"})
    };
    assert_eq!((seen.status, seen.json()), (200, json!([row(9001, 8080, "tcp"), row(9002, 53, "udp")])));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_ports_are_an_empty_list_and_a_standby_answers_too() {
    let world = World::start().await;
    let _standby = Leader::start(&world.bus, Manner::StandsBy).await;
    let seen = world.get("/api/ports").await;
    assert_eq!((seen.status, seen.text.as_str(), seen.stale), (200, "[]\n", true));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn histories_are_oldest_first_and_unknown_instances_have_none() {
    let world = World::start().await;
    let _leader = Leader::start(&world.bus, Manner::Leads).await;
    let row = |word: &str, time: i64| json!({"status": word, "from": "registry/hello:1 node:n1", "time": time, "action": word});
    let seen = world.get("/api/cntstatushistory?name=hello.web.web&instance=1").await;
    let told = json!([row("start", 1_794_794_630), row("stop", 1_794_794_640)]);
    assert_eq!((seen.status, seen.json()), (200, told));
    for query in
        ["name=hello.web.web&instance=2", "name=other&instance=1", "name=a%2Fb&instance=1", "name=a&instance=-7"]
    {
        let seen = world.get(&format!("/api/cntstatushistory?{query}")).await;
        assert_eq!((seen.status, seen.text.as_str()), (200, "[]\n"), "{query}");
    }
}
