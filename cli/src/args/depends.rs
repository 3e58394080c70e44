//! The flags of `deployctl depends`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};

use super::Output;

/// `deployctl depends`
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "\
A dependency pod runs on every node where an instance needs it, once per namespace, as soon as one does.

Examples:
  deployctl depends get svc.portal.portal
  deployctl depends apply -f portal.json
  deployctl depends delete svc.portal.portal")]
pub struct Depends {
    /// What to do.
    #[command(subcommand)]
    pub what: DependsWhat,
}

/// What `depends` does.
#[derive(Debug, Clone, Subcommand)]
pub enum DependsWhat {
    /// Show a dependency pod and where it runs
    Get {
        /// Name
        name: String,
        /// Form of the answer
        #[arg(long, short, value_enum, default_value_t = Output::Table)]
        output: Output,
    },
    /// Make dependency pods known from a file of PodSpecs, or change them to what it says
    Apply {
        /// File to read; `-` reads standard input
        #[arg(long, short, value_name = "FILE")]
        file: PathBuf,
    },
    /// Forget a dependency pod once nothing needs it any more
    Delete {
        /// Name
        name: String,
        /// At once, needed or not
        #[arg(long)]
        force: bool,
    },
}
