//! The HTTP client: sends requests to any of several apiservers and retries where that is safe.

mod access;
mod backup;
mod calls;
mod delivery;
mod error;
mod nodes;
mod policies;
mod retry;
mod rollouts;
mod server;
mod target;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use contract::api::Failure;
use contract::command::Refusal;
use reqwest::header::{AUTHORIZATION, RETRY_AFTER};
use reqwest::{Method, Response, StatusCode, Url};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::credential::Given;

pub use backup::Cursor as BackupCursor;
pub use calls::Config;
pub(crate) use calls::{EVENTS, LOGS};
pub use error::Error;
pub use retry::{Deadline, Retry};
pub use server::{authorities, client_trusting, url_of_socket};
pub use target::{Target, urls};

pub(crate) use server::Server;

/// Deadline of one request; the apiserver itself answers within 10 s.
const REQUEST: Duration = Duration::from_secs(15);
/// How long a read that is answered 429 is repeated; when the API asks for a longer pause the answer is final.
const PATIENCE: Duration = Duration::from_secs(30);
/// Shortest pause before such a read is sent again.
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
/// Longest attempt to connect, as `fabric::http::client` bounds it.
const CONNECT: Duration = Duration::from_secs(5);
/// Longest life of an event stream; a follower reconnects earlier.
const STREAM: Duration = Duration::from_secs(24 * 3600);

/// Header of an answer: the apiserver does not know whether the change was accepted.
const OUTCOME: &str = "deployd-outcome";
/// Header of an answer by a standby while there is no leader: it may be out of date.
const STALE: &str = "deployd-stale";

type Cause = Box<dyn std::error::Error + Send + Sync>;

/// The API of one cluster.
#[derive(Debug, Clone)]
pub struct Api {
    target: Arc<Target>,
    servers: Vec<Server>,
    deadline: Option<Deadline>,
    /// How long an attempt to connect may take.
    connect: Duration,
    contact: Arc<Contact>,
}

/// What the latest attempt showed about the connection to the API; clones of an [`Api`] share it.
#[derive(Debug, Default)]
struct Contact {
    /// An apiserver answered.
    is_answered: AtomicBool,
    /// No apiserver accepted a connection in time.
    is_silent: AtomicBool,
}

struct Reply {
    url: Url,
    /// The token that was sent.
    token: Option<Given>,
    status: StatusCode,
    /// The apiserver does not know whether the change was accepted.
    is_unknown: bool,
    /// A standby answered and may be out of date.
    is_stale: bool,
    /// `Retry-After`.
    retry_after: Option<Duration>,
    body: Vec<u8>,
}

