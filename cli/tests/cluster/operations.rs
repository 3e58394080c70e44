//! What users do every day: deploy, read, scale, delete, through any apiserver and through deployctl.

use std::time::Duration;

use contract::state::RunState;
use reqwest::{Method, StatusCode};
use serde_json::Value;

use crate::cluster::{Cluster, IMAGE, demo_group, eventually, text};

const SOON: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
async fn groups_are_deployed_scaled_and_removed_and_one_that_fits_nowhere_says_why() {
    let cluster = Cluster::start(&[]).await;
    a_group_is_deployed_scaled_and_removed_and_foreign_containers_stay(&cluster).await;
    what_cannot_be_placed_says_why_for_every_node(&cluster).await;
}

async fn a_group_is_deployed_scaled_and_removed_and_foreign_containers_stay(cluster: &Cluster) {
    let name = format!("{}-foreign", cluster.id());
    let foreign = cluster.engine.foreign(IMAGE, &name, "life.web.web").await;
    cluster.accepted(Method::POST, "/api/podgroups", Some(&demo_group("life.web.web", 3))).await;
    let group = cluster.running("life.web.web", 3, SOON).await;
    let names: Vec<String> = group.pods.iter().map(|pod| pod.containers[0].runtime.name.clone()).collect();
    assert_eq!(names, ["/life.web.web.v0-i1-d0", "/life.web.web.v0-i2-d0", "/life.web.web.v0-i3-d0"]);
    let nodes: std::collections::BTreeSet<&str> =
        group.pods.iter().map(|pod| pod.containers[0].node_name.as_str()).collect();
    assert_eq!(nodes.len(), 3, "three instances spread over three nodes");
    answers(&group).await;
    let (status, _) = cluster.call(0, Method::POST, "/api/podgroups", Some(&demo_group("life.web.web", 1))).await;
    assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED, "it exists");

    for count in [6, 2, 0, 1] {
        let path = format!("/api/podgroups?name=life.web.web&cmd=replica&num_instances={count}");
        cluster.accepted(Method::PATCH, &path, None).await;
        cluster.exactly("life.web.web", count, SOON).await;
        cluster.running("life.web.web", count as usize, SOON).await;
    }
    cluster.accepted(Method::DELETE, "/api/podgroups?name=life.web.web", None).await;
    let (status, _) = cluster.call(1, Method::GET, "/api/podgroups?name=life.web.web", None).await;
    assert_eq!(status, StatusCode::NOT_FOUND, "gone for readers at once");
    cluster.exactly("life.web.web", 0, SOON).await;
    // The name is free again.
    eventually(SOON, "the name is free", async || {
        let (status, _) = cluster.call(0, Method::POST, "/api/podgroups", Some(&demo_group("life.web.web", 1))).await;
        (status == StatusCode::ACCEPTED).then_some(())
    })
    .await;
    cluster.exactly("life.web.web", 1, SOON).await;
    assert!(cluster.engine.runs(&foreign).await, "the foreign container runs");
    cluster.engine.remove(&foreign).await;
}

/// The workload is reachable where the API says.
async fn answers(group: &contract::api::PodGroupWithSpec) {
    let client = fabric::http::client(Duration::from_secs(5));
    for pod in &group.pods {
        let url = format!("http://127.0.0.1:{}/", pod.containers[0].node_port);
        let body = client.get(&url).send().await.expect("the demo answers").text().await.expect("text");
        assert_eq!(body, format!("hello from life.web.web instance {}\n", pod.instance_no));
    }
}

async fn what_cannot_be_placed_says_why_for_every_node(cluster: &Cluster) {
    let mut group = demo_group("huge.web.web", 1);
    group["Pod"]["Containers"][0]["MemoryLimit"] = Value::from(1_i64 << 42);
    cluster.accepted(Method::POST, "/api/podgroups", Some(&group)).await;
    let shown = eventually(SOON, "the reason is shown", async || {
        cluster.group(0, "huge.web.web").await.filter(|group| !group.last_error.is_empty())
    })
    .await;
    for node in ["node-1", "node-2", "node-3"] {
        assert!(shown.last_error.contains(node), "{}", shown.last_error);
    }
    assert_ne!(shown.state, RunState::Success);
    assert_eq!(shown.pods[0].containers.len(), 1, "clients take the first container unasked");
    // It can be given up, and a group that fits is not held back.
    cluster.accepted(Method::DELETE, "/api/podgroups?name=huge.web.web", None).await;
    cluster.accepted(Method::POST, "/api/podgroups", Some(&demo_group("small.web.web", 1))).await;
    cluster.running("small.web.web", 1, SOON).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deployctl_applies_shows_scales_and_deletes() {
    let cluster = Cluster::start(&[]).await;
    let file = tempfile::NamedTempFile::new().expect("a file");
    let yaml = format!(
        "Name: tool.web.web\nNamespace: tool\nNumInstances: 2\nRestartPolicy: 1\nPod:\n  Containers:\n  - Image: {IMAGE}\n    MemoryLimit: 16777216\n    Expose: 8080\n"
    );
    std::fs::write(file.path(), yaml).expect("written");
    let path = file.path().to_str().expect("a path");
    for (arguments, shows) in [
        (vec!["apply", "--wait", "-f", path], "tool.web.web"),
        (vec!["apply", "--wait", "-f", path], "tool.web.web"),
        (vec!["get", "podgroup", "tool.web.web"], "node-2"),
        (vec!["get", "podgroup"], "tool.web.web"),
        (vec!["scale", "--wait", "tool.web.web", "3"], "tool.web.web"),
        (vec!["get", "nodes"], "node-3"),
        (vec!["status"], "node-1"),
        (vec!["delete", "podgroup", "tool.web.web", "--wait"], "tool.web.web"),
    ] {
        let output = cluster.deployctl(&arguments).await;
        assert!(output.status.success(), "{arguments:?}:\n{}", text(&output));
        assert!(text(&output).contains(shows), "{arguments:?}:\n{}", text(&output));
    }
    assert_eq!(cluster.engine.of_cluster(cluster.id()).await, []);
    let output = cluster.deployctl(&["get", "podgroup", "tool.web.web"]).await;
    assert!(!output.status.success(), "an unknown group is an error");
}
