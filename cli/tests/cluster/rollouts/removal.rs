//! Deletion modes: containers are removed in the background, or stay for the next group of that name.

use std::collections::BTreeSet;

use contract::rollout_view::RolloutStatus;
use reqwest::{Method, StatusCode};
use serde_json::json;

use super::images::SECOND;
use super::rollout::{Rollout, SOON, group, with_image};
use crate::cluster::{Cluster, eventually};
use crate::docker::Workload;

#[tokio::test(flavor = "multi_thread")]
async fn a_background_deletion_frees_the_name_immediately_and_orphans_are_adopted() {
    let cluster = Cluster::start(&[]).await;
    let strategy = json!({"Strategy": {"Type": "RollingUpdate", "MaxSurge": 1, "MaxUnavailable": 0}});
    let wanted = group("gone.web.web", 3, &strategy);
    let release = Rollout::deployed(&cluster, &wanted).await;
    let first = release.exactly(3).await;
    remove(&cluster, release.name(), "background").await;
    // At once: the containers of before are still there.
    let (status, text) = cluster.call(0, Method::POST, "/api/podgroups", Some(&wanted)).await;
    assert_eq!(status, StatusCode::ACCEPTED, "{text}");
    release.completed(1).await;
    let second = release.exactly(3).await;
    assert!(names(&first).is_disjoint(&names(&second)), "{first:#?}\n{second:#?}");

    remove(&cluster, release.name(), "orphan").await;
    let (status, text) = cluster.call(1, Method::GET, "/api/podgroups?name=gone.web.web", None).await;
    assert_eq!(status, StatusCode::NOT_FOUND, "{text}");
    cluster.lose_leader().await;
    cluster.stays(second.clone(), async || release.containers().await).await;
    let adopted = Rollout::open(&cluster, &wanted).await;
    adopted.until("it is complete", |view| view.status == RolloutStatus::Complete).await;
    assert_eq!(adopted.exactly(3).await, second, "the very same containers");

    // An orphan that is adopted under another spec is released to it.
    remove(&cluster, adopted.name(), "orphan").await;
    let mut other = wanted.clone();
    other["Pod"] = with_image(&wanted, SECOND);
    let adopted = Rollout::open(&cluster, &other).await;
    eventually(SOON, "all of them are replaced", async || {
        let now = adopted.containers().await;
        let is_new = |container: &Workload| container.running && !second.contains(container);
        (now.len() == 3 && now.iter().all(is_new)).then_some(())
    })
    .await;
    adopted.until("it is complete", |view| view.status == RolloutStatus::Complete).await;

    remove(&cluster, adopted.name(), "foreground").await;
    adopted.exactly(0).await;
}

async fn remove(cluster: &Cluster, name: &str, mode: &str) {
    cluster.accepted(Method::DELETE, &format!("/api/podgroups?name={name}&mode={mode}"), None).await;
}

fn names(containers: &[Workload]) -> BTreeSet<&str> {
    containers.iter().map(|container| container.name.as_str()).collect()
}
