//! `deployctl down`: stops the local cluster and removes its containers and PodGroups.

use std::fs;
use std::path::Path;

use devcluster::docker::Engine;
use devcluster::state::Cluster;
use devcluster::stop;

use super::Error;
use crate::args::Down;
use crate::output::progress::Progress;

/// `deployctl down`
pub async fn down(dir: &Path, asked: &Down) -> Result<(), Error> {
    if !stop::has_cluster(dir) {
        eprintln!("nothing to stop: there is no cluster in {}", dir.display());
        return Ok(());
    }
    let progress = Progress::start("stopping the cluster");
    // Held to the end, so that no `up` starts the cluster meanwhile.
    let _lock = match stop::stop_processes(dir).await {
        Ok(lock) => lock,
        Err(error) => {
            progress.abandon();
            return Err(error.into());
        }
    };
    progress.done("no process of the cluster runs any more");
    match Engine::connect().await {
        Ok(engine) => stop::remove_containers(dir, &engine, asked.keep_containers).await?,
        Err(error) if asked.keep_containers || Cluster::load(dir)?.is_none() => {
            eprintln!("containers were not looked for: {error}");
        }
        // The state file with the cluster's id stays: the next `down` finds the containers by it.
        Err(error) => return Err(Error::ContainersLeft(error)),
    }
    if asked.purge {
        fs::remove_dir_all(dir).map_err(|source| devcluster::Error::Prepare { path: dir.to_owned(), source })?;
        eprintln!("{} removed", dir.display());
    }
    Ok(())
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
}
