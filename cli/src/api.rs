//! How `deployctl` speaks to an apiserver: any of several, with patience where another try makes sense.
//!
//! A change carries an `Idempotency-Key`, so trying it again after a lost answer cannot do it twice. The surprise:
//! after "another operation is progressing" the key must be new, because the cluster remembers that refusal.

mod backup;
mod calls;
mod nodes;
mod patience;
mod releases;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use contract::api::{Accepted, Failure, OperationStatus};
use reqwest::{Client, Method, Response, StatusCode, Url};
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use backup::Place as BackupPlace;
pub use calls::Config;
pub(crate) use calls::EVENTS;
pub use patience::Patience;

/// Deadline of one request; the apiserver itself answers within 10 s.
const REQUEST: Duration = Duration::from_secs(15);
/// Longest life of an answer that goes on and on; who listens begins anew before that.
const STREAM: Duration = Duration::from_secs(24 * 3600);

/// Why the API did not do something.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A URL that is none.
    #[error("--api {url:?} is not a URL such as http://127.0.0.1:9003: {reason}")]
    Url {
        /// The text.
        url: String,
        /// Why.
        reason: String,
    },
    /// No apiserver answers.
    #[error(
        "no apiserver answers at {urls}; start a local cluster with `deployctl up`, or name the right one with --api"
    )]
    Unreachable {
        /// Where we tried.
        urls: String,
        /// Of the last try.
        #[source]
        source: reqwest::Error,
    },
    /// No such thing.
    #[error("{0}")]
    NotFound(String),
    /// The API said no.
    #[error("the API refused ({status}): {message}")]
    Refused {
        /// HTTP status.
        status: u16,
        /// Its reason.
        message: String,
    },
    /// The answer is not what the API promises.
    #[error("the answer of {url} cannot be read; is it an apiserver of this version?")]
    Malformed {
        /// Who answered.
        url: String,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// It took too long.
    #[error("gave up after {} s: {waiting_for}", after.as_secs())]
    Deadline {
        /// How long we tried.
        after: Duration,
        /// What did not come.
        waiting_for: String,
    },
}

impl Error {
    /// No group has this name.
    pub fn no_group(name: &str) -> Self {
        Self::NotFound(format!("no PodGroup is called {name:?}; `deployctl get podgroup` lists them"))
    }
}

/// The API of one cluster.
#[derive(Debug, Clone)]
pub struct Api {
    urls: Vec<Url>,
    client: Client,
}

/// One answer.
struct Reply {
    url: Url,
    status: StatusCode,
    body: Vec<u8>,
}

/// One request.
#[derive(Debug, Clone)]
struct Request<'a> {
    method: Method,
    path: &'a str,
    params: &'a [(&'static str, &'a str)],
    body: Option<Value>,
}

impl<'a> Request<'a> {
    fn new(method: Method, path: &'a str, params: &'a [(&'static str, &'a str)]) -> Self {
        Self { method, path, params, body: None }
    }
    fn with(self, body: &impl serde::Serialize) -> Self {
        Self { body: Some(serde_json::to_value(body).expect("bodies of the API have string keys only")), ..self }
    }
}

impl Api {
    /// An API that is served at any of `urls`.
    pub fn new(urls: &[String]) -> Result<Self, Error> {
        let parse = |text: &String| match Url::parse(text.trim()) {
            Ok(url) if matches!(url.scheme(), "http" | "https") => Ok(url),
            Ok(_) => Err(Error::Url { url: text.clone(), reason: "it must begin with http:// or https://".to_owned() }),
            Err(error) => Err(Error::Url { url: text.clone(), reason: error.to_string() }),
        };
        let urls = urls.iter().map(parse).collect::<Result<Vec<Url>, Error>>()?;
        Ok(Self { urls, client: fabric::http::client(REQUEST) })
    }

    /// Makes a change and waits until a leader has decided it.
    async fn change(&self, request: Request<'_>, patience: &mut Patience) -> Result<(), Error> {
        let accepted = self.deliver(request, patience).await?.read()?;
        self.until_decided(accepted, patience).await
    }

    /// Has a change taken, trying again where that makes sense.
    async fn deliver(&self, request: Request<'_>, patience: &mut Patience) -> Result<Reply, Error> {
        let mut key = fresh_key();
        loop {
            let reply = match self.send(&request, Some(&key)).await {
                Err(error @ Error::Unreachable { .. }) if patience.is_over() => return Err(error),
                Err(Error::Unreachable { .. }) => {
                    patience.pause("no apiserver answers").await?;
                    continue;
                }
                other => other?,
            };
            match verdict(reply.status, &reply.message()) {
                Verdict::Done => return Ok(reply),
                Verdict::Busy(why) => {
                    key = fresh_key();
                    patience.pause(&why).await?;
                }
                Verdict::Unavailable(why) => patience.pause(&why).await?,
                Verdict::Final => return Err(reply.refusal()),
            }
        }
    }

    /// A queued change is durable but undecided: no leader has read it yet.
    async fn until_decided(&self, accepted: Accepted, patience: &mut Patience) -> Result<(), Error> {
        if !accepted.queued || accepted.operation.is_empty() {
            return Ok(());
        }
        loop {
            patience.pause("the change is queued, no scheduler has decided it yet").await?;
            let reply = self.get("/api/operations", &[("id", &accepted.operation)]).await?;
            if !reply.status.is_success() {
                continue;
            }
            let operation: OperationStatus = reply.read()?;
            if operation.state == "accepted" {
                return Ok(());
            }
            return Err(Error::Refused { status: 409, message: operation.message });
        }
    }

