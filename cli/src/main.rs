//! Parses the command line, runs the command, and exits with a code of the documented table.

use std::process::ExitCode;

use clap::Parser;
use clap::error::{ContextKind, ContextValue};
use cli::args::Args;
use cli::commands::hint;
use cli::exit::Exit;
use cli::output::terminal;

fn main() -> ExitCode {
    exit_quietly_when_stdout_is_closed();
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => return refuse(error),
    };
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
            if let Some(hint) = runtime.block_on(hint::of_error(&args, &error)) {
                terminal::print_error(&hint);
            }
            ExitCode::from(error.exit().code())
        }
    }
}

/// Prints the help, the version, or what is wrong with the command line. Words of other tools get a better hint than clap's,
/// which only knows similar letters.
fn refuse(mut error: clap::Error) -> ExitCode {
    let word = match error.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(word)) => word.clone(),
        _ => String::new(),
    };
    let hint = hint::of_command(&word);
    if hint.is_some() {
        error.remove(ContextKind::SuggestedSubcommand);
    }
    let is_printed = error.print().is_ok();
    if let Some(hint) = hint.filter(|_| is_printed) {
        terminal::print_error(&format!("\n{hint}"));
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or_else(|_| Exit::Usage.code()))
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
