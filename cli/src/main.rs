//! Parses the command line, runs the command, and exits with a code of the documented table.

use std::process::ExitCode;

use clap::Parser;
use cli::args::Args;
use cli::exit::Exit;
use cli::output::terminal;

fn main() -> ExitCode {
    exit_quietly_when_stdout_is_closed();
    let args = Args::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            terminal::print_error(&format!("deployctl: cannot start: {error}"));
            return ExitCode::from(Exit::Failed.code());
        }
    };
    // The commands' futures are large; on the heap they do not weigh on the main thread's stack.
    match runtime.block_on(Box::pin(cli::run(&args))) {
        Ok(exit) => ExitCode::from(exit.code()),
        Err(error) => {
            terminal::print_error(&format!("deployctl: {}", with_causes(&error)));
            ExitCode::from(error.exit().code())
        }
    }
}

/// `deployctl status | head` is not an error: `println!` panics with this text when the reader of standard output is gone.
fn exit_quietly_when_stdout_is_closed() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let words = panic.payload_as_str().unwrap_or_default();
        if words.starts_with("failed printing to stdout") && words.contains("Broken pipe") {
            std::process::exit(Exit::PipeClosed.code().into());
        }
        usual(panic);
    }));
}

/// An error with its causes below; a transparent error is printed once.
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
