//! How `deployctl` speaks to an apiserver: any of several, with patience where another try makes sense.
//!
//! A change carries an `Idempotency-Key`, so trying it again after a lost answer cannot do it twice. After "another operation
//! is progressing" the key must be new, because the cluster remembers that refusal. Once the outcome of an attempt is unknown,
//! it stays unknown until `/api/operations` says what became of the key: a later attempt that was not accepted says nothing
//! about an earlier one.

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
pub use patience::{Deadline, Patience};

/// Deadline of one request; the apiserver itself answers within 10 s.
const REQUEST: Duration = Duration::from_secs(15);
/// Longest life of an answer that goes on and on; who listens begins anew before that.
const STREAM: Duration = Duration::from_secs(24 * 3600);

/// Header of an answer that does not know whether the change was accepted.
const OUTCOME: &str = "deployd-outcome";
/// State of an operation that a leader accepted.
const ACCEPTED: &str = "accepted";
/// Why the outcome of a queued change is unknown.
const UNDECIDED: &str = "the change is stored, no scheduler has decided it yet";

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
    /// A change was sent, and whether it was accepted is not known.
    #[error(
        "the outcome of the change is unknown, and it may still be made: {reason}; GET /api/operations?id={operation} answers \
         what became of it, look before you send it again"
    )]
    Unknown {
        /// Id of the operation, which is the idempotency key of all attempts.
        operation: String,
        /// Why the outcome is unknown.
        reason: String,
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
    deadline: Option<Deadline>,
}

/// One answer.
struct Reply {
    url: Url,
    status: StatusCode,
    /// The apiserver does not know whether the change was accepted.
    is_unknown: bool,
    body: Vec<u8>,
}

/// A request that was sent to the URLs in turn until one answered.
struct Attempt {
    answer: Result<Reply, Error>,
    /// Why an apiserver may have accepted the request without an answer that says so.
    doubt: Option<String>,
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
        Ok(Self { urls, client: fabric::http::client(REQUEST), deadline: None })
    }

    /// The same API for a command with a deadline: no request lasts longer.
    pub fn until(&self, deadline: Deadline) -> Self {
        Self { deadline: Some(deadline), ..self.clone() }
    }

    /// Makes a change and waits until a leader has decided it.
    async fn change(&self, request: Request<'_>, patience: &mut Patience) -> Result<(), Error> {
        let accepted = self.deliver(request, patience).await?.read()?;
        self.until_decided(accepted, patience).await
    }

    /// Sends a change until the API accepts or refuses it, with one key for all attempts.
    async fn deliver(&self, request: Request<'_>, patience: &mut Patience) -> Result<Reply, Error> {
        let mut key = fresh_key();
        let mut doubt: Option<String> = None;
        loop {
            let attempt = self.attempt(&request, Some(&key)).await;
            if request.method != Method::GET {
                doubt = doubt.or(attempt.doubt);
            }
            let (verdict, refusal) = match attempt.answer {
                Ok(reply) => match verdict(reply.status, &reply.message()) {
                    Verdict::Done => return Ok(reply),
                    verdict => (verdict, reply.refusal()),
                },
                Err(error @ (Error::Unreachable { .. } | Error::Deadline { .. })) => {
                    (Verdict::Unavailable(error.to_string()), error)
                }
                Err(error) => return Err(error),
            };
            if let Some(reason) = &doubt {
                match self.decided(&key).await {
                    Some(operation) if operation.state == ACCEPTED => return Ok(self.accepted(&key)),
                    Some(operation) if matches!(verdict, Verdict::Unavailable(_)) => {
                        return Err(Error::Refused { status: 409, message: operation.message });
                    }
                    // Refused, and the answer says the same.
                    Some(_) => doubt = None,
                    None => {
                        let unknown = |_| Error::Unknown { operation: key.clone(), reason: reason.clone() };
                        patience.pause(reason).await.map_err(unknown)?;
                        continue;
                    }
                }
            }
            match verdict {
                Verdict::Busy(why) => {
                    key = fresh_key();
                    patience.pause(&why).await?;
                }
                Verdict::Unavailable(why) => patience.pause(&why).await?,
                Verdict::Done | Verdict::Final => return Err(refusal),
            }
        }
    }

    /// A queued change is durable but undecided: no leader has read it yet.
    async fn until_decided(&self, accepted: Accepted, patience: &mut Patience) -> Result<(), Error> {
        if !accepted.queued || accepted.operation.is_empty() {
            return Ok(());
        }
        loop {
            let operation = accepted.operation.clone();
            let unknown = |_| Error::Unknown { operation, reason: UNDECIDED.to_owned() };
            patience.pause(UNDECIDED).await.map_err(unknown)?;
            match self.decided(&accepted.operation).await {
                Some(operation) if operation.state == ACCEPTED => return Ok(()),
                Some(operation) => return Err(Error::Refused { status: 409, message: operation.message }),
                None => {}
            }
        }
    }

    /// What became of an operation; none while it is undecided, or while the API does not answer.
    async fn decided(&self, id: &str) -> Option<OperationStatus> {
        let reply = self.get("/api/operations", &[("id", id)]).await.ok()?;
        reply.read().ok()
    }

    /// The answer to a change that `/api/operations` calls accepted.
    fn accepted(&self, key: &str) -> Reply {
        let accepted = Accepted { operation: key.to_owned(), ..Accepted::default() };
        let body = serde_json::to_vec(&accepted).expect("bodies of the API have string keys only");
        Reply { url: self.urls[0].clone(), status: StatusCode::ACCEPTED, is_unknown: false, body }
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

    /// Sends a request to the URLs in turn until one answers.
    async fn send(&self, request: &Request<'_>, key: Option<&str>) -> Result<Reply, Error> {
        self.attempt(request, key).await.answer
    }

    async fn attempt(&self, request: &Request<'_>, key: Option<&str>) -> Attempt {
        let mut last = None;
        let mut doubt = None;
        for base in &self.urls {
            match self.send_to(base, request, key).await {
                Ok(reply) => {
                    if reply.is_unknown || matches!(reply.status.as_u16(), 502 | 504) {
                        doubt = Some(reply.message());
                    }
                    return Attempt { answer: Ok(reply), doubt };
                }
                Err(source) => {
                    // Without a connection nothing was sent.
                    if !source.is_connect() {
                        doubt = Some(format!("{base} did not answer"));
                    }
                    last = Some(source);
                }
            }
        }
        Attempt { answer: Err(last.map_or_else(no_url, |source| self.away(source))), doubt }
    }

    fn away(&self, source: reqwest::Error) -> Error {
        let urls = self.urls.iter().map(|url| url.as_str().trim_end_matches('/')).collect::<Vec<_>>().join(", ");
        match self.deadline.filter(|deadline| deadline.is_over()) {
            Some(deadline) => deadline.missed(&format!("no answer from {urls}")),
            None => Error::Unreachable { urls, source },
        }
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
        if let Some(deadline) = self.deadline {
            builder = builder.timeout(REQUEST.min(deadline.left()));
        }
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
        let is_unknown = response.headers().get(OUTCOME).is_some_and(|outcome| outcome == "unknown");
        Ok(Self { url: base.clone(), status, is_unknown, body: response.bytes().await?.to_vec() })
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
    /// Accepted.
    Done,
    /// Refused for now, and remembered so: another try needs another key.
    Busy(String),
    /// Not decided: another try with the same key is the same change.
    Unavailable(String),
    /// Refused; another attempt would be refused too.
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
