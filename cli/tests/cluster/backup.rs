//! All data of etcd is lost: containers keep running, and a restored backup brings all objects back without touching them.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use contract::api::ClusterStatus;
use contract::backup;
use reqwest::{Method, StatusCode};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::cluster::{Cluster, IMAGE, demo_group, eventually, text};
use crate::docker::Workload;

const SOON: Duration = Duration::from_secs(90);
const QUICK: [(&str, &str); 2] = [("DEPLOYD_HEARTBEAT", "1s"), ("DEPLOYD_REREAD", "2s")];
const LOGGER: &str = "svc.logger.logger";
const CONSTRAINT: &str = "/api/constraints?type=node";

/// Every container of the cluster and when it was started.
pub(crate) async fn containers(cluster: &Cluster) -> Vec<(Workload, Option<String>)> {
    let mut found = Vec::new();
    for container in cluster.engine.of_cluster(cluster.id()).await {
        let started_at = cluster.engine.started_at(&container.id).await;
        found.push((container, started_at));
    }
    found
}

/// Time in which no container may be created, restarted or removed.
async fn untouched(cluster: &Cluster, before: &[(Workload, Option<String>)], span: Duration) {
    let until = Instant::now() + span;
    let mut pause = tokio::time::interval(Duration::from_secs(1));
    while Instant::now() < until {
        pause.tick().await;
        assert_eq!(containers(cluster).await, before);
    }
}

/// Takes etcd away with everything it holds; its supervisor, which is held meanwhile, starts it again.
fn wipe(cluster: &Cluster) {
    cluster.signal_supervisor(Signal::STOP);
    cluster.kill("etcd");
    let data = cluster.folder().join("etcd");
    std::fs::remove_dir_all(&data).expect("its data goes");
    std::fs::create_dir(&data).expect("an empty place");
    cluster.signal_supervisor(Signal::CONT);
}

async fn status(cluster: &Cluster) -> Option<ClusterStatus> {
    let (status, body) = cluster.call(1, Method::GET, "/api/cluster", None).await;
    (status == StatusCode::OK).then(|| serde_json::from_str(&body).expect("a ClusterStatus"))
}

/// A leader of an empty store whose nodes do not obey it.
async fn foreign_store(cluster: &Cluster, nodes: u64) -> ClusterStatus {
    eventually(Duration::from_secs(60), "the wiped store has a leader and no followers", async || {
        status(cluster).await.filter(|seen| seen.groups == 0 && !seen.leader.is_empty() && seen.foreign_store == nodes)
    })
    .await
}

/// A group that was released twice, one that is bound to its data, one with a dependency pod, and a plain one.
async fn populate(cluster: &Cluster) {
    let dependency = json!({
        "Name": LOGGER, "Namespace": "svc", "Annotation": "{}", "Filters": [],
        "Containers": [{"Image": IMAGE, "CpuLimit": 1, "MemoryLimit": 16 << 20, "Expose": 8080}],
    });
    cluster.accepted(Method::POST, "/api/depends", Some(&dependency)).await;
    let mut client = demo_group("shop.web.web", 2);
    client["Pod"]["Dependencies"] = json!([{"PodName": LOGGER, "Policy": 1}]);
    let mut data = demo_group("data.db.db", 2);
    data["Pod"]["Stateful"] = json!(true);
    data["Pod"]["Containers"][0]["Volumes"] = json!(["/data"]);
    let released = demo_group("released.web.web", 2);
    for group in [&client, &data, &released, &demo_group("plain.web.web", 3)] {
        cluster.accepted(Method::POST, "/api/podgroups", Some(group)).await;
    }
    for (name, count) in [("shop.web.web", 2), ("data.db.db", 2), ("released.web.web", 2), ("plain.web.web", 3)] {
        cluster.running(name, count, SOON).await;
    }
    for memory in [20, 24] {
        let mut pod = released["Pod"].clone();
        pod["Containers"][0]["MemoryLimit"] = json!(memory << 20);
        cluster.accepted(Method::PATCH, "/api/podgroups?name=released.web.web&cmd=spec", Some(&pod)).await;
    }
    eventually(SOON, "the second release is over", async || {
        let (_, body) = cluster.call(0, Method::GET, "/api/podgroups?namespace=released", None).await;
        let list: Value = serde_json::from_str(&body).expect("JSON");
        let all = cluster.engine.of_group(cluster.id(), "released.web.web").await;
        let is_new = all.len() == 2 && all.iter().all(|container| container.running && container.name.contains(".v2-"));
        let is_free = list["PodGroups"][0]["Operation"].as_str().unwrap_or_default().is_empty();
        let (_, body) = cluster.call(0, Method::GET, "/api/revisions?name=released.web.web", None).await;
        let history: Value = serde_json::from_str(&body).expect("JSON");
        (is_new && is_free && history["Revisions"][2]["Outcome"] == "Completed").then_some(())
    })
    .await;
    cluster.accepted(Method::PATCH, "/api/constraints?type=node&value=node-9&equal=false", None).await;
    cluster.accepted(Method::POST, "/api/notifies?callback=http://127.0.0.1:1/notices", None).await;
}

/// What users see beside the groups.
async fn told(cluster: &Cluster) -> Vec<String> {
    let mut told = Vec::new();
    for path in
        [CONSTRAINT, "/api/notifies", "/api/revisions?name=released.web.web", "/api/depends?name=svc.logger.logger"]
    {
        let (status, body) = cluster.call(0, Method::GET, path, None).await;
        assert_eq!(status, StatusCode::OK, "{path}: {body}");
        let body: Value = serde_json::from_str(&body).expect("JSON");
        told.push(if path.starts_with("/api/depends") { body["Spec"].to_string() } else { body.to_string() });
    }
    told
}

