//! Questions: 1.3 GET, 1.5 GET, 1.9 GET, and ours.

use serde_json::{Value, json};

use crate::bodies::spec_with;
use crate::leader::{Leader, Manner};
use crate::world::World;

async fn with_group(flags: &[&str], instances: u32) -> (World, Leader) {
    let world = World::start_with(flags).await;
    let leader = Leader::start(&world.bus, Manner::Leads).await;
    let created = world.post("/api/podgroups", &spec_with(":2,", &format!(":{instances},"))).await;
    assert_eq!(created.status, 202, "{}", created.text);
    (world, leader)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_of_a_thousand_instances_is_readable() {
    let (world, _leader) = with_group(&["--inspect-deadline", "300ms"], 1000).await;
    let body = world.get("/api/podgroups?name=hello.web.web").await.json();
    let pods = body["Pods"].as_array().unwrap();
    assert_eq!((pods.len(), &pods[999]["InstanceNo"]), (1000, &json!(1000)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_are_listed_in_pages() {
    let (world, _leader) = with_group(&[], 1).await;
    for name in ["a.x.y", "b.x.y"] {
        let body = spec_with("hello.web.web", name);
        assert_eq!(world.post("/api/podgroups", &body).await.status, 202);
    }
    let names = |page: &Value| {
        page["PodGroups"].as_array().unwrap().iter().map(|g| g["Name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let first = world.get("/api/podgroups?all=true&limit=2").await.json();
    assert_eq!((names(&first), &first["Next"]), (vec!["a.x.y".to_owned(), "b.x.y".to_owned()], &json!("b.x.y")));
    let second = world.get("/api/podgroups?all=true&limit=2&after=b.x.y").await.json();
    assert_eq!((names(&second), &second["Next"]), (vec!["hello.web.web".to_owned()], &json!("")));
    assert_eq!(names(&world.get("/api/podgroups?namespace=hello").await.json()).len(), 3);
    assert_eq!(names(&world.get("/api/podgroups?namespace=other").await.json()).len(), 0);
    assert_eq!(world.get("/api/podgroups?all=true&after=a%2Fb").await.status, 400);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_are_listed_by_name_with_202() {
    let (world, _leader) = with_group(&[], 1).await;
    let seen = world.get("/api/nodes").await;
    assert_eq!(seen.status, 202);
    assert_eq!(
        seen.json()[0],
        json!({"Name": "n1", "Address": "10.0.0.1:2375", "Containers": 3, "CPUs": 4, "UsedCPUs": 2,
            "Memory": 8_589_934_592_u64, "UsedMemory": 1_073_741_824, "State": "alive", "Engine": "up", "Labels": {},
            "Instances": 2, "EngineVersion": "", "AgentVersion": ""})
    );
    assert_eq!(seen.json()[1]["Name"], "n2");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_cluster_names_its_leader_and_the_answering_scheduler() {
    let (world, _leader) = with_group(&[], 1).await;
    let body = world.get("/api/cluster").await.json();
    assert_eq!(
        (&body["apiserver"], &body["leader"], &body["term"]),
        (&json!("api-1"), &json!("scheduler-1"), &json!(7))
    );
}
