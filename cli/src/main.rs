//! Parses the command line, does what it says, and ends with the exit code the help promises.

use std::process::ExitCode;

use clap::Parser;
use cli::args::Args;
use cli::exit::Exit;

fn main() -> ExitCode {
    end_quietly_when_nobody_reads();
    let args = Args::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("deployctl: cannot start: {error}");
            return ExitCode::from(Exit::Failed.code());
        }
    };
    // The commands' futures are large; on the heap they do not weigh on the main thread's stack.
    match runtime.block_on(Box::pin(cli::run(&args))) {
        Ok(exit) => ExitCode::from(exit.code()),
        Err(error) => {
            eprintln!("deployctl: {}", with_causes(&error));
            ExitCode::from(error.exit().code())
        }
    }
}

/// `deployctl status | head` is no failure to tell of. `println!` panics when its reader is gone, and nobody else does so with
/// these words.
fn end_quietly_when_nobody_reads() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let words = panic.payload_as_str().unwrap_or_default();
        if words.starts_with("failed printing to stdout") && words.contains("Broken pipe") {
            std::process::exit(Exit::PipeClosed.code().into());
        }
        usual(panic);
    }));
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
