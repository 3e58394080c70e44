//! S6, S10, S17: scale-down, stop, start and restart of instances, and the history they leave.

use contract::state::{RunState, TargetState};
use reqwest::Method;
use serde_json::Value;

use super::docker::Hands;
use super::scenarios::{QUICK, SOON, becomes, deployed, patch, pod_with, unlocked};
use crate::cluster::{Cluster, IMAGE, demo_group, eventually};

/// S6.
#[tokio::test(flavor = "multi_thread")]
async fn a_scale_down_is_graceful_only() {
    let cluster = Cluster::start(&[]).await;
    let (hands, name) = (Hands::connect(), "six.web.web");
    let before = deployed(&cluster, &demo_group(name, 3)).await;
    let since = hands.now().await;
    cluster.accepted(Method::PATCH, &patch(name, "replica&num_instances=1"), None).await;
    assert_eq!(cluster.exactly(name, 1, SOON).await, before[..1], "the highest numbers go");
    for container in &before[1..] {
        // asked once, and it went by itself.
        assert_eq!(hands.end_of(&container.id, since).await, ["signal 15", "exitCode 0"], "{}", container.name);
    }
}

/// S10.
#[tokio::test(flavor = "multi_thread")]
async fn instances_are_stopped_started_and_restarted_and_a_stop_survives_failover_and_upgrade() {
    let cluster = Cluster::start_with(&QUICK, &[]).await;
    let name = "ten.web.web";
    let before = deployed(&cluster, &demo_group(name, 2)).await;
    let address = cluster.group(0, name).await.expect("it").pods[0].containers[0].container_ip.clone();
    cluster.accepted(Method::PATCH, &patch(name, "operation&optype=stop&instance=1"), None).await;
    let group = becomes(&cluster, name, "instance 1 is stopped", |group| group.pods[0].state == RunState::Exit).await;
    assert_eq!(group.pods[0].target_state, TargetState::Stop);
    assert_eq!((group.pods[1].target_state, group.pods[1].state), (TargetState::Run, RunState::Success));
    // the address is empty while it is down, and remembered.
    assert_eq!((group.pods[0].containers[0].container_ip.as_str(), &group.prev_state[0].ips), ("", &vec![address]));
    let runs = async |cluster: &Cluster| {
        let all = cluster.engine.of_group(cluster.id(), name).await;
        all.iter().filter(|container| container.running).map(|container| container.instance).collect::<Vec<u32>>()
    };
    cluster.lose_leader().await;
    cluster.stays(vec![2], async || runs(&cluster).await).await;
    cluster.accepted(Method::PATCH, &patch(name, "spec"), Some(&pod_with(name, |_| ()))).await;
    unlocked(&cluster, name).await;
    let group = becomes(&cluster, name, "instance 2 is upgraded", |group| {
        group.pods[1].containers[0].runtime.name == "/ten.web.web.v1-i2-d0"
    })
    .await;
    assert_eq!((group.spec.version, group.pods[0].target_state), (1, TargetState::Stop));
    assert_eq!(runs(&cluster).await, [2]);
    cluster.accepted(Method::PATCH, &patch(name, "operation&optype=start"), None).await;
    cluster.running(name, 2, SOON).await;
    let after = cluster.exactly(name, 2, SOON).await;
    assert_eq!(after[0].name, "ten.web.web.v1-i1-d0");
    assert_ne!(after[1].id, before[1].id);
    restarted(&cluster, name).await;
}

/// Both instances, one after the other, in the same containers.
async fn restarted(cluster: &Cluster, name: &str) {
    unlocked(cluster, name).await;
    let before = cluster.exactly(name, 2, SOON).await;
    let mut starts = Vec::new();
    for container in &before {
        starts.push(cluster.engine.started_at(&container.id).await);
    }
    cluster.accepted(Method::PATCH, &patch(name, "operation&optype=restart"), None).await;
    becomes(cluster, name, "both were restarted", |group| group.pods.iter().all(|pod| pod.restart_count == 1)).await;
    unlocked(cluster, name).await;
    assert_eq!(cluster.exactly(name, 2, SOON).await, before, "the same containers");
    for (container, start) in before.iter().zip(starts) {
        assert_ne!(cluster.engine.started_at(&container.id).await, start, "{}", container.name);
    }
}

/// S17.
#[tokio::test(flavor = "multi_thread")]
async fn the_history_keeps_the_last_twenty_over_the_death_of_the_leader() {
    let cluster = Cluster::start_with(&QUICK, &[]).await;
    let name = "past.web.web";
    let container = deployed(&cluster, &demo_group(name, 1)).await.remove(0);
    let path = format!("/api/cntstatushistory?name={name}&instance=1");
    let history = async || {
        let (status, text) = cluster.call(1, Method::GET, &path, None).await;
        assert_eq!(status, 200, "{text}");
        serde_json::from_str::<Vec<Value>>(&text).expect("rows")
    };
    cluster.engine.kill(&container.id).await;
    eventually(SOON, "a start, a stop and a start", async || {
        let rows = history().await;
        let words: Vec<&str> = rows.iter().filter_map(|row| row["status"].as_str()).collect();
        (words == ["start", "stop", "start"]).then_some(())
    })
    .await;
    for round in 2..=11_usize {
        cluster.accepted(Method::PATCH, &patch(name, "operation&optype=restart&instance=1"), None).await;
        eventually(SOON, "the restart is remembered", async || {
            let rows = history().await;
            let started = rows.last().is_some_and(|row| row["status"] == "start");
            (started && rows.len() == (1 + 2 * round).min(20)).then_some(())
        })
        .await;
        unlocked(&cluster, name).await;
    }
    let rows = history().await;
    let words: Vec<&str> = rows.iter().map(|row| row["status"].as_str().expect("a word")).collect();
    assert_eq!(words, ["stop", "start"].repeat(10), "the last twenty, oldest first");
    for row in &rows {
        assert_eq!(row["from"], format!("{IMAGE} node:{}", container.node));
        let members: Vec<&String> = row.as_object().expect("a row").keys().collect();
        assert_eq!(members, ["action", "from", "status", "time"]);
    }
    assert!(rows.iter().all(|row| row["action"] == row["status"]), "{rows:?}");
    assert!(rows.is_sorted_by_key(|row| row["time"].as_i64()), "{rows:?}");
    // Stored or not: the standby received the same reports.
    cluster.lose_leader().await;
    assert_eq!(history().await, rows);
}
