//! A cluster whose processes can be of two versions: this one, and the one `deploy/previous` names.
//!
//! Its programs lie in a folder of its own. A program is replaced there, then a process that runs it gets SIGTERM, and what
//! watches over it starts it again: what an operator does with a package and `systemctl restart`.

use std::path::PathBuf;
use std::time::Duration;

use rustix::process::Signal;
use tempfile::TempDir;

use crate::cluster::{Cluster, eventually, programs, repository, text};

const SOON: Duration = Duration::from_secs(60);

/// A version of the processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    /// The one before.
    Previous,
    /// The one under test.
    This,
}

/// One of the four programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Program {
    Apiserver,
    Scheduler,
    Agent,
    Notifier,
}

impl Program {
    const ALL: [Self; 4] = [Self::Apiserver, Self::Scheduler, Self::Agent, Self::Notifier];

    fn file(self) -> &'static str {
        match self {
            Self::Apiserver => "deployd-apiserver",
            Self::Scheduler => "deployd-scheduler",
            Self::Agent => "deployd-agent",
            Self::Notifier => "deployd-notifier",
        }
    }
}

/// The cluster; dropped before its programs are.
pub(crate) struct Fleet {
    pub(crate) cluster: Cluster,
    programs: Programs,
}

struct Programs {
    folder: TempDir,
    previous: PathBuf,
}

impl Programs {
    /// Puts a program of a version in the place of whichever is there; who runs it keeps what it has.
    fn install(&self, program: Program, version: Version) {
        let from = match version {
            Version::Previous => self.previous.join(program.file()),
            Version::This => programs().join(program.file()),
        };
        let (new, place) = (self.folder.path().join("new"), self.folder.path().join(program.file()));
        std::fs::copy(&from, &new).unwrap_or_else(|error| panic!("{}: {error}", from.display()));
        std::fs::rename(&new, &place).expect("a program is put in its place");
    }
}

impl Fleet {
    /// Three nodes; programs of the version that `version` says.
    pub(crate) async fn start(version: impl Fn(Program) -> Version) -> Self {
        let folder = tempfile::Builder::new().prefix("deployd-programs-").tempdir().expect("a folder");
        let programs = Programs { folder, previous: previous() };
        for program in Program::ALL {
            programs.install(program, version(program));
        }
        let tool = programs.folder.path().join("deployctl");
        std::fs::copy(crate::cluster::program("deployctl"), tool).expect("deployctl is copied");
        let cluster = Cluster::start_from(
            programs.folder.path().to_owned(),
            &[("DEPLOYD_ACCEPT_NODES", "*")],
            &["--previous-flags"],
        )
        .await;
        Self { cluster, programs }
    }

    /// From here on this program is started in this version.
    pub(crate) fn install(&self, program: Program, version: Version) {
        self.programs.install(program, version);
    }

    /// Restarts one process politely and waits until it is ready.
    pub(crate) async fn restart(&self, name: &str) {
        let before = self.cluster.child(name);
        self.cluster.signal(name, Signal::TERM);
        self.cluster.restarted(name, before).await;
        self.ready(name).await;
    }

    /// Waits until a process that is started, or started again and again, is ready and runs what is installed.
    pub(crate) async fn ready(&self, name: &str) {
        let address = self.address(name);
        let client = fabric::http::client(Duration::from_secs(5));
        eventually(SOON, &format!("{name} is ready"), async || {
            let answer = client.get(format!("http://{address}/readyz")).send().await.ok()?;
            answer.status().is_success().then_some(())
        })
        .await;
        self.runs_what_is_installed(name);
    }

    /// The kernel knows which file a process was started from, also when another has its name by now.
    fn runs_what_is_installed(&self, name: &str) {
        let pid = self.cluster.child(name).unwrap_or_else(|| panic!("{name} runs"));
        let runs = std::fs::read_link(format!("/proc/{pid}/exe")).expect("a process");
        assert!(runs.starts_with(self.programs.folder.path()) && runs.exists(), "{name} runs {}", runs.display());
    }

    fn address(&self, name: &str) -> String {
        let state = self.cluster.state();
        let children = state["children"].as_array().expect("children");
        let child = children.iter().find(|child| child["name"] == name).unwrap_or_else(|| panic!("there is no {name}"));
        child["listen"].as_str().expect("an address").to_owned()
    }

    /// Name of the leader and of the other scheduler.
    pub(crate) async fn schedulers(&self) -> (String, &'static str) {
        let (leader, _) = eventually(SOON, "a scheduler leads", async || self.cluster.leader().await).await;
        let other = if leader == "scheduler-1" { "scheduler-2" } else { "scheduler-1" };
        (leader, other)
    }
}

/// The folder with the programs of the version before; built on the first call.
fn previous() -> PathBuf {
    let output =
        std::process::Command::new(repository().join("deploy/previous")).output().expect("deploy/previous runs");
    assert!(output.status.success(), "{}", text(&output));
    PathBuf::from(String::from_utf8_lossy(&output.stdout).trim())
}
