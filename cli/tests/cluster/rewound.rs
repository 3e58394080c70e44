//! etcd comes back with an older state: follows "etcd was restored from an older copy" of docs/operations.md.

use std::path::Path;
use std::time::Duration;

use contract::api::ClusterStatus;
use reqwest::{Method, StatusCode};
use rustix::process::Signal;

use crate::cluster::{Cluster, demo_group, eventually, text};

const SOON: Duration = Duration::from_secs(90);
const QUICK: [(&str, &str); 2] = [("DEPLOYD_HEARTBEAT", "1s"), ("DEPLOYD_REREAD", "2s")];
const PAGE: &str = include_str!("../../../docs/operations.md");

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a directory");
    for entry in std::fs::read_dir(from).expect("a directory") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        match entry.file_type().expect("its type").is_dir() {
            true => copy(&entry.path(), &target),
            false => drop(std::fs::copy(entry.path(), target).expect("a copy")),
        }
    }
}

/// Does something to the files of etcd while it is down; its supervisor, which is held meanwhile, starts it again.
fn while_etcd_is_down(cluster: &Cluster, act: impl FnOnce(&Path)) {
    cluster.signal_supervisor(Signal::STOP);
    cluster.kill("etcd");
    act(&cluster.folder().join("etcd"));
    cluster.signal_supervisor(Signal::CONT);
}

/// Puts the files of `from` in the place of those of etcd, and keeps what was there in `aside`.
fn replace_etcd(cluster: &Cluster, from: &Path, aside: &Path) {
    while_etcd_is_down(cluster, |data| {
        std::fs::rename(data, aside).expect("the newer files are kept");
        copy(from, data);
    });
}

async fn status(cluster: &Cluster) -> Option<ClusterStatus> {
    let (status, body) = cluster.call(0, Method::GET, "/api/cluster", None).await;
    (status == StatusCode::OK).then(|| serde_json::from_str(&body).expect("a ClusterStatus"))
}

async fn warned(cluster: &Cluster, is_warned: bool) -> ClusterStatus {
    eventually(SOON, "the leader notices", async || {
        let seen = status(cluster).await.filter(|seen| !seen.leader.is_empty())?;
        let has_warning = seen.warnings.iter().any(|warning| warning.contains("older state"));
        (has_warning == is_warned && (is_warned || seen.estranged == 0)).then_some(seen)
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_etcd_stops_nothing_and_each_way_of_the_documentation_brings_the_cluster_back() {
    for words in ["deployctl backup older-state.backup", "deployctl restore older-state.backup --replace --yes"] {
        assert!(PAGE.contains(words), "the page has another recovery than this test: {words}");
    }
    let cluster = Cluster::start_with(&QUICK, &["--nodes", "2"]).await;
    cluster.accepted(Method::POST, "/api/podgroups", Some(&demo_group("first.web.web", 2))).await;
    cluster.running("first.web.web", 2, SOON).await;
    let (older, newer) = (cluster.folder().join("older"), cluster.folder().join("newer"));
    while_etcd_is_down(&cluster, |data| copy(data, &older));
    eventually(SOON, "a scheduler leads", async || cluster.leader().await).await;
    cluster.accepted(Method::POST, "/api/podgroups", Some(&demo_group("later.web.web", 2))).await;
    cluster.running("later.web.web", 2, SOON).await;
    let before = cluster.engine.of_cluster(cluster.id()).await;

    replace_etcd(&cluster, &older, &newer);
    warned(&cluster, true).await;
    let unwell = cluster.deployctl(&["status"]).await;
    assert!(!unwell.status.success() && text(&unwell).contains("older state"), "{}", text(&unwell));
    let mut pause = tokio::time::interval(Duration::from_secs(1));
    for _ in 0..15 {
        pause.tick().await;
        assert_eq!(cluster.engine.of_cluster(cluster.id()).await, before, "nothing is stopped");
    }

    // 1. The newer data still exists.
    replace_etcd(&cluster, &newer, &cluster.folder().join("aside"));
    warned(&cluster, false).await;
    assert_eq!(cluster.engine.of_cluster(cluster.id()).await, before);

    // 3. Neither newer data nor a newer backup exists.
    replace_etcd(&cluster, &older, &cluster.folder().join("lost"));
    warned(&cluster, true).await;
    let file = cluster.folder().join("older-state.backup");
    let path = file.to_str().expect("a path");
    for words in [vec!["backup", path], vec!["restore", path, "--replace", "--yes"]] {
        let ended = cluster.deployctl(&words).await;
        assert!(ended.status.success(), "{}", text(&ended));
    }
    warned(&cluster, false).await;
    cluster.accepted(Method::PATCH, "/api/podgroups?name=first.web.web&cmd=replica&num_instances=3", None).await;
    cluster.running("first.web.web", 3, SOON).await;
}
