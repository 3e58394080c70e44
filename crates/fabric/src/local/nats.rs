//! A local nats-server whose JetStream syncs to disk before it acknowledges.

use std::path::Path;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use super::server::{Error, Kind, Launch, Server, make_directory};
use crate::nats::SERVER_SETTINGS;

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
        let port = if port == 0 { super::free_port() } else { port };
        make_directory(dir)?;
        let file = dir.join("nats.conf");
        std::fs::write(&file, nats_config(&dir.join("jetstream"), port, syncing))
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

/// Configuration with one account, which may also query the server's settings (see `nats::durability`).
pub fn nats_config(store: &Path, port: u16, syncing: Syncing) -> String {
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
accounts {{
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
