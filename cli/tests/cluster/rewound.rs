//! etcd comes back with an older state: the recoveries of docs/operations.md, word by word.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use contract::api::ClusterStatus;
use reqwest::{Method, StatusCode};
use rustix::process::Signal;

use crate::backup::containers;
use crate::cluster::{Cluster, demo_group, eventually, text};
use crate::docker::Workload;

const SOON: Duration = Duration::from_secs(60);
/// "Nodes obey again within 30 s, and the warning is gone."
const OBEYED: Duration = Duration::from_secs(30);
/// Long enough for several heartbeats, rereads and sweeps.
const CALM: Duration = Duration::from_secs(8);
const QUICK: [(&str, &str); 2] = [("DEPLOYD_HEARTBEAT", "1s"), ("DEPLOYD_REREAD", "2s")];
const WARNING: &str = "etcd came back with an older state than the nodes know";

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    std::fs::set_permissions(to, std::fs::Permissions::from_mode(0o700)).expect("as etcd wants it");
    for entry in std::fs::read_dir(from).expect("a folder").flatten() {
        let target = to.join(entry.file_name());
        match entry.file_type().expect("a type").is_dir() {
            true => copy(&entry.path(), &target),
            false => drop(std::fs::copy(entry.path(), target).expect("copied")),
        }
    }
}

/// Stops etcd, changes its files and starts it again; the stopped supervisor cannot start it in between.
async fn with_etcd_stopped(cluster: &Cluster, change: impl FnOnce(&Path)) {
    let before = cluster.child("etcd");
    cluster.signal_supervisor(Signal::STOP);
    cluster.kill("etcd");
    change(&cluster.folder().join("etcd"));
    cluster.signal_supervisor(Signal::CONT);
    cluster.restarted("etcd", before).await;
}

/// A cluster whose etcd came back without `later.web.web`, and what an operator has to recover with.
struct Rewound {
    cluster: Cluster,
    /// The data directory of etcd with everything in it.
    newer: PathBuf,
    /// Taken after `later.web.web` was created.
    backup: PathBuf,
    containers: Vec<(Workload, Option<String>)>,
}

impl Rewound {
    async fn new() -> Self {
        let cluster = Cluster::start_with(&QUICK, &["--nodes", "2"]).await;
        deployed(&cluster, "kept.web.web").await;
        let (older, newer) = (cluster.folder().join("older"), cluster.folder().join("newer"));
        with_etcd_stopped(&cluster, |data| copy(data, &older)).await;
        deployed(&cluster, "later.web.web").await;
        let backup = cluster.folder().join("newer.backup");
        let taken = cluster.deployctl(&["backup", backup.to_str().expect("a path")]).await;
        assert!(taken.status.success(), "{}", text(&taken));
        let containers = containers(&cluster).await;
        let swap = |data: &Path| {
            std::fs::rename(data, &newer).expect("the newer data is kept");
            copy(&older, data);
        };
        with_etcd_stopped(&cluster, swap).await;
        let rewound = Self { cluster, newer, backup, containers };
        rewound.is_reported_and_harms_nothing().await;
        rewound
    }

    /// The two points of the page before "To recover, choose one".
    async fn is_reported_and_harms_nothing(&self) {
        eventually(SOON, "the leader notices it", async || status(&self.cluster).await.filter(is_warned)).await;
        let told = self.cluster.deployctl(&["status"]).await;
        assert_eq!(told.status.code(), Some(1), "{}", text(&told));
        assert!(text(&told).contains(WARNING), "{}", text(&told));
        let (_, events) = self.cluster.call(0, Method::GET, "/api/events", None).await;
        assert!(events.contains(WARNING), "{events}");
        let leader = self.cluster.leader().await.expect("a leader").0;
        assert_eq!(metric(&self.cluster, &leader, "deployd_scheduler_store_behind").await, 1);
        let until = Instant::now() + CALM;
        let mut pause = tokio::time::interval(Duration::from_secs(1));
        while Instant::now() < until {
            pause.tick().await;
            assert_eq!(containers(&self.cluster).await, self.containers);
        }
    }

    /// A change that a client sends before the operator has recovered the store.
    async fn scale_meanwhile(&self) {
        let path = "/api/podgroups?name=kept.web.web&cmd=replica&num_instances=3";
        let (status, body) = self.cluster.call(0, Method::PATCH, path, None).await;
        assert_eq!(status, StatusCode::ACCEPTED, "{body}");
        assert_eq!(containers(&self.cluster).await, self.containers, "the change waits");
    }

