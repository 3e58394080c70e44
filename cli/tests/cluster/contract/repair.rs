//! S12, S13, S22, S23: missing containers, containers that cannot start, duplicates, and many nodes lost together.

use std::time::{Duration, Instant};

use contract::pod_id::PodId;
use contract::state::RunState;
use reqwest::Method;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::docker::Hands;
use super::scenarios::{QUICK, SOON, becomes, deployed, group_with, names, patch, pod_with, unlocked};
use crate::cluster::{Cluster, IMAGE, demo_group, eventually};

/// Three groups of scenarios at the same time; each failure message names its group.
#[tokio::test(flavor = "multi_thread")]
async fn missing_uncreatable_and_duplicate_containers_are_handled() {
    let cluster = Cluster::start_with(&QUICK, &[]).await;
    tokio::join!(
        an_instance_with_data_is_replaced_on_its_node_and_a_stateful_one_stays_missing(&cluster),
        what_cannot_be_created_or_started_says_so_and_creation_is_tried_under_new_names(&cluster),
        an_older_copy_is_removed_and_a_stranger_with_the_same_labels_is_not(&cluster),
    );
}

/// S12.
async fn an_instance_with_data_is_replaced_on_its_node_and_a_stateful_one_stays_missing(cluster: &Cluster) {
    let data = group_with("data.web.web", 2, |pod| pod["Containers"][0]["Volumes"] = json!(["/data"]));
    let before = deployed(cluster, &data).await;
    let stateful = deployed(cluster, &group_with("hard.web.web", 1, |pod| pod["Stateful"] = true.into())).await;
    cluster.engine.remove(&stateful[0].id).await;
    cluster.engine.remove(&before[0].id).await;
    eventually(SOON, "data.web.web: instance 1 is replaced", async || {
        (names(cluster, "data.web.web").await == ["data.web.web.v0-i1-d1", "data.web.web.v0-i2-d0"]).then_some(())
    })
    .await;
    let after = cluster.exactly("data.web.web", 2, SOON).await;
    assert_eq!((&after[0].node, &after[1]), (&before[0].node, &before[1]));
    let missing =
        becomes(cluster, "hard.web.web", "is missing", |group| group.pods[0].state == RunState::Missing).await;
    assert_eq!(missing.pods[0].drift_count, 0);
    cluster.stays(Vec::new(), async || cluster.engine.of_group(cluster.id(), "hard.web.web").await).await;
}

/// S13.
async fn what_cannot_be_created_or_started_says_so_and_creation_is_tried_under_new_names(cluster: &Cluster) {
    let unknown = group_with("image.web.web", 1, |pod| pod["Containers"][0]["Image"] = "deployd-test/none:1".into());
    let broken = group_with("start.web.web", 1, |pod| pod["Containers"][0]["Entrypoint"] = json!(["/no/such/program"]));
    for group in [&unknown, &broken] {
        cluster.accepted(Method::POST, "/api/podgroups", Some(group)).await;
    }
    let group =
        becomes(cluster, "start.web.web", "failed to start", |group| group.pods[0].state == RunState::Fail).await;
    assert!(group.pods[0].last_error.contains("/no/such/program"), "{}", group.pods[0].last_error);
    let group = becomes(cluster, "image.web.web", "is tried again", |group| {
        group.pods[0].state == RunState::Error && group.pods[0].drift_count >= 1
    })
    .await;
    assert!(group.last_error.starts_with("Cannot create container, "), "{}", group.last_error);
    assert_eq!(names(cluster, "image.web.web").await, Vec::<String>::new());
    // Neither holds up anything else, and both can be given up.
    deployed(cluster, &demo_group("well.web.web", 1)).await;
    for name in ["image.web.web", "start.web.web"] {
        cluster.accepted(Method::DELETE, &format!("/api/podgroups?name={name}"), None).await;
        cluster.exactly(name, 0, SOON).await;
    }
}

/// S22; its notices are tested in `notices`. A node that came back does not count.
#[tokio::test(flavor = "multi_thread")]
async fn one_node_that_goes_three_times_does_not_stop_the_engine_and_three_nodes_do_until_a_person_starts_it() {
    let settings = [("DEPLOYD_HEARTBEAT", "500ms"), ("DEPLOYD_SUSPECT_AFTER", "2s"), ("DEPLOYD_LOST_AFTER", "600s")];
    let cluster = Cluster::start_with(&settings, &["--nodes", "5"]).await;
    let before = deployed(&cluster, &demo_group("still.web.web", 5)).await;
    let state = async |number: usize| {
        let (_, text) = cluster.call(0, Method::GET, "/api/nodes", None).await;
        let nodes: Value = serde_json::from_str(&text).expect("JSON");
        nodes[number - 1]["State"].as_str().unwrap_or_default().to_owned()
    };
    let status = async || cluster.call(1, Method::GET, "/api/status", None).await.1;
    // Silence right after the bus was connected says nothing of nodes; it is over after ten seconds and the limit.
    let (began, mut times) = (Instant::now(), 0);
    while times < 3 || began.elapsed() < Duration::from_secs(13) {
        times += 1;
        cluster.signal("agent-5", Signal::STOP);
        eventually(SOON, "node-5 is suspect", async || (state(5).await == "suspect").then_some(())).await;
        cluster.signal("agent-5", Signal::CONT);
        eventually(SOON, "node-5 is back", async || (state(5).await == "alive").then_some(())).await;
    }
    assert!(status().await.contains("started"), "one node is one node");
    for agent in ["agent-2", "agent-3", "agent-4"] {
        cluster.signal(agent, Signal::STOP);
    }
    eventually(SOON, "the engine is stopped", async || status().await.contains("stopped").then_some(())).await;
    for agent in ["agent-2", "agent-3", "agent-4"] {
        cluster.signal(agent, Signal::CONT);
    }
    eventually(SOON, "node-4 is back", async || (state(4).await == "alive").then_some(())).await;
    assert!(status().await.contains("stopped"), "nothing starts it again but a person");
    cluster.switched(0, Method::PATCH, "/api/status", Some(&json!({"status": "start"}))).await;
    assert_eq!(cluster.exactly("still.web.web", 5, SOON).await, before);
}

/// S23.
async fn an_older_copy_is_removed_and_a_stranger_with_the_same_labels_is_not(cluster: &Cluster) {
    let (hands, name) = (Hands::connect(), "copy.web.web");
    deployed(cluster, &demo_group(name, 1)).await;
    cluster.accepted(Method::PATCH, &patch(name, "spec"), Some(&pod_with(name, |_| ()))).await;
    eventually(SOON, "copy.web.web is upgraded", async || {
        (names(cluster, name).await == ["copy.web.web.v1-i1-d0"]).then_some(())
    })
    .await;
    unlocked(cluster, name).await;
    let ours = cluster.exactly(name, 1, SOON).await;
    let stranger = cluster.engine.foreign(IMAGE, &format!("{}-stranger", cluster.id()), name).await;
    let older: PodId = "copy.web.web.v0-i1-d3".parse().expect("a pod");
    let older = hands.imitate(cluster.id(), &ours[0].node, &older).await;
    eventually(Duration::from_secs(90), "copy.web.web: the older copy is gone", async || {
        let all = cluster.engine.of_cluster(cluster.id()).await;
        (!all.iter().any(|container| container.id == older)).then_some(())
    })
    .await;
    assert_eq!(cluster.exactly(name, 1, SOON).await, ours);
    assert!(cluster.engine.runs(&stranger).await, "the stranger runs");
    cluster.engine.remove(&stranger).await;
}
