//! A cluster under test: started, read, hurt and taken down through the ways users have.
//!
//! Its programs are linked into its own directory first, so that a build meanwhile does not change what is tested. Dropping it
//! takes it down and removes everything it made, however the experiment ended.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

use contract::api::{ClusterStatus, Node};
use devcluster::state::{Child, Cluster as State, Process};
use reqwest::{Method, StatusCode};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::Command;

pub(crate) mod docker;
pub(crate) mod dockerd;
pub(crate) mod extra_node;
pub(crate) mod specs;

use docker::Engine;

/// The image the workload runs.
pub(crate) const IMAGE: &str = "deployd/demo:1";
const PROGRAMS: [&str; 5] =
    ["deployctl", "deployd-apiserver", "deployd-scheduler", "deployd-agent", "deployd-notifier"];
/// Longer than an apiserver waits for a decision.
const REQUEST: Duration = Duration::from_secs(8);

/// Why there is no cluster to hurt.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("cannot prepare {}: build with `cargo build --workspace --bins` and ./deploy/build-demo", path.display())]
    Prepare {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("the demo image cannot be made")]
    Image(#[from] devcluster::docker::Error),
    #[error(transparent)]
    Engine(#[from] docker::Error),
    #[error("cannot run deployctl")]
    Run(#[source] io::Error),
    #[error("deployctl {what} failed:\n{output}")]
    Failed { what: String, output: String },
    #[error("not within {} s: {what}", within.as_secs())]
    Late { what: String, within: Duration },
    #[error("the cluster has no readable state")]
    State,
    #[error("an engine of its own, to be killed, can be started by root only")]
    NotRoot,
}

/// A running cluster.
#[derive(Debug)]
pub(crate) struct Cluster {
    folder: TempDir,
    pub(crate) id: String,
    pub(crate) engine: Engine,
    pub(crate) api: Api,
}

/// How a cluster is asked; clones ask the same one.
#[derive(Debug, Clone)]
pub(crate) struct Api {
    urls: Vec<String>,
    client: reqwest::Client,
}

/// An answer, or why there was none.
#[derive(Debug, Clone)]
pub(crate) enum Answer {
    Said { status: u16, body: Value },
    Nothing { why: String },
}

impl Api {
    /// Where the apiservers are.
    pub(crate) fn urls(&self) -> &[String] {
        &self.urls
    }

    pub(crate) async fn call(&self, index: usize, request: &Request, key: Option<&str>) -> Answer {
        let url = format!("{}{}", self.urls[index % self.urls.len()], request.path);
        let mut call = self.client.request(request.method.clone(), url);
        if let Some(key) = key {
            call = call.header("Idempotency-Key", key);
        }
        if let Some(body) = &request.body {
            call = call.json(body);
        }
        let said = async {
            let response = call.send().await?;
            let status = response.status().as_u16();
            Ok::<_, reqwest::Error>((status, response.text().await?))
        };
        match said.await {
            Ok((status, text)) => {
                Answer::Said { status, body: serde_json::from_str(&text).unwrap_or(Value::String(text)) }
            }
            Err(error) => Answer::Nothing { why: error.to_string() },
        }
    }

    pub(crate) async fn get(&self, index: usize, path: &str) -> Answer {
        let request = Request { method: Method::GET, path: path.to_owned(), body: None };
        self.call(index, &request, None).await
    }

    /// Text of a page outside the API, such as the figures of a process.
    pub(crate) async fn page(&self, address: &str, path: &str) -> Option<String> {
        let response = self.client.get(format!("http://{address}{path}")).send().await.ok()?;
        (response.status() == StatusCode::OK).then_some(())?;
        response.text().await.ok()
    }

    /// Name and term of the leader, from whichever apiserver answers.
    pub(crate) async fn leader(&self) -> Option<(String, u64)> {
        for index in 0..self.urls.len() {
            if let Answer::Said { status: 200, body } = self.get(index, "/api/cluster").await
                && let Ok(cluster) = serde_json::from_value::<ClusterStatus>(body)
                && cluster.term > 0
            {
                return Some((cluster.leader, cluster.term));
            }
        }
        None
    }

    /// What the leader, or a standby, says of a node.
    pub(crate) async fn node(&self, name: &str) -> Option<Node> {
        for index in 0..self.urls.len() {
            if let Answer::Said { status: 202, body } = self.get(index, "/api/nodes").await
                && let Ok(nodes) = serde_json::from_value::<Vec<Node>>(body)
            {
                return nodes.into_iter().find(|node| node.name == name);
            }
        }
        None
    }
}

/// A request of the API.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) body: Option<Value>,
}

impl Cluster {
    /// Two schedulers, two apiservers and three nodes on the local engine, unless further flags of `deployctl up` say otherwise.
    pub(crate) async fn start_with(flags: &[&str]) -> Result<Self, Error> {
        let engine = Engine::connect()?;
        make_image().await?;
        let folder = tempfile::Builder::new().prefix("deployd-proof-").tempdir();
        let folder = folder.map_err(|source| Error::Prepare { path: std::env::temp_dir(), source })?;
        link_programs(folder.path())?;
        let client = fabric::http::client(REQUEST);
        let mut cluster = Self { folder, id: String::new(), engine, api: Api { urls: Vec::new(), client } };
        let output = cluster.deployctl(&[&["up", "--detach", "--no-demo", "--port", "0"], flags].concat()).await?;
        if !output.status.success() {
            return Err(Error::Failed { what: "up".to_owned(), output: text(&output) });
        }
        let state = cluster.state().ok_or(Error::State)?;
        cluster.id = state.cluster;
        cluster.api.urls = state.api;
        Ok(cluster)
    }

    async fn deployctl(&self, words: &[&str]) -> Result<Output, Error> {
        let mut command = Command::new(self.folder.path().join("bin/deployctl"));
        command.arg("--dir").arg(self.run_folder()).args(words).kill_on_drop(true);
        let within = Duration::from_secs(120);
        let late = |_| Error::Late { what: format!("deployctl {} ends", words.join(" ")), within };
        tokio::time::timeout(within, command.output()).await.map_err(late)?.map_err(Error::Run)
    }

    /// What tells names of this cluster from those of another on the same engine.
    pub(crate) fn tag(&self) -> String {
        self.id.chars().filter(char::is_ascii_alphanumeric).rev().take(8).collect()
    }

    /// The cluster's directory.
    pub(crate) fn run_folder(&self) -> PathBuf {
        self.folder.path().join("run")
    }

    fn state(&self) -> Option<State> {
        State::load(&self.run_folder()).ok().flatten()
    }

    /// Where the cluster's bus is.
    pub(crate) fn nats(&self) -> Option<String> {
        self.state().map(|state| state.nats)
    }

    /// Where the cluster's store is.
    pub(crate) fn etcd(&self) -> Option<String> {
        let child = self.children().into_iter().find(|child| child.name == "etcd")?;
        Some(format!("http://{}", child.listen))
    }

    /// The cluster's own copy of a program.
    pub(crate) fn program(&self, name: &str) -> PathBuf {
        self.folder.path().join("bin").join(name)
    }

    /// Every process of the cluster as it is now.
    pub(crate) fn children(&self) -> Vec<Child> {
        self.state().map(|state| state.children).unwrap_or_default()
    }

    /// The process of that name if it runs.
    pub(crate) fn running(&self, name: &str) -> Option<Process> {
        let child = self.children().into_iter().find(|child| child.name == name)?;
        let process = Process { pid: child.pid?, command: child.command };
        devcluster::child::runs(&process).then_some(process)
    }

    /// Keeps the logs for whoever reads the failure.
    pub(crate) fn keep_logs(&self, target: &Path) -> io::Result<()> {
        std::fs::create_dir_all(target)?;
        for entry in std::fs::read_dir(self.run_folder().join("logs"))?.flatten() {
            std::fs::copy(entry.path(), target.join(entry.file_name()))?;
        }
        Ok(())
    }
}

/// Sends a signal to a process of ours.
pub(crate) fn signal(process: &Process, signal: Signal) -> bool {
    let pid = i32::try_from(process.pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| kill_process(pid, signal).is_ok())
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let mut down = std::process::Command::new(self.folder.path().join("bin/deployctl"));
        match down.arg("--dir").arg(self.run_folder()).args(["down", "--purge"]).output() {
            Ok(output) if !output.status.success() => eprintln!("deployctl down: {}", text(&output)),
            Ok(_) => {}
            Err(error) => eprintln!("deployctl down: {error}"),
        }
    }
}

