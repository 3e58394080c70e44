//! Environment values: shown to those who may change them, and to no viewer or monitor anywhere.

use contract::docker_inspect::ContainerDetail;
use contract::query::{InspectReply, InspectRequest};
use contract::subjects;

use super::{Person, group, records};
use crate::leader::Leader;
use crate::world::World;

const CANARY: &str = "canary-5ecret";

/// Node n1 shows the canary in the environment of the container, as Docker does.
async fn node(world: &World) {
    let mut questions = world.bus.subscribe(&subjects::inspect(&"n1".parse().unwrap())).await.unwrap();
    let bus = world.bus.clone();
    fabric::tasks::spawn("node", async move {
        while let Some(question) = questions.next().await {
            let request: InspectRequest = question.decode().unwrap();
            let mut detail = ContainerDetail { id: "1".repeat(64), ..Default::default() };
            detail.config.env = Some(vec![format!("PASSWORD={CANARY}"), "PATH=/bin".to_owned()]);
            let pods = request.pods.into_iter().map(|pod| (pod, vec![detail.clone()])).collect();
            bus.answer(&question.reply.unwrap(), &InspectReply { pods }).await.unwrap();
        }
    });
}

const PATHS: [&str; 3] = ["/api/podgroups?name=shop.a", "/api/revisions?name=shop.a", "/api/depends?name=dep"];

async fn world() -> (World, Leader, [Person; 4]) {
    let people = [
        Person::new("root", &["admin"]),
        Person::new("viewer", &["viewer", "deployer@other"]),
        Person::new("releaser", &["releaser@shop"]),
        Person::new("deployer", &["viewer", "deployer@shop"]),
    ];
    let world = World::guarded(&["--inspect-deadline", "300ms"]).await;
    let leader = Leader::enforcing(&world.bus, records(&people.each_ref()), &[]).await;
    node(&world).await;
    let spec = group("shop", "shop.a").replace("A=1", &format!("PASSWORD={CANARY}"));
    assert_eq!(world.send(&people[0], "POST", "/api/podgroups", Some(&spec)).await.status, 202);
    let dependency = format!(
        r#"{{"Name":"dep","Namespace":"shop","Containers":[{{"Image":"a","Env":["PASSWORD={CANARY}"]}}],"Annotation":"{{}}"}}"#
    );
    assert_eq!(world.send(&people[0], "POST", "/api/depends", Some(&dependency)).await.status, 202);
    (world, leader, people)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_viewer_sees_no_value_and_the_others_see_all() {
    let (world, _leader, [root, viewer, releaser, deployer]) = world().await;
    for path in PATHS {
        let seen = world.read(&viewer, path).await;
        assert_eq!(seen.status, 200, "{path}");
        assert!(!seen.text.contains(CANARY) && seen.text.contains("\"PASSWORD=[redacted]\""), "{path}: {}", seen.text);
        for person in [&root, &releaser, &deployer] {
            let seen = world.read(person, path).await;
            assert!(seen.text.contains(CANARY) && !seen.text.contains("[redacted]"), "{path}: {}", seen.text);
        }
    }
    let described = world.read(&viewer, PATHS[0]).await.json();
    let runtime = &described["Pods"][0]["Containers"][0]["Runtime"]["Config"]["Env"];
    assert_eq!(runtime, &serde_json::json!(["PASSWORD=[redacted]", "PATH=[redacted]"]));
    let synthetic = &described["Pods"][1]["Containers"][0]["Runtime"]["Config"]["Env"];
    assert_eq!(synthetic[0], "PASSWORD=[redacted]", "also for a node that does not answer");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_spec_that_would_store_the_replacement_is_refused_by_field() {
    let (world, _leader, [root, ..]) = world().await;
    let spec = group("shop", "shop.b").replace("A=1", "A=[redacted]");
    let pod = r#"{"Name":"shop.a","Namespace":"shop","Containers":[{"Image":"a","Env":["A=1","B=[redacted]"]}],"Annotation":"{}"}"#;
    for (method, path, body, field) in [
        ("POST", "/api/podgroups", spec.as_str(), "Pod.Containers[0].Env[0]: "),
        ("POST", "/api/podgroups/plan", &spec, "Pod.Containers[0].Env[0]: "),
        ("PATCH", "/api/podgroups?name=shop.a&cmd=spec", pod, "Containers[0].Env[1]: "),
        ("POST", "/api/depends", pod, "Containers[0].Env[1]: "),
        ("PUT", "/api/depends", pod, "Containers[0].Env[1]: "),
    ] {
        let seen = world.send(&root, method, path, Some(body)).await;
        assert!(seen.status == 400 && seen.message().contains(field), "{method} {path}: {}", seen.text);
        assert!(seen.message().contains("[redacted]"), "{}", seen.text);
    }
}
