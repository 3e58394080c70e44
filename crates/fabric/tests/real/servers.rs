//! Servers for one test, and waiting with a deadline.

use std::time::Duration;

use fabric::etcd::Store;
use fabric::local::{EtcdServer, NatsServer};
use fabric::nats::Bus;
use tempfile::TempDir;
use tokio::time::Instant;

/// A nats-server and its directory.
pub(crate) struct Nats {
    pub(crate) server: NatsServer,
    pub(crate) dir: TempDir,
}

impl Nats {
    pub(crate) async fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self { server: NatsServer::start(dir.path(), 0).await.unwrap(), dir }
    }

    pub(crate) async fn bus(&self, name: &str) -> Bus {
        Bus::connect(&fabric::nats::Args::at(self.server.url()), name).await.unwrap()
    }
}

/// An etcd and its directory.
pub(crate) struct Etcd {
    pub(crate) server: EtcdServer,
    _dir: TempDir,
}

impl Etcd {
    pub(crate) async fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self { server: EtcdServer::start(dir.path(), 0).await.unwrap(), _dir: dir }
    }

    pub(crate) async fn store(&self) -> Store {
        Store::connect(&fabric::etcd::Args::at(self.server.url())).await.unwrap()
    }

    pub(crate) async fn client(&self) -> etcd_client::Client {
        etcd_client::Client::connect([self.server.url()], None).await.unwrap()
    }

    /// Freezes the process, like a hung disk, or resumes it.
    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(i32::try_from(self.server.pid()).unwrap()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }
}

/// Waits until `condition` holds and returns the time it took. Panics after `limit`.
pub(crate) async fn within(limit: Duration, what: &str, mut condition: impl FnMut() -> bool) -> Duration {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < limit, "not within {limit:?}: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    started.elapsed()
}