/// Asks again until there is an answer.
pub(crate) async fn eventually<T>(
    within: Duration,
    what: &str,
    mut ask: impl AsyncFnMut() -> Option<T>,
) -> Result<T, Error> {
    let late = || Error::Late { what: what.to_owned(), within };
    let asking = async {
        let mut pause = tokio::time::interval(Duration::from_millis(50));
        loop {
            pause.tick().await;
            if let Some(answer) = ask().await {
                return answer;
            }
        }
    };
    tokio::time::timeout(within, asking).await.map_err(|_| late())
}

fn link_programs(folder: &Path) -> Result<(), Error> {
    let prepare = |path: &Path, source| Error::Prepare { path: path.to_owned(), source };
    let bin = folder.join("bin");
    std::fs::create_dir_all(&bin).map_err(|source| prepare(&bin, source))?;
    let here = std::env::current_exe().map_err(|source| prepare(&bin, source))?;
    let here = here.parent().unwrap_or_else(|| Path::new("."));
    for program in PROGRAMS {
        let (from, to) = (here.join(program), bin.join(program));
        // Another file system takes no link.
        if std::fs::hard_link(&from, &to).is_err() {
            std::fs::copy(&from, &to).map_err(|source| prepare(&from, source))?;
        }
    }
    Ok(())
}

async fn make_image() -> Result<(), Error> {
    make_image_in(&devcluster::docker::socket()).await
}

/// Makes the image the workload runs, in the engine behind `socket`.
pub(crate) async fn make_image_in(socket: &Path) -> Result<(), Error> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/demo/demo");
    let binary = std::fs::read(&path).map_err(|source| Error::Prepare { path, source })?;
    let (repository, tag) = IMAGE.split_once(':').unwrap_or((IMAGE, "1"));
    devcluster::docker::Engine::connect_to(socket).await?.ensure_image(repository, tag, &binary).await?;
    Ok(())
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}
