//! The flags of what holds the cluster back: engine, guard, constraints; and of who is told: notifies.

use clap::{Args as ClapArgs, Subcommand, ValueEnum};

/// `deployctl engine`
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "\
A stopped engine changes nothing: commands are accepted and wait, instances run on. A cluster in maintenance refuses
changes and starts nothing again that ended.

Examples:
  deployctl engine status
  deployctl engine stop
  deployctl engine start
  deployctl engine config --readonly true
  deployctl engine config --maintenance false")]
pub struct Engine {
    /// What to do.
    #[command(subcommand)]
    pub what: EngineWhat,
}

/// What `engine` does.
#[derive(Debug, Clone, Subcommand)]
pub enum EngineWhat {
    /// Show whether it is started, and every switch
    Status,
    /// Go on planning
    Start,
    /// Plan nothing any more
    Stop,
    /// Show the configuration, or change what is given
    Config {
        /// Refuse changes
        #[arg(long, value_name = "BOOL")]
        readonly: Option<bool>,
        /// Refuse changes and start nothing again that ended
        #[arg(long, value_name = "BOOL")]
        maintenance: Option<bool>,
    },
}

/// `deployctl guard`
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "\
While the guard sleeps, instances that vanished are not made anew.

Examples:
  deployctl guard
  deployctl guard sleep
  deployctl guard work")]
pub struct Guard {
    /// What to do
    #[arg(value_enum, default_value_t = GuardWhat::Status)]
    pub what: GuardWhat,
}

/// What `guard` does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum GuardWhat {
    /// Show whether it works.
    Status,
    /// Make missing instances anew.
    Work,
    /// Leave missing instances alone.
    Sleep,
}

/// `deployctl constraints`
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "\
There is one constraint per type; what runs already stays where it is.

Examples:
  deployctl constraints get
  deployctl constraints set node node-2              new work keeps away from node-2 if it can
  deployctl constraints set rack r1 --equal --hard   new work goes to rack r1 and nowhere else
  deployctl constraints delete node")]
pub struct Constraints {
    /// What to do.
    #[command(subcommand)]
    pub what: ConstraintsWhat,
}

/// What `constraints` does.
#[derive(Debug, Clone, Subcommand)]
pub enum ConstraintsWhat {
    /// Show the constraint of a type
    Get {
        /// Type: `node`, or a label of the nodes
        #[arg(default_value = "node")]
        kind: String,
    },
    /// Set the constraint of a type
    Set {
        /// Type: `node`, or a label of the nodes
        kind: String,
        /// Name of the node, or value of the label
        value: String,
        /// Only there, instead of anywhere but there
        #[arg(long)]
        equal: bool,
        /// Always, instead of if possible
        #[arg(long)]
        hard: bool,
    },
    /// Delete the constraint of a type
    Delete {
        /// Type
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
    /// What to do.
    #[command(subcommand)]
    pub what: NotifiesWhat,
}

/// What `notifies` does.
#[derive(Debug, Clone, Subcommand)]
pub enum NotifiesWhat {
    /// Show the callbacks
    List,
    /// Add a callback
    Add {
        /// Where notices are posted
        url: String,
    },
    /// Delete a callback
    Delete {
        /// Which
        url: String,
    },
}
