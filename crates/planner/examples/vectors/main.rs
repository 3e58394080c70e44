//! `vectors FILE`: holds the rollout functions against a file of known answers.
//!
//! Each vector names a function, its inputs and the answer. Prints every answer that differs beside the one that was
//! expected, and how many passed, failed and were skipped because nobody here knows the function. Ends with 1 when one
//! failed, with 2 when the file cannot be read. Decides nothing: adapters translate JSON to the planner's types and back.

mod file;
mod input;
mod keeping;
mod release;
mod rolling;
mod serial;
mod sets;
mod table;
mod units;

use std::env;
use std::fs;
use std::process::ExitCode;

use file::{Tally, Verdict};

fn main() -> ExitCode {
    let mut arguments = env::args_os().skip(1);
    let (Some(path), None) = (arguments.next(), arguments.next()) else {
        eprintln!("vectors: one argument is needed, the file to evaluate");
        return ExitCode::from(2);
    };
    let shown = path.display();
    let vectors = match fs::read_to_string(&path).map_err(|e| e.to_string()).and_then(|text| file::parse(&text)) {
        Ok(vectors) => vectors,
        Err(reason) => {
            eprintln!("vectors: cannot read {shown}: {reason}");
            return ExitCode::from(2);
        }
    };
    let mut tally = Tally::default();
    for vector in &vectors {
        let verdict = vector.judge();
        match &verdict {
            Verdict::Passed => {}
            Verdict::Failed { got } => println!("{}: expected {}, got {got}", vector.id, vector.expected),
            Verdict::Skipped => println!("{}: skipped, no function {}", vector.id, vector.function),
        }
        tally.count(&verdict);
    }
    println!("{} passed, {} failed, {} skipped", tally.passed, tally.failed, tally.skipped);
    if tally.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
