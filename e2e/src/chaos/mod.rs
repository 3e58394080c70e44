//! Kills, stops, cuts and floods real clusters under load, and checks every promise.
//!
//! An [`experiment`] runs a [`scenario`] on one or more clusters ([`run`]). Meanwhile a [`workload`] sends commands, whose effects
//! a [`model`] adds up; [`checks`] compares the model with the API and the engine.

mod checks;
mod control_groups;
mod docker_proxy;
mod downtime;
mod duplicate_watch;
mod experiment;
mod fault;
mod figures;
mod foreign_containers;
mod model;
mod request;
mod run;
mod scenario;
mod tcp_proxy;
mod workload;

use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};

use futures_util::StreamExt;
use serde_json::{Value, json};

use crate::args::Chaos;
use crate::cluster::Error;
use crate::{NOT_DONE, with_causes};
pub(crate) use experiment::NAMES as EXPERIMENTS;
use experiment::{Experiment, Size, Trial, experiments};
use run::ClusterReport;

/// Most broken promises shown for one experiment: one cause often breaks many.
const MOST_SHOWN: usize = 20;
/// Clusters of the short form at a time; they mostly wait.
const AT_ONCE_WHEN_SHORT: usize = 3;
/// A promise was broken.
const BROKEN: u8 = 1;

pub(crate) async fn run(asked: &Chaos) -> ExitCode {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let seed = asked.seed.unwrap_or(now);
    let size = match (asked.short, asked.long) {
        (true, _) => Size::Short,
        (false, true) => Size::Long,
        (false, false) => Size::Usual,
    };
    println!("seed {seed}");
    // The short form is for those who wait: several experiments at a time.
    let at_once = if size == Size::Short { AT_ONCE_WHEN_SHORT } else { 1 };
    let experiments = experiments(size, asked.only.as_deref(), seed);
    let running = experiments.iter().map(|experiment| Box::pin(one(experiment, seed)));
    let done: Vec<(u8, Value)> = futures_util::stream::iter(running).buffered(at_once).collect().await;
    let mut worst = done.iter().map(|(code, _)| *code).max().unwrap_or(0);
    let all: Vec<&Value> = done.iter().map(|(_, value)| value).collect();
    if let Some(path) = &asked.json {
        let text = format!("{:#}\n", json!({"seed": seed, "experiments": all}));
        if let Err(error) = std::fs::write(path, text) {
            eprintln!("cannot write {}: {error}", path.display());
            worst = worst.max(NOT_DONE);
        }
    }
    ExitCode::from(worst)
}

/// Runs one experiment and says what came of it.
async fn one(experiment: &Experiment, seed: u64) -> (u8, Value) {
    let begun = Instant::now();
    let mut reports = Vec::new();
    for (number, pair) in experiment.trials.chunks(2).enumerate() {
        match both(experiment, pair, seed.wrapping_add(2 * number as u64)).await {
            Ok(done) => reports.extend(done),
            Err(error) => {
                eprintln!("{}: {}", experiment.name, with_causes(&error));
                return (NOT_DONE, json!({"experiment": experiment.name, "error": error.to_string()}));
            }
        }
    }
    let figures = figures::figures(&reports, experiment.accepted);
    let mut text = format!("\n{}\n", figures::table(experiment.name, &figures));
    for line in figures::pauses(&reports) {
        text += &format!("{line}\n");
    }
    text += &format!("({} clusters, {:.0} s)\n", reports.len(), begun.elapsed().as_secs_f64());
    let broken: Vec<String> =
        reports.iter().flat_map(|r| &r.broken).map(|b| format!("{:?}: {}", b.promise, b.what)).collect();
    for line in broken.iter().take(MOST_SHOWN) {
        text += &format!("BROKEN {line}\n");
    }
    if broken.len() > MOST_SHOWN {
        text += &format!("and {} more\n", broken.len() - MOST_SHOWN);
    }
    // At once: another experiment may have something to say too.
    print!("{text}");
    (if broken.is_empty() { 0 } else { BROKEN }, figures::json(experiment.name, &figures, &broken))
}

/// Two clusters side by side, or the last one alone.
async fn both(experiment: &Experiment, pair: &[Trial], seed: u64) -> Result<Vec<ClusterReport>, Error> {
    let within: Duration = experiment.limit;
    let first = run::run(experiment.name, &pair[0], seed);
    let done = async {
        match pair.get(1) {
            None => Ok(vec![first.await?]),
            Some(other) => {
                let second = run::run(experiment.name, other, seed.wrapping_add(1));
                let (first, second) = tokio::join!(Box::pin(first), Box::pin(second));
                Ok(vec![first?, second?])
            }
        }
    };
    let late = |_| Error::Late { what: format!("{} ends", experiment.name), within };
    tokio::time::timeout(within, Box::pin(done)).await.map_err(late)?
}
