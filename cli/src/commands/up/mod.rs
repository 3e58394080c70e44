//! `deployctl up`: starts a local cluster, waits until it is ready, deploys the demo and shows both.

pub mod demo;
pub mod down;
pub mod ready;

use std::path::{Path, PathBuf};

use devcluster::docker::{self, Engine};
use devcluster::start::{self, Running};
use devcluster::state::{self, Cluster};
use devcluster::stop;
use fabric::shutdown::Shutdown;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;

use crate::api::{self, Api};
use crate::args::{Output, Up};
use crate::commands::status;
use crate::endpoint;
use crate::output;
use crate::output::progress::Progress;

/// Why the cluster is not up, or not down.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("another `deployctl up` is just starting in {0}; try again in a moment")]
    Starting(PathBuf),
    #[error("the cluster in {0} is already running, but not well; `deployctl down` stops it")]
    Unwell(PathBuf),
    #[error("the containers and PodGroups were not removed; run `deployctl down` again when the engine answers")]
    ContainersLeft(#[source] docker::Error),
    #[error(transparent)]
    Processes(#[from] devcluster::Error),
    #[error(transparent)]
    State(#[from] state::Error),
    #[error(transparent)]
    Docker(#[from] docker::Error),
    #[error(transparent)]
    Ready(#[from] ready::Error),
    #[error(transparent)]
    Demo(#[from] demo::Error),
    #[error(transparent)]
    Api(#[from] api::Error),
}

/// `deployctl up`
pub async fn up(dir: &Path, asked: &Up) -> Result<(), Error> {
    let shutdown = stop_signals();
    let Some(lock) = start::take_directory(dir)? else { return already_running(dir, asked).await };
    if !asked.no_demo {
        demo::check()?;
    }
    let engine = Engine::connect().await?;
    start::prepare(dir, &asked.settings()).await?;
    let started = Instant::now();
    let mut running = if asked.detach { start::start_in_background(dir, lock)? } else { start::start_here(dir, lock)? };
    let shown = tokio::select! {
        shown = bring_up(dir, asked, &engine, started) => shown,
        ended = running.ended(dir) => Err(ended.into()),
        () = shutdown.wait() => return stop_cluster(dir, asked, running, &engine).await,
    };
    if let Err(error) = shown {
        // A cluster that is only partly up is stopped; its logs stay.
        running.stop().await;
        return Err(error);
    }
    if asked.detach {
        output::up::leave_running(dir);
        return Ok(());
    }
    output::up::until_interrupted();
    tokio::select! {
        ended = running.ended(dir) => Err(ended.into()),
        () = shutdown.wait() => stop_cluster(dir, asked, running, &engine).await,
    }
}

/// Ctrl-C, SIGTERM, and SIGHUP of a closed terminal, which would otherwise leave the processes behind.
fn stop_signals() -> Shutdown {
    let shutdown = Shutdown::on_signals();
    if let Ok(mut hangup) = signal(SignalKind::hangup()) {
        let flag = shutdown.clone();
        fabric::tasks::spawn("hangup", async move {
            hangup.recv().await;
            flag.trigger();
        });
    }
    shutdown
}

/// Waits until everything is ready, deploys the demo and shows it.
async fn bring_up(dir: &Path, asked: &Up, engine: &Engine, started: Instant) -> Result<(), Error> {
    let progress = Progress::start("starting the cluster");
    let brought = async {
        let cluster = ready::wait(dir, asked.timeout, &progress).await?;
        progress.update("the cluster is ready");
        let api = Api::new(&endpoint::urls(&cluster))?;
        match demo::import(engine).await {
            // With --no-demo the image is only a convenience for `apply`.
            Err(demo::Error::NotBuilt(_)) if asked.no_demo => {}
            imported => imported?,
        }
        let demo = if asked.no_demo { None } else { Some(demo::deploy(&api, &progress).await?) };
        Ok::<_, Error>((cluster, demo))
    };
    match brought.await {
        Ok((cluster, demo)) => {
            progress.done(&format!("ready after {:.1} s", started.elapsed().as_secs_f64()));
            output::up::cluster(dir, &cluster, demo.as_ref());
            Ok(())
        }
        Err(error) => {
            progress.abandon();
            Err(error)
        }
    }
}

async fn already_running(dir: &Path, asked: &Up) -> Result<(), Error> {
    let progress = Progress::start("the cluster is already running");
    let ready = match Cluster::load(dir)? {
        Some(_) => ready::wait(dir, asked.timeout, &progress).await,
        None => return Err(Error::Starting(dir.to_owned())),
    };
    progress.abandon();
    let cluster = match ready {
        Ok(cluster) => cluster,
        Err(error) => {
            eprintln!("{error}");
            return Err(Error::Unwell(dir.to_owned()));
        }
    };
    eprintln!("a cluster of {} nodes is already running in {}:", cluster.nodes.len(), dir.display());
    let well = status::status(dir, &Api::new(&endpoint::urls(&cluster))?, Output::Table).await?;
    eprintln!("`deployctl status` shows it again, `deployctl down` stops it");
    if well { Ok(()) } else { Err(Error::Unwell(dir.to_owned())) }
}

/// Stops everything after Ctrl-C or SIGTERM. Removes the containers unless the user keeps them or a `down` removes them.
async fn stop_cluster(dir: &Path, asked: &Up, running: Running, engine: &Engine) -> Result<(), Error> {
    let progress = Progress::start("stopping the cluster");
    running.stop().await;
    progress.done("all processes stopped");
    let keep = asked.keep_containers || stop::take_request(dir);
    Ok(stop::remove_containers(dir, engine, keep).await?)
}
