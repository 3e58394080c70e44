//! An engine of our own, to be killed and stopped: dockerd in namespaces of its own.
//!
//! Its processes, mounts and network live in namespaces whose first process is ours, so that one signal ends all of them and
//! nothing is left on the machine; it reaches no network at all. Needs root, as every dockerd does.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::cluster::docker::Engine;
use crate::cluster::{Error, eventually};

/// Runs first in the namespaces. It hides the sockets of other engines and waits for orphans, as a first process must.
const FIRST: &str = "mount -t tmpfs none /run && mkdir /run/engine && touch \"$0\" && sleep 7200 & wait";
/// A start on a busy machine.
const UP: Duration = Duration::from_secs(60);
const CGROUPS: &str = "/sys/fs/cgroup";

/// The engine; dropping it ends everything that runs in it and removes its files.
#[derive(Debug)]
pub(crate) struct Dockerd {
    folder: TempDir,
    /// Holds the namespaces; with its end the kernel ends all that live in them.
    holder: std::process::Child,
    /// First process in the namespaces, as we see it.
    first: Option<u32>,
    /// `nsenter`, which waits for dockerd.
    entered: Option<Child>,
}

impl Dockerd {
    /// Starts it. With `live_restore` containers outlive it, without they end with it.
    pub(crate) async fn start(live_restore: bool) -> Result<Self, Error> {
        if !rustix::process::geteuid().is_root() {
            return Err(Error::NotRoot);
        }
        let folder = tempfile::Builder::new().prefix("deployd-proof-engine-").tempdir();
        let folder = folder.map_err(|source| Error::Prepare { path: std::env::temp_dir(), source })?;
        let ready = folder.path().join("ready");
        let mut unshare = std::process::Command::new("unshare");
        unshare.args(["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", FIRST]);
        unshare.arg(&ready).stdin(Stdio::null()).stderr(Stdio::null()).process_group(0);
        let holder = unshare.spawn().map_err(|source| Error::Prepare { path: "unshare".into(), source })?;
        let mut dockerd = Self { folder, holder, first: None, entered: None };
        let pid = dockerd.holder.id();
        let first =
            eventually(UP, "there are namespaces of our own", async || ready.exists().then(|| child_of(pid)).flatten())
                .await?;
        dockerd.first = Some(first);
        let settings = dockerd.folder.path().join("settings.json");
        std::fs::write(&settings, "{}").map_err(|source| Error::Prepare { path: settings, source })?;
        dockerd.begin(live_restore).await?;
        Ok(dockerd)
    }

    /// Where it listens.
    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("docker.sock")
    }

    /// Starts dockerd, after it was killed too.
    pub(crate) async fn begin(&mut self, live_restore: bool) -> Result<(), Error> {
        let prepare = |source| Error::Prepare { path: "dockerd".into(), source };
        let log = std::fs::OpenOptions::new().create(true).append(true).open(self.folder.path().join("log"));
        let log = log.map_err(prepare)?;
        let file = |name: &str| self.folder.path().join(name);
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.first.unwrap_or(0).to_string(), "--net", "--mount", "--pid", "dockerd"]);
        // Nothing of the machine's own settings: they are for another engine.
        command.arg("--config-file").arg(file("settings.json")).arg("--data-root").arg(file("data"));
        command.args(["--exec-root", "/run/engine/exec", "--pidfile", "/run/engine/pid"]);
        command.arg("--host").arg(format!("unix://{}", self.socket().display()));
        command.args(["--bridge=none", "--iptables=false", "--ip6tables=false"]);
        command.args(["--default-address-pool", "base=10.222.0.0/16,size=24"]);
        command.arg(format!("--cgroup-parent=/{}", self.cgroup())).arg(format!("--live-restore={live_restore}"));
        command.stdin(Stdio::null()).stdout(log.try_clone().map_err(prepare)?).stderr(log);
        self.entered = Some(command.process_group(0).kill_on_drop(true).spawn().map_err(prepare)?);
        let socket = self.socket();
        let answers = async || Engine::connect_to(&socket).ok()?.of_cluster("none").await.ok();
        eventually(UP, "the engine of our own answers", answers).await.map(drop)
    }

    /// Sends dockerd a signal. `nsenter` gets it too, after it: it stops when what it waits for stops.
    pub(crate) fn signal(&self, signal: Signal) {
        let entered = self.entered.as_ref().and_then(Child::id);
        for pid in [entered.and_then(child_of), entered].into_iter().flatten() {
            let _ = i32::try_from(pid).ok().and_then(Pid::from_raw).map(|pid| kill_process(pid, signal));
        }
    }

    /// Kills dockerd and waits until it is gone.
    pub(crate) async fn kill(&mut self) -> Result<(), Error> {
        self.signal(Signal::KILL);
        let within = Duration::from_secs(20);
        let late = |_| Error::Late { what: "the killed engine is gone".to_owned(), within };
        let Some(mut entered) = self.entered.take() else { return Ok(()) };
        tokio::time::timeout(within, entered.wait()).await.map_err(late)?.map_err(Error::Run)?;
        Ok(())
    }

    /// What its containers' control groups are below.
    fn cgroup(&self) -> String {
        let name = self.folder.path().file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }
}

impl Drop for Dockerd {
    fn drop(&mut self) {
        // Stopped or not, it must not keep the end of dockerd to itself: the kernel would wait for it.
        self.signal(Signal::KILL);
        let pid = self.first.and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        // The kernel ends all others with the first process, and the holder once they are gone.
        if pid.is_none_or(|pid| kill_process(pid, Signal::KILL).is_err()) {
            let _ = self.holder.kill();
        }
        let _ = self.holder.wait();
        if let Err(error) = remove_cgroups(&self.cgroup()) {
            eprintln!("control groups of the engine are left behind: {error}");
        }
    }
}

/// The only child of a process.
fn child_of(pid: u32) -> Option<u32> {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
    children.split_whitespace().next()?.parse().ok()
}

/// Removes the empty control groups below `name`, in every hierarchy.
fn remove_cgroups(name: &str) -> io::Result<()> {
    let mut roots = vec![PathBuf::from(CGROUPS)];
    roots.extend(folders(Path::new(CGROUPS)));
    for top in roots.into_iter().map(|root| root.join(name)).filter(|top| top.exists()) {
        for inner in folders(&top) {
            std::fs::remove_dir(inner)?;
        }
        std::fs::remove_dir(top)?;
    }
    Ok(())
}

fn folders(path: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path()).collect()
}
