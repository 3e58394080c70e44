//! Posts one notice to one URL, once.

use std::time::Duration;

use contract::notice::Notice;
use reqwest::header::CONTENT_TYPE;
use reqwest::{Client, Response};
use url::Url;

/// Bytes of an error response kept in the reason.
const LONGEST_REASON: usize = 256;

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Attempt {
    Delivered,
    /// To be retried.
    Failed(String),
    /// Retrying cannot help, for example the URL is invalid.
    Permanent(String),
    /// Not attempted: the callback is no longer registered.
    Unregistered,
}

/// Posts notices; clones share the connections.
#[derive(Debug, Clone)]
pub struct Poster {
    client: Client,
}

impl Poster {
    /// Each attempt has `timeout`. The client does not follow redirects.
    pub fn new(timeout: Duration) -> Self {
        Self { client: fabric::http::client(timeout) }
    }

    /// Makes one attempt.
    pub async fn post(&self, notice: &Notice) -> Attempt {
        let url = match target(&notice.callback) {
            Ok(url) => url,
            Err(reason) => return Attempt::Permanent(reason),
        };
        let body = match serde_json::to_vec(&notice.body) {
            Ok(body) => body,
            Err(error) => return Attempt::Permanent(format!("cannot be encoded: {error}")),
        };
        let request = self.client.post(url).header(CONTENT_TYPE, "application/json").body(body);
        match request.send().await {
            Ok(response) if response.status().as_u16() < 300 => Attempt::Delivered,
            Ok(response) => Attempt::Failed(refusal(response).await),
            Err(error) => Attempt::Failed(chain(&error)),
        }
    }
}

fn target(callback: &str) -> Result<Url, String> {
    let url = Url::parse(callback).map_err(|error| format!("{callback:?} is no URL: {error}"))?;
    match url.scheme() {
        "http" | "https" => Ok(url),
        other => Err(format!("{other}: is neither http nor https")),
    }
}

/// Status and start of the body; the rest is not read.
async fn refusal(mut response: Response) -> String {
    let status = response.status();
    match response.chunk().await {
        Ok(Some(chunk)) => {
            let kept = &chunk[..chunk.len().min(LONGEST_REASON)];
            format!("{status}: {}", String::from_utf8_lossy(kept).escape_debug())
        }
        Ok(None) | Err(_) => status.to_string(),
    }
}

/// An error with its causes; reqwest puts the useful one last.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_http_and_https_urls_are_accepted() {
        assert!(target("http://a/b").is_ok());
        assert!(target("https://a/b").is_ok());
        for bad in ["", "/x", "ftp://a", "file:///etc/passwd", "unix:/run/docker.sock"] {
            assert!(target(bad).is_err(), "{bad}");
        }
    }
}
