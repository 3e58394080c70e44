//! What `proof` can be asked.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand};

use crate::experiment::NAMES;

/// Shows what deployd promises, on real processes.
#[derive(Debug, Parser)]
#[command(name = "proof", version, arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Kill and stop processes under load and check every acknowledged command
    #[command(after_help = "\
Exit codes:
  0  every promise was kept
  1  a promise was broken: something lost, double, disturbed or stale; timings never fail
  2  the command line is wrong
  3  an experiment could not be done

Experiments: leader-kill, any-kill, leader-stop. docs/reliability.md explains each figure.")]
    Chaos(Chaos),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Chaos {
    /// A minute: a little of everything on one cluster
    #[arg(long, conflicts_with = "long")]
    pub(crate) short: bool,
    /// Five times as much: 100 leaders killed, 300 processes killed, 50 leaders stopped
    #[arg(long)]
    pub(crate) long: bool,
    /// Choices of commands and faults; printed, so that a run can be had again [default: the time]
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Only this experiment
    #[arg(long, value_name = "NAME", value_parser = clap::builder::PossibleValuesParser::new(NAMES))]
    pub(crate) only: Option<String>,
    /// Write the figures to this file too
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}
