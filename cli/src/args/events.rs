//! The flags of `events` and `dead-letters`.

use std::time::Duration;

use clap::Args as ClapArgs;
use contract::event::Kind;

use super::{Listing, Output};

/// `deployctl events`
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "\
Kinds: Accepted, Refused, Operation, Placed, Unplaceable, Incident, RolledBack, Release (steps of a rollout), Node, Engine \
(switches of scheduling), Leader.

Examples:
  deployctl events
  deployctl events --group demo.web.web --since 1h
  deployctl events --kind unplaceable --output json
  deployctl events --follow --limit 20")]
pub struct Events {
    /// Keep printing new events until Ctrl-C
    #[arg(long, short)]
    pub follow: bool,
    /// Only events of this PodGroup or dependency pod
    #[arg(long, short, value_name = "NAME")]
    pub group: Option<String>,
    /// Only events of this node
    #[arg(long, short, value_name = "NODE")]
    pub node: Option<String>,
    /// Only events of this kind
    #[arg(long, short, value_name = "KIND", value_parser = kind)]
    pub kind: Option<Kind>,
    /// Only events of this last time, such as 1h
    #[arg(long, value_name = "TIME", value_parser = fabric::duration::parse)]
    pub since: Option<Duration>,
    /// Show the last N events [default: 100, or none with --follow unless --since is given]
    #[arg(long, short, value_name = "N")]
    pub limit: Option<u32>,
    /// Output format: text, or one JSON value per line
    #[arg(long, short, value_enum, default_value_t = Output::Table)]
    pub output: Output,
}

/// `deployctl dead-letters`
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "Examples:\n  deployctl dead-letters\n  deployctl dead-letters --limit 5 --output json")]
pub struct DeadLetters {
    /// Show the last N messages
    #[arg(long, short, value_name = "N", default_value_t = 100)]
    pub limit: u32,
    #[command(flatten)]
    pub listing: Listing,
}

fn kind(word: &str) -> Result<Kind, String> {
    let all = || Kind::ALL.map(Kind::word).join(", ");
    Kind::from_word(word).ok_or_else(|| format!("it should be one of {}", all()))
}