    /// Returns how long it took from `since`.
    async fn is_obeyed_again(&self, since: Instant) -> Duration {
        eventually(OBEYED, "the nodes obey again and the warning is gone", async || {
            status(&self.cluster).await.filter(|seen| !is_warned(seen) && seen.foreign_store == 0 && seen.term > 0)
        })
        .await;
        let took = since.elapsed();
        for scheduler in ["scheduler-1", "scheduler-2"] {
            assert_eq!(metric(&self.cluster, scheduler, "deployd_scheduler_store_behind").await, 0, "{scheduler}");
        }
        took
    }

    /// Nothing that ran was removed or restarted, `kept` has `count` instances, and the cluster reports that all is well.
    async fn is_as_before_with(&self, count: u32) {
        self.cluster.exactly("kept.web.web", count, SOON).await;
        self.cluster.exactly("later.web.web", 2, SOON).await;
        self.cluster.running("kept.web.web", count as usize, SOON).await;
        self.cluster.running("later.web.web", 2, SOON).await;
        let after = containers(&self.cluster).await;
        for container in &self.containers {
            assert!(after.contains(container), "{container:?} was removed or restarted: {after:#?}");
        }
        eventually(SOON, "deployctl status exits with 0", async || {
            let told = self.cluster.deployctl(&["status"]).await;
            (told.status.success() && !text(&told).contains(WARNING)).then_some(())
        })
        .await;
    }

    /// Both groups take changes.
    async fn is_in_use_again(&self) {
        for (name, count) in [("kept.web.web", 1), ("later.web.web", 3)] {
            let path = format!("/api/podgroups?name={name}&cmd=replica&num_instances={count}");
            self.cluster.accepted(Method::PATCH, &path, None).await;
            self.cluster.exactly(name, count, SOON).await;
        }
    }
}

async fn deployed(cluster: &Cluster, name: &str) {
    cluster.accepted(Method::POST, "/api/podgroups", Some(&demo_group(name, 2))).await;
    cluster.running(name, 2, SOON).await;
    cluster.exactly(name, 2, SOON).await;
}

async fn status(cluster: &Cluster) -> Option<ClusterStatus> {
    let (status, body) = cluster.call(1, Method::GET, "/api/cluster", None).await;
    (status == StatusCode::OK).then(|| serde_json::from_str(&body).expect("a ClusterStatus"))
}

fn is_warned(status: &ClusterStatus) -> bool {
    status.warnings.iter().any(|warning| warning.contains(WARNING))
}

/// A number that a scheduler reports at `/metrics`.
async fn metric(cluster: &Cluster, scheduler: &str, name: &str) -> u64 {
    let state = cluster.state();
    let child = state["children"].as_array().expect("children").iter().find(|child| child["name"] == scheduler);
    let listen = child.and_then(|child| child["listen"].as_str()).expect("an address").to_owned();
    let client = fabric::http::client(Duration::from_secs(5));
    let metrics = client.get(format!("http://{listen}/metrics")).send().await.expect("metrics").text().await;
    let metrics = metrics.expect("text");
    let value = metrics.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    value.unwrap_or_else(|| panic!("{scheduler} has no {name}: {metrics}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn recovery_1_the_newer_data_is_put_back_and_every_node_obeys_within_thirty_seconds() {
    let rewound = Rewound::new().await;
    rewound.scale_meanwhile().await;
    let put_back = |data: &Path| {
        std::fs::remove_dir_all(data).expect("the older data goes");
        std::fs::rename(&rewound.newer, data).expect("the newer data is in place");
    };
    let since = Instant::now();
    with_etcd_stopped(&rewound.cluster, put_back).await;
    println!("recovery 1: obeyed again after {:?}", rewound.is_obeyed_again(since).await);
    // "changes that clients send are queued […] and run after the recovery"
    rewound.is_as_before_with(3).await;
    rewound.is_in_use_again().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn recovery_2_a_backup_newer_than_the_copy_is_restored_and_no_container_is_touched() {
    let rewound = Rewound::new().await;
    rewound.scale_meanwhile().await;
    let since = Instant::now();
    let file = rewound.backup.to_str().expect("a path");
    let restored = rewound.cluster.deployctl(&["restore", file, "--replace", "--yes"]).await;
    assert!(restored.status.success(), "{}", text(&restored));
    println!("recovery 2: obeyed again after {:?}", rewound.is_obeyed_again(since).await);
    // "changes that clients send are queued […] and run after the recovery"
    rewound.is_as_before_with(3).await;
    rewound.is_in_use_again().await;
}
