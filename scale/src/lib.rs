//! How large a cluster can be: thousands of simulated nodes over real NATS and etcd, on one machine.
//!
//! The scheduler is the real one in a process of its own. The nodes are the real `agent::core`, all in this process, over
//! an engine that makes containers by noting them; so every message is one that real agents send, and only Docker is
//! missing. `sim agents` and `sim placement` are this crate's command lines.

mod asking;
mod engine;
mod figures;
mod fleet;
mod node;
mod placement;
mod process;
mod run;
mod settings;
mod specs;
mod stage;
mod workload;

use std::process::ExitCode;

pub use settings::{Agents, Placement};

/// Runs simulated agents over real servers, and prints what that cost.
pub fn agents(settings: &Agents) -> ExitCode {
    let runtime = || tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let (runtime, lines) = match runtime().and_then(|first| Ok((first, runtime()?))) {
        Ok(runtimes) => runtimes,
        Err(error) => return failed(&error),
    };
    match runtime.block_on(run::bounded(settings, lines.handle())) {
        Ok(figures) => told(&figures, settings.json.as_deref()),
        Err(error) => failed(&error),
    }
}

/// Places instances with the planner alone, on one core.
pub fn placement(settings: &Placement) -> ExitCode {
    told(&placement::measure(settings), settings.json.as_deref())
}

/// The process [`agents`] starts as its scheduler: the real one, in this very binary, so that what is measured is what was
/// built. It takes the scheduler's own arguments.
pub fn scheduler(arguments: &[String]) -> ExitCode {
    match process::run_scheduler(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&*error),
    }
}

fn told(figures: &[figures::Figure], json: Option<&std::path::Path>) -> ExitCode {
    println!("{}", figures::table(figures));
    match json.map_or(Ok(()), |path| figures::store(figures, path)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error),
    }
}

fn failed(error: &dyn std::error::Error) -> ExitCode {
    let mut cause = error.source();
    eprint!("{error}");
    while let Some(deeper) = cause {
        eprint!(": {deeper}");
        cause = deeper.source();
    }
    eprintln!();
    ExitCode::FAILURE
}
