//! A TLS handshake of our own, to find out why a library cannot connect: etcd's client only times out.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::{files, problem};

/// Deadline of the connection and the handshake.
const HANDSHAKE: Duration = Duration::from_secs(2);
/// A server rejects a missing client certificate only after the handshake (TLS 1.3).
const REJECTION: Duration = Duration::from_millis(500);

/// What a client trusts and shows.
#[derive(Debug, Clone, Copy)]
pub struct ClientFiles<'a> {
    pub ca: &'a Path,
    /// Certificate and key.
    pub own: Option<(&'a Path, &'a Path)>,
}

/// Why TLS with this server fails; none when it works, or when the server cannot be reached at all.
pub async fn handshake_problem(host: &str, port: u16, files: ClientFiles<'_>) -> Option<String> {
    let config = match config(files) {
        Ok(config) => config,
        Err(error) => return Some(format!("our files cannot be used: {error}")),
    };
    let failed = attempt(host, port, config).await.err()?;
    problem(&*failed)
}

fn config(files: ClientFiles<'_>) -> Result<ClientConfig, Box<dyn Error + Send + Sync>> {
    crate::http::install_crypto();
    let mut roots = RootCertStore::empty();
    for certificate in files::certificates(files.ca)? {
        roots.add(certificate)?;
    }
    let builder = ClientConfig::builder().with_root_certificates(roots);
    Ok(match files.own {
        Some((certificate, key)) => {
            builder.with_client_auth_cert(files::certificates(certificate)?, files::private_key(key)?)?
        }
        None => builder.with_no_client_auth(),
    })
}

async fn attempt(host: &str, port: u16, config: ClientConfig) -> Result<(), Box<dyn Error + Send + Sync>> {
    let name = ServerName::try_from(host.to_owned())?;
    let connector = TlsConnector::from(Arc::new(config));
    let opening = async { connector.connect(name, TcpStream::connect((host, port)).await?).await };
    let mut stream = tokio::time::timeout(HANDSHAKE, opening).await??;
    match tokio::time::timeout(REJECTION, stream.read_u8()).await {
        Ok(Err(error)) => Err(error.into()),
        Ok(Ok(_)) | Err(_) => Ok(()),
    }
}
