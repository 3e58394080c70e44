//! The flags of `describe` and `why`.

use clap::{Args as ClapArgs, Subcommand};
use contract::name::NodeName;

/// `deployctl describe`
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "\
Examples:
  deployctl describe podgroup demo.web.web
  deployctl describe node node-1")]
pub struct Describe {
    #[command(subcommand)]
    pub what: DescribeWhat,
}

#[derive(Debug, Clone, Subcommand)]
pub enum DescribeWhat {
    /// A PodGroup: its spec in short, its rollout, its instances with exit codes and last log lines, its last events
    #[command(alias = "pg", alias = "group")]
    Podgroup {
        /// Name
        name: String,
    },
    /// A node: its state, its instances, its last events
    #[command(alias = "nodes")]
    Node {
        /// Name
        name: NodeName,
    },
}

/// `deployctl why`
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "\
Each line is a reason, with the command that helps below it. Exit code 0 when the PodGroup is ready, 1 otherwise.

Examples:
  deployctl why demo.web.web")]
pub struct Why {
    /// Name of the PodGroup
    pub name: String,
}
