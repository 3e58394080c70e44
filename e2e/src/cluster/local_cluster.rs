//! A cluster under test, started and used as a user does.
//!
//! It runs hard links of the programs, so that a build does not change what is tested. Dropping it takes it down and removes
//! everything it made.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

use contract::bus::Identity;
use devcluster::keys::Keys;
use devcluster::state::{Child, Cluster as State, Process};
use fabric::nats::{Args, Bus};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::process::Command;

use super::api::Api;
use super::docker::{self, Engine};
use super::extra_node;

pub(crate) const IMAGE: &str = "deployd/demo:1";
const PROGRAMS: [&str; 5] =
    ["deployctl", "deployd-apiserver", "deployd-scheduler", "deployd-agent", "deployd-notifier"];
/// Timeout of a request; longer than an apiserver waits for a decision.
const REQUEST: Duration = Duration::from_secs(8);

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("cannot prepare {}: build with `cargo build --bins` and ./deploy/build-demo", path.display())]
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
    #[error("only root can start the private dockerd of this experiment")]
    NotRoot,
}

#[derive(Debug)]
pub(crate) struct Cluster {
    folder: TempDir,
    pub(crate) id: String,
    pub(crate) engine: Engine,
    pub(crate) api: Api,
}

impl Cluster {
    /// Two schedulers, two apiservers and three nodes on the local engine; `flags` go to `deployctl up`.
    pub(crate) async fn start_with(flags: &[&str]) -> Result<Self, Error> {
        let engine = Engine::connect()?;
        make_image().await?;
        let folder = tempfile::Builder::new().prefix("deployd-proof-").tempdir();
        let folder = folder.map_err(|source| Error::Prepare { path: std::env::temp_dir(), source })?;
        link_programs(folder.path())?;
        let client = fabric::http::client(REQUEST);
        let mut cluster = Self { folder, id: String::new(), engine, api: Api { urls: Vec::new(), client } };
        let output = cluster
            .deployctl(
                &[&["up", "--detach", "--no-demo", "--port", "0", "--extra-node", extra_node::NAME], flags].concat(),
            )
            .await?;
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

    /// Makes names unique among clusters on the same engine.
    pub(crate) fn tag(&self) -> String {
        self.id.chars().filter(char::is_ascii_alphanumeric).rev().take(8).collect()
    }

    pub(crate) fn run_folder(&self) -> PathBuf {
        self.folder.path().join("run")
    }

    fn state(&self) -> Option<State> {
        State::load(&self.run_folder()).ok().flatten()
    }

    /// Connects to the bus as one of the cluster's processes.
    pub(crate) async fn bus(&self, identity: &Identity) -> Result<Bus, Error> {
        let args =
            Args { credentials_file: Some(self.keys().bus(identity)), ..Args::at(self.nats().ok_or(Error::State)?) };
        Bus::connect(&args, "proof").await.map_err(|error| Error::Run(io::Error::other(error)))
    }

    pub(crate) fn keys(&self) -> Keys {
        Keys::of(&self.run_folder())
    }

    pub(crate) fn nats(&self) -> Option<String> {
        self.state().map(|state| state.nats)
    }

    /// How to connect to etcd.
    pub(crate) fn etcd(&self) -> Option<fabric::etcd::Args> {
        let file = |name: &str| Some(self.keys().etcd().join(name));
        let (ca, cert, key) = (file("ca.pem"), file("client.pem"), file("client-key.pem"));
        Some(fabric::etcd::Args { ca, cert, key, ..fabric::etcd::Args::at(self.state()?.etcd) })
    }

    /// The cluster's own copy of a program.
    pub(crate) fn program(&self, name: &str) -> PathBuf {
        self.folder.path().join("bin").join(name)
    }

    pub(crate) fn children(&self) -> Vec<Child> {
        self.state().map(|state| state.children).unwrap_or_default()
    }

    /// None if it does not run.
    pub(crate) fn running(&self, name: &str) -> Option<Process> {
        let child = self.children().into_iter().find(|child| child.name == name)?;
        let process = Process { pid: child.pid?, command: child.command };
        devcluster::child::runs(&process).then_some(process)
    }

    pub(crate) fn keep_logs(&self, target: &Path) -> io::Result<()> {
        std::fs::create_dir_all(target)?;
        for entry in std::fs::read_dir(self.run_folder().join("logs"))?.flatten() {
            std::fs::copy(entry.path(), target.join(entry.file_name()))?;
        }
        Ok(())
    }
}

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

/// Polls every 50 ms until there is a result.
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
        // Hard links do not work across file systems.
        if std::fs::hard_link(&from, &to).is_err() {
            std::fs::copy(&from, &to).map_err(|source| prepare(&from, source))?;
        }
    }
    Ok(())
}

async fn make_image() -> Result<(), Error> {
    make_image_in(&devcluster::docker::socket()).await
}

/// Loads the demo image into the engine behind `socket`.
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
