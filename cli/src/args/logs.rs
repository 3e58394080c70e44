//! The flags of `logs`.

use std::time::Duration;

use clap::Args as ClapArgs;

/// Lines of each container that are shown unless --tail is given.
const USUAL: u32 = 1000;

/// `deployctl logs`
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "\
The lines of several instances are sorted by time, and each begins with its instance: `[web 2]`, and `[web 2 c1]` for container 1 \
of a pod with several. With --follow they come as they are written; deployctl continues when an instance restarts, moves to \
another node or gets a new revision, and when the apiserver restarts.
Docker keeps the log of a container over its restarts. --previous shows what it wrote before its last start, for example why it \
crashed.
A terminal shows control characters as escapes such as \\x1b. A pipe or a file gets the lines as they were written.
The exit code is 1 when the log of an instance cannot be read.

Examples:
  deployctl logs demo.web.web
  deployctl logs demo.web.web --follow --tail 10
  deployctl logs demo.web.web --instance 2 --previous
  deployctl logs demo.web.web --since 10m --timestamps")]
pub struct Logs {
    /// Name of the PodGroup
    pub name: String,
    /// Only this instance, from 1
    #[arg(long, short, value_name = "N")]
    pub instance: Option<u32>,
    /// Only this container of the pods, from 0
    #[arg(long, short, value_name = "I")]
    pub container: Option<u32>,
    /// Keep printing new lines until Ctrl-C
    #[arg(long, short)]
    pub follow: bool,
    /// Only lines from before the last start of each container
    #[arg(long, short, conflicts_with = "follow")]
    pub previous: bool,
    /// Only lines of this last time, such as 10m
    #[arg(long, value_name = "TIME", value_parser = fabric::duration::parse)]
    pub since: Option<Duration>,
    /// Only the last N lines of each container, or all
    #[arg(long, value_name = "N|all", default_value_t = Tail::Last(USUAL), value_parser = tail)]
    pub tail: Tail,
    /// Begin each line with its time
    #[arg(long, short)]
    pub timestamps: bool,
    /// Begin each line with its instance also when there is only one
    #[arg(long)]
    pub prefix: bool,
}

/// How many lines to show of each container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tail {
    All,
    Last(u32),
}

impl std::fmt::Display for Tail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Last(lines) => write!(f, "{lines}"),
        }
    }
}

fn tail(text: &str) -> Result<Tail, String> {
    match text {
        "all" => Ok(Tail::All),
        _ => text.parse().map(Tail::Last).map_err(|_| "write a number, or all".to_owned()),
    }
}