async fn backed_up(cluster: &Cluster) -> PathBuf {
    let file = cluster.folder().join("deployd.backup");
    let path = file.to_str().expect("a path");
    let ended = cluster.deployctl(&["backup", path]).await;
    assert!(ended.status.success(), "{}", text(&ended));
    assert!(text(&ended).contains("4 PodGroups with 9 instances"), "{}", text(&ended));
    let mode = std::fs::metadata(&file).expect("the backup").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "specs may hold secrets");
    assert!(!cluster.folder().join("deployd.backup.part").exists());
    file
}

#[tokio::test(flavor = "multi_thread")]
async fn containers_survive_a_wiped_etcd_and_a_restore_adopts_them() {
    let cluster = Cluster::start_with(&QUICK, &["--nodes", "2"]).await;
    populate(&cluster).await;
    let (before, told_before) = (containers(&cluster).await, told(&cluster).await);
    let file = backed_up(&cluster).await;
    let path = file.to_str().expect("a path");

    wipe(&cluster);
    foreign_store(&cluster, 2).await;
    untouched(&cluster, &before, Duration::from_secs(20)).await;
    let unwell = cluster.deployctl(&["status"]).await;
    assert!(!unwell.status.success() && text(&unwell).contains("2 nodes belong to another store"), "{}", text(&unwell));
    // A scheduler that starts anew finds the same.
    let (leader, _) = eventually(SOON, "a scheduler leads", async || cluster.leader().await).await;
    cluster.kill(&leader);
    foreign_store(&cluster, 2).await;
    untouched(&cluster, &before, Duration::from_secs(5)).await;

    let edited = cluster.folder().join("edited.backup");
    let content = std::fs::read_to_string(&file).expect("the backup").replace("plain.web.web", "plane.web.web");
    std::fs::write(&edited, content).expect("another file");
    let refused = cluster.deployctl(&["restore", edited.to_str().expect("a path"), "--yes"]).await;
    assert!(!refused.status.success() && text(&refused).contains("digest does not fit"), "{}", text(&refused));
    let unconfirmed = cluster.deployctl(&["restore", path]).await;
    assert!(!unconfirmed.status.success() && text(&unconfirmed).contains("--yes"), "{}", text(&unconfirmed));

    let restored = cluster.deployctl(&["restore", path, "--yes"]).await;
    assert!(restored.status.success(), "{}", text(&restored));
    assert!(text(&restored).contains("restored 4 of 4 PodGroups; 9 of 9 instances run"), "{}", text(&restored));
    eventually(SOON, "every node obeys again", async || status(&cluster).await.filter(|seen| seen.foreign_store == 0))
        .await;
    untouched(&cluster, &before, Duration::from_secs(15)).await;
    assert_eq!(told(&cluster).await, told_before);

    cluster.accepted(Method::PATCH, "/api/podgroups?name=plain.web.web&cmd=replica&num_instances=5", None).await;
    cluster.running("plain.web.web", 5, SOON).await;
    let after = containers(&cluster).await;
    assert!(before.iter().all(|container| after.contains(container)), "those that ran run on");
    let well = cluster.deployctl(&["status"]).await;
    assert!(well.status.success(), "{}", text(&well));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_changed_after_the_backup_is_undone_and_only_when_that_is_meant() {
    let cluster = Cluster::start_with(&QUICK, &["--nodes", "2"]).await;
    cluster.accepted(Method::POST, "/api/podgroups", Some(&demo_group("kept.web.web", 3))).await;
    cluster.running("kept.web.web", 3, SOON).await;
    let kept = cluster.exactly("kept.web.web", 3, SOON).await;
    let file = cluster.folder().join("deployd.backup");
    let path = file.to_str().expect("a path");
    let written = cluster.deployctl(&["backup", "-"]).await;
    let content = String::from_utf8(written.stdout).expect("text");
    assert!(backup::read(&content).is_ok(), "{content}");
    std::fs::write(&file, content).expect("the backup");

    cluster.accepted(Method::POST, "/api/podgroups", Some(&demo_group("later.web.web", 2))).await;
    cluster.running("later.web.web", 2, SOON).await;
    cluster.accepted(Method::PATCH, "/api/podgroups?name=kept.web.web&cmd=replica&num_instances=2", None).await;
    cluster.exactly("kept.web.web", 2, SOON).await;
    let refused = cluster.deployctl(&["restore", path, "--yes"]).await;
    assert!(!refused.status.success() && text(&refused).contains("--replace"), "{}", text(&refused));
    assert_eq!(status(&cluster).await.expect("the cluster").groups, 2);

    let (_, term) = cluster.leader().await.expect("a leader");
    let restored = cluster.deployctl(&["restore", path, "--replace", "--yes"]).await;
    assert!(restored.status.success(), "{}", text(&restored));
    assert!(cluster.leader().await.is_some_and(|(_, now)| now > term));
    cluster.exactly("later.web.web", 0, SOON).await;
    let after = cluster.exactly("kept.web.web", 3, SOON).await;
    for container in &kept[..2] {
        assert!(after.contains(container), "{} was not touched in between", container.name);
    }
    assert!(cluster.group(0, "later.web.web").await.is_none());
}
