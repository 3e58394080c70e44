//! One child process that answers on a port: started, killed, restarted, stopped.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::marker::PhantomData;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::time::Instant;

/// A server on this machine is up in about a second; on a loaded one in a few.
const PATIENCE: Duration = Duration::from_secs(30);

/// What may go wrong with a local server.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The program is not there.
    #[error("{program} was not found in $DEPLOYD_BIN_DIR, .deployd/bin or PATH")]
    Missing {
        /// Which.
        program: &'static str,
    },
    /// A file or directory could not be prepared.
    #[error("cannot prepare {path}")]
    Prepare {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The program could not be started.
    #[error("cannot start {program}")]
    Start {
        /// Which.
        program: &'static str,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The program ended while we waited for its answer.
    #[error("{program} ended ({status}) before it answered; the reason is at the end of {log}: {tail}")]
    Ended {
        /// Which.
        program: &'static str,
        /// How.
        status: String,
        /// Its log.
        log: PathBuf,
        /// The last lines of it.
        tail: String,
    },
    /// No answer in time.
    #[error("{program} did not answer on port {port} in time; its log is {log}")]
    Silent {
        /// Which.
        program: &'static str,
        /// Where.
        port: u16,
        /// Its log.
        log: PathBuf,
    },
}

/// How to start a server.
#[derive(Debug, Clone)]
pub(super) struct Recipe {
    pub(super) program: &'static str,
    pub(super) arguments: Vec<OsString>,
    pub(super) port: u16,
    pub(super) log: PathBuf,
}

/// What kind of server it is.
pub trait Kind {
    /// First part of the address clients use.
    const SCHEME: &'static str;
    /// Whether the server on this port serves already.
    fn answers(port: u16) -> impl Future<Output = bool> + Send;
}

/// A server of ours on this machine.
#[derive(Debug)]
pub struct Server<K> {
    recipe: Recipe,
    child: Child,
    kind: PhantomData<K>,
}

impl<K: Kind> Server<K> {
    /// Starts the process and waits until it answers.
    pub(super) async fn begin(recipe: Recipe) -> Result<Self, Error> {
        let child = spawn(&recipe)?;
        let mut started = Self { recipe, child, kind: PhantomData };
        started.wait().await?;
        Ok(started)
    }

    /// Where clients connect.
    pub fn url(&self) -> String {
        format!("{}://127.0.0.1:{}", K::SCHEME, self.recipe.port)
    }

    /// Starts it again on the same port and directory, after a kill if it still runs, and waits until it answers.
    pub async fn restart(&mut self) -> Result<(), Error> {
        self.kill();
        self.child = spawn(&self.recipe)?;
        self.wait().await
    }

    async fn wait(&mut self) -> Result<(), Error> {
        let until = Instant::now() + PATIENCE;
        let Recipe { program, port, log, .. } = self.recipe.clone();
        while Instant::now() < until {
            if let Ok(Some(status)) = self.child.try_wait() {
                let tail = tail(&log);
                return Err(Error::Ended { program, status: status.to_string(), log, tail });
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
    /// The process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends the process as a power cut would, and waits until it is gone.
    pub fn kill(&mut self) {
        // An error means that it is gone already.
        let _gone = self.child.kill();
        let _status = self.child.wait();
    }

    /// Asks the process to end and waits up to 5 s, then kills it.
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

fn spawn(recipe: &Recipe) -> Result<Child, Error> {
    let program = super::find(recipe.program).ok_or(Error::Missing { program: recipe.program })?;
    let prepare = |source| Error::Prepare { path: recipe.log.clone(), source };
    let log = OpenOptions::new().create(true).append(true).open(&recipe.log).map_err(prepare)?;
    let also = log.try_clone().map_err(prepare)?;
    Command::new(program)
        .args(&recipe.arguments)
        .stdin(Stdio::null())
        .stdout(log)
        .stderr(also)
        .process_group(0)
        .spawn()
        .map_err(|source| Error::Start { program: recipe.program, source })
}

fn tail(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().rev().take(3).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join(" | ")
}

pub(super) fn make_directory(path: &Path) -> Result<(), Error> {
    std::fs::create_dir_all(path).map_err(|source| Error::Prepare { path: path.to_owned(), source })
}
