//! The command line.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand};

use crate::chaos::EXPERIMENTS;
use crate::load;

/// Tests and measures deployd on real processes
#[derive(Debug, Parser)]
#[command(name = "proof", version, arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Kill, stop, cut and flood under load and check every acknowledged command
    #[command(after_help = "\
Exit codes:
  0  every promise was kept
  1  a promise was broken: a command lost or applied twice, a container disturbed, a stale leader obeyed; timings never fail
  2  the command line is wrong
  3  an experiment could not be performed

Experiments: leader-kill, any-kill, leader-stop, node-cut, engine-loss, agent-steps, stream-loss, store-stop, \
malformed. docs/reliability.md explains each of them and each figure.")]
    Chaos(Chaos),
    /// Measure deployd beside the engine's own API and Swarm mode
    #[command(after_help = "\
Exit codes:
  0  everything was measured; timings never fail
  2  the command line is wrong
  3  something could not be measured, or the engine is part of a swarm already

docs/performance.md explains each figure.")]
    Bench(Bench),
    /// Run simulated agents over real NATS and etcd, with a real scheduler, and print what they cost
    Agents(load::Agents),
    /// Place instances with the planner alone, on one core
    Placement(load::Placement),
    /// The scheduler process that `agents` starts
    #[command(hide = true, disable_help_flag = true)]
    Scheduler {
        /// The scheduler's own arguments.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
}

/// A part of the benchmarks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Part {
    /// Start, update, scale and remove beside the engine's own API and Swarm mode
    Races,
    /// The time to react to a killed container, a command and a lost node
    Reactions,
    /// Changes and reads of the API
    Api,
    /// Simulated agents
    Scale,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Bench {
    /// Two minutes: every measurement on real containers once, with few instances
    #[arg(long)]
    pub(crate) short: bool,
    /// Simulated agents up to two million instances, which takes ten more minutes and 16 GiB of memory
    #[arg(long)]
    pub(crate) scale: bool,
    /// Only this part
    #[arg(long, value_name = "PART")]
    pub(crate) only: Option<Part>,
    /// Folder for bench.json
    #[arg(long, value_name = "DIR", default_value = "target/bench")]
    pub(crate) out: PathBuf,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Chaos {
    /// Three minutes: few faults of each kind, three clusters at a time
    #[arg(long, conflicts_with = "long")]
    pub(crate) short: bool,
    /// Five times as much: 100 leaders killed, 300 processes killed, 50 leaders stopped
    #[arg(long)]
    pub(crate) long: bool,
    /// Selects commands and faults; printed, so that a run can be repeated [default: the time]
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Only this experiment
    #[arg(long, value_name = "NAME", value_parser = clap::builder::PossibleValuesParser::new(EXPERIMENTS))]
    pub(crate) only: Option<String>,
    /// Also write the figures to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}
