//! The flags of `deployctl depends`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};

use super::Output;

/// `deployctl depends`
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "\
A dependency pod runs once per namespace on every node with an instance that depends on it.

Examples:
  deployctl depends get svc.portal.portal
  deployctl depends apply -f portal.json
  deployctl depends delete svc.portal.portal")]
pub struct Depends {
    #[command(subcommand)]
    pub what: DependsWhat,
}

#[derive(Debug, Clone, Subcommand)]
pub enum DependsWhat {
    /// Show a dependency pod and where it runs
    Get {
        /// Name
        name: String,
        /// Output format
        #[arg(long, short, value_enum, default_value_t = Output::Table)]
        output: Output,
    },
    /// Create or update dependency pods from a file of PodSpecs
    Apply {
        /// File to read; `-` reads standard input
        #[arg(long, short, value_name = "FILE")]
        file: PathBuf,
    },
    /// Delete a dependency pod once no instance depends on it
    Delete {
        /// Name
        name: String,
        /// Delete it now, even if instances depend on it
        #[arg(long)]
        force: bool,
    },
}
