//! `proof`: deployd's promises, checked on real processes and measured.
//!
//! It drives whole clusters through the ways users have and knows none of the processes from inside. Ctrl-C drops whatever
//! runs, and what is dropped takes its cluster down.

mod args;
mod bench;
mod bystanders;
mod calm;
mod chance;
mod chaos;
mod checks;
mod cluster;
mod copies;
mod docker;
mod dockerd;
mod downtime;
mod experiment;
mod fault;
mod figures;
mod gate;
mod line;
mod model;
mod node;
mod raw;
mod request;
mod scenario;
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
        let asked = match &args.command {
            // It tidies up before it ends, also when it is interrupted.
            args::Command::Bench(asked) => return Box::pin(bench::run(asked, &shutdown)).await,
            args::Command::Chaos(asked) => asked,
        };
        tokio::select! {
            code = Box::pin(chaos::run(asked)) => code,
            () = shutdown.wait() => {
                eprintln!("proof: interrupted; taking the clusters down");
                ExitCode::from(INTERRUPTED)
            }
        }
    })
}
