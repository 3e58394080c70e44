//! `deployctl down`: stops what `up` started, in whatever state it was left, and removes the workload's containers.
//!
//! Repeating it changes nothing. A process is only ended if its command line is the one in the state file.

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
        // Without an engine nothing of the workload runs.
        Err(error) => eprintln!("containers were not looked for: {error}"),
    }
    if !asked.purge {
        eprintln!("PodGroups and logs are kept in {}; the next `deployctl up` runs them again", dir.display());
    } else {
        fs::remove_dir_all(dir).map_err(|source| Error::Prepare { path: dir.to_owned(), source })?;
        eprintln!("{} removed: every PodGroup of the cluster is forgotten", dir.display());
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

/// Removes the containers and networks of the cluster in `dir`, or says that they stay.
pub async fn remove_containers(dir: &Path, engine: &Engine, keep: bool) -> Result<(), Error> {
    let Some(cluster) = Cluster::load(dir)? else { return Ok(()) };
    if keep {
        let left = engine.containers(&cluster.cluster).await?.len();
        if left > 0 {
            eprintln!("{} kept; the next `deployctl up` takes them over", count(left, "container"));
        }
        return Ok(());
    }
    let removed = engine.remove_cluster(&cluster.cluster).await?;
    if removed.containers + removed.networks > 0 {
        let (containers, networks) = (count(removed.containers, "container"), count(removed.networks, "network"));
        eprintln!("{containers} and {networks} removed");
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
    fn a_request_is_taken_once() {
        let dir = tempfile::tempdir().unwrap();
        assert!(!take_request(dir.path()));
        fs::write(dir.path().join(REQUEST), "").unwrap();
        assert!(take_request(dir.path()) && !take_request(dir.path()));
    }
}
