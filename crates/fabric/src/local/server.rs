//! A child process that serves a port: start, kill, restart, stop.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::marker::PhantomData;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::time::Instant;

/// A server starts in about a second, on a loaded machine in a few.
const PATIENCE: Duration = Duration::from_secs(30);

/// Errors of a local server.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Missing(#[from] super::Missing),
    #[error("cannot prepare {path}")]
    Prepare {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("cannot start {program}")]
    Start {
        program: &'static str,
        #[source]
        source: std::io::Error,
    },
    /// The program exited before it answered.
    #[error("{program} exited ({status}) before it answered; see the end of {log}: {tail}")]
    Exited {
        program: &'static str,
        status: String,
        log: PathBuf,
        /// The last lines of the log.
        tail: String,
    },
    #[error("{program} did not answer on port {port} in time; its log is {log}")]
    Silent { program: &'static str, port: u16, log: PathBuf },
}

/// How to start a server.
#[derive(Debug, Clone)]
pub(super) struct Launch {
    pub(super) program: &'static str,
    pub(super) arguments: Vec<OsString>,
    pub(super) port: u16,
    pub(super) log: PathBuf,
}

/// A kind of server: nats-server or etcd.
pub trait Kind {
    /// Scheme of the URL for clients.
    const SCHEME: &'static str;
    /// Whether the server on this port answers.
    fn answers(port: u16) -> impl Future<Output = bool> + Send;
}

/// A server running as a child process.
#[derive(Debug)]
pub struct Server<K> {
    launch: Launch,
    child: Child,
    kind: PhantomData<K>,
}

impl<K: Kind> Server<K> {
    /// Starts the process and waits until it answers.
    pub(super) async fn begin(launch: Launch) -> Result<Self, Error> {
        let child = spawn(&launch)?;
        let mut started = Self { launch, child, kind: PhantomData };
        started.wait().await?;
        Ok(started)
    }

    /// URL for clients.
    pub fn url(&self) -> String {
        format!("{}://127.0.0.1:{}", K::SCHEME, self.launch.port)
    }

    /// Restarts it on the same port and directory, killing it first if it runs, and waits until it answers.
    pub async fn restart(&mut self) -> Result<(), Error> {
        self.kill();
        self.child = spawn(&self.launch)?;
        self.wait().await
    }

    async fn wait(&mut self) -> Result<(), Error> {
        let until = Instant::now() + PATIENCE;
        let Launch { program, port, log, .. } = self.launch.clone();
        while Instant::now() < until {
            if let Ok(Some(status)) = self.child.try_wait() {
                let tail = tail(&log);
                return Err(Error::Exited { program, status: status.to_string(), log, tail });
            }
            if K::answers(port).await {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Err(Error::Silent { program, port, log })
    }
}

impl<K> Server<K> {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills the process (SIGKILL), like a power cut, and waits until it is gone.
    pub fn kill(&mut self) {
        // Fails only if the process is already gone.
        let _gone = self.child.kill();
        let _status = self.child.wait();
    }

    /// Sends SIGTERM, waits up to 5 s, then kills the process.
    pub async fn stop(&mut self) {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw)
            && matches!(self.child.try_wait(), Ok(None))
        {
            let _gone = kill_process(pid, Signal::TERM);
        }
        let until = Instant::now() + Duration::from_secs(5);
        while Instant::now() < until && matches!(self.child.try_wait(), Ok(None)) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        self.kill();
    }
}

impl<K> Drop for Server<K> {
    fn drop(&mut self) {
        self.kill();
    }
}

fn spawn(launch: &Launch) -> Result<Child, Error> {
    let program = super::find(launch.program)?;
    let prepare = |source| Error::Prepare { path: launch.log.clone(), source };
    let log = OpenOptions::new().create(true).append(true).open(&launch.log).map_err(prepare)?;
    let also = log.try_clone().map_err(prepare)?;
    Command::new(program)
        .args(&launch.arguments)
        .stdin(Stdio::null())
        .stdout(log)
        .stderr(also)
        .process_group(0)
        .spawn()
        .map_err(|source| Error::Start { program: launch.program, source })
}

fn tail(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().rev().take(3).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join(" | ")
}

pub(super) fn make_directory(path: &Path) -> Result<(), Error> {
    std::fs::create_dir_all(path).map_err(|source| Error::Prepare { path: path.to_owned(), source })
}
