//! `deployctl down`: stops what `up` started, in whatever state it was left, and removes the workload's containers.
//!
//! Repeating it changes nothing. A process is only ended if its command line is the one in the state file. The
//! surprise: with the containers goes what the cluster knew of them. Were it kept, the next `up` would find every
//! container missing, take that for a fault, and after a few rounds wait ever longer before it makes them anew.

use std::fs::{self, File};
use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;
use tokio::time::{Instant, sleep};

use super::child;
use super::restart::{STOPPING, grace};
use super::state::{Cluster, Process};
use super::{Error, lock};
use crate::args::Down;
use crate::docker::Engine;
use crate::progress::Progress;

/// Longest orderly stop: every step of the order with its grace, twice over for a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);
/// Tells a foreground `up` that `down` takes care of the containers.
const REQUEST: &str = "down-requested";

/// `deployctl down`
pub async fn down(dir: &Path, asked: &Down) -> Result<(), Error> {
    if !dir.join(super::state::FILE).exists() && !dir.join(lock::FILE).exists() {
        eprintln!("nothing to stop: there is no cluster in {}", dir.display());
        return Ok(());
    }
    let progress = Progress::start("stopping the cluster");
    // Held to the end, so that nobody starts what is being taken away.
    let _lock = match stop_processes(dir).await {
        Ok(lock) => lock,
        Err(error) => {
            progress.abandon();
            return Err(error);
        }
    };
    progress.done("no process of the cluster runs any more");
    match Engine::connect().await {
        Ok(engine) => remove_containers(dir, &engine, asked.keep_containers).await?,
        Err(error) if asked.keep_containers || Cluster::load(dir)?.is_none() => {
            eprintln!("containers were not looked for: {error}");
        }
        // The state, which knows the cluster's id, stays: the next `down` finds the containers by it.
        Err(error) => return Err(Error::ContainersLeft(error)),
    }
    if asked.purge {
        fs::remove_dir_all(dir).map_err(|source| Error::Prepare { path: dir.to_owned(), source })?;
        eprintln!("{} removed", dir.display());
    }
    Ok(())
}

async fn stop_processes(dir: &Path) -> Result<File, Error> {
    let take = || lock::take(dir).map_err(|source| Error::Prepare { path: dir.join(lock::FILE), source });
    let request = dir.join(REQUEST);
    let started = Instant::now();
    let mut asked = None;
    // While somebody holds the lock the supervisor is alive; it may only just be starting and not in the file yet.
    let lock = loop {
        if let Some(lock) = take()? {
            break lock;
        }
        let supervisor = Cluster::load(dir)?.and_then(|cluster| cluster.supervisor);
        if let Some(supervisor) = supervisor.filter(|supervisor| asked != Some(supervisor.pid)) {
            fs::write(&request, "").map_err(|source| Error::Prepare { path: request.clone(), source })?;
            child::signal_process(&supervisor, Signal::TERM);
            asked = Some(supervisor.pid);
        }
        if started.elapsed() > PATIENCE {
            let log = dir.join("logs").join("supervisor.log");
            return Err(Error::Stuck { pid: asked.unwrap_or(0), after: PATIENCE, log });
        }
        sleep(Duration::from_millis(50)).await;
    };
    // A foreground `up` has taken it by now, a background one never does.
    let _ = fs::remove_file(&request);
    if let Some(mut cluster) = Cluster::load(dir)? {
        end_leftovers(&cluster).await;
        cluster.supervisor = None;
        cluster.children.iter_mut().for_each(|child| child.pid = None);
        cluster.store(dir)?;
    }
    Ok(lock)
}

/// Whether `down` asked a foreground `up` to stop; the question can be asked once.
pub fn take_request(dir: &Path) -> bool {
    fs::remove_file(dir.join(REQUEST)).is_ok()
}

/// Ends processes that a supervisor which died left behind, in the usual order.
pub async fn end_leftovers(cluster: &Cluster) {
    let mut ended = Vec::new();
    for step in STOPPING {
        for child in cluster.children.iter().filter(|child| step.contains(&child.role)) {
            let Some(pid) = child.pid else { continue };
            let process = Process { pid, command: child.command.clone() };
            if child::runs(&process) {
                child::end(&process, grace(child.role)).await;
                ended.push(child.name.as_str());
            }
        }
    }
    if !ended.is_empty() {
        eprintln!("an earlier run was cut off and left processes behind, which are ended now: {}", ended.join(", "));
    }
}

/// Removes the containers and networks of the cluster in `dir` and what the cluster knew, or says that they stay.
pub async fn remove_containers(dir: &Path, engine: &Engine, keep: bool) -> Result<(), Error> {
    let Some(cluster) = Cluster::load(dir)? else { return Ok(()) };
    if keep {
        let left = count(engine.containers(&cluster.cluster).await?.len(), "container");
        eprintln!("{left} and all PodGroups kept; the next `deployctl up` takes them over");
        return Ok(());
    }
    let removed = engine.remove_cluster(&cluster.cluster).await?;
    let (containers, networks) = (count(removed.containers, "container"), count(removed.networks, "network"));
    forget(dir)?;
    eprintln!("{containers}, {networks} and all PodGroups removed; logs and volumes are kept in {}", dir.display());
    Ok(())
}

/// Forgets groups and placements. The agents' ledgers go first: a ledger that remembers the orders of a forgotten
/// cluster would refuse those of the next one.
fn forget(dir: &Path) -> Result<(), Error> {
    let nodes = fs::read_dir(dir.join("nodes")).into_iter().flatten().flatten().map(|node| node.path().join("state"));
    for path in nodes.chain([dir.join("nats"), dir.join("etcd")]) {
        match fs::remove_dir_all(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            removed => removed.map_err(|source| Error::Prepare { path, source })?,
        }
    }
    Ok(())
}

fn count(number: usize, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn there_may_be_nothing_to_stop() {
        let dir = tempfile::tempdir().unwrap();
        let asked = Down { keep_containers: true, purge: false };
        down(dir.path(), &asked).await.unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "and nothing was made");
    }

    #[test]
    fn the_state_is_forgotten_and_logs_and_volumes_are_not() {
        let dir = tempfile::tempdir().unwrap();
        for path in ["etcd/member", "nats/jetstream", "logs", "nodes/node-1/state", "nodes/node-1/volumes"] {
            fs::create_dir_all(dir.path().join(path)).unwrap();
        }
        forget(dir.path()).unwrap();
        forget(dir.path()).unwrap();
        let there = |path: &str| dir.path().join(path).exists();
        assert!(there("logs") && there("nodes/node-1/volumes"));
        assert!(!there("etcd") && !there("nats") && !there("nodes/node-1/state"));
    }

    #[test]
    fn a_request_is_taken_once() {
        let dir = tempfile::tempdir().unwrap();
        assert!(!take_request(dir.path()));
        fs::write(dir.path().join(REQUEST), "").unwrap();
        assert!(take_request(dir.path()) && !take_request(dir.path()));
    }
}
