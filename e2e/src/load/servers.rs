//! The real servers of a run: nats-server, etcd and schedulers, one process each.
//!
//! Dropping them kills all processes and removes their files.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use contract::keys::{self, Key};
use devcluster::plan::OWN_USER;
use fabric::etcd::{Change, Store};
use fabric::local::{EtcdServer, NatsServer, free_port};
use fabric::tasks::{Scoped, spawn_scoped};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tempfile::TempDir;

use crate::load::run::Error;
use crate::load::settings::Agents;

pub(crate) struct Servers {
    // Dropped in this sequence: schedulers, servers, folder.
    pub(crate) schedulers: Vec<Scheduler>,
    pub(crate) nats: NatsServer,
    pub(crate) etcd: EtcdServer,
    pub(crate) stored: Arc<Stored>,
    _watch: Scoped,
    _folder: Option<TempDir>,
}

#[derive(Debug)]
pub(crate) struct Scheduler {
    pub(crate) name: String,
    child: Child,
}

/// Counters of the store, updated by a watch.
#[derive(Debug, Default)]
pub(crate) struct Stored {
    pub(crate) placed: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) writes: AtomicU64,
}

impl Servers {
    pub(crate) async fn set(settings: &Agents) -> Result<Self, Error> {
        let (path, folder) = folder(settings.keep.as_deref())?;
        let nats = NatsServer::start(&path.join("nats"), 0).await?;
        let etcd = EtcdServer::start(&path.join("etcd"), 0).await?;
        let store = Store::connect(&fabric::etcd::Args::at(etcd.url())).await?;
        let stored = Arc::new(Stored::default());
        let watch = spawn_scoped("store", watch(store, Arc::clone(&stored)));
        let mut schedulers = Vec::new();
        for number in 1..=settings.schedulers {
            schedulers.push(Scheduler::start(&format!("scheduler-{number}"), &path, &nats.url(), &etcd.url())?);
        }
        Ok(Self { schedulers, nats, etcd, stored, _watch: watch, _folder: folder })
    }

    pub(crate) async fn etcd_file_bytes(&self) -> Option<u64> {
        let client = fabric::http::client(Duration::from_secs(5));
        let text = client.get(format!("{}/metrics", self.etcd.url())).send().await.ok()?.text().await.ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("etcd_mvcc_db_total_size_in_use_in_bytes "))?;
        let bytes: f64 = line.trim().parse().ok()?;
        // Far below 2^53, and never negative.
        format!("{bytes:.0}").parse().ok()
    }
}

impl Scheduler {
    fn start(name: &str, folder: &Path, nats: &str, etcd: &str) -> Result<Self, Error> {
        let program = std::env::current_exe().map_err(Error::Start)?;
        let log = std::fs::File::create(folder.join(format!("{name}.log"))).map_err(Error::Start)?;
        let listen = format!("127.0.0.1:{}", free_port());
        let child = Command::new(program)
            .arg("scheduler")
            .args(["--name", name, "--listen", &listen, "--nats", nats, "--etcd", etcd])
            // The binding that the client of the run proves itself with.
            .args(["--anonymous", OWN_USER, "--accept-nodes", "*"])
            // All nodes share this machine: when it is overloaded they are silent together, which is no network failure.
            .args(["--losses-stop", "0"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .map_err(Error::Start)?;
        Ok(Self { name: name.to_owned(), child })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// SIGKILL.
    pub(crate) fn kill(&mut self) {
        // An error means that the process has exited.
        let _gone = self.child.kill();
        let _status = self.child.wait();
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        self.kill();
    }
}

fn folder(keep: Option<&Path>) -> Result<(PathBuf, Option<TempDir>), Error> {
    if let Some(keep) = keep {
        std::fs::create_dir_all(keep).map_err(Error::Start)?;
        return Ok((keep.to_owned(), None));
    }
    let folder = tempfile::Builder::new().prefix("deployd-scale-").tempdir().map_err(Error::Start)?;
    Ok((folder.path().to_owned(), Some(folder)))
}

async fn watch(store: Store, stored: Arc<Stored>) {
    let mut changes = store.watch(keys::STATE);
    let mut sums: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    while let Some(change) = changes.recv().await {
        let puts = match change {
            Change::Reset(pairs) => pairs,
            Change::Put(key, value) => vec![(key, value)],
            Change::Delete(key) => vec![(key, Vec::new())],
        };
        for (key, value) in puts {
            let placed = if matches!(keys::parse(&key), Key::Placement(..)) { placed_instances(&value) } else { 0 };
            let bytes = if value.is_empty() { 0 } else { (key.len() + value.len()) as u64 };
            let (placed_before, bytes_before) = sums.insert(key, (placed, bytes)).unwrap_or_default();
            stored.placed.fetch_add(placed.wrapping_sub(placed_before), Ordering::Relaxed);
            stored.bytes.fetch_add(bytes.wrapping_sub(bytes_before), Ordering::Relaxed);
            stored.writes.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The counted part of a [`contract::layout::InstancesPage`].
#[derive(Default, Deserialize)]
struct StoredPage {
    instances: Vec<StoredInstance>,
}

#[derive(Deserialize)]
struct StoredInstance {
    current: StoredPod,
}

#[derive(Deserialize)]
struct StoredPod {
    #[serde(default)]
    node: Option<IgnoredAny>,
}

fn placed_instances(value: &[u8]) -> u64 {
    let record: StoredPage = serde_json::from_slice(value).unwrap_or_default();
    record.instances.iter().filter(|instance| instance.current.node.is_some()).count() as u64
}
