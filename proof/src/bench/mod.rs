//! `proof bench`: how fast deployd is, beside the engine's own API and Swarm mode, in one run on one machine.
//!
//! Nothing passes or fails by a timing. However it ends, what it made is removed: containers by the run's label, the
//! cluster by its own command, the swarm by leaving it.

mod chart;
mod deployd;
mod docker;
mod growth;
mod load;
mod machine;
mod output;
mod progress;
mod race;
mod reaction;
mod scale;
mod side;
mod size;
mod standing;
mod statistics;
mod svg;
mod table;

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use fabric::shutdown::Shutdown;

use crate::args::Bench;
use crate::cluster::{self, Cluster, IMAGE};
use deployd::{Deployd, ONE_NODE};
use docker::{Hands, Stay};
use growth::Measured;
use machine::Machine;
use output::Report;
use progress::Progress;
use race::Sides;
use side::Side;
use size::Size;

/// Something could not be measured.
const NOT_DONE: u8 = 3;
/// As shells report an interrupted program.
const INTERRUPTED: u8 = 130;
/// Everything together; a run that takes longer is ended and tidied up.
const LIMIT: Duration = Duration::from_secs(3600);

/// Why something could not be measured.
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
    #[error("cannot listen to the cluster's bus")]
    Bus(#[source] fabric::nats::Error),
    #[error("an order was never seen on the bus")]
    Unheard,
    #[error("no port of 127.0.0.1 can be had")]
    Port(#[source] std::io::Error),
    #[error("not done within {} s", LIMIT.as_secs())]
    Late,
}

/// Measures what was asked for, says and keeps what came of it, and tidies up.
pub(crate) async fn run(asked: &Bench, shutdown: &Shutdown) -> ExitCode {
    let (hands, mut stay, mut report) = match look().await {
        Ok(looked) => looked,
        Err(error) => return not_done(&error),
    };
    let begun = Instant::now();
    let ended = tokio::select! {
        ended = tokio::time::timeout(LIMIT, Box::pin(measure(asked, &hands, &mut stay, &mut report))) => Some(ended.unwrap_or(Err(Error::Late))),
        () = shutdown.wait() => None,
    };
    let tidied = tidy(&hands, &mut stay).await;
    report.notes.push(format!(
        "{:.0} s in all, load at the end {}",
        begun.elapsed().as_secs_f64(),
        machine::load_average()
    ));
    let written = if report.is_empty() { Ok(()) } else { report.write(&asked.out) };
    if !report.is_empty() {
        println!("{}", report.text());
        println!("figures, tables and pictures are in {}", asked.out.display());
    }
    let Some(ended) = ended else {
        match &tidied {
            Ok(()) => eprintln!("proof: interrupted; everything was taken down"),
            // An engine that hangs keeps what it has: whoever ended the run must know.
            Err(error) => eprintln!("proof: interrupted; not everything is gone: {}", crate::chaos::with_causes(error)),
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
    eprintln!("proof: {}", crate::chaos::with_causes(error));
    ExitCode::from(NOT_DONE)
}

/// What must be so before anything is begun.
async fn look() -> Result<(Hands, Stay, Report), Error> {
    let hands = Hands::connect(&format!("bench-{}", std::process::id()))?;
    let stay = hands.outside_of_swarms().await?;
    let machine = Machine::look(hands.facts().await?);
    Ok((hands, stay, Report { machine, notes: Vec::new(), charts: Vec::new(), scale: Vec::new() }))
}

/// Everything that was asked for, one after another. What was measured before something failed is kept.
async fn measure(asked: &Bench, hands: &Hands, stay: &mut Stay, report: &mut Report) -> Result<(), Error> {
    let size = if asked.short { Size::short() } else { Size::usual() };
    let size = if asked.scale { size.with_full_scale() } else { size };
    let size = size.only(asked.only);
    let progress = Progress::new(size.steps());
    if size.needs_cluster() {
        beside_the_engine(&size, hands, stay, (report, &progress)).await?;
    }
    if size.losses > 0 {
        report.charts.push(reaction::losses(hands, size.losses, &progress).await?);
    }
    simulated(&size, &asked.out, report, &progress).await;
    Ok(())
}

/// What one cluster is measured by: races, kills, orders, load.
async fn beside_the_engine(
    size: &Size,
    hands: &Hands,
    stay: &mut Stay,
    (report, progress): (&mut Report, &Progress),
) -> Result<(), Error> {
    let cluster = Cluster::start_with(&ONE_NODE).await?;
    let image = hands.image_id(IMAGE).await?;
    let mark = hands.mark(Side::Deployd.word());
    let mut sides = Sides::new(hands, image, Deployd { cluster, mark });
    if let Some(best) = sides.find_best(size, progress).await? {
        let (starts, removals) = (best.starts, best.removals);
        report.notes.push(format!("raw Docker: {starts} starts and {removals} removals at a time were fastest"));
    }
    if !size.races.is_empty() || size.kills > 0 {
        hands.enter_swarm(free_port()?, stay).await?;
        for race in &size.races {
            race::run(&mut sides, race, &mut report.charts, progress).await?;
        }
        if size.kills > 0 {
            report.charts.push(reaction::kills(&mut sides, size.kills, progress).await?);
        }
        hands.leave_swarm(stay).await?;
    }
    let cluster = &sides.deployd.cluster;
    if size.orders > 0 {
        report.charts.push(reaction::orders(cluster, hands, size.orders, progress).await?);
    }
    if !size.load.is_zero() {
        report.charts.extend(load::run(cluster, size.load, progress).await?);
    }
    Ok(())
}

/// The part another program measures; a run without it is still a run.
async fn simulated(size: &Size, out: &Path, report: &mut Report, progress: &Progress) {
    if let Err(error) = std::fs::create_dir_all(out) {
        return report.notes.push(format!("simulated agents: not measured, {error}"));
    }
    if let Some(fleet) = &size.placement {
        progress.begin(&format!("placement alone, {}", fleet.shown()));
        match scale::placement(*fleet, out).await {
            Ok(chart) => report.charts.push(chart),
            Err(why) => report.notes.push(format!("placement alone: not measured, {why}")),
        }
        progress.done();
    }
    for fleet in &size.scale {
        progress.begin(&format!("simulated agents, {}", fleet.shown()));
        match scale::agents(*fleet, out).await {
            Ok(figures) => report.scale.push(Measured { fleet: *fleet, figures }),
            Err(why) => report.notes.push(format!("{}: not measured, {why}", fleet.shown())),
        }
        progress.done();
    }
}

/// Removes what is left of this run, whatever happened before.
async fn tidy(hands: &Hands, stay: &mut Stay) -> Result<(), docker::Error> {
    hands.leave_swarm(stay).await?;
    for side in Side::ALL {
        hands.sweep(side).await?;
    }
    Ok(())
}

fn free_port() -> Result<u16, Error> {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).map_err(Error::Port)?;
    listener.local_addr().map(|address| address.port()).map_err(Error::Port)
}
