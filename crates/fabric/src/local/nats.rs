//! A local nats-server whose JetStream syncs to disk before it acknowledges.

use std::path::Path;
use std::time::Duration;

use contract::bus::SERVER_SETTINGS;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use super::server::{Error, Kind, Launch, Server, make_directory};

/// When JetStream syncs to disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Syncing {
    /// Before every acknowledgement.
    Always,
    /// Every two minutes, the server's default; only for the test that detects it.
    Periodically,
}

#[derive(Debug)]
pub struct Nats;

/// A child process that runs nats-server.
pub type NatsServer = Server<Nats>;

impl NatsServer {
    /// Starts it with its data in `dir` and waits until it answers; port 0 means any free port.
    pub async fn start(dir: &Path, port: u16) -> Result<Self, Error> {
        Self::start_syncing(dir, port, Syncing::Always).await
    }

    /// Like [`NatsServer::start`], with a choice of syncing.
    pub async fn start_syncing(dir: &Path, port: u16, syncing: Syncing) -> Result<Self, Error> {
        Self::start_configured(dir, port, syncing, &open_accounts()).await
    }

    /// Like [`NatsServer::start`], with accounts of its own (`bus_accounts::config`).
    pub async fn start_configured(dir: &Path, port: u16, syncing: Syncing, accounts: &str) -> Result<Self, Error> {
        let port = if port == 0 { super::free_port() } else { port };
        make_directory(dir)?;
        let file = dir.join("nats.conf");
        std::fs::write(&file, nats_config(&dir.join("jetstream"), port, syncing, accounts))
            .map_err(|source| Error::Prepare { path: file.clone(), source })?;
        let arguments = vec!["-c".into(), file.into_os_string()];
        Self::begin(Launch { program: "nats-server", arguments, port, log: dir.join("nats.log") }).await
    }
}

impl Kind for Nats {
    const SCHEME: &'static str = "nats";

    /// A NATS server sends INFO first.
    async fn answers(port: u16) -> bool {
        let greeting = async {
            let mut stream = TcpStream::connect(("127.0.0.1", port)).await.ok()?;
            let mut word = [0; 4];
            stream.read_exact(&mut word).await.ok()?;
            Some(word == *b"INFO")
        };
        matches!(tokio::time::timeout(Duration::from_secs(1), greeting).await, Ok(Some(true)))
    }
}

/// One account that every client may use without credentials, for tests of one process.
pub fn open_accounts() -> String {
    format!(
        r#"accounts {{
  SYS {{
    exports: [ {{ service: "{SERVER_SETTINGS}" }} ]
  }}
  DEPLOYD {{
    jetstream: enabled
    users: [ {{ user: "local", password: "local" }} ]
    imports: [ {{ service: {{ account: SYS, subject: "{SERVER_SETTINGS}" }} }} ]
  }}
}}
system_account: SYS
no_auth_user: "local"
"#
    )
}

/// Configuration of a server on this machine; `accounts` says who may connect (`bus_accounts::config`).
pub fn nats_config(store: &Path, port: u16, syncing: Syncing, accounts: &str) -> String {
    let sync = match syncing {
        Syncing::Always => "sync_interval: always",
        Syncing::Periodically => "",
    };
    format!(
        r#"# Written at each start; changes here are lost.
listen: "127.0.0.1:{port}"
server_name: "local"
jetstream {{
  store_dir: {store:?}
  {sync}
}}
{accounts}"#
    )
}
