//! One member of etcd: its address, and what proves both sides to each other.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use etcd_client::{Certificate, Client, ConnectOptions, Identity, TlsOptions};

use super::Error;
use crate::tls::{self, ClientFiles, FileChanges};

/// Port of URLs without one.
const USUAL_PORT: u16 = 2379;

/// Where etcd is.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
pub struct Args {
    /// etcd endpoints, comma separated; a failed call is retried on the next one
    #[arg(
        long = "etcd",
        env = "DEPLOYD_ETCD",
        default_value = "http://127.0.0.1:2379",
        value_delimiter = ',',
        value_name = "URL"
    )]
    pub endpoints: Vec<String>,
    /// CA that signed the certificates of etcd (PEM), for https:// endpoints
    #[arg(id = "etcd_ca", long = "etcd-ca", env = "DEPLOYD_ETCD_CA", value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// Certificate of this process for an etcd that verifies its clients (PEM), with --etcd-key
    #[arg(id = "etcd_cert", long = "etcd-cert", env = "DEPLOYD_ETCD_CERT", value_name = "FILE", requires = "etcd_key")]
    pub cert: Option<PathBuf>,
    /// Private key of --etcd-cert (PEM)
    #[arg(id = "etcd_key", long = "etcd-key", env = "DEPLOYD_ETCD_KEY", value_name = "FILE", requires = "etcd_cert")]
    pub key: Option<PathBuf>,
    /// User of an etcd with authentication; the rights that it needs are in docs/operations.md, TLS
    #[arg(
        id = "etcd_user",
        long = "etcd-user",
        env = "DEPLOYD_ETCD_USER",
        value_name = "NAME",
        requires = "etcd_password_file"
    )]
    pub user: Option<String>,
    /// File with the password of --etcd-user
    #[arg(
        id = "etcd_password_file",
        long = "etcd-password-file",
        env = "DEPLOYD_ETCD_PASSWORD_FILE",
        value_name = "FILE",
        requires = "etcd_user"
    )]
    pub password_file: Option<PathBuf>,
    /// Connect to etcd on other machines without TLS; machines on the network path may read and change the store
    #[arg(id = "insecure_etcd", long = "insecure-etcd", env = "DEPLOYD_INSECURE_ETCD")]
    pub insecure: bool,
}

impl Args {
    /// One endpoint, for tests and tools.
    pub fn at(endpoint: impl Into<String>) -> Self {
        Self {
            endpoints: vec![endpoint.into()],
            ca: None,
            cert: None,
            key: None,
            user: None,
            password_file: None,
            insecure: false,
        }
    }

    /// Refuses endpoints on other machines that would be reached unencrypted, and settings that contradict each other.
    pub fn check(&self) -> Result<(), String> {
        for url in self.urls() {
            let is_https = url.starts_with("https://");
            if is_https && self.ca.is_none() {
                return Err(format!("--etcd {url} needs --etcd-ca, the CA that signed its certificate"));
            }
            if !is_https && self.ca.is_some() {
                return Err(format!("--etcd {url} does not use --etcd-ca; write https://"));
            }
            if !is_https && !self.insecure && !tls::is_loopback(host(url)) {
                return Err(format!(
                    "--etcd {url} is on another machine, and the store would travel unencrypted: write https:// and give \
                     --etcd-ca (docs/operations.md, TLS), or allow it with --insecure-etcd"
                ));
            }
        }
        Ok(())
    }

    pub(super) fn urls(&self) -> impl Iterator<Item = &str> {
        self.endpoints.iter().map(|url| url.trim()).filter(|url| !url.is_empty())
    }

    fn files(&self) -> Vec<PathBuf> {
        [&self.ca, &self.cert, &self.key, &self.password_file].into_iter().flatten().cloned().collect()
    }

    fn tls(&self) -> Result<Option<TlsOptions>, Error> {
        let Some(ca) = &self.ca else { return Ok(None) };
        let tls = TlsOptions::new().ca_certificate(Certificate::from_pem(read(ca)?));
        Ok(Some(match (&self.cert, &self.key) {
            (Some(cert), Some(key)) => tls.identity(Identity::from_pem(read(cert)?, read(key)?)),
            _ => tls,
        }))
    }

    fn user(&self) -> Result<Option<(String, String)>, Error> {
        let (Some(user), Some(file)) = (&self.user, &self.password_file) else { return Ok(None) };
        let password = String::from_utf8_lossy(&read(file)?).trim().to_owned();
        Ok(Some((user.clone(), password)))
    }
}

/// `http://[::1]:2379/` has the host `::1`.
fn host(url: &str) -> &str {
    host_and_port(url).0
}

