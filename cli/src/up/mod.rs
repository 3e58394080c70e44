//! `deployctl up`: a whole cluster on this machine, started, supervised and shown.
//!
//! `prepare` looks at the machine and plans, the supervisor runs the plan (in this process, or in the background with
//! `--detach`), and what is left here waits until everything is ready, deploys the demo and tells people about it.

pub mod child;
pub mod demo;
pub mod down;
pub mod lock;
pub mod plan;
pub mod ports;
pub mod preflight;
pub mod probe;
pub mod ready;
pub mod restart;
pub mod show;
pub mod state;
pub mod supervisor;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fabric::shutdown::Shutdown;
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use self::state::Cluster;
use self::supervisor::{Journal, Supervisor};
use crate::api::{self, Api};
use crate::args::Up;
use crate::docker::{self, Engine};
use crate::progress::Progress;
use crate::status;

/// Why the cluster is not up, or not down.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or directory of the cluster cannot be made.
    #[error("cannot prepare {path}; choose another directory with --dir if this one may not be written")]
    Prepare {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The background supervisor cannot be started.
    #[error("cannot start the supervisor in the background")]
    Detach(#[source] io::Error),
    /// The supervisor ended while we waited.
    #[error("the supervisor ended: {reason}\nthe end of {}:\n{tail}", log.display())]
    SupervisorEnded {
        /// How.
        reason: String,
        /// Its log.
        log: PathBuf,
        /// The end of it.
        tail: String,
    },
    /// Another `up` is at work.
    #[error("another `deployctl up` is just starting in {0}; try again in a moment")]
    Starting(PathBuf),
    /// The cluster runs but is not well.
    #[error("the cluster in {0} is already running, but not well; `deployctl down` stops it")]
    Unwell(PathBuf),
    /// The supervisor does not stop.
    #[error("the supervisor (pid {pid}) did not stop in {} s; its log is {}", after.as_secs(), log.display())]
    Stuck {
        /// Its process.
        pid: u32,
        /// How long we waited.
        after: Duration,
        /// Its log.
        log: PathBuf,
    },
    /// The processes are stopped, and the engine cannot be asked to remove the containers.
    #[error("the containers and PodGroups were not removed; run `deployctl down` again when the engine answers")]
    ContainersLeft(#[source] docker::Error),
    /// The state file.
    #[error(transparent)]
    State(#[from] state::Error),
    /// Something is missing.
    #[error(transparent)]
    Preflight(#[from] preflight::Error),
    /// Ports.
    #[error(transparent)]
    Ports(#[from] ports::Error),
    /// The engine.
    #[error(transparent)]
    Engine(#[from] docker::Error),
    /// It does not become ready.
    #[error(transparent)]
    Ready(#[from] ready::Error),
    /// The demo does not run.
    #[error(transparent)]
    Demo(#[from] demo::Error),
    /// The supervisor failed.
    #[error(transparent)]
    Supervisor(#[from] supervisor::Error),
    /// The API.
    #[error(transparent)]
    Api(#[from] api::Error),
}

/// The supervisor, wherever it runs.
enum Running {
    Here { task: JoinHandle<Result<(), supervisor::Error>>, stop: Shutdown, _lock: File },
    Background(tokio::process::Child),
}

/// `deployctl up`
pub async fn up(dir: &Path, asked: &Up) -> Result<(), Error> {
    let shutdown = stop_signals();
    make_directory(dir)?;
    let Some(lock) = take_lock(dir)? else { return already_running(dir, asked).await };
    let engine = Engine::connect().await?;
    prepare(dir, asked).await?;
    let started = Instant::now();
    let mut running = if asked.detach { start_in_background(dir, lock)? } else { start_here(dir, lock)? };
    let shown = tokio::select! {
        shown = bring_up(dir, asked, &engine, started) => shown,
        ended = running.ended(dir) => Err(ended),
        () = shutdown.wait() => return stop(dir, asked, running, &engine).await,
    };
    if let Err(error) = shown {
        // Half a cluster helps nobody; its logs stay.
        running.stop().await;
        return Err(error);
    }
    if asked.detach {
        show::leave_running(dir);
        return Ok(());
    }
    show::until_interrupted();
    tokio::select! {
        ended = running.ended(dir) => Err(ended),
        () = shutdown.wait() => stop(dir, asked, running, &engine).await,
    }
}

/// Ctrl-C, SIGTERM, and the terminal that is closed: otherwise the processes would be left behind.
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

/// `deployctl supervise`: what `up --detach` starts. The lock is this process's standard input.
pub async fn supervise(dir: &Path) -> Result<(), Error> {
    // Listening for it is enough to outlive the terminal.
    let _hangup = signal(SignalKind::hangup()).map_err(Error::Detach)?;
    Ok(Supervisor::new(dir, Journal::Standard)?.run(Shutdown::on_signals()).await?)
}

/// Plans the cluster and writes everything the supervisor needs.
async fn prepare(dir: &Path, asked: &Up) -> Result<(), Error> {
    let programs = preflight::programs()?;
    let before = Cluster::load(dir)?;
    if let Some(before) = &before {
        down::end_leftovers(before).await;
    }
    let known = before.as_ref().map(|cluster| cluster.ports.clone()).unwrap_or_default();
    let names = plan::port_names(asked.nodes);
    let ports = ports::choose(&names, &plan::fixed_ports(asked.port), &known, seed())?;
    let cluster = before.map_or_else(|| format!("local-{:x}", seed()), |cluster| cluster.cluster);
    let facts = plan::Facts {
        dir,
        cluster: &cluster,
        asked,
        engine: &docker::socket(),
        programs: &programs,
        machine: preflight::machine(),
        ports: &ports,
    };
    for directory in plan::directories(dir, asked.nodes) {
        make_directory(&directory)?;
    }
    write_nats_config(dir, &ports)?;
    plan::plan(&facts).store(dir)?;
    Ok(())
}

fn write_nats_config(dir: &Path, ports: &BTreeMap<String, u16>) -> Result<(), Error> {
    let path = plan::nats_config_file(dir);
    let text = plan::nats_config(dir, ports.get("nats").copied().unwrap_or(0));
    fs::write(&path, text).map_err(|source| Error::Prepare { path, source })
}

/// Waits until everything is ready, deploys the demo and shows it.
async fn bring_up(dir: &Path, asked: &Up, engine: &Engine, started: Instant) -> Result<(), Error> {
    let progress = Progress::start("starting the cluster");
    let brought = async {
        let cluster = ready::wait(dir, asked.timeout, &progress).await?;
        progress.update("the cluster is ready");
        let api = Api::new(&cluster.api)?;
        match demo::import(engine).await {
            // Nobody asked for it; it would only have been there for `apply`.
            Err(demo::Error::NotBuilt(_)) if asked.no_demo => {}
            imported => imported?,
        }
        let demo = if asked.no_demo { None } else { Some(demo::deploy(&api, &progress).await?) };
        Ok::<_, Error>((cluster, demo))
    };
    match brought.await {
        Ok((cluster, demo)) => {
            progress.done(&format!("ready after {:.1} s", started.elapsed().as_secs_f64()));
            show::cluster(dir, &cluster, demo.as_ref());
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
    let well = status::status(dir, &Api::new(&cluster.api)?).await?;
    eprintln!("`deployctl status` shows it again, `deployctl down` stops it");
    if well { Ok(()) } else { Err(Error::Unwell(dir.to_owned())) }
}

fn start_here(dir: &Path, lock: File) -> Result<Running, Error> {
    let log = child::open_log(dir, "supervisor").map_err(|source| Error::Prepare { path: dir.join("logs"), source })?;
    let stop = Shutdown::new();
    let supervisor = Supervisor::new(dir, Journal::Foreground(log))?;
    let task = fabric::tasks::spawn("supervisor", supervisor.run(stop.clone()));
    Ok(Running::Here { task, stop, _lock: lock })
}

fn start_in_background(dir: &Path, lock: File) -> Result<Running, Error> {
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
    /// Returns when the supervisor ends by itself, which it should not.
    async fn ended(&mut self, dir: &Path) -> Error {
        let reason = match self {
            Self::Here { task, .. } => match task.await {
                Ok(Ok(())) => "nobody knows why".to_owned(),
                Ok(Err(error)) => error.to_string(),
                Err(error) => error.to_string(),
            },
            Self::Background(child) => child.wait().await.map_or_else(|e| e.to_string(), |status| status.to_string()),
        };
        let tail = child::last_lines(dir, "supervisor", 12);
        Error::SupervisorEnded { reason, log: dir.join("logs").join("supervisor.log"), tail }
    }

    /// Stops every process in order; the supervisor bounds how long that takes.
    async fn stop(self) {
        match self {
            Self::Here { task, stop, _lock } => {
                stop.trigger();
                // It may have ended before; its error was told then.
                let _ = task.await;
            }
            Self::Background(mut child) => {
                let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(rustix::process::Pid::from_raw);
                if let Some(pid) = pid {
                    let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
                }
                let _ = child.wait().await;
            }
        }
    }
}

/// Ctrl-C or SIGTERM: stops everything, and removes the workload unless `down` or the user wants to decide that.
async fn stop(dir: &Path, asked: &Up, running: Running, engine: &Engine) -> Result<(), Error> {
    let progress = Progress::start("stopping the cluster");
    running.stop().await;
    progress.done("all processes stopped");
    let keep = asked.keep_containers || down::take_request(dir);
    down::remove_containers(dir, engine, keep).await
}

fn take_lock(dir: &Path) -> Result<Option<File>, Error> {
    lock::take(dir).map_err(|source| Error::Prepare { path: dir.join(lock::FILE), source })
}

fn make_directory(path: &Path) -> Result<(), Error> {
    fs::create_dir_all(path).map_err(|source| Error::Prepare { path: path.to_owned(), source })
}

/// A number that two runs do not share.
fn seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::from(now.subsec_nanos()) ^ (now.as_secs() << 20) ^ (u64::from(std::process::id()) << 40)
}
