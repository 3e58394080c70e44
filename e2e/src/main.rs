//! Tests and measurements on real processes.
//!
//! `chaos` kills, stops and cuts the processes of real clusters and checks every acknowledged command. `bench` measures deployd
//! beside the engine's own API and Swarm mode. `agents` and `placement` measure how large a cluster can be.

mod args;
mod bench;
mod chaos;
mod cluster;
mod load;
mod percentile;

use std::process::ExitCode;

use args::Command;
use clap::Parser;
use fabric::shutdown::Shutdown;

/// The exit code that shells report for an interrupted program.
const INTERRUPTED: u8 = 130;
/// A test or measurement could not be performed.
const NOT_DONE: u8 = 3;

fn main() -> ExitCode {
    match args::Args::parse().command {
        Command::Chaos(args) => on_two_threads(async |shutdown| {
            tokio::select! {
                code = Box::pin(chaos::run(&args)) => code,
                // Dropping the experiment takes its clusters down.
                () = shutdown.wait() => {
                    eprintln!("proof: interrupted; taking the clusters down");
                    ExitCode::from(INTERRUPTED)
                }
            }
        }),
        // The bench cleans up itself, also when it is interrupted.
        Command::Bench(args) => on_two_threads(async |shutdown| Box::pin(bench::run(&args, &shutdown)).await),
        Command::Agents(settings) => load::agents(&settings),
        Command::Placement(settings) => load::placement(&settings),
        Command::Scheduler { arguments } => load::scheduler(&arguments),
    }
}

fn on_two_threads(run: impl AsyncFnOnce(Shutdown) -> ExitCode) -> ExitCode {
    match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime.block_on(async { run(Shutdown::on_signals()).await }),
        Err(error) => {
            eprintln!("proof: cannot start: {error}");
            ExitCode::from(NOT_DONE)
        }
    }
}

/// An error with its causes, each on its own line.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text = format!("{text}\n  caused by: {cause}");
        next = cause.source();
    }
    text
}
