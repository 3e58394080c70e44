//! S14, S18: drifts, evacuated nodes, constraints.

use reqwest::Method;
use serde_json::{Value, json};

use super::scenarios::{QUICK, SOON, becomes, deployed, group_with, names, unlocked};
use crate::cluster::{Cluster, demo_group, eventually};
use crate::docker::Workload;

/// Asks for a drift and waits until the group has these containers.
async fn drifts(cluster: &Cluster, name: &str, more: &str, wanted: &[&str]) -> Vec<Workload> {
    cluster.accepted(Method::PATCH, &format!("/api/nodes?cmd=drift&pg={name}&{more}"), None).await;
    eventually(SOON, &format!("{more}: {wanted:?}"), async || (names(cluster, name).await == wanted).then_some(()))
        .await;
    unlocked(cluster, name).await;
    cluster.exactly(name, u32::try_from(wanted.len()).expect("few"), SOON).await
}

/// S14.
#[tokio::test(flavor = "multi_thread")]
async fn a_drift_moves_the_instance_of_that_node_under_the_next_drift_count() {
    let cluster = Cluster::start_with(&QUICK, &[]).await;
    let name = "drift.web.web";
    let before = deployed(&cluster, &demo_group(name, 2)).await;
    let (from, other) = (before[0].node.clone(), before[1].node.clone());
    let free =
        ["node-1", "node-2", "node-3"].into_iter().find(|node| *node != from && *node != other).expect("a third");

    // lainctl waits for this very name.
    let more = format!("from={from}&pg_instance=1&to={free}");
    let after = drifts(&cluster, name, &more, &["drift.web.web.v0-i1-d1", "drift.web.web.v0-i2-d0"]).await;
    assert_eq!((after[0].node.as_str(), &after[1]), (free, &before[1]));
    // Not on that node any more: nothing happens, and the next drift is not held up.
    cluster.accepted(Method::PATCH, &format!("/api/nodes?cmd=drift&from={from}&pg={name}&pg_instance=1"), None).await;
    let after =
        drifts(&cluster, name, &format!("from={free}"), &["drift.web.web.v0-i1-d2", "drift.web.web.v0-i2-d0"]).await;
    assert_ne!(after[0].node, free);
    let group = cluster.group(0, name).await.expect("it");
    assert_eq!((group.spec.version, group.pods[0].drift_count), (0, 2));
    stateful_ones_need_force(&cluster).await;
}

async fn stateful_ones_need_force(cluster: &Cluster) {
    let name = "data.web.web";
    let group = group_with(name, 1, |pod| pod["Containers"][0]["Volumes"] = json!(["/data"]));
    let before = deployed(cluster, &group).await;
    let from = before[0].node.clone();
    cluster.accepted(Method::PATCH, &format!("/api/nodes?cmd=drift&from={from}&pg={name}"), None).await;
    cluster.stays(before, async || cluster.engine.of_group(cluster.id(), name).await).await;
    let after = drifts(cluster, name, &format!("from={from}&force=true"), &["data.web.web.v0-i1-d1"]).await;
    assert_ne!(after[0].node, from);
}

/// S14, Q-10: all instances of an evacuated node move, and it stays empty.
#[tokio::test(flavor = "multi_thread")]
async fn an_evacuated_node_is_left_by_everything_and_avoided_until_its_constraint_is_lifted() {
    let cluster = Cluster::start_with(&QUICK, &[]).await;
    deployed(&cluster, &demo_group("flee.web.web", 6)).await;
    let bound = group_with("flee.data.web", 2, |pod| pod["Containers"][0]["Volumes"] = json!(["/data"]));
    deployed(&cluster, &bound).await;
    let (status, body) = cluster.call(1, Method::DELETE, "/api/nodes?node=node-1", None).await;
    assert_eq!(status, 202, "{body}");
    eventually(SOON, "node-1 is empty", async || {
        let all = cluster.engine.of_cluster(cluster.id()).await;
        all.iter().all(|container| container.node != "node-1").then_some(())
    })
    .await;
    let moved = cluster.exactly("flee.web.web", 6, SOON).await;
    let moved = moved.iter().filter(|container| container.name.ends_with("-d1")).count();
    assert_eq!(moved, 2, "both of the two that were there, and none else");
    cluster.exactly("flee.data.web", 2, SOON).await;
    deployed(&cluster, &demo_group("new.web.web", 3)).await;
    let all = cluster.engine.of_cluster(cluster.id()).await;
    assert!(all.iter().all(|container| container.node != "node-1"), "{all:?}");
    cluster.accepted(Method::DELETE, "/api/constraints?type=node&value=node-1", None).await;
    let all = deployed(&cluster, &demo_group("back.web.web", 3)).await;
    assert!(all.iter().any(|container| container.node == "node-1"), "{all:?}");
}

/// S18: `==`, `==~`, `!=`, `!=~`.
#[tokio::test(flavor = "multi_thread")]
async fn constraints_hold_in_all_four_forms() {
    let cluster = Cluster::start_with(&QUICK, &[]).await;
    let on = |all: &[Workload], node: &str| all.iter().filter(|container| container.node == node).count();
    let constrain = async |more: &str| {
        cluster.accepted(Method::PATCH, &format!("/api/constraints?type=node&{more}"), None).await;
    };
    constrain("value=node-2&equal=true&soft=false").await;
    assert_eq!(on(&deployed(&cluster, &demo_group("eq.web.web", 2)).await, "node-2"), 2);
    constrain("value=nowhere&equal=true&soft=true").await;
    deployed(&cluster, &demo_group("eqsoft.web.web", 1)).await;
    constrain("value=node-2&equal=false&soft=false").await;
    cluster.lose_leader().await;
    assert_eq!(on(&deployed(&cluster, &demo_group("ne.web.web", 3)).await, "node-2"), 0);
    constrain("value=node-*").await;
    deployed(&cluster, &demo_group("nesoft.web.web", 1)).await;
    // What no node may have is not placed, and says why, until the constraint goes.
    constrain("value=node-*&soft=false").await;
    cluster.accepted(Method::POST, "/api/podgroups", Some(&demo_group("none.web.web", 1))).await;
    let group = becomes(&cluster, "none.web.web", "says why", |group| !group.last_error.is_empty()).await;
    assert!(group.last_error.contains("node-1"), "{}", group.last_error);
    assert_eq!(names(&cluster, "none.web.web").await, Vec::<String>::new());
    let (_, shown) = cluster.call(0, Method::GET, "/api/constraints", None).await;
    let shown: Value = serde_json::from_str(&shown).expect("JSON");
    assert_eq!(shown, json!({"Type": "node", "Equal": false, "Value": "node-*", "Soft": false}));
    cluster.accepted(Method::DELETE, "/api/constraints", None).await;
    cluster.exactly("none.web.web", 1, SOON).await;
}
