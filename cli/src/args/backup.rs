//! The flags of `backup` and `restore`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args as ClapArgs;

/// `deployctl backup`
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "\
The file holds everything the cluster stores, as it was at one moment: what is wanted, where it is, revisions and switches.
Specs may hold secrets in their environment: keep the file as you keep them. It is written with mode 0600.
A file that was cut off or edited is refused by `deployctl restore`.

Examples:
  deployctl backup deployd.backup
  deployctl backup - --timeout 5m")]
pub struct Backup {
    /// File to write; `-` writes standard output
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// How long to try
    #[arg(long, default_value = "10m", value_parser = fabric::duration::parse)]
    pub timeout: Duration,
}

/// `deployctl restore`
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "\
For a cluster whose etcd was lost or wiped: containers run on meanwhile, and those the backup knows are taken over as they
are. What changed after the backup is undone: instances made since go, those removed since are made again.
The cluster keeps the parts of the file aside and checks them once more before it changes anything; a restore that was cut off
is run again from its start, or forgotten with --abort.

Examples:
  deployctl restore deployd.backup
  deployctl restore deployd.backup --replace --yes
  deployctl restore --abort")]
pub struct Restore {
    /// File to read; `-` reads standard input
    #[arg(value_name = "FILE", required_unless_present = "abort", conflicts_with = "abort")]
    pub file: Option<PathBuf>,
    /// Even if the cluster holds PodGroups: they are replaced by those of the backup
    #[arg(long, conflicts_with = "abort")]
    pub replace: bool,
    /// Do not ask whether it is meant
    #[arg(long, short, conflicts_with = "abort")]
    pub yes: bool,
    /// Forget the parts of a restore that was begun and not finished
    #[arg(long)]
    pub abort: bool,
    /// How long to try and to wait
    #[arg(long, default_value = "10m", value_parser = fabric::duration::parse)]
    pub timeout: Duration,
}
