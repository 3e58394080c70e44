//! Measures deployd beside the engine's own API and Swarm mode, in one run on one machine.
//!
//! No timing fails the run. The bench always removes what it made: containers by the run's label, the cluster by
//! `deployctl down`, the swarm by leaving it.

mod api;
mod containers;
mod contestant;
mod deployd;
mod docker;
mod figure;
mod fleet;
mod machine;
mod progress;
mod race;
mod reaction;
mod report;
mod simulated;
mod size;

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use fabric::shutdown::Shutdown;

use crate::args::Bench;
use crate::cluster::{self, Cluster, IMAGE};
use crate::{INTERRUPTED, NOT_DONE, with_causes};
use contestant::Contestant;
use deployd::{Deployd, ONE_NODE};
use docker::{BenchEngine, SwarmMembership};
use fleet::Measured;
use machine::Machine;
use progress::Progress;
use race::Contestants;
use report::Report;
use size::Size;

/// The bench stops and cleans up a run that takes longer.
const LIMIT: Duration = Duration::from_secs(3600);

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Cluster(#[from] cluster::Error),
    #[error(transparent)]
    Engine(#[from] docker::Error),
    #[error("deployd answered {status} to {what}: {body}")]
    Refused { what: String, status: u16, body: String },
    #[error("deployd did not answer {what}: {why}")]
    Unanswered { what: String, why: String },
    #[error("cannot subscribe to the cluster's bus")]
    Bus(#[source] fabric::nats::Error),
    #[error("no order for the new group arrived on the bus")]
    Unheard,
    #[error("cannot reserve a port on 127.0.0.1")]
    Port(#[source] std::io::Error),
    #[error("not finished within {} s", LIMIT.as_secs())]
    Late,
}

/// Measures, cleans up, prints the figures and writes them to a file.
pub(crate) async fn run(asked: &Bench, shutdown: &Shutdown) -> ExitCode {
    let (engine, mut membership, mut report) = match prepare().await {
        Ok(prepared) => prepared,
        Err(error) => return not_done(&error),
    };
    let begun = Instant::now();
    let ended = tokio::select! {
        ended = tokio::time::timeout(LIMIT, Box::pin(measure(asked, &engine, &mut membership, &mut report))) => Some(ended.unwrap_or(Err(Error::Late))),
        () = shutdown.wait() => None,
    };
    let tidied = tidy(&engine, &mut membership).await;
    report.notes.push(format!(
        "{:.0} s in all, load at the end {}",
        begun.elapsed().as_secs_f64(),
        machine::load_average()
    ));
    let mut written = Ok(());
    if !report.is_empty() {
        report.lines().iter().for_each(|line| println!("{line}"));
        written = report
            .write(&asked.out)
            .map(|path| println!("wrote {0}; Markdown: ./deploy/bench-table {0}", path.display()));
    }
    let Some(ended) = ended else {
        match &tidied {
            Ok(()) => eprintln!("proof: interrupted; removed everything"),
            // A hung engine keeps its containers; the user has to remove them.
            Err(error) => eprintln!("proof: interrupted; could not remove everything: {}", with_causes(error)),
        }
        return ExitCode::from(INTERRUPTED);
    };
    let mut code = ExitCode::SUCCESS;
    let failures: [Option<Box<dyn std::error::Error>>; 3] =
        [ended.err().map(Into::into), tidied.err().map(Into::into), written.err().map(Into::into)];
    for failure in failures.iter().flatten() {
        code = not_done(failure.as_ref());
    }
    code
}

fn not_done(error: &dyn std::error::Error) -> ExitCode {
    eprintln!("proof: {}", with_causes(error));
    ExitCode::from(NOT_DONE)
}

/// Connects to the engine, which must not be part of a swarm.
async fn prepare() -> Result<(BenchEngine, SwarmMembership, Report), Error> {
    let engine = BenchEngine::connect(&format!("bench-{}", std::process::id()))?;
    let membership = engine.require_no_swarm().await?;
    let machine = Machine::look(engine.facts().await?);
    Ok((engine, membership, Report { machine, notes: Vec::new(), figures: Vec::new(), simulated: Vec::new() }))
}

/// Measures one part after another. A failure keeps the figures that were measured before it.
async fn measure(
    asked: &Bench,
    engine: &BenchEngine,
    membership: &mut SwarmMembership,
    report: &mut Report,
) -> Result<(), Error> {
    let size = if asked.short { Size::short() } else { Size::usual() };
    let size = if asked.scale { size.with_full_scale() } else { size };
    let size = size.only(asked.only);
    let progress = Progress::new(size.steps());
    if size.needs_cluster() {
        beside_the_engine(&size, engine, membership, (report, &progress)).await?;
    }
    if size.losses > 0 {
        report.figures.push(reaction::losses(engine, size.losses, &progress).await?);
    }
    measure_simulated(&size, &asked.out, report, &progress).await;
    Ok(())
}

/// Races, kills, orders and API load on one cluster.
async fn beside_the_engine(
    size: &Size,
    engine: &BenchEngine,
    membership: &mut SwarmMembership,
    (report, progress): (&mut Report, &Progress),
) -> Result<(), Error> {
    let cluster = Cluster::start_with(&ONE_NODE).await?;
    let image = engine.image_id(IMAGE).await?;
    let mark = engine.mark(Contestant::Deployd.word());
    deployd::trust(&cluster).await?;
    let mut contestants = Contestants::new(engine, image, Deployd { cluster, mark });
    if let Some(best) = contestants.find_best(size, progress).await? {
        let (starts, removals) = (best.starts, best.removals);
        report.notes.push(format!("raw Docker: {starts} starts and {removals} removals at a time were fastest"));
    }
    if !size.races.is_empty() || size.kills > 0 {
        engine.enter_swarm(free_port()?, membership).await?;
        for race in &size.races {
            race::run(&mut contestants, race, &mut report.figures, progress).await?;
        }
        if size.kills > 0 {
            report.figures.push(reaction::kills(&mut contestants, size.kills, progress).await?);
        }
        engine.leave_swarm(membership).await?;
    }
    let cluster = &contestants.deployd.cluster;
    if size.orders > 0 {
        report.figures.push(reaction::orders(cluster, engine, size.orders, progress).await?);
    }
    if !size.load.is_zero() {
        report.figures.extend(api::run(cluster, size.load, progress).await?);
    }
    Ok(())
}

/// Runs the load generator as a child process. Its failure becomes a note, not an error.
async fn measure_simulated(size: &Size, out: &Path, report: &mut Report, progress: &Progress) {
    if let Err(error) = std::fs::create_dir_all(out) {
        return report.notes.push(format!("simulated agents: not measured, {error}"));
    }
    if let Some(fleet) = &size.placement {
        progress.begin(&format!("placement alone, {}", fleet.shown()));
        match simulated::placement(*fleet, out).await {
            Ok(figure) => report.figures.push(figure),
            Err(why) => report.notes.push(format!("placement alone: not measured, {why}")),
        }
        progress.done();
    }
    for fleet in &size.scale {
        progress.begin(&format!("simulated agents, {}", fleet.shown()));
        match simulated::agents(*fleet, out).await {
            Ok(figures) => report.simulated.push(Measured { fleet: *fleet, figures }),
            Err(why) => report.notes.push(format!("{}: not measured, {why}", fleet.shown())),
        }
        progress.done();
    }
}

/// Removes everything that this run made.
async fn tidy(engine: &BenchEngine, membership: &mut SwarmMembership) -> Result<(), docker::Error> {
    engine.leave_swarm(membership).await?;
    for contestant in Contestant::ALL {
        engine.remove_leftovers(contestant).await?;
    }
    Ok(())
}

fn free_port() -> Result<u16, Error> {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).map_err(Error::Port)?;
    listener.local_addr().map(|address| address.port()).map_err(Error::Port)
}
