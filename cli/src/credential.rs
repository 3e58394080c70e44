//! The token that `deployctl` sends, and to which servers.
//!
//! A token that the user names (`--token-file`, `DEPLOYD_TOKEN`) goes to the API that the command uses. A token of a context goes
//! only to the origins that it was stored for: scheme, host and port. No token goes in clear text over a network.

use std::fmt;
use std::path::{Path, PathBuf};

use contract::access::token::Token;
use reqwest::Url;
use reqwest::header::HeaderValue;

use crate::private_file;

/// The variable with a token.
pub const TOKEN: &str = "DEPLOYD_TOKEN";

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    File(#[from] private_file::Error),
    #[error("there is no file {0}; --token-file and DEPLOYD_TOKEN_FILE name a file with a token")]
    NoFile(PathBuf),
    #[error("{0} holds no token; a token begins with ddt_, and `deployctl token create` makes one")]
    NoToken(Given),
    #[error(
        "a token would go to {url} in clear text, where others can read it; use https://, or a tunnel to 127.0.0.1"
    )]
    ClearText { url: String },
}

/// Where a token comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Given {
    File(PathBuf),
    Variable,
    Input,
    Context(String),
}

impl fmt::Display for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Variable => f.write_str(TOKEN),
            Self::Input => f.write_str("the input"),
            Self::Context(name) => write!(f, "the context {name}"),
        }
    }
}

/// A token with its origin and its destinations.
#[derive(Debug, Clone)]
pub struct Credential {
    pub token: Token,
    pub given: Given,
    /// Only these servers get it; none: every server that the command uses.
    only: Option<Vec<Url>>,
}

impl Credential {
    /// The token that the user names for this command: that of the file, else that of `DEPLOYD_TOKEN`.
    pub fn named(file: Option<&Path>) -> Result<Option<Self>, Error> {
        let (given, text) = match (file, std::env::var(TOKEN)) {
            (Some(path), _) => {
                let text = private_file::read(path)?.ok_or_else(|| Error::NoFile(path.to_owned()))?;
                (Given::File(path.to_owned()), text)
            }
            (None, Ok(text)) if !text.trim().is_empty() => (Given::Variable, text),
            (None, Ok(_) | Err(_)) => return Ok(None),
        };
        Self::parse(given, &text).map(Some)
    }

    /// Reads a token; the error does not show the text.
    pub fn parse(given: Given, text: &str) -> Result<Self, Error> {
        match Token::parse(text.trim()) {
            Some(token) => Ok(Self { token, given, only: None }),
            None => Err(Error::NoToken(given)),
        }
    }

    /// The token of a context.
    pub fn of_context(name: &str, token: Token, urls: &[Url]) -> Self {
        Self { token, given: Given::Context(name.to_owned()), only: Some(urls.to_vec()) }
    }

    /// Whether the server may get the token.
    pub fn is_for(&self, url: &Url) -> bool {
        self.only.as_ref().is_none_or(|only| only.iter().any(|other| is_same_origin(other, url)))
    }

    /// Refuses servers that would get the token in clear text over a network.
    pub fn check(&self, urls: &[Url]) -> Result<(), Error> {
        match urls.iter().find(|url| self.is_for(url) && !is_private(url)) {
            Some(url) => Err(Error::ClearText { url: url.as_str().trim_end_matches('/').to_owned() }),
            None => Ok(()),
        }
    }

    /// The value of `Authorization` for a request to the server; none when it must not get the token.
    pub fn header(&self, url: &Url) -> Option<HeaderValue> {
        if !self.is_for(url) || !is_private(url) {
            return None;
        }
        let mut value = HeaderValue::try_from(format!("Bearer {}", self.token.reveal())).ok()?;
        value.set_sensitive(true);
        Some(value)
    }
}

/// Whether both have scheme, host and port in common, or are the same socket.
pub fn is_same_origin(left: &Url, right: &Url) -> bool {
    let of = |url: &Url| (url.scheme().to_owned(), url.host_str().map(str::to_owned), url.port_or_known_default());
    of(left) == of(right) && (left.scheme() != "unix" || left.path() == right.path())
}

/// Whether others cannot read what is sent there.
fn is_private(url: &Url) -> bool {
    url.scheme() != "http" || is_loopback(url)
}

/// Whether the URL leads to this machine.
pub fn is_loopback(url: &Url) -> bool {
    is_loopback_host(url.host_str().unwrap_or_default())
}

/// Whether the host of a URL, in lower case, is this machine.
pub fn is_loopback_host(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token() -> Token {
        Token::from_random(&[7; 40])
    }

    fn url(text: &str) -> Url {
        text.parse().unwrap()
    }

    #[test]
    fn the_token_of_a_context_goes_only_to_its_origin() {
        let credential = Credential::of_context("prod", token(), &[url("https://api.example:9003/base")]);
        assert!(credential.header(&url("https://api.example:9003/other")).is_some());
        for other in [
            "https://api.example:9004",
            "https://api.example",
            "https://api.example.evil.test:9003",
            "http://api.example:9003",
            "https://user@evil.test:9003",
        ] {
            assert_eq!(credential.header(&url(other)), None, "{other}");
        }
    }

    #[test]
    fn the_token_for_one_socket_does_not_go_to_another() {
        let credential = Credential::of_context("local-1", token(), &[url("unix:///run/a/api.sock")]);
        assert!(credential.header(&url("unix:///run/a/api.sock")).is_some());
        for other in ["unix:///run/b/api.sock", "http://localhost/run/a/api.sock"] {
            assert_eq!(credential.header(&url(other)), None, "{other}");
        }
    }

    #[test]
    fn a_token_does_not_go_over_a_network_in_clear_text() {
        let credential = Credential::parse(Given::Variable, &token().reveal()).unwrap();
        for open in ["http://10.0.0.1:9003", "http://api.example", "http://localhost.evil.test", "http://[2001:db8::1]"]
        {
            assert_eq!(credential.header(&url(open)), None, "{open}");
            assert!(matches!(credential.check(&[url(open)]), Err(Error::ClearText { .. })), "{open}");
        }
        for private in ["http://127.0.0.1:9003", "http://localhost", "http://[::1]:9003", "https://10.0.0.1:9003"] {
            let header = credential.header(&url(private)).unwrap();
            assert!(header.is_sensitive() && credential.check(&[url(private)]).is_ok(), "{private}");
        }
    }

    #[test]
    fn an_error_does_not_show_what_was_read() {
        let error = Credential::parse(Given::Variable, "ddt_almost_a_token").unwrap_err().to_string();
        assert!(error.contains(TOKEN) && !error.contains("almost"), "{error}");
        let shown = format!("{:?}", Credential::parse(Given::Variable, &format!(" {}\n", token().reveal())).unwrap());
        assert!(!shown.contains("0707070707070707070707"), "{shown}");
    }
}
