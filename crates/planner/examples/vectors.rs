//! `cargo run -p planner --example vectors -- FILE` checks the rollout functions against a file of known answers.
//!
//! Prints each vector that failed or was skipped (no such function), then `P passed, F failed, S skipped`. Exits with 1 when
//! a vector failed, with 2 when the file cannot be read.

#[path = "../tests/vectors/runner/mod.rs"]
mod runner;

use std::env;
use std::fs;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = env::args_os().skip(1);
    let (Some(path), None) = (arguments.next(), arguments.next()) else {
        eprintln!("vectors: one argument is needed, the file to check");
        return ExitCode::from(2);
    };
    match fs::read_to_string(&path).map_err(|e| e.to_string()).and_then(|text| runner::run(&text)) {
        Ok((summary, messages)) => {
            messages.iter().for_each(|message| println!("{message}"));
            println!("{} passed, {} failed, {} skipped", summary.passed, summary.failed, summary.skipped);
            if summary.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(reason) => {
            eprintln!("vectors: cannot read {}: {reason}", path.display());
            ExitCode::from(2)
        }
    }
}
