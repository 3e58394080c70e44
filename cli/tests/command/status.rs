//! `status` and waits use readiness: an instance that runs and is unhealthy is not well.

use serde_json::{Value, json};

use crate::server::{Ended, Server};

const GROUPS: &str = "GET /api/podgroups";

async fn status(line: Value) -> Ended {
    let node = json!([{"Name": "n1", "State": "alive", "Engine": "up"}]);
    let server = Server::start(&[
        ("GET /api/cluster", 200, json!({"leader": "scheduler-1", "term": 3})),
        ("GET /api/nodes", 200, node),
        (GROUPS, 200, json!({"PodGroups": [line]})),
    ])
    .await;
    server.run(&["status"]).await
}

fn line(ready: u32, overdue: &Value) -> Value {
    json!({"Name": "a.web.web", "NumInstances": 3, "Running": 3, "State": 2, "Ready": ready, "Overdue": overdue})
}

#[tokio::test]
async fn a_group_whose_instances_are_not_ready_for_too_long_is_not_well() {
    let overdue =
        json!([{"Instance": 1, "Why": "unhealthy for 46 s"}, {"Instance": 3, "Why": "crash-looping: 5 restarts"}]);
    let ended = status(line(1, &overdue)).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.out.contains("1/3") && !ended.out.contains("all is well"), "{ended:?}");
    let expected = "not well: PodGroup a.web.web: 1 of 3 instances are ready; instance 1: unhealthy for 46 s; \
        instance 3: crash-looping: 5 restarts";
    assert!(ended.out.contains(expected), "{ended:?}");
}

#[tokio::test]
async fn instances_that_are_not_ready_yet_are_counted_and_are_no_failure() {
    let ended = status(line(2, &json!([]))).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.out.contains("2/3") && ended.out.contains("all is well"), "{ended:?}");
}

#[tokio::test]
async fn a_wait_ends_when_the_instances_are_ready_and_not_when_they_only_run() {
    let group = |health: u8| {
        let spec = json!({"Name": "a.web.web", "Namespace": "a", "NumInstances": 1});
        json!({"Spec": spec, "Pods": [{"InstanceNo": 1, "State": 2, "Healthst": health}]})
    };
    let scaled = ("PATCH /api/podgroups", 202, json!({"message": "ok"}));
    let server = Server::start(&[scaled.clone(), (GROUPS, 200, group(1)), (GROUPS, 200, group(2))]).await;
    let ended = server.run(&["scale", "a.web.web", "1", "--wait", "--timeout", "20s"]).await;
    assert_eq!((ended.code, server.count("GET /api/podgroups?name=a.web.web")), (Some(0), 2), "{ended:?}");
    let server = Server::start(&[scaled, (GROUPS, 200, group(3))]).await;
    let ended = server.run(&["scale", "a.web.web", "1", "--wait", "--timeout", "1s"]).await;
    assert!(ended.code == Some(5) && ended.err.contains("0 of 1 instances are ready"), "{ended:?}");
    assert!(ended.err.contains("instance 1 is running (unhealthy)"), "{ended:?}");
}
