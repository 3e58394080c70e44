//! The flags of what tells what happened: `events` and `dead-letters`.

use std::time::Duration;

use clap::Args as ClapArgs;
use contract::event::Kind;

use super::Output;

/// `deployctl events`
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "\
Kinds: Accepted, Refused, Operation, Placed, Unplaceable, Incident, RolledBack, Release, Node, Engine,
Leader.

Examples:
  deployctl events
  deployctl events --group demo.web.web --since 1h
  deployctl events --kind unplaceable --output json
  deployctl events --follow --limit 20")]
pub struct Events {
    /// Go on showing what happens, until Ctrl-C
    #[arg(long, short)]
    pub follow: bool,
    /// Only of this PodGroup or dependency pod
    #[arg(long, short, value_name = "NAME")]
    pub group: Option<String>,
    /// Only of this node
    #[arg(long, short, value_name = "NODE")]
    pub node: Option<String>,
    /// Only of this kind
    #[arg(long, short, value_name = "KIND", value_parser = kind)]
    pub kind: Option<Kind>,
    /// Only of the last so many minutes or hours
    #[arg(long, value_name = "TIME", value_parser = fabric::duration::parse)]
    pub since: Option<Duration>,
    /// At most so many of the past, the newest [default: 100, or none with --follow unless --since is given]
    #[arg(long, short, value_name = "N")]
    pub limit: Option<u32>,
    /// Form of the answer: lines for people, or one JSON value per line
    #[arg(long, short, value_enum, default_value_t = Output::Table)]
    pub output: Output,
}

/// `deployctl dead-letters`
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "Examples:\n  deployctl dead-letters\n  deployctl dead-letters --limit 5 --output json")]
pub struct DeadLetters {
    /// At most so many, the newest
    #[arg(long, short, value_name = "N", default_value_t = 100)]
    pub limit: u32,
    /// Form of the answer
    #[arg(long, short, value_enum, default_value_t = Output::Table)]
    pub output: Output,
}

fn kind(word: &str) -> Result<Kind, String> {
    let all = || Kind::ALL.map(Kind::word).join(", ");
    Kind::from_word(word).ok_or_else(|| format!("it should be one of {}", all()))
}
