//! A node goes silent: below the limit nothing moves, beyond it its work goes elsewhere, and its return leaves no surplus.

use std::time::Duration;

use reqwest::Method;
use rustix::process::Signal;

use crate::cluster::{Cluster, demo_group, eventually};

const SOON: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_node_is_replaced_after_the_limit_and_returns_without_surplus() {
    let cluster = Cluster::start(&["--suspect-after", "4s", "--lost-after", "8s", "--failover-grace", "8s"]).await;
    cluster.accepted(Method::POST, "/api/podgroups", Some(&demo_group("node.web.web", 6))).await;
    cluster.running("node.web.web", 6, SOON).await;
    let before = cluster.exactly("node.web.web", 6, SOON).await;
    let lost: Vec<_> = before.iter().filter(|c| c.node == "node-3").cloned().collect();
    assert_eq!(lost.len(), 2, "six instances spread over three nodes: {before:?}");

    // The agent stops breathing; its containers run on, as on a machine that is cut off.
    cluster.signal("agent-3", Signal::STOP);
    eventually(SOON, "the lost instances run elsewhere", async || {
        let now = cluster.engine.of_group(cluster.id(), "node.web.web").await;
        let elsewhere = |c: &crate::docker::Workload| {
            c.running && c.node != "node-3" && lost.iter().any(|l| l.instance == c.instance)
        };
        (now.iter().filter(|c| elsewhere(c)).count() == lost.len()).then_some(())
    })
    .await;
    let now = cluster.engine.of_group(cluster.id(), "node.web.web").await;
    for container in before.iter().filter(|c| c.node != "node-3") {
        assert!(now.contains(container), "{} was touched", container.name);
    }
    cluster.signal("agent-3", Signal::CONT);
    let after = cluster.exactly("node.web.web", 6, Duration::from_secs(20)).await;
    assert!(after.iter().all(|c| c.node != "node-3"), "{after:?}");
    let moved: Vec<&str> =
        after.iter().filter(|c| lost.iter().any(|l| l.instance == c.instance)).map(|c| c.name.as_str()).collect();
    assert!(moved.iter().all(|name| name.ends_with("-d1")), "{moved:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_is_started_again_adopts_what_runs() {
    let cluster = Cluster::start(&[]).await;
    cluster.accepted(Method::POST, "/api/podgroups", Some(&demo_group("adopt.web.web", 3))).await;
    cluster.running("adopt.web.web", 3, SOON).await;
    let before = cluster.exactly("adopt.web.web", 3, SOON).await;
    for number in 1..=3 {
        let agent = format!("agent-{number}");
        let pid = cluster.child(&agent);
        cluster.kill(&agent);
        cluster.restarted(&agent, pid).await;
    }
    // A command that reaches every node again proves that all of them listen.
    cluster.accepted(Method::PATCH, "/api/podgroups?name=adopt.web.web&cmd=replica&num_instances=6", None).await;
    let after = cluster.exactly("adopt.web.web", 6, SOON).await;
    assert_eq!(after[..3], before[..], "the same containers, none restarted");
    for container in &before {
        assert!(cluster.engine.runs(&container.id).await);
    }
}
