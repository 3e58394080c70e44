//! The flags of `delete`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand, ValueEnum};

use super::Waiting;

/// `deployctl delete`
#[derive(Debug, Clone, ClapArgs)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_help = "\
Modes:
  foreground  remove the containers; the name is free when the last one is removed
  background  remove the containers; the name is free immediately
  orphan      keep the containers running; the next PodGroup of that name adopts them

Examples:
  deployctl delete demo.web.web
  deployctl delete podgroup demo.web.web --mode orphan
  deployctl delete -f deploy/demo-podgroup.json
  deployctl delete --all --namespace demo --yes")]
pub struct Delete {
    #[command(subcommand)]
    pub what: Option<DeleteWhat>,
    #[command(flatten)]
    pub asked: DeleteGroups,
}

#[derive(Debug, Clone, Subcommand)]
pub enum DeleteWhat {
    /// PodGroups and their containers; the word may be left out
    #[command(alias = "pg", alias = "podgroups")]
    Podgroup(DeleteGroups),
}

/// Which groups to delete, and how.
#[derive(Debug, Clone, ClapArgs)]
#[group(skip)]
pub struct DeleteGroups {
    /// Names of PodGroups
    #[arg(required_unless_present_any = ["file", "all"], conflicts_with_all = ["file", "all"], value_name = "NAME")]
    pub names: Vec<String>,
    /// The PodGroups of a file, as for `apply`; those that do not exist are left out. `-` reads standard input
    #[arg(long, short, value_name = "FILE", conflicts_with = "all")]
    pub file: Option<PathBuf>,
    /// All PodGroups; asks on a terminal, and needs --yes elsewhere
    #[arg(long)]
    pub all: bool,
    /// With --all: only those of this namespace
    #[arg(long, short, value_name = "NAME", requires = "all")]
    pub namespace: Option<String>,
    /// Do not ask
    #[arg(long, short)]
    pub yes: bool,
    /// What to do with the containers
    #[arg(long, value_enum, default_value_t = Mode::Foreground)]
    pub mode: Mode,
    #[command(flatten)]
    pub waiting: Waiting,
}

/// What happens to the containers of a deleted PodGroup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// Remove them; the name is free when the last one is removed
    Foreground,
    /// Remove them; the name is free immediately
    Background,
    /// Keep them running; the next PodGroup of that name adopts them
    Orphan,
}
