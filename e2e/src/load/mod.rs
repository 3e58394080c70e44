//! How large a cluster can be: thousands of simulated nodes over real NATS and etcd, on one machine.
//!
//! The scheduler is the real one in a process of its own. The nodes are the real `agent::core`, all in this process, over
//! an engine that only keeps a list of containers. Every message is one that real agents send; only Docker is missing.

mod client;
mod engine;
mod figures;
mod fleet;
mod node;
mod placement;
mod process;
mod run;
mod servers;
mod settings;
mod specs;
mod workload;

use std::process::ExitCode;

pub(crate) use settings::{Agents, Placement};

/// Runs simulated agents over real servers and prints what they cost.
pub(crate) fn agents(settings: &Agents) -> ExitCode {
    let runtime = || tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let (runtime, connections) = match runtime().and_then(|first| Ok((first, runtime()?))) {
        Ok(runtimes) => runtimes,
        Err(error) => return failed(&error),
    };
    match runtime.block_on(run::bounded(settings, connections.handle())) {
        Ok(figures) => print(&figures, settings.json.as_deref()),
        Err(error) => failed(&error),
    }
}

/// StoredPage instances with the planner alone, on one core.
pub(crate) fn placement(settings: &Placement) -> ExitCode {
    print(&placement::measure(settings), settings.json.as_deref())
}

/// The scheduler process that [`agents`] starts: the real scheduler linked into this binary, so that the measured code is the
/// code that was just built.
pub(crate) fn scheduler(arguments: &[String]) -> ExitCode {
    match process::run_scheduler(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&*error),
    }
}

fn print(figures: &[figures::Figure], json: Option<&std::path::Path>) -> ExitCode {
    println!("{}", figures::table(figures));
    match json.map_or(Ok(()), |path| figures::store(figures, path)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error),
    }
}

fn failed(error: &dyn std::error::Error) -> ExitCode {
    eprintln!("proof: {}", crate::with_causes(error));
    ExitCode::FAILURE
}
