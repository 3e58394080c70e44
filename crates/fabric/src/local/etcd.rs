//! etcd on this machine: a cluster of one.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use super::server::{Error, Recipe, Server, make_directory};

/// An etcd of ours.
#[derive(Debug)]
pub struct EtcdServer {
    server: Server,
    port: u16,
}

impl EtcdServer {
    /// Starts it with its data in `dir` and waits until it answers; port 0 takes a free one.
    pub async fn start(dir: &Path, port: u16) -> Result<Self, Error> {
        let port = if port == 0 { super::free_port() } else { port };
        make_directory(dir)?;
        let arguments = etcd_arguments(&dir.join("data"), port, super::free_port());
        let arguments = arguments.into_iter().map(OsString::from).collect();
        let recipe = Recipe { program: "etcd", arguments, port, log: dir.join("etcd.log") };
        let mut started = Self { server: Server::start(recipe)?, port };
        started.wait().await?;
        Ok(started)
    }

    /// Where clients connect.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The process.
    pub fn pid(&self) -> u32 {
        self.server.pid()
    }

    /// Kills it with SIGKILL.
    pub fn kill(&mut self) {
        self.server.kill();
    }

    /// Starts it again on the same port and directory, after a kill if it still runs, and waits until it answers.
    pub async fn restart(&mut self) -> Result<(), Error> {
        self.server.respawn()?;
        self.wait().await
    }

    /// Stops it in order.
    pub async fn stop(&mut self) {
        self.server.stop().await;
    }

    async fn wait(&mut self) -> Result<(), Error> {
        let url = self.url();
        self.server.wait(async || answers(&url).await).await
    }
}

async fn answers(url: &str) -> bool {
    let asking = async {
        let mut client = etcd_client::Client::connect([url], None).await.ok()?;
        // A read goes through the leader: an answer means that the election of the one member is over.
        client.get("/", None).await.ok()
    };
    matches!(tokio::time::timeout(Duration::from_secs(1), asking).await, Ok(Some(_)))
}

/// The server's command line: a cluster of one on 127.0.0.1.
pub fn etcd_arguments(data: &Path, port: u16, peer_port: u16) -> Vec<String> {
    let client = format!("http://127.0.0.1:{port}");
    let peer = format!("http://127.0.0.1:{peer_port}");
    let settings = [
        ("data-dir", data.display().to_string()),
        ("name", "local".to_owned()),
        ("listen-client-urls", client.clone()),
        ("advertise-client-urls", client),
        ("listen-peer-urls", peer.clone()),
        ("initial-advertise-peer-urls", peer.clone()),
        ("initial-cluster", format!("local={peer}")),
        // The history nobody reads is thrown away each hour, or the store would grow until it refuses writes.
        ("auto-compaction-mode", "periodic".to_owned()),
        ("auto-compaction-retention", "1h".to_owned()),
        ("logger", "zap".to_owned()),
        ("log-level", "warn".to_owned()),
    ];
    settings.into_iter().map(|(name, value)| format!("--{name}={value}")).collect()
}
