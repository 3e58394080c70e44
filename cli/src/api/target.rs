//! Which API a client uses, and how it proves who it is.

use std::time::Duration;

use reqwest::{Certificate, Client, Url};

use super::Error;
use crate::credential::{Credential, is_loopback};

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
    let parse = |text: &String| match Url::parse(text.trim()) {
        Ok(url) if matches!(url.scheme(), "http" | "https") => Ok(url),
        Ok(_) => Err(Error::Url { url: text.clone(), reason: "it must begin with http:// or https://".to_owned() }),
        Err(error) => Err(Error::Url { url: text.clone(), reason: error.to_string() }),
    };
    texts.iter().map(parse).collect()
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
        if let Some(credential) = &self.credential {
            credential.check(&self.urls)?;
        }
        self.certificates().map(drop)
    }

    /// An HTTP client that checks servers as the target says. Only the process at a loopback address gets what is sent to it,
    /// whatever proxy the environment names.
    pub fn client(&self, timeout: Duration) -> Client {
        self.client_with(timeout, |builder| builder)
    }

    /// As [`Target::client`], with further settings.
    pub(crate) fn client_with(
        &self,
        timeout: Duration,
        configure: impl Fn(reqwest::ClientBuilder) -> reqwest::ClientBuilder,
    ) -> Client {
        // They were read before; see `check`.
        let certificates = self.certificates().unwrap_or_default();
        let is_local = self.urls.iter().all(is_loopback);
        fabric::http::client_with(timeout, |builder| {
            let builder = if is_local { builder.no_proxy() } else { builder };
            let builder = configure(builder);
            if certificates.is_empty() { builder } else { builder.tls_certs_only(certificates.clone()) }
        })
    }

    fn certificates(&self) -> Result<Vec<Certificate>, Error> {
        let Some(text) = &self.authorities else { return Ok(Vec::new()) };
        fabric::http::install_crypto();
        match Certificate::from_pem_bundle(text.as_bytes()) {
            Ok(certificates) if !certificates.is_empty() => Ok(certificates),
            Ok(_) | Err(_) => Err(Error::Authorities),
        }
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
            assert!(matches!(target.check(), Err(Error::Authorities)), "{text:?}");
        }
    }
}
