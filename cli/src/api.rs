//! How `deployctl` speaks to an apiserver: any of several, with patience where another try makes sense.
//!
//! A change carries an `Idempotency-Key`, so trying it again after a lost answer cannot do it twice. The surprise:
//! after "another operation is progressing" the key must be new, because the cluster remembers that refusal.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use contract::api::{
    Accepted, ClusterStatus, Failure, Node, OperationStatus, PodGroupLine, PodGroupList, PodGroupWithSpec,
};
use contract::spec::PodGroupSpec;
use reqwest::{Client, Method, StatusCode, Url};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep};

/// Deadline of one request; the apiserver itself answers within 10 s.
const REQUEST: Duration = Duration::from_secs(15);
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(300);

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
    path: &'static str,
    params: &'a [(&'static str, &'a str)],
    body: Option<&'a PodGroupSpec>,
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

    /// One group; none when there is no such group.
    pub async fn group(&self, name: &str) -> Result<Option<PodGroupWithSpec>, Error> {
        let reply = self.get("/api/podgroups", &[("name", name)]).await?;
        if reply.status == StatusCode::NOT_FOUND { Ok(None) } else { reply.read().map(Some) }
    }

    /// All groups in name order.
    pub async fn groups(&self) -> Result<Vec<PodGroupLine>, Error> {
        let mut lines = Vec::new();
        let mut after = String::new();
        loop {
            let reply = self.get("/api/podgroups", &[("all", "true"), ("after", &after)]).await?;
            let page: PodGroupList = reply.read()?;
            let progress = !page.pod_groups.is_empty() && page.next > after;
            lines.extend(page.pod_groups);
            if page.next.is_empty() || !progress {
                return Ok(lines);
            }
            after = page.next;
        }
    }

    /// The nodes.
    pub async fn nodes(&self) -> Result<Vec<Node>, Error> {
        self.get("/api/nodes", &[]).await?.read()
    }

    /// Who leads, and how much there is.
    pub async fn cluster(&self) -> Result<ClusterStatus, Error> {
        self.get("/api/cluster", &[]).await?.read()
    }

    /// Creates a group.
    pub async fn create(&self, spec: &PodGroupSpec, patience: &mut Patience) -> Result<(), Error> {
        let request = Request { method: Method::POST, path: "/api/podgroups", params: &[], body: Some(spec) };
        self.change(request, patience).await
    }

    /// Changes a group's number of instances.
    pub async fn scale(&self, name: &str, instances: u32, patience: &mut Patience) -> Result<(), Error> {
        let number = instances.to_string();
        let params = [("name", name), ("cmd", "replica"), ("num_instances", number.as_str())];
        let request = Request { method: Method::PATCH, path: "/api/podgroups", params: &params, body: None };
        self.change(request, patience).await.map_err(|error| named(error, name))
    }

    /// Deletes a group.
    pub async fn delete(&self, name: &str, patience: &mut Patience) -> Result<(), Error> {
        let params = [("name", name)];
        let request = Request { method: Method::DELETE, path: "/api/podgroups", params: &params, body: None };
        self.change(request, patience).await.map_err(|error| named(error, name))
    }

    /// Makes a change and waits until a leader has decided it, trying again where that makes sense.
    async fn change(&self, request: Request<'_>, patience: &mut Patience) -> Result<(), Error> {
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
                Verdict::Done => return self.until_decided(reply.read()?, patience).await,
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

    async fn get(&self, path: &'static str, params: &[(&'static str, &str)]) -> Result<Reply, Error> {
        self.send(&Request { method: Method::GET, path, params, body: None }, None).await
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
        let urls = self.urls.iter().map(|url| url.as_str().trim_end_matches('/')).collect::<Vec<_>>().join(", ");
        match last {
            Some(source) => Err(Error::Unreachable { urls, source }),
            None => Err(Error::Url { url: String::new(), reason: "no URL was given".to_owned() }),
        }
    }

    async fn send_to(&self, base: &Url, request: &Request<'_>, key: Option<&str>) -> Result<Reply, reqwest::Error> {
        let mut url = base.clone();
        url.set_path(&format!("{}{}", base.path().trim_end_matches('/'), request.path));
        if !request.params.is_empty() {
            url.query_pairs_mut().extend_pairs(request.params);
        }
        let mut builder = self.client.request(request.method.clone(), url);
        if let Some(key) = key {
            builder = builder.header("Idempotency-Key", key);
        }
        if let Some(body) = request.body {
            builder = builder.json(body);
        }
        let response = builder.send().await?;
        let status = response.status();
        Ok(Reply { url: base.clone(), status, body: response.bytes().await?.to_vec() })
    }
}

impl Reply {
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
            status => Error::Refused { status: status.as_u16(), message: self.message() },
        }
    }
}

