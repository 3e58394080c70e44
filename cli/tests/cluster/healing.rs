//! Killed, missing and crashing containers are repaired. The notices about them are in `notices`.

use std::time::{Duration, Instant};

use reqwest::Method;

use crate::cluster::{Cluster, demo_group, eventually};

const SOON: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
async fn killed_missing_and_crash_looping_containers_are_repaired() {
    let cluster = Cluster::start(&[]).await;
    let mut crashing = demo_group("loop.web.web", 1);
    crashing["Pod"]["Containers"][0]["Env"] = serde_json::json!(["DEMO_EXIT_AFTER_MS=50", "DEMO_EXIT_CODE=3"]);
    cluster.accepted(Method::POST, "/api/podgroups", Some(&crashing)).await;
    a_killed_container_is_restarted(&cluster).await;
    a_missing_container_is_replaced_under_the_next_drift_count(&cluster).await;
    a_crash_loop_is_restarted_with_back_off(&cluster).await;
}

async fn a_killed_container_is_restarted(cluster: &Cluster) {
    cluster.accepted(Method::POST, "/api/podgroups", Some(&demo_group("heal.web.web", 2))).await;
    cluster.running("heal.web.web", 2, SOON).await;
    let before = cluster.exactly("heal.web.web", 2, SOON).await;
    let started = cluster.engine.started_at(&before[0].id).await;
    cluster.engine.kill(&before[0].id).await;
    let killed = Instant::now();
    eventually(Duration::from_secs(10), "the killed container runs again", async || {
        let again =
            cluster.engine.runs(&before[0].id).await && cluster.engine.started_at(&before[0].id).await != started;
        again.then_some(())
    })
    .await;
    println!("killed -> running again: {:?}", killed.elapsed());
    assert_eq!(cluster.exactly("heal.web.web", 2, SOON).await, before, "the same containers");
    let group = eventually(SOON, "the restart is counted", async || {
        cluster.group(0, "heal.web.web").await.filter(|group| group.pods.iter().any(|pod| pod.restart_count == 1))
    })
    .await;
    assert_eq!(group.pods[0].drift_count, 0);
}

async fn a_missing_container_is_replaced_under_the_next_drift_count(cluster: &Cluster) {
    cluster.accepted(Method::POST, "/api/podgroups", Some(&demo_group("gone.web.web", 2))).await;
    cluster.running("gone.web.web", 2, SOON).await;
    let before = cluster.exactly("gone.web.web", 2, SOON).await;
    cluster.engine.remove(&before[1].id).await;
    let removed = Instant::now();
    let after = eventually(SOON, "the missing instance 2 is replaced", async || {
        let now = cluster.engine.of_group(cluster.id(), "gone.web.web").await;
        now.iter().any(|c| c.name == "gone.web.web.v0-i2-d1" && c.running).then_some(now)
    })
    .await;
    println!("removed -> replaced: {:?}", removed.elapsed());
    assert_eq!(after[0], before[0], "instance 1 was not touched");
    cluster.exactly("gone.web.web", 2, SOON).await;
}

async fn a_crash_loop_is_restarted_with_back_off(cluster: &Cluster) {
    let exit =
        eventually(SOON, "three restarts of the crashing instance at once, further ones with back-off", async || {
            let group = cluster.group(0, "loop.web.web").await?;
            group.pods[0].exit.clone().filter(|exit| exit.restarts >= 5 && exit.next_attempt.happened())
        })
        .await;
    assert_eq!((exit.code, exit.out_of_memory), (3, false));
    cluster.accepted(Method::DELETE, "/api/podgroups?name=loop.web.web", None).await;
    cluster.exactly("loop.web.web", 0, SOON).await;
}