/// The result of sending a request to the URLs one after the other until one answers.
struct Attempt {
    answer: Result<Reply, Error>,
    /// Why an apiserver may have accepted the request although no answer confirms it.
    doubt: Option<String>,
}

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
    /// A client of the API at any of `urls`, without a token.
    pub fn new(urls: &[String]) -> Result<Self, Error> {
        Self::at(Target::new(target::urls(urls)?))
    }

    /// A client of the target.
    pub fn at(target: Target) -> Result<Self, Error> {
        target.check()?;
        let servers = target.servers(REQUEST, None)?;
        Ok(Self { target: Arc::new(target), servers, deadline: None, connect: CONNECT, contact: Arc::default() })
    }

    /// Which API it uses.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// The same client for a command with a deadline: no request lasts longer, and answers of a standby are errors.
    ///
    /// An attempt to connect takes at most half of the time, so that the deadline never interrupts the first one: a change that
    /// found no connection was not sent, while an interrupted one may have been.
    pub fn until(&self, deadline: Deadline) -> Self {
        let connect = CONNECT.min(deadline.left() / 2);
        // The certificate authorities were read when the client was made, so this does not fail.
        let fresh = (connect < CONNECT).then(|| self.target.servers(connect, None).ok()).flatten();
        let servers = fresh.unwrap_or_else(|| self.servers.clone());
        Self { servers, connect, deadline: Some(deadline), ..self.clone() }
    }

    async fn get(&self, path: &str, params: &[(&'static str, &str)]) -> Result<Reply, Error> {
        let reply = self.read_patiently(&Request::new(Method::GET, path, params)).await?;
        if reply.is_stale && self.deadline.is_some() { Err(Error::Stale) } else { Ok(reply) }
    }

    /// Sends a read, and sends it again after `Retry-After` when the client has sent too much. Changes are repeated by `deliver`.
    async fn read_patiently(&self, request: &Request<'_>) -> Result<Reply, Error> {
        let patience = Deadline::after(PATIENCE);
        loop {
            let reply = self.send(request, None).await?;
            let left = self.deadline.map_or(PATIENCE, Deadline::left).min(patience.left());
            match reply.retry_after.filter(|pause| reply.status == StatusCode::TOO_MANY_REQUESTS && *pause < left) {
                Some(pause) => tokio::time::sleep(pause.max(SHORTEST_PAUSE)).await,
                None => return Ok(reply),
            }
        }
    }

    /// An event stream from the first URL that serves one; it starts after the event `last`, if given.
    pub async fn listen(
        &self,
        path: &'static str,
        params: &[(&'static str, &str)],
        last: Option<u64>,
    ) -> Result<Response, Error> {
        let request = Request::new(Method::GET, path, params);
        let mut failed = None;
        for server in &self.servers {
            let mut builder = self.prepared(server, &request, None).timeout(STREAM);
            if let Some(last) = last {
                builder = builder.header("Last-Event-ID", last);
            }
            match builder.send().await {
                Ok(response) if response.status().is_success() => return Ok(response),
                Ok(response) => {
                    let reply =
                        self.reply(&server.url, response).await.map_err(|source| self.no_answer(source.into()))?;
                    return Err(reply.refusal());
                }
                Err(source) => failed = Some(source),
            }
        }
        Err(failed.map_or_else(no_url, |source| self.no_answer(source.into())))
    }

    /// Sends a request to the URLs one after the other until one answers.
    async fn send(&self, request: &Request<'_>, key: Option<&str>) -> Result<Reply, Error> {
        self.attempt(request, key).await.answer
    }

    async fn attempt(&self, request: &Request<'_>, key: Option<&str>) -> Attempt {
        let mut last: Option<Cause> = None;
        let mut doubt = None;
        if self.is_out_of_reach() {
            let cause = format!("no connection within {} ms", self.connect.as_millis());
            return Attempt { answer: Err(self.no_answer(cause.into())), doubt };
        }
        self.contact.is_silent.store(false, Ordering::Relaxed);
        for server in &self.servers {
            match self.send_to(server, request, key).await {
                Ok(reply) => {
                    self.contact.is_answered.store(true, Ordering::Relaxed);
                    self.contact.is_silent.store(false, Ordering::Relaxed);
                    if reply.is_unknown || matches!(reply.status.as_u16(), 502 | 504) {
                        doubt = Some(reply.message());
                    }
                    return Attempt { answer: Ok(reply), doubt };
                }
                Err(source) => {
                    // Without a connection nothing was sent.
                    if !source.is_connect() {
                        doubt = Some(format!("{} did not answer", server.url));
                    }
                    self.note_failure(&source);
                    last = Some(source.into());
                }
            }
        }
        Attempt { answer: Err(last.map_or_else(no_url, |source| self.no_answer(source))), doubt }
    }

    /// Whether the latest attempt found no connection and too little time is left for another one. An attempt that the deadline
    /// interrupts looks like a request that was sent.
    fn is_out_of_reach(&self) -> bool {
        let has_no_time = self.deadline.is_some_and(|deadline| deadline.left() < self.connect);
        has_no_time && self.contact.is_silent.load(Ordering::Relaxed)
    }

    /// Records why there was no answer. An attempt that the deadline interrupted proves nothing.
    fn note_failure(&self, source: &reqwest::Error) {
        if !self.deadline.is_some_and(Deadline::is_over) {
            self.contact.is_answered.store(false, Ordering::Relaxed);
        }
        if source.is_connect() && source.is_timeout() {
            self.contact.is_silent.store(true, Ordering::Relaxed);
        }
    }

    /// The error after an attempt without an answer: the deadline if the API answered before, else an unreachable API.
    fn no_answer(&self, source: Cause) -> Error {
        let urls = self.target.describe();
        if let Some(problem) = fabric::tls::problem(&*source) {
            return Error::Untrusted { urls, problem };
        }
        let is_answered = self.contact.is_answered.load(Ordering::Relaxed);
        match self.deadline.filter(|deadline| deadline.is_over() && is_answered) {
            Some(deadline) => {
                deadline.missed(&format!("{urls} answered before, and the deadline interrupted the last request"))
            }
            None => Error::Unreachable { urls, source },
        }
    }

    async fn send_to(
        &self,
        server: &Server,
        request: &Request<'_>,
        key: Option<&str>,
    ) -> Result<Reply, reqwest::Error> {
        let reply = self.reply(&server.url, self.prepared(server, request, key).send().await?).await?;
        Ok(calls::with_guard_status(request, reply))
    }

    async fn reply(&self, url: &Url, response: Response) -> Result<Reply, reqwest::Error> {
        let token = self.target.credential.as_ref().filter(|credential| credential.header(url).is_some());
        Reply::of(url, response, token.map(|credential| credential.given.clone())).await
    }

    fn prepared(&self, server: &Server, request: &Request<'_>, key: Option<&str>) -> reqwest::RequestBuilder {
        let base = &server.base;
        let mut url = base.clone();
        url.set_path(&format!("{}{}", base.path().trim_end_matches('/'), request.path));
        if !request.params.is_empty() {
            url.query_pairs_mut().extend_pairs(request.params);
        }
        let mut builder = server.client.request(request.method.clone(), url);
        if let Some(token) = self.target.credential.as_ref().and_then(|credential| credential.header(&server.url)) {
            builder = builder.header(AUTHORIZATION, token);
        }
        if let Some(deadline) = self.deadline {
            builder = builder.timeout(REQUEST.min(deadline.left()));
        }
        if let Some(key) = key {
            builder = builder.header("Idempotency-Key", key);
            builder = user().into_iter().fold(builder, |builder, user| builder.header("X-Deployd-User", user));
        }
        match &request.body {
            Some(body) => builder.json(body),
            None => builder,
        }
    }
}

/// The user's name, which events and revisions show.
fn user() -> Option<String> {
    let user = std::env::var("USER").or_else(|_| std::env::var("LOGNAME")).ok().filter(|user| !user.is_empty());
    user.or_else(name_of_uid)
        .filter(|user| (1..=128).contains(&user.len()) && user.chars().all(|letter| letter.is_ascii_graphic()))
}

/// The name of the user that runs this process. cron, CI and `sudo -i` may set no USER.
fn name_of_uid() -> Option<String> {
    let uid = rustix::process::geteuid().as_raw();
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    Some(user_of(&users, uid).unwrap_or_else(|| format!("uid-{uid}")))
}

/// The name of a uid in the text of /etc/passwd.
fn user_of(users: &str, uid: u32) -> Option<String> {
    let found = users.lines().find(|line| line.split(':').nth(2) == Some(uid.to_string().as_str()))?;
    found.split(':').next().map(str::to_owned)
}

fn no_url() -> Error {
    Error::Url { url: String::new(), reason: "no URL given".to_owned() }
}

impl Reply {
    async fn of(base: &Url, response: Response, token: Option<Given>) -> Result<Self, reqwest::Error> {
        let status = response.status();
        let headers = response.headers();
        let is_unknown = headers.get(OUTCOME).is_some_and(|outcome| outcome == "unknown");
        let is_stale = headers.get(STALE).is_some_and(|stale| stale == "true");
        let seconds = headers.get(RETRY_AFTER).and_then(|after| after.to_str().ok()?.trim().parse().ok());
        let retry_after = seconds.map(Duration::from_secs);
        let body = response.bytes().await?.to_vec();
        Ok(Self { url: base.clone(), token, status, is_unknown, is_stale, retry_after, body })
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
        let message = self.message();
        let url = || self.url.as_str().trim_end_matches('/').to_owned();
        let message = match (self.status, &self.token) {
            (StatusCode::NOT_FOUND, _) => return Error::NotFound(message),
            (StatusCode::UNAUTHORIZED, None) => return Error::NotLoggedIn { url: url(), message },
            (StatusCode::UNAUTHORIZED, Some(given)) => {
                return Error::TokenRefused { url: url(), token: given.to_string(), message };
            }
            (StatusCode::FORBIDDEN, _) if message == Refusal::ReadOnly.to_string() => {
                format!("{message} `deployctl engine config --readonly false --maintenance false` allows changes")
            }
            (StatusCode::FORBIDDEN, _) => return Error::Denied { message },
            _ => message,
        };
        Error::Refused { status: self.status.as_u16(), message, retry_after: self.retry_after }
    }
}

#[cfg(test)]
pub(crate) mod tests;