/// The API's 404 does not say what was not found.
fn named(error: Error, name: &str) -> Error {
    match error {
        Error::NotFound(_) => Error::no_group(name),
        other => other,
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

/// How long somebody is ready to try again, and who hears why it takes so long.
pub struct Patience {
    started: Instant,
    deadline: Instant,
    said: Box<dyn FnMut(&str) + Send>,
}

impl std::fmt::Debug for Patience {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Patience").field("deadline", &self.deadline).finish_non_exhaustive()
    }
}

impl Patience {
    /// From now on for `span`; `said` hears every reason to wait.
    pub fn for_span(span: Duration, said: impl FnMut(&str) + Send + 'static) -> Self {
        let started = Instant::now();
        Self { started, deadline: started + span, said: Box::new(said) }
    }

    /// Whether the time is up.
    pub fn is_over(&self) -> bool {
        Instant::now() >= self.deadline
    }

    /// Waits a little, or fails with the reason when the time is up.
    pub async fn pause(&mut self, why: &str) -> Result<(), Error> {
        if self.is_over() {
            return Err(Error::Deadline { after: self.deadline - self.started, waiting_for: why.to_owned() });
        }
        (self.said)(why);
        sleep(PAUSE).await;
        Ok(())
    }
}

/// A key nobody else uses: the time to the nanosecond and the process.
fn fresh_key() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("deployctl-{:x}-{:x}", now.as_nanos(), std::process::id())
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// Answers one request per entry, then hangs up; returns what was asked.
    async fn server(answers: &'static [(u16, &'static str)]) -> (String, tokio::task::JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let served = fabric::tasks::spawn("server", async move {
            let mut asked = Vec::new();
            for (status, body) in answers {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut request = vec![0; 16 * 1024];
                let length = stream.read(&mut request).await.unwrap();
                asked.push(String::from_utf8_lossy(&request[..length]).into_owned());
                let head =
                    format!("HTTP/1.1 {status} X\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
                stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
            }
            asked
        });
        (url, served)
    }

    fn patience() -> Patience {
        Patience::for_span(Duration::from_secs(10), |_| {})
    }

    fn key(request: &str) -> &str {
        request.lines().find(|line| line.starts_with("idempotency-key")).unwrap()
    }

    #[tokio::test]
    async fn the_next_url_is_tried_when_one_does_not_answer() {
        let (url, served) = server(&[(202, "[{\"Name\":\"n1\",\"State\":\"alive\"}]")]).await;
        let api = Api::new(&["http://127.0.0.1:1".to_owned(), url]).unwrap();
        assert_eq!(api.nodes().await.unwrap()[0].name, "n1");
        assert!(served.await.unwrap()[0].starts_with("GET /api/nodes HTTP"));
    }

    #[tokio::test]
    async fn a_locked_group_is_tried_again_with_a_new_key_and_a_lost_answer_with_the_same() {
        let (url, served) = server(&[(423, "{\"message\":\"busy\"}"), (503, ""), (202, "{\"message\":\"ok\"}")]).await;
        Api::new(&[url]).unwrap().scale("a b", 3, &mut patience()).await.unwrap();
        let asked = served.await.unwrap();
        assert!(asked[0].starts_with("PATCH /api/podgroups?name=a+b&cmd=replica&num_instances=3 "), "{}", asked[0]);
        assert_ne!(key(&asked[0]), key(&asked[1]));
        assert_eq!(key(&asked[1]), key(&asked[2]));
    }

    #[tokio::test]
    async fn a_queued_change_is_followed_until_it_is_decided() {
        const REFUSED: &str =
            r#"{"operation":"o1","state":"refused","message":"no","decided_at":"2026-01-01T00:00:00Z"}"#;
        let (url, _served) =
            server(&[(202, "{\"queued\":true,\"operation\":\"o1\"}"), (404, "{}"), (200, REFUSED)]).await;
        let error = Api::new(&[url]).unwrap().delete("a", &mut patience()).await.unwrap_err();
        assert!(matches!(error, Error::Refused { ref message, .. } if message == "no"), "{error:?}");
    }

    #[tokio::test]
    async fn a_refusal_keeps_its_reason_and_an_unknown_name_is_told_apart() {
        let (url, _served) = server(&[(400, "{\"message\":\"Pod.Containers: must not be empty\"}"), (404, "{}")]).await;
        let api = Api::new(&[url]).unwrap();
        let error = api.create(&PodGroupSpec::default(), &mut patience()).await.unwrap_err().to_string();
        assert!(error.contains("400") && error.contains("Pod.Containers: must not be empty"), "{error}");
        assert_eq!(api.group("x").await.unwrap(), None);
    }

    #[tokio::test]
    async fn an_api_that_is_not_there_is_named_with_the_remedy() {
        let error = Api::new(&["http://127.0.0.1:1".to_owned()]).unwrap().nodes().await.unwrap_err().to_string();
        assert!(error.contains("http://127.0.0.1:1;") && error.contains("deployctl up"), "{error}");
    }

    #[test]
    fn only_urls_are_urls() {
        assert!(Api::new(&["127.0.0.1:9003".to_owned()]).is_err());
        assert!(Api::new(&["ftp://a".to_owned()]).is_err());
    }

    #[tokio::test]
    async fn patience_ends() {
        let mut patience = Patience::for_span(Duration::ZERO, |_| {});
        let error = patience.pause("the moon is full").await.unwrap_err().to_string();
        assert!(error.contains("the moon is full"), "{error}");
    }
}
