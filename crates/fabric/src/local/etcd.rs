//! A local etcd: a cluster of one member.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use super::server::{Error, Kind, Launch, Server, make_directory};

#[derive(Debug)]
pub struct Etcd;

/// A child process that runs etcd.
pub type EtcdServer = Server<Etcd>;

impl EtcdServer {
    /// Starts it with its data in `dir` and waits until it answers; port 0 means any free port.
    pub async fn start(dir: &Path, port: u16) -> Result<Self, Error> {
        Self::start_with(dir, port, &[]).await
    }

    /// Like [`EtcdServer::start`], with further flags, which replace ours of the same name.
    pub async fn start_with(dir: &Path, port: u16, flags: &[String]) -> Result<Self, Error> {
        let port = if port == 0 { super::free_port() } else { port };
        make_directory(dir)?;
        let arguments = etcd_arguments(&dir.join("data"), port, super::free_port());
        let arguments = arguments.iter().chain(flags).map(OsString::from).collect();
        Self::begin(Launch { program: "etcd", arguments, port, log: dir.join("etcd.log") }).await
    }
}

impl Kind for Etcd {
    const SCHEME: &'static str = "http";

    async fn answers(port: u16) -> bool {
        let reading = async {
            let mut client = etcd_client::Client::connect([format!("http://127.0.0.1:{port}")], None).await.ok()?;
            // A read goes through the leader: an answer means that the single member has elected itself. With authentication it
            // refuses the read.
            match client.get("/", None).await {
                Ok(_) => Some(()),
                Err(etcd_client::Error::GRpcStatus(status)) if status.message().contains("user name is empty") => {
                    Some(())
                }
                Err(_) => None,
            }
        };
        matches!(tokio::time::timeout(Duration::from_secs(1), reading).await, Ok(Some(_)))
    }
}

/// Ports of a member.
#[derive(Debug, Clone, Copy)]
pub struct EtcdPorts {
    pub client: u16,
    pub peer: u16,
    /// Answers `/health` and `/metrics`, unencrypted and to everyone.
    pub health: u16,
}

/// Flags after those of [`etcd_arguments`] for a member that only serves clients and peers with a certificate. The folder holds
/// `ca.pem`, `etcd.pem` and `etcd-key.pem`.
pub fn etcd_tls_arguments(folder: &Path, ports: EtcdPorts) -> Vec<String> {
    let client = format!("https://127.0.0.1:{}", ports.client);
    let peer = format!("https://127.0.0.1:{}", ports.peer);
    let file = |name: &str| folder.join(name).display().to_string();
    let settings = [
        ("listen-client-urls", client.clone()),
        ("advertise-client-urls", client),
        ("listen-peer-urls", peer.clone()),
        ("initial-advertise-peer-urls", peer.clone()),
        ("initial-cluster", format!("local={peer}")),
        ("listen-metrics-urls", format!("http://127.0.0.1:{}", ports.health)),
        ("cert-file", file("etcd.pem")),
        ("key-file", file("etcd-key.pem")),
        ("trusted-ca-file", file("ca.pem")),
        ("client-cert-auth", true.to_string()),
        ("peer-cert-file", file("etcd.pem")),
        ("peer-key-file", file("etcd-key.pem")),
        ("peer-trusted-ca-file", file("ca.pem")),
        ("peer-client-cert-auth", true.to_string()),
    ];
    settings.into_iter().map(|(name, value)| format!("--{name}={value}")).collect()
}

/// Command line of a single member on 127.0.0.1.
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
        // See docs/operations.md, "How large etcd gets".
        ("quota-backend-bytes", crate::etcd::QUOTA_BYTES.to_string()),
        ("auto-compaction-mode", "periodic".to_owned()),
        ("auto-compaction-retention", "5m".to_owned()),
        ("logger", "zap".to_owned()),
        ("log-level", "warn".to_owned()),
    ];
    settings.into_iter().map(|(name, value)| format!("--{name}={value}")).collect()
}
