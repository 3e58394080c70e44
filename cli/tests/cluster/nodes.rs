//! The life of a node: cordoned, drained, removed, and back as a new one.

use std::time::Duration;

use contract::node_view::NodeStatus;
use reqwest::Method;
use rustix::process::Signal;

use crate::cluster::{Cluster, demo_group, eventually, text};
use crate::docker::Workload;

const SOON: Duration = Duration::from_secs(60);
const GROUP: &str = "life.web.web";

/// Runs `deployctl`; its exit code and what it said.
async fn said(cluster: &Cluster, words: &str) -> (Option<i32>, String) {
    let output = cluster.deployctl(&words.split(' ').collect::<Vec<_>>()).await;
    (output.status.code(), text(&output))
}
/// The same, for what must succeed.
async fn done(cluster: &Cluster, words: &str) -> String {
    let (code, told) = said(cluster, words).await;
    assert_eq!(code, Some(0), "deployctl {words}: {told}");
    told
}
async fn scaled(cluster: &Cluster, count: u32) -> Vec<Workload> {
    let path = format!("/api/podgroups?name={GROUP}&cmd=replica&num_instances={count}");
    cluster.accepted(Method::PATCH, &path, None).await;
    cluster.running(GROUP, usize::try_from(count).expect("few"), SOON).await;
    cluster.exactly(GROUP, count, SOON).await
}
fn on<'a>(all: &'a [Workload], node: &str) -> Vec<&'a Workload> {
    all.iter().filter(|container| container.node == node).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_is_cordoned_drained_removed_and_comes_back_as_a_new_one() {
    let cluster = Cluster::start(&["--suspect-after", "4s", "--lost-after", "60s", "--failover-grace", "8s"]).await;
    cluster.accepted(Method::POST, "/api/podgroups", Some(&demo_group(GROUP, 6))).await;
    cluster.running(GROUP, 6, SOON).await;
    let before = cluster.exactly(GROUP, 6, SOON).await;
    assert_eq!(on(&before, "node-3").len(), 2, "six instances spread over three nodes: {before:?}");

    // Cordoned: what is new lands elsewhere, what runs there is not touched.
    done(&cluster, "node cordon node-3 --why disk").await;
    done(&cluster, "node cordon node-3 --why disk").await;
    let listed = done(&cluster, "node list").await;
    assert!(listed.contains("alive,cordoned"), "{listed}");
    let grown = scaled(&cluster, 9).await;
    assert_eq!(on(&grown, "node-3"), on(&before, "node-3"), "nothing new there, and nothing touched");

    // Drain: every instance moves, none is lost, those on other nodes are not touched.
    let told = done(&cluster, "node drain node-3 --timeout 90s").await;
    assert!(told.contains("node-3 is empty"), "{told}");
    let moved = cluster.exactly(GROUP, 9, SOON).await;
    assert_eq!(on(&moved, "node-3"), Vec::<&Workload>::new());
    let elsewhere = grown.iter().filter(|container| container.node != "node-3");
    assert!(elsewhere.clone().all(|container| moved.contains(container)), "{moved:?}");
    let shown = done(&cluster, "node show node-3 -o json").await;
    let status: NodeStatus = serde_json::from_str(&shown).expect("a NodeStatus");
    assert!(status.pods.is_empty() && !status.identity.is_empty() && status.node.cordon.is_some(), "{shown}");

    // Removed: only once it is silent.
    let (code, told) = said(&cluster, "node remove node-3").await;
    assert!(code == Some(1) && told.contains("stop its agent, then retry"), "{code:?} {told}");
    cluster.signal("agent-3", Signal::STOP);
    eventually(SOON, "the silent node is removed", async || {
        let (code, _) = said(&cluster, "node remove node-3").await;
        (code == Some(0)).then_some(())
    })
    .await;
    assert!(!done(&cluster, "node list").await.contains("node-3"));
    assert_eq!(said(&cluster, "node show node-3").await.0, Some(3));

    // Back: a new node without a cordon, which gets new work.
    cluster.signal("agent-3", Signal::CONT);
    eventually(SOON, "the node joins again", async || {
        let listed = done(&cluster, "node list").await;
        listed.lines().any(|line| line.starts_with("node-3") && line.contains(" alive ")).then_some(())
    })
    .await;
    let again = scaled(&cluster, 12).await;
    assert_eq!(on(&again, "node-3").len(), 3, "{again:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn labels_move_new_work_and_a_bound_instance_stays_until_it_is_forced() {
    let cluster = Cluster::start(&["--nodes", "2"]).await;
    let told = done(&cluster, "node label node-2 disk=ssd").await;
    assert!(told.contains("disk=ssd"), "{told}");
    let mut group = demo_group("label.db.db", 1);
    group["Pod"]["Filters"] = serde_json::json!(["constraint:disk==~ssd"]);
    group["Pod"]["Containers"][0]["Volumes"] = serde_json::json!(["/data"]);
    cluster.accepted(Method::POST, "/api/podgroups", Some(&group)).await;
    cluster.running("label.db.db", 1, SOON).await;
    let before = cluster.exactly("label.db.db", 1, SOON).await;
    assert_eq!(before[0].node, "node-2");
    let (code, told) = said(&cluster, "node drain node-2 --timeout 60s").await;
    assert!(
        code == Some(1) && told.contains("instances with local data") && told.contains("--force"),
        "{code:?} {told}"
    );
    assert_eq!(cluster.exactly("label.db.db", 1, SOON).await, before, "it runs on");
    done(&cluster, "node drain node-2 --force --timeout 90s").await;
    assert_eq!(cluster.exactly("label.db.db", 1, SOON).await[0].node, "node-1");
    let told = done(&cluster, "node label node-2 disk-").await;
    assert!(!told.contains("disk"), "{told}");
    done(&cluster, "node uncordon node-2").await;
}
