//! The flags of `engine`, `guard`, `constraints` and `notifies`.

use clap::{Args as ClapArgs, Subcommand, ValueEnum};

use super::{Listing, Output};

/// `deployctl engine`
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "\
While scheduling is stopped, the scheduler accepts commands and executes them after the start; instances keep running. A \
cluster in maintenance refuses changes and does not restart exited instances.

Examples:
  deployctl engine status
  deployctl engine stop
  deployctl engine start
  deployctl engine config --readonly true
  deployctl engine config --maintenance false")]
pub struct EngineArgs {
    #[command(subcommand)]
    pub what: EngineWhat,
}

#[derive(Debug, Clone, Subcommand)]
pub enum EngineWhat {
    /// Show all switches
    Status,
    /// Start scheduling
    Start,
    /// Stop scheduling
    Stop,
    /// Show or change read-only and maintenance
    Config {
        /// Refuse changes
        #[arg(long, value_name = "BOOL")]
        readonly: Option<bool>,
        /// Refuse changes and do not restart exited instances
        #[arg(long, value_name = "BOOL")]
        maintenance: Option<bool>,
    },
}

/// `deployctl guard`
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "\
While the guard sleeps, the scheduler does not replace missing containers.

Examples:
  deployctl guard
  deployctl guard sleep
  deployctl guard work")]
pub struct GuardArgs {
    /// What to do
    #[arg(value_enum, default_value_t = GuardWhat::Status)]
    pub what: GuardWhat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum GuardWhat {
    /// Show whether the guard works
    Status,
    /// Replace missing containers
    Work,
    /// Do not replace missing containers
    Sleep,
}

/// `deployctl constraints`
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "\
One constraint per type. Running instances stay where they are.

Examples:
  deployctl constraints get
  deployctl constraints set node node-2              avoid node-2 for new instances if possible
  deployctl constraints set rack r1 --equal --hard   place new instances only in rack r1
  deployctl constraints delete node")]
pub struct Constraints {
    #[command(subcommand)]
    pub what: ConstraintsWhat,
}

#[derive(Debug, Clone, Subcommand)]
pub enum ConstraintsWhat {
    /// Show the constraint of a type
    Get {
        /// Type: `node`, or a label of the nodes
        #[arg(default_value = "node")]
        kind: String,
        /// Output format
        #[arg(long, short, value_enum, default_value_t = Output::Table)]
        output: Output,
    },
    /// Set the constraint of a type
    Set {
        /// Type: `node`, or a label of the nodes
        kind: String,
        /// Name of the node, or value of the label
        value: String,
        /// Place only there [default: anywhere but there]
        #[arg(long)]
        equal: bool,
        /// Always [default: if possible]
        #[arg(long)]
        hard: bool,
    },
    /// Delete the constraint of a type
    Delete {
        /// Type: `node`, or a label of the nodes
        kind: String,
    },
}

/// `deployctl notifies`
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "\
Examples:
  deployctl notifies list
  deployctl notifies add http://127.0.0.1:8080/hook
  deployctl notifies delete http://127.0.0.1:8080/hook")]
pub struct Notifies {
    #[command(subcommand)]
    pub what: NotifiesWhat,
}

#[derive(Debug, Clone, Subcommand)]
pub enum NotifiesWhat {
    /// List the webhook URLs
    List {
        #[command(flatten)]
        listing: Listing,
    },
    /// Add a webhook
    Add {
        /// URL that receives notices by POST
        url: String,
    },
    /// Delete a webhook
    Delete {
        /// URL of the webhook
        url: String,
    },
}
