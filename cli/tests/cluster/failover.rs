//! `kill -9` in the middle of work: every acknowledged command takes effect, every instance runs once.

use std::time::{Duration, Instant};

use reqwest::Method;
use rustix::process::Signal;

use crate::cluster::{Cluster, demo_group, eventually};

const MANY: u32 = 30;
/// Thirty starts at the engine's pace on two cores, with a take-over in between.
const SOON: Duration = Duration::from_secs(90);

/// Waits until the deployment has started and not finished.
async fn has_started(cluster: &Cluster, group: &str) {
    eventually(Duration::from_secs(30), "the deployment has started", async || {
        let there = cluster.engine.of_group(cluster.id(), group).await.len();
        (there >= 3).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_leader_is_killed_during_a_deployment_of_thirty() {
    let cluster = Cluster::start(&[]).await;
    let (leader, term) =
        eventually(Duration::from_secs(10), "a scheduler leads", async || cluster.leader().await).await;
    cluster.accepted(Method::POST, "/api/podgroups", Some(&demo_group("many.web.web", MANY))).await;
    has_started(&cluster, "many.web.web").await;
    cluster.kill(&leader);
    let killed = Instant::now();
    // Accepted by NATS while there is no leader, in effect under the next leader.
    let (status, body) = cluster.call(0, Method::POST, "/api/podgroups", Some(&demo_group("late.web.web", 1))).await;
    assert_eq!(status, 202, "{body}");
    let next = eventually(Duration::from_secs(8), "a new leader acts within 8 s", async || {
        cluster.leader().await.filter(|(_, now)| *now > term)
    })
    .await;
    println!("new leader {} after {:?}", next.0, killed.elapsed());
    cluster.running("many.web.web", MANY as usize, SOON).await;
    cluster.exactly("many.web.web", MANY, Duration::from_secs(20)).await;
    cluster.running("late.web.web", 1, SOON).await;
    println!("all run {:?} after the kill", killed.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failover_touches_no_container_and_a_leader_that_is_asked_to_stop_hands_over_within_two_seconds() {
    let cluster = Cluster::start(&[]).await;
    cluster.accepted(Method::POST, "/api/podgroups", Some(&demo_group("calm.web.web", 4))).await;
    let before = cluster.running("calm.web.web", 4, SOON).await;
    let containers = cluster.exactly("calm.web.web", 4, Duration::from_secs(10)).await;
    let mut starts = Vec::new();
    for container in &containers {
        starts.push(cluster.engine.started_at(&container.id).await);
    }
    for (signal, limit) in [(Signal::KILL, 10), (Signal::KILL, 10), (Signal::TERM, 2)] {
        let (leader, term) =
            eventually(Duration::from_secs(10), "a scheduler leads", async || cluster.leader().await).await;
        let pid = cluster.child(&leader);
        cluster.signal(&leader, signal);
        eventually(Duration::from_secs(limit), &format!("another term after {signal:?}"), async || {
            cluster.leader().await.filter(|(_, now)| *now > term)
        })
        .await;
        cluster.restarted(&leader, pid).await;
    }
    let after = cluster.running("calm.web.web", 4, SOON).await;
    assert_eq!(cluster.exactly("calm.web.web", 4, Duration::from_secs(10)).await, containers);
    for (container, start) in containers.iter().zip(starts) {
        assert_eq!(cluster.engine.started_at(&container.id).await, start, "{} was restarted", container.name);
    }
    let drifts =
        |group: &contract::api::PodGroupWithSpec| group.pods.iter().map(|pod| pod.drift_count).collect::<Vec<_>>();
    assert_eq!(drifts(&before), drifts(&after));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_is_killed_in_the_middle_of_work() {
    let cluster = Cluster::start(&[]).await;
    cluster.accepted(Method::POST, "/api/podgroups", Some(&demo_group("many.web.web", MANY))).await;
    has_started(&cluster, "many.web.web").await;
    for agent in ["agent-1", "agent-2"] {
        cluster.kill(agent);
    }
    cluster.running("many.web.web", MANY as usize, SOON).await;
    cluster.exactly("many.web.web", MANY, Duration::from_secs(20)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_nats_server_is_killed_in_the_middle_of_work() {
    let cluster = Cluster::start(&[]).await;
    cluster.accepted(Method::POST, "/api/podgroups", Some(&demo_group("many.web.web", MANY))).await;
    has_started(&cluster, "many.web.web").await;
    cluster.kill("nats");
    cluster.running("many.web.web", MANY as usize, SOON).await;
    cluster.exactly("many.web.web", MANY, Duration::from_secs(20)).await;
    // And the cluster takes commands again.
    cluster.accepted(Method::PATCH, "/api/podgroups?name=many.web.web&cmd=replica&num_instances=3", None).await;
    cluster.exactly("many.web.web", 3, SOON).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_etcd_server_is_killed_in_the_middle_of_work() {
    let cluster = Cluster::start(&[]).await;
    cluster.accepted(Method::POST, "/api/podgroups", Some(&demo_group("many.web.web", MANY))).await;
    has_started(&cluster, "many.web.web").await;
    cluster.kill("etcd");
    cluster.running("many.web.web", MANY as usize, SOON).await;
    cluster.exactly("many.web.web", MANY, Duration::from_secs(20)).await;
}