    async fn get(&self, path: &str, params: &[(&'static str, &str)]) -> Result<Reply, Error> {
        self.send(&Request::new(Method::GET, path, params), None).await
    }

    /// An answer that goes on and on, from the first URL that gives one; it begins after the event `last`, if given.
    pub async fn listen(
        &self,
        path: &'static str,
        params: &[(&'static str, &str)],
        last: Option<u64>,
    ) -> Result<Response, Error> {
        let request = Request::new(Method::GET, path, params);
        let mut failed = None;
        for base in &self.urls {
            let mut builder = self.prepared(base, &request, None).timeout(STREAM);
            if let Some(last) = last {
                builder = builder.header("Last-Event-ID", last);
            }
            match builder.send().await {
                Ok(response) if response.status().is_success() => return Ok(response),
                Ok(response) => {
                    let reply = Reply::of(base, response).await.map_err(|source| self.away(source))?;
                    return Err(reply.refusal());
                }
                Err(source) => failed = Some(source),
            }
        }
        Err(failed.map_or_else(no_url, |source| self.away(source)))
    }

    /// Asks the URLs in turn until one answers at all.
    async fn send(&self, request: &Request<'_>, key: Option<&str>) -> Result<Reply, Error> {
        let mut last = None;
        for base in &self.urls {
            match self.send_to(base, request, key).await {
                Ok(reply) => return Ok(reply),
                Err(source) => last = Some(source),
            }
        }
        Err(last.map_or_else(no_url, |source| self.away(source)))
    }

    fn away(&self, source: reqwest::Error) -> Error {
        let urls = self.urls.iter().map(|url| url.as_str().trim_end_matches('/')).collect::<Vec<_>>().join(", ");
        Error::Unreachable { urls, source }
    }

    async fn send_to(&self, base: &Url, request: &Request<'_>, key: Option<&str>) -> Result<Reply, reqwest::Error> {
        Reply::of(base, self.prepared(base, request, key).send().await?).await
    }

    fn prepared(&self, base: &Url, request: &Request<'_>, key: Option<&str>) -> reqwest::RequestBuilder {
        let mut url = base.clone();
        url.set_path(&format!("{}{}", base.path().trim_end_matches('/'), request.path));
        if !request.params.is_empty() {
            url.query_pairs_mut().extend_pairs(request.params);
        }
        let mut builder = self.client.request(request.method.clone(), url);
        if let Some(key) = key {
            builder = builder.header("Idempotency-Key", key);
            builder = who().into_iter().fold(builder, |builder, who| builder.header("X-Deployd-User", who));
        }
        match &request.body {
            Some(body) => builder.json(body),
            None => builder,
        }
    }
}

/// Who asks, as far as the system knows: shown beside events and revisions.
fn who() -> Option<String> {
    let user = std::env::var("USER").or_else(|_| std::env::var("LOGNAME")).ok()?;
    Some(user).filter(|user| (1..=128).contains(&user.len()) && user.chars().all(|letter| letter.is_ascii_graphic()))
}

fn no_url() -> Error {
    Error::Url { url: String::new(), reason: "no URL was given".to_owned() }
}

impl Reply {
    async fn of(base: &Url, response: Response) -> Result<Self, reqwest::Error> {
        let status = response.status();
        Ok(Self { url: base.clone(), status, body: response.bytes().await?.to_vec() })
    }

    fn read<T: DeserializeOwned>(self) -> Result<T, Error> {
        if !self.status.is_success() {
            return Err(self.refusal());
        }
        serde_json::from_slice(&self.body).map_err(|source| Error::Malformed { url: self.url.to_string(), source })
    }

    fn message(&self) -> String {
        match serde_json::from_slice::<Failure>(&self.body) {
            Ok(failure) if !failure.message.is_empty() => failure.message,
            Ok(_) | Err(_) => String::from_utf8_lossy(&self.body).trim().to_owned(),
        }
    }

    fn refusal(&self) -> Error {
        match self.status {
            StatusCode::NOT_FOUND => Error::NotFound(self.message()),
            StatusCode::FORBIDDEN => Error::Refused {
                status: self.status.as_u16(),
                message: format!(
                    "{} `deployctl engine config --readonly false --maintenance false` opens it",
                    self.message()
                ),
            },
            status => Error::Refused { status: status.as_u16(), message: self.message() },
        }
    }
}

/// What an answer to a change means.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// Taken.
    Done,
    /// Refused for now, and remembered so: another try needs another key.
    Busy(String),
    /// Not decided: another try with the same key is the same change.
    Unavailable(String),
    /// Refused for good.
    Final,
}

fn verdict(status: StatusCode, message: &str) -> Verdict {
    match status.as_u16() {
        200..300 => Verdict::Done,
        423 => Verdict::Busy(message.to_owned()),
        // deployd's own answer while a group of the same name is still going away.
        500 if message.contains("is removing") => Verdict::Busy(message.to_owned()),
        502..=504 => Verdict::Unavailable(message.to_owned()),
        _ => Verdict::Final,
    }
}

/// A key nobody else uses: the time to the nanosecond and the process.
fn fresh_key() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("deployctl-{:x}-{:x}", now.as_nanos(), std::process::id())
}

#[cfg(test)]
pub(crate) mod tests;
