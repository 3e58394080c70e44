//! Prepares a cluster's directory and starts its supervisor, in this process or in the background.

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;
use std::process::Stdio;
use std::time::{SystemTime, UNIX_EPOCH};

use fabric::bus_accounts::User;
use fabric::shutdown::Shutdown;
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;

use crate::keys::Keys;
use crate::plan::{NatsFiles, Settings};
use crate::state::Cluster;
use crate::supervisor::{self, Journal, Supervisor};
use crate::{Error, child, docker, lock, plan, ports, preflight, stop};

const PRIVATE: u32 = 0o700;

/// The supervisor of a cluster that this process started.
#[derive(Debug)]
pub enum Running {
    Here { task: JoinHandle<Result<(), supervisor::Error>>, stop: Shutdown, _lock: File },
    Background(tokio::process::Child),
}

/// Creates the directory and takes its lock; none when a running cluster holds the lock.
pub fn take_directory(dir: &Path) -> Result<Option<File>, Error> {
    make_private(dir)?;
    lock::take(dir).map_err(|source| Error::Prepare { path: dir.join(lock::FILE), source })
}

/// Plans the cluster and writes the files that the supervisor reads.
pub async fn prepare(dir: &Path, settings: &Settings) -> Result<(), Error> {
    let programs = preflight::programs()?;
    let before = Cluster::load(dir)?;
    if let Some(before) = &before {
        stop::end_leftovers(before).await;
    }
    let known = before.as_ref().map(|cluster| cluster.ports.clone()).unwrap_or_default();
    let names = plan::port_names(settings.nodes);
    let ports = ports::choose(&names, &plan::fixed_ports(settings.port), &known, seed())?;
    let cluster = before.map_or_else(|| format!("local-{:x}", seed()), |cluster| cluster.cluster);
    let facts = plan::Facts {
        dir,
        cluster: &cluster,
        settings,
        engine: &docker::socket(),
        programs: &programs,
        machine: preflight::machine(),
        ports: &ports,
    };
    for directory in plan::directories(dir, settings.nodes) {
        make_directory(&directory)?;
    }
    let users = Keys::of(dir).ensure(&plan::identities(settings), &plan::schedulers())?;
    Keys::of(dir).renew_etcd()?;
    write_nats_config(dir, &ports, (!settings.previous_flags).then_some(&users[..]))?;
    plan::plan(&facts).store(dir)?;
    Ok(())
}

fn write_nats_config(dir: &Path, ports: &BTreeMap<String, u16>, users: Option<&[User]>) -> Result<(), Error> {
    let NatsFiles { config, agents } = plan::nats_config(dir, ports.get("nats").copied().unwrap_or(0), users);
    for (path, text) in [(plan::nats_agents_file(dir), agents), (plan::nats_config_file(dir), config)] {
        fs::write(&path, text).map_err(|source| Error::Prepare { path, source })?;
    }
    Ok(())
}

/// Runs the supervisor as a task of this process.
pub fn start_here(dir: &Path, lock: File) -> Result<Running, Error> {
    let log = child::open_log(dir, "supervisor").map_err(|source| Error::Prepare { path: dir.join("logs"), source })?;
    let stop = Shutdown::new();
    let supervisor = Supervisor::new(dir, Journal::Foreground(log))?;
    let task = fabric::tasks::spawn("supervisor", supervisor.run(stop.clone()));
    Ok(Running::Here { task, stop, _lock: lock })
}

/// Runs the supervisor as a process of its own (`deployctl supervise`), which inherits the lock as its standard input.
pub fn start_in_background(dir: &Path, lock: File) -> Result<Running, Error> {
    let log = child::open_log(dir, "supervisor").map_err(Error::Detach)?;
    let program = std::env::current_exe().map_err(Error::Detach)?;
    let started = Command::new(program)
        .arg("supervise")
        .arg("--dir")
        .arg(dir)
        .current_dir("/")
        .stdin(Stdio::from(lock))
        .stdout(log.try_clone().map_err(Error::Detach)?)
        .stderr(log)
        .process_group(0)
        .spawn()
        .map_err(Error::Detach)?;
    Ok(Running::Background(started))
}

impl Running {
    /// Returns when the supervisor ends without a request, which is an error.
    pub async fn ended(&mut self, dir: &Path) -> Error {
        let reason = match self {
            Self::Here { task, .. } => match task.await {
                Ok(Ok(())) => "it gave no reason".to_owned(),
                Ok(Err(error)) => error.to_string(),
                Err(error) => error.to_string(),
            },
            Self::Background(child) => child.wait().await.map_or_else(|e| e.to_string(), |status| status.to_string()),
        };
        let tail = child::last_lines(dir, "supervisor", 12);
        Error::SupervisorEnded { reason, log: dir.join("logs").join("supervisor.log"), tail }
    }

    /// Stops every process in order; the supervisor bounds how long that takes.
    pub async fn stop(self) {
        match self {
            Self::Here { task, stop, _lock } => {
                stop.trigger();
                // It may have ended before; `ended` has reported its error.
                let _ = task.await;
            }
            Self::Background(mut child) => {
                let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
                if let Some(pid) = pid {
                    let _ = kill_process(pid, Signal::TERM);
                }
                let _ = child.wait().await;
            }
        }
    }
}

/// `deployctl supervise`: runs the prepared cluster until SIGTERM. `up --detach` starts it with the lock as its standard input.
pub async fn supervise(dir: &Path) -> Result<(), Error> {
    // Handling SIGHUP lets the process outlive its terminal.
    let _hangup = signal(SignalKind::hangup()).map_err(Error::Detach)?;
    Ok(Supervisor::new(dir, Journal::Standard)?.run(Shutdown::on_signals()).await?)
}

/// Creates the cluster's directory, which only its user may enter: keys, sockets and logs are in it. One that a cluster has used
/// before is closed; any other existing directory is left as the user made it.
fn make_private(path: &Path) -> Result<(), Error> {
    let prepare = |source| Error::Prepare { path: path.to_owned(), source };
    if path.is_dir() {
        let is_ours = stop::has_cluster(path);
        return if is_ours {
            fs::set_permissions(path, Permissions::from_mode(PRIVATE)).map_err(prepare)
        } else {
            Ok(())
        };
    }
    if let Some(parent) = path.parent() {
        make_directory(parent)?;
    }
    match fs::DirBuilder::new().mode(PRIVATE).create(path) {
        // Another `up` was faster; the lock decides.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made.map_err(prepare),
    }
}

fn make_directory(path: &Path) -> Result<(), Error> {
    fs::create_dir_all(path).map_err(|source| Error::Prepare { path: path.to_owned(), source })
}

/// A number that two runs do not share.
fn seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::from(now.subsec_nanos()) ^ (now.as_secs() << 20) ^ (u64::from(std::process::id()) << 40)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_its_user_may_enter_the_directory_of_a_cluster() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("a/run");
        let mode = || fs::metadata(&dir).unwrap().permissions().mode() & 0o777;
        let lock = take_directory(&dir).unwrap();
        assert!(lock.is_some() && mode() == 0o700, "{:o}", mode());
        fs::set_permissions(&dir, Permissions::from_mode(0o755)).unwrap();
        drop(lock);
        take_directory(&dir).unwrap();
        assert_eq!(mode(), 0o700, "a directory of the version before is closed");
    }

    #[test]
    fn a_directory_of_the_user_keeps_its_mode() {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        take_directory(folder.path()).unwrap();
        assert_eq!(fs::metadata(folder.path()).unwrap().permissions().mode() & 0o777, 0o755);
    }
}
