//! Certificates and keys in PEM files, and the moment in which they change.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::sync::watch;

/// Interval of the checks for renewed files.
const LOOK: Duration = Duration::from_secs(1);

/// Why certificates cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read {}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("{} holds no certificate in PEM form", path.display())]
    NoCertificate { path: PathBuf },
    #[error("{} holds no private key in PEM form", path.display())]
    NoKey { path: PathBuf },
    #[error("the certificate in {} and the key in {} cannot be used together", certificate.display(), key.display())]
    Mismatch {
        certificate: PathBuf,
        key: PathBuf,
        #[source]
        source: rustls::Error,
    },
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    fs::read(path).map_err(|source| Error::Read { path: path.to_owned(), source })
}

/// The certificates of a file, at least one.
pub(super) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&read(path)?).collect();
    let none = || Error::NoCertificate { path: path.to_owned() };
    let found = found.map_err(|_| none())?;
    if found.is_empty() { Err(none()) } else { Ok(found) }
}

/// The private key of a file.
pub(super) fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, Error> {
    PrivateKeyDer::from_pem_slice(&read(path)?).map_err(|_| Error::NoKey { path: path.to_owned() })
}

/// Whether files were replaced. Clones share the task that looks, which ends with the last of them.
#[derive(Debug, Clone)]
pub struct FileChanges(watch::Receiver<u64>);

impl FileChanges {
    /// Looks at the files once a second.
    pub fn follow(files: Vec<PathBuf>) -> Self {
        let (sender, receiver) = watch::channel(0);
        if !files.is_empty() {
            // Read now: what the caller reads afterwards is at least as new.
            let known = stamps(&files);
            crate::tasks::spawn("certificate files", look(files, known, sender));
        }
        Self(receiver)
    }

    /// How often the files have changed.
    pub fn count(&self) -> u64 {
        *self.0.borrow()
    }

    /// Waits for the next change; false when none can come.
    pub(super) async fn next(&mut self) -> bool {
        self.0.changed().await.is_ok()
    }
}

/// What tells one content of a file from the next.
type Stamp = Option<(SystemTime, u64, u64)>;

async fn look(files: Vec<PathBuf>, mut known: Vec<Stamp>, changes: watch::Sender<u64>) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(LOOK) => {}
            () = changes.closed() => return,
        }
        let asked = files.clone();
        let Ok(now) = tokio::task::spawn_blocking(move || stamps(&asked)).await else { return };
        if now != known {
            known = now;
            changes.send_modify(|count| *count += 1);
        }
    }
}

fn stamps(files: &[PathBuf]) -> Vec<Stamp> {
    let stamp = |file: &PathBuf| {
        let meta = fs::metadata(file).ok()?;
        Some((meta.modified().ok()?, meta.len(), meta.ino()))
    };
    files.iter().map(stamp).collect()
}
