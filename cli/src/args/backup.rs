//! The flags of `backup` and `restore`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args as ClapArgs;

/// `deployctl backup`
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "\
The file is a snapshot of the store: PodGroups, placements, revisions and switches. Specs may hold secrets in their \
environment, so protect the file; it is written with mode 0600. `deployctl restore` refuses a truncated or edited file.

Examples:
  deployctl backup deployd.backup
  deployctl backup - --timeout 5m")]
pub struct Backup {
    /// File to write; `-` writes standard output
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// How long to retry
    #[arg(long, default_value = "10m", value_parser = fabric::duration::parse)]
    pub timeout: Duration,
}

/// `deployctl restore`
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "\
For a cluster whose etcd was lost or wiped. Containers keep running, and the agents adopt those that the backup contains. \
Changes since the backup are undone: newer instances are removed, and removed ones are created again. \
The scheduler stages the parts of the file and verifies them before it changes anything. Run an interrupted restore again, or \
discard it with --abort.

Examples:
  deployctl restore deployd.backup
  deployctl restore deployd.backup --replace --yes
  deployctl restore --abort")]
pub struct Restore {
    /// File to read; `-` reads standard input
    #[arg(value_name = "FILE", required_unless_present = "abort", conflicts_with = "abort")]
    pub file: Option<PathBuf>,
    /// Replace the PodGroups of a cluster that is not empty
    #[arg(long, conflicts_with = "abort")]
    pub replace: bool,
    /// Skip confirmation
    #[arg(long, short, conflicts_with = "abort")]
    pub yes: bool,
    /// Discard a restore that was started and not finished
    #[arg(long)]
    pub abort: bool,
    /// How long to retry and wait
    #[arg(long, default_value = "10m", value_parser = fabric::duration::parse)]
    pub timeout: Duration,
}
