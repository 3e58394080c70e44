//! The server's side of TLS. Renewed certificates are used for the next connection, without a restart.

use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use super::files::{self, Error, FileChanges};

pub use tokio_rustls::server::TlsStream;

/// Certificate and key of a server; clones share them.
#[derive(Debug, Clone)]
pub struct ServerTls {
    current: watch::Receiver<Arc<ServerConfig>>,
}

impl ServerTls {
    /// Reads the files, and again whenever they change. Files that cannot be used leave the earlier certificate in use.
    pub fn load(certificate: &Path, key: &Path) -> Result<Self, Error> {
        let changes = FileChanges::follow(vec![certificate.to_owned(), key.to_owned()]);
        let (sender, current) = watch::channel(Arc::new(config(certificate, key)?));
        let (certificate, key) = (certificate.to_owned(), key.to_owned());
        crate::tasks::spawn("certificates", async move { renew(&sender, changes, &certificate, &key).await });
        Ok(Self { current })
    }

    /// Performs the handshake; the caller sets the deadline.
    pub async fn accept<S: AsyncRead + AsyncWrite + Unpin>(&self, stream: S) -> io::Result<TlsStream<S>> {
        let acceptor = TlsAcceptor::from(self.current.borrow().clone());
        acceptor.accept(stream).await
    }
}

fn config(certificate: &Path, key: &Path) -> Result<ServerConfig, Error> {
    crate::http::install_crypto();
    let (chain, secret) = (files::certificates(certificate)?, files::private_key(key)?);
    let made = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, secret);
    let mismatch = |source| Error::Mismatch { certificate: certificate.to_owned(), key: key.to_owned(), source };
    let mut config = made.map_err(mismatch)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

async fn renew(sender: &watch::Sender<Arc<ServerConfig>>, mut changes: FileChanges, certificate: &Path, key: &Path) {
    loop {
        tokio::select! {
            changed = changes.next() => if !changed { return },
            () = sender.closed() => return,
        }
        match config(certificate, key) {
            Ok(config) => {
                sender.send_replace(Arc::new(config));
                tracing::info!(certificate = %certificate.display(), "renewed certificate in use");
            }
            // Certificate and key are two files: between their replacements they do not match.
            Err(error) => tracing::warn!(%error, "the certificate changed and cannot be used; the earlier one stays"),
        }
    }
}
