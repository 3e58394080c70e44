//! Stops what `start` started, in whatever state it was left, and removes the workload's containers.
//!
//! Repeating it changes nothing. A process is only ended if its command line is the one in the state file. Removing the
//! containers also removes what the cluster stored about them: with the records kept, the next `up` would find every container
//! missing, treat that as a fault, and back off before it creates them again.

use std::fs::{self, File};
use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;
use tokio::time::{Instant, sleep};

use crate::docker::Engine;
use crate::restart::{STOPPING, grace};
use crate::state::{self, Cluster, Process};
use crate::{Error, child, lock};

/// Longest orderly stop: every step of the order with its grace, twice over for a busy machine.
const STOP_DEADLINE: Duration = Duration::from_secs(90);
/// File by which `down` asks a foreground `up` to leave the containers to it.
const REQUEST: &str = "down-requested";

/// Whether `dir` holds a cluster, running or stopped.
pub fn has_cluster(dir: &Path) -> bool {
    dir.join(state::FILE).exists() || dir.join(lock::FILE).exists()
}

/// Stops every process of the cluster in `dir`. The caller holds the returned lock while it cleans up, so that no `up` starts
/// meanwhile.
pub async fn stop_processes(dir: &Path) -> Result<File, Error> {
    let take = || lock::take(dir).map_err(|source| Error::Prepare { path: dir.join(lock::FILE), source });
    let request = dir.join(REQUEST);
    let started = Instant::now();
    let mut asked = None;
    // A lock that is held means a running supervisor; one that is just starting is not in the file yet.
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
        if started.elapsed() > STOP_DEADLINE {
            let log = dir.join("logs").join("supervisor.log");
            return Err(Error::Stuck { pid: asked.unwrap_or(0), after: STOP_DEADLINE, log });
        }
        sleep(Duration::from_millis(50)).await;
    };
    // A foreground `up` has removed the request by now; a background supervisor never reads it.
    let _ = fs::remove_file(&request);
    if let Some(mut cluster) = Cluster::load(dir)? {
        end_leftovers(&cluster).await;
        cluster.supervisor = None;
        cluster.children.iter_mut().for_each(|child| child.pid = None);
        cluster.store(dir)?;
    }
    Ok(lock)
}

/// Whether `down` asked this foreground `up` to stop. Removes the request.
pub fn take_request(dir: &Path) -> bool {
    fs::remove_file(dir.join(REQUEST)).is_ok()
}

/// Ends the processes that a crashed supervisor left behind, in the usual order.
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

/// Removes the containers, networks and stored state of the cluster in `dir`, or prints that they are kept.
pub async fn remove_containers(dir: &Path, engine: &Engine, keep: bool) -> Result<(), Error> {
    let Some(cluster) = Cluster::load(dir)? else { return Ok(()) };
    if keep {
        let left = count(engine.containers(&cluster.cluster).await?.len(), "container");
        eprintln!("{left} and all PodGroups kept; the next `deployctl up` takes them over");
        return Ok(());
    }
    let removed = engine.remove_cluster(&cluster.cluster).await?;
    let (containers, networks) = (count(removed.containers, "container"), count(removed.networks, "network"));
    delete_stored_state(dir)?;
    eprintln!(
        "{containers}, {networks}, all PodGroups, tokens, policies and the audit log removed; logs and volumes are kept in {}",
        dir.display()
    );
    Ok(())
}

/// Deletes groups and placements. The agents' ledgers go first: a ledger that holds the orders of a deleted cluster would
/// reject the orders of the next one.
fn delete_stored_state(dir: &Path) -> Result<(), Error> {
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

    #[test]
    fn the_stored_state_is_deleted_and_logs_and_volumes_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        for path in ["etcd/member", "nats/jetstream", "logs", "nodes/node-1/state", "nodes/node-1/volumes"] {
            fs::create_dir_all(dir.path().join(path)).unwrap();
        }
        delete_stored_state(dir.path()).unwrap();
        delete_stored_state(dir.path()).unwrap();
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
