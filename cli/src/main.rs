//! Parses the command line, does what it says, and ends with the exit code the help promises.

use std::process::ExitCode;

use clap::Parser;
use cli::args::Args;

fn main() -> ExitCode {
    let args = Args::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("deployctl: cannot start: {error}");
            return ExitCode::FAILURE;
        }
    };
    // The commands' futures are large; on the heap they do not weigh on the main thread's stack.
    match runtime.block_on(Box::pin(cli::run(&args))) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("deployctl: {}", with_causes(&error));
            ExitCode::from(error.exit_code())
        }
    }
}

/// An error with its remedy, and below it what caused it; an error that only passes another on is told once.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}\n  caused by: {cause_text}");
        }
        next = cause.source();
    }
    text
}
