//! `proof`: deployd's promises, checked on real processes and measured.
//!
//! It drives whole clusters through the ways users have and knows none of the processes from inside. Ctrl-C drops whatever
//! runs, and what is dropped takes its cluster down.

mod args;
mod calm;
mod chance;
mod chaos;
mod checks;
mod cluster;
mod copies;
mod docker;
mod experiment;
mod fault;
mod figures;
mod model;
mod request;
mod trial;
mod workload;

use std::process::ExitCode;

use clap::Parser;
use fabric::shutdown::Shutdown;

/// As shells report an interrupted program.
const INTERRUPTED: u8 = 130;

fn main() -> ExitCode {
    let args = args::Args::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("proof: cannot start: {error}");
            return ExitCode::from(3);
        }
    };
    runtime.block_on(async {
        let shutdown = Shutdown::on_signals();
        let args::Command::Chaos(asked) = &args.command;
        tokio::select! {
            code = Box::pin(chaos::run(asked)) => code,
            () = shutdown.wait() => {
                eprintln!("proof: interrupted; taking the clusters down");
                ExitCode::from(INTERRUPTED)
            }
        }
    })
}
