//! Which API a client uses, and how it proves who it is.

use std::time::Duration;

use reqwest::Url;

use super::Error;
use super::server::{self, Clients, Server};
use crate::credential::Credential;

/// An API: its apiservers, and what to send to them.
#[derive(Debug, Clone)]
pub struct Target {
    pub urls: Vec<Url>,
    /// How the URLs were found, for errors; empty when the user named them.
    pub found: String,
    pub credential: Option<Credential>,
    /// The certificate authorities that servers are checked against, in PEM; none: those of the system.
    pub authorities: Option<String>,
}

/// Reads the URLs of --api.
pub fn urls(texts: &[String]) -> Result<Vec<Url>, Error> {
    texts.iter().map(|text| server::parse(text)).collect()
}

impl Target {
    /// An API without a token.
    pub fn new(urls: Vec<Url>) -> Self {
        Self { urls, found: String::new(), credential: None, authorities: None }
    }

    /// The URLs and how they were found: `http://127.0.0.1:9003 (context prod)`.
    pub fn describe(&self) -> String {
        let urls: Vec<&str> = self.urls.iter().map(|url| url.as_str().trim_end_matches('/')).collect();
        let found = if self.found.is_empty() { String::new() } else { format!(" ({})", self.found) };
        format!("{}{found}", urls.join(", "))
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        Ok(self.credential.as_ref().map_or(Ok(()), |credential| credential.check(&self.urls))?)
    }

    /// Clients of its servers. Connections and requests take at most `limit`, and no server is silent for longer than `silence`.
    pub(crate) fn servers(&self, limit: Duration, silence: Option<Duration>) -> Result<Vec<Server>, Error> {
        Ok(Clients::trusting(self.authorities.as_deref(), silence)?.servers(&self.urls, limit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_says_how_it_was_found() {
        let target = Target::new(urls(&["http://a:1".to_owned(), "https://b/".to_owned()]).unwrap());
        assert_eq!(target.describe(), "http://a:1, https://b");
        assert_eq!(
            Target { found: "context prod".to_owned(), ..target }.describe(),
            "http://a:1, https://b (context prod)"
        );
    }

    #[test]
    fn a_file_without_certificates_is_refused() {
        for text in ["", "no PEM"] {
            let target = Target { authorities: Some(text.to_owned()), ..Target::new(Vec::new()) };
            assert!(matches!(target.servers(Duration::ZERO, None), Err(Error::Authorities)), "{text:?}");
        }
    }
}
