//! Where an apiserver is: an address, or a unix socket; and which CA its certificate must come from.

use std::path::{Path, PathBuf};
use std::time::Duration;

use reqwest::{Certificate, Client, ClientBuilder, Url};

use super::Error;
use crate::credential::is_loopback;

/// Requests on a unix socket need a name in their URL; the apiserver does not look at it.
const ON_SOCKET: &str = "http://localhost";

/// One apiserver.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    /// As the user wrote it.
    pub(crate) url: Url,
    /// What requests are built from.
    pub(crate) base: Url,
    pub(crate) client: Client,
}

/// Makes the clients of one API.
#[derive(Debug, Clone)]
pub(super) struct Clients {
    /// Certificates that servers must be signed with; none trusts the CAs of this machine.
    trusted: Option<Vec<Certificate>>,
    /// Longest silence of a server.
    silence: Option<Duration>,
}

/// Reads a PEM file of certificate authorities.
pub fn authorities(path: &Path) -> Result<String, Error> {
    let failed = |source| Error::Ca { path: path.to_owned(), source };
    let text = std::fs::read_to_string(path).map_err(|source| failed(source.into()))?;
    match parse_authorities(&text) {
        Some(_) => Ok(text),
        None => Err(failed("it holds no certificate in PEM form".into())),
    }
}

fn parse_authorities(text: &str) -> Option<Vec<Certificate>> {
    fabric::http::install_crypto();
    Certificate::from_pem_bundle(text.as_bytes()).ok().filter(|found| !found.is_empty())
}

impl Clients {
    /// Clients that trust these certificate authorities, in PEM; none: those of this machine.
    pub(super) fn trusting(authorities: Option<&str>, silence: Option<Duration>) -> Result<Self, Error> {
        let trusted = authorities.map(|text| parse_authorities(text).ok_or(Error::Authorities)).transpose()?;
        Ok(Self { trusted, silence })
    }

    /// The servers of these URLs, whose connections and requests take at most `limit`.
    pub(super) fn servers(&self, urls: &[Url], limit: Duration) -> Vec<Server> {
        let tcp: Vec<&Url> = urls.iter().filter(|url| socket(url).is_none()).collect();
        // What is meant for this machine does not pass a proxy of the environment, which could read a token.
        let is_local = tcp.iter().all(|url| is_loopback(url));
        let tcp = (!tcp.is_empty()).then(|| self.tcp(limit, is_local));
        let server = |url: &Url| match (socket(url), &tcp) {
            (None, Some(client)) => Server { url: url.clone(), base: url.clone(), client: client.clone() },
            (path, _) => Server {
                url: url.clone(),
                base: Url::parse(ON_SOCKET).expect("a constant that is a URL"),
                client: self.on_socket(&path.unwrap_or_default(), limit),
            },
        };
        urls.iter().map(server).collect()
    }

    fn tcp(&self, limit: Duration, is_local: bool) -> Client {
        fabric::http::client_with(limit, |builder| {
            let builder = if is_local { builder.no_proxy() } else { builder };
            let builder = self.patient(builder);
            match &self.trusted {
                Some(trusted) => builder.tls_certs_only(trusted.clone()),
                None => builder,
            }
        })
    }

    fn on_socket(&self, path: &Path, limit: Duration) -> Client {
        // Without TLS there is no reason to read the CAs of this machine.
        let none: [Certificate; 0] = [];
        fabric::http::client_with(limit, |builder| self.patient(builder).unix_socket(path).tls_certs_only(none.clone()))
    }

    fn patient(&self, builder: ClientBuilder) -> ClientBuilder {
        match self.silence {
            Some(silence) => builder.read_timeout(silence),
            None => builder,
        }
    }
}

/// A client for one URL.
pub fn client_trusting(ca: Option<&Path>, limit: Duration) -> Result<Client, Error> {
    let text = ca.map(authorities).transpose()?;
    Ok(Clients::trusting(text.as_deref(), None)?.tcp(limit, false))
}

/// The socket of `unix:///run/api.sock`.
fn socket(url: &Url) -> Option<PathBuf> {
    let path = (url.scheme() == "unix").then(|| url.path())?;
    Url::parse(&format!("file://{path}")).ok()?.to_file_path().ok()
}

/// The URL of an API.
pub(super) fn parse(text: &str) -> Result<Url, Error> {
    let flaw = |reason: String| Error::Url { url: without_password(text), reason };
    // `127.0.0.1:9003` and `deployd.example` mean HTTP.
    let is_bare = !text.contains("://") && !text.trim().starts_with("unix:") && !text.trim().is_empty();
    let text = &if is_bare { format!("http://{}", text.trim()) } else { text.trim().to_owned() };
    let url = Url::parse(text).map_err(|error| flaw(error.to_string()))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(flaw(
            "it holds a user or a password, which logs and lists of processes show; use --token-file".to_owned(),
        ));
    }
    match url.scheme() {
        "http" | "https" => Ok(url),
        "unix" if url.host_str().unwrap_or_default().is_empty() && url.path().len() > 1 => Ok(url),
        "unix" => Err(flaw("the path of a socket is absolute: unix:///run/deployd/api.sock".to_owned())),
        _ => Err(flaw("it must begin with http://, https:// or unix://".to_owned())),
    }
}

/// What the user wrote without what may be a password: everything before the last `@`.
fn without_password(text: &str) -> String {
    let Some((before, host)) = text.rsplit_once('@') else { return text.to_owned() };
    let scheme = before.split_once("://").map(|(scheme, _)| format!("{scheme}://")).unwrap_or_default();
    format!("{scheme}***@{host}")
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
    fn a_url_with_a_password_is_refused_and_the_password_is_not_shown() {
        for text in
            ["http://user:hunter2@api:9003", "http://user:hunter2@a b", "user:hunter2@api", "http://hunter2@api"]
        {
            let error = parse(text).unwrap_err();
            let shown = format!("{error} {error:?}");
            assert!(!shown.contains("hunter2"), "{shown}");
        }
        assert!(parse("http://u:p@api").unwrap_err().to_string().contains("--token-file"));
    }

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
            assert!(matches!(authorities(path), Err(Error::Ca { .. })));
        }
    }
}