fn host_and_port(url: &str) -> (&str, u16) {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split('/').next().unwrap_or(rest);
    let authority = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let (host, port) = match authority.strip_prefix('[').and_then(|inner| inner.split_once(']')) {
        Some((host, rest)) => (host, rest.strip_prefix(':')),
        None => authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port))),
    };
    (host, port.and_then(|port| port.parse().ok()).unwrap_or(USUAL_PORT))
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    std::fs::read(path).map_err(|source| Error::Credentials { path: path.display().to_string(), source })
}

/// The client of one member. It is made when a call needs it, and again when a file with its credentials was renewed.
pub(super) struct Endpoint {
    pub(super) url: String,
    args: Arc<Args>,
    changes: FileChanges,
    /// The client, and the count of changes when its credentials were read.
    current: Mutex<Option<(u64, Client)>>,
}

impl Endpoint {
    /// Every endpoint of the settings. Contacts none; a malformed URL or an unreadable file is an error.
    pub(super) async fn all(args: &Args) -> Result<Vec<Self>, Error> {
        crate::http::install_crypto();
        let (args, changes) = (Arc::new(args.clone()), FileChanges::follow(args.files()));
        args.user()?;
        let mut endpoints = Vec::new();
        for url in args.urls() {
            let endpoint = |source| Error::Endpoint { endpoint: url.to_owned(), source };
            let client = Client::connect([url], Some(options(&args)?)).await.map_err(endpoint)?;
            // With a user, the first call authenticates.
            let current = Mutex::new(args.user.is_none().then(|| (changes.count(), client)));
            endpoints.push(Self { url: url.to_owned(), args: args.clone(), changes: changes.clone(), current });
        }
        if endpoints.is_empty() { Err(Error::NoEndpoint) } else { Ok(endpoints) }
    }

    /// The client for a call. Connecting is rare and its future large, so it is on the heap.
    pub(super) async fn client(&self, doing: &'static str) -> Result<Client, Error> {
        let count = self.changes.count();
        let known = self.current.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let renewed = match known {
            Some((seen, client)) if seen == count => return Ok(client),
            Some((_, old)) => match Box::pin(self.connect(doing)).await {
                Ok(client) => client,
                Err(error @ Error::Credentials { .. }) => {
                    tracing::warn!(%error, "renewed credentials for etcd cannot be read; the earlier ones stay");
                    old
                }
                Err(error) => return Err(error),
            },
            None => Box::pin(self.connect(doing)).await?,
        };
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Some((count, renewed.clone()));
        Ok(renewed)
    }

    /// Why TLS with this member fails, from a handshake of our own: etcd's client keeps trying and tells nothing.
    pub(super) async fn tls_problem(&self) -> Option<String> {
        let ca = self.args.ca.as_deref()?;
        let own = self.args.cert.as_deref().zip(self.args.key.as_deref());
        let (host, port) = host_and_port(&self.url);
        tls::handshake_problem(host, port, ClientFiles { ca, own }).await
    }

    async fn connect(&self, doing: &'static str) -> Result<Client, Error> {
        let mut options = options(&self.args)?;
        if let Some((user, password)) = self.args.user()? {
            options = options.with_user(user, password).with_auto_token_refresh(true);
        }
        let connected = Client::connect([&self.url], Some(options)).await;
        connected.map_err(|source| Error::Failed { doing, source })
    }
}

fn options(args: &Args) -> Result<ConnectOptions, Error> {
    let options = ConnectOptions::new()
        .with_connect_timeout(Duration::from_secs(1))
        // etcd closes connections of clients that ping more often than every 5 s.
        .with_keep_alive(Duration::from_secs(6), Duration::from_secs(3))
        .with_keep_alive_while_idle(true)
        .with_require_leader(true);
    Ok(match args.tls()? {
        Some(tls) => options.with_tls(tls),
        None => options,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn etcd_on_another_machine_is_reached_only_encrypted_unless_an_operator_allows_more() {
        let refused = Args::at("http://10.0.0.1:2379").check().unwrap_err();
        assert!(refused.contains("--etcd-ca") && refused.contains("--insecure-etcd"), "{refused}");
        assert!(Args::at("http://etcd:2379").check().is_err() && Args::at("etcd:2379").check().is_err());
        for local in ["http://127.0.0.1:2379", "http://[::1]:2379/", "localhost:2379"] {
            assert_eq!(Args::at(local).check(), Ok(()), "{local}");
        }
        let allowed = Args { insecure: true, ..Args::at("http://10.0.0.1:2379") };
        assert_eq!(allowed.check(), Ok(()));
        let with_ca = |url: &str| Args { ca: Some("ca.pem".into()), ..Args::at(url) };
        assert_eq!(with_ca("https://10.0.0.1:2379").check(), Ok(()));
        assert!(with_ca("http://127.0.0.1:2379").check().unwrap_err().contains("https://"));
        assert!(Args::at("https://127.0.0.1:2379").check().unwrap_err().contains("--etcd-ca"));
    }
}
