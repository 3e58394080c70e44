//! Where an API is: an address, or a unix socket; and which CA its certificate must come from.

use std::path::{Path, PathBuf};
use std::time::Duration;

use reqwest::{Certificate, Client, Url};

use super::Error;

/// Requests on a unix socket need a name in their URL; the apiserver does not look at it.
const ON_SOCKET: &str = "http://localhost";

/// One apiserver.
#[derive(Debug, Clone)]
pub(super) struct Target {
    /// As the user wrote it.
    pub(super) url: Url,
    /// What requests are built from.
    pub(super) base: Url,
    pub(super) client: Client,
}

/// Makes the clients of one [`super::Api`].
#[derive(Debug, Clone)]
pub(super) struct Clients {
    /// Certificates that servers must be signed with; none trusts the CAs of this machine.
    trusted: Option<Vec<Certificate>>,
}

impl Clients {
    pub(super) fn trusting(ca: Option<&Path>) -> Result<Self, Error> {
        let read = |path: &Path| -> Result<Vec<Certificate>, Box<dyn std::error::Error + Send + Sync>> {
            fabric::http::install_crypto();
            let found = Certificate::from_pem_bundle(&std::fs::read(path)?)?;
            if found.is_empty() { Err("it holds no certificate in PEM form".into()) } else { Ok(found) }
        };
        let failed = |path: &Path, source| Error::Ca { path: path.to_owned(), source };
        let trusted = ca.map(|path| read(path).map_err(|source| failed(path, source))).transpose()?;
        Ok(Self { trusted })
    }

    /// The targets of these URLs, whose connections and requests take at most `limit`.
    pub(super) fn targets(&self, urls: &[Url], limit: Duration) -> Vec<Target> {
        let tcp = urls.iter().any(|url| socket(url).is_none()).then(|| self.tcp(limit));
        let target = |url: &Url| match (socket(url), &tcp) {
            (None, Some(client)) => Target { url: url.clone(), base: url.clone(), client: client.clone() },
            (path, _) => Target {
                url: url.clone(),
                base: Url::parse(ON_SOCKET).expect("a constant that is a URL"),
                client: on_socket(&path.unwrap_or_default(), limit),
            },
        };
        urls.iter().map(target).collect()
    }

    fn tcp(&self, limit: Duration) -> Client {
        fabric::http::client_with(limit, |builder| match &self.trusted {
            Some(trusted) => builder.tls_certs_only(trusted.clone()),
            None => builder,
        })
    }
}

/// A client for one URL.
pub fn client_trusting(ca: Option<&Path>, limit: Duration) -> Result<Client, Error> {
    Ok(Clients::trusting(ca)?.tcp(limit))
}

fn on_socket(path: &Path, limit: Duration) -> Client {
    // Without TLS there is no reason to read the CAs of this machine.
    let none: [Certificate; 0] = [];
    fabric::http::client_with(limit, |builder| builder.unix_socket(path).tls_certs_only(none.clone()))
}

/// The socket of `unix:///run/api.sock`.
fn socket(url: &Url) -> Option<PathBuf> {
    let path = (url.scheme() == "unix").then(|| url.path())?;
    Url::parse(&format!("file://{path}")).ok()?.to_file_path().ok()
}

/// The URL of an API.
pub(super) fn parse(text: &str) -> Result<Url, Error> {
    let flaw = |reason: String| Error::Url { url: text.to_owned(), reason };
    let url = Url::parse(text.trim()).map_err(|error| flaw(error.to_string()))?;
    match url.scheme() {
        "http" | "https" => Ok(url),
        "unix" if url.host_str().unwrap_or_default().is_empty() && url.path().len() > 1 => Ok(url),
        "unix" => Err(flaw("the path of a socket is absolute: unix:///run/deployd/api.sock".to_owned())),
        _ => Err(flaw("it must begin with http://, https:// or unix://".to_owned())),
    }
}

/// The URL of a socket.
pub fn url_of_socket(path: &Path) -> String {
    let encoded = Url::from_file_path(path).map(|url| url.path().to_owned());
    format!("unix://{}", encoded.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_of_a_socket_leads_back_to_it() {
        for path in ["/run/deployd/api.sock", "/a b/100%/ä?#.sock"] {
            let url = parse(&url_of_socket(Path::new(path))).unwrap();
            assert_eq!(socket(&url), Some(PathBuf::from(path)));
        }
        assert_eq!(socket(&parse("http://127.0.0.1/api.sock").unwrap()), None);
        for wrong in ["unix://api.sock", "unix://", "unix:///", "ftp://a"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_file_without_a_certificate_is_no_ca() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for path in [file.path(), Path::new("/no/such/ca.pem")] {
            assert!(matches!(Clients::trusting(Some(path)), Err(Error::Ca { .. })));
        }
    }
}
