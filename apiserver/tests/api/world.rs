//! One apiserver on one nats-server, and a client.

use std::time::Duration;

use apiserver::app::App;
use apiserver::config::Config;
use clap::Parser;
use contract::streams::COMMANDS;
use fabric::local::NatsServer;
use fabric::nats::{Args, Bus};
use fabric::shutdown::Shutdown;
use reqwest::{Client, Method, Response};
use serde_json::Value;
use tokio::task::JoinHandle;

/// Everything of one test; dropping it ends the server.
pub(crate) struct World {
    pub(crate) nats: NatsServer,
    pub(crate) bus: Bus,
    pub(crate) base: String,
    pub(crate) client: Client,
    pub(crate) shutdown: Shutdown,
    pub(crate) server: JoinHandle<()>,
    pub(crate) directory: tempfile::TempDir,
}

/// A status, the headers that matter and the body.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) status: u16,
    pub(crate) content_type: String,
    pub(crate) stale: bool,
    pub(crate) retry_after: bool,
    pub(crate) text: String,
}

impl Seen {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {:?}", self.text))
    }
    pub(crate) fn message(&self) -> String {
        self.json()["message"].as_str().unwrap_or_default().to_owned()
    }
}

impl World {
    pub(crate) async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// An apiserver that serves clients without a token also before a scheduler told it that the cluster is open.
    pub(crate) async fn start_with(flags: &[&str]) -> Self {
        Self::guarded(&[&["--anonymous", "admin from any"], flags].concat()).await
    }

    /// An apiserver without bindings for clients without a token.
    pub(crate) async fn guarded(flags: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let nats = NatsServer::start(directory.path(), 0).await.unwrap();
        let url = nats.url();
        let shutdown = Shutdown::new();
        let bus = Bus::connect(&Args::at(url.clone()), "test").await.unwrap();
        // As a scheduler does when it starts.
        bus.ensure_stream(&(&COMMANDS).into()).await.unwrap();
        let (base, server) = apiserver("api-1", &url, flags, &shutdown).await;
        let client = fabric::http::client(Duration::from_secs(20));
        Self { nats, bus, base, client, shutdown, server, directory }
    }

    /// Starts a second apiserver on the same nats-server and returns its address.
    pub(crate) async fn another_apiserver(&self, flags: &[&str]) -> String {
        apiserver("api-2", &self.nats.url(), flags, &self.shutdown).await.0
    }

    pub(crate) async fn call(&self, method: &str, path: &str, body: Option<(&str, &str)>) -> Seen {
        let mut request = self.client.request(Method::from_bytes(method.as_bytes()).unwrap(), self.at(path));
        if let Some((content_type, body)) = body {
            request = request.header("Content-Type", content_type).body(body.to_owned());
        }
        seen(request.send().await.unwrap()).await
    }

    pub(crate) async fn get(&self, path: &str) -> Seen {
        self.call("GET", path, None).await
    }

    pub(crate) async fn post(&self, path: &str, body: &str) -> Seen {
        self.call("POST", path, Some(("application/json", body))).await
    }

    pub(crate) fn at(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }
}

async fn apiserver(name: &str, nats: &str, flags: &[&str], shutdown: &Shutdown) -> (String, JoinHandle<()>) {
    let mut arguments = vec!["deployd-apiserver", "--listen", "127.0.0.1:0", "--name", name, "--nats", nats];
    // Tests send as fast as they can.
    if !flags.contains(&"--requests-per-second") {
        arguments.extend(["--requests-per-second", "0"]);
    }
    arguments.extend(flags);
    let app = App::build(Config::parse_from(arguments)).await.unwrap();
    let base = format!("http://{}", app.address());
    (base, fabric::tasks::spawn("apiserver", app.run(shutdown.clone())))
}

pub(crate) async fn seen(response: Response) -> Seen {
    let header = |name: &str| response.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
    Seen {
        status: response.status().as_u16(),
        content_type: header("content-type").unwrap_or_default(),
        stale: header("deployd-stale").is_some(),
        retry_after: header("retry-after").is_some(),
        text: response.text().await.unwrap(),
    }
}

/// Polls until `check` gives a value; the limit only ends a test that fails.
pub(crate) async fn eventually<T, F: Future<Output = Option<T>>>(what: &str, mut check: impl FnMut() -> F) -> T {
    let until = tokio::time::Instant::now() + Duration::from_secs(15);
    loop {
        if let Some(value) = check().await {
            return value;
        }
        assert!(tokio::time::Instant::now() < until, "never happened: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
