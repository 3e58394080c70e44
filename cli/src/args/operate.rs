//! The flags of `start`, `stop`, `restart`, `drift` and `evacuate`.

use clap::Args as ClapArgs;

use super::Waiting;

pub(super) const START: &str = "\
Examples:
  deployctl start demo.web.web
  deployctl start demo.web.web --instance 2 --wait";
pub(super) const STOP: &str = "\
Examples:
  deployctl stop demo.web.web
  deployctl stop demo.web.web --instance 2";
pub(super) const RESTART: &str = "\
Examples:
  deployctl restart demo.web.web --wait
  deployctl restart demo.web.web --instance 2";

/// `deployctl start`, `stop` and `restart`
#[derive(Debug, Clone, ClapArgs)]
pub struct Operate {
    /// Name of the PodGroup
    pub name: String,
    /// Only this instance [default: all of them]
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub instance: Option<u32>,
    #[command(flatten)]
    pub waiting: Waiting,
}

/// `deployctl drift`
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "\
Moves instances off a node once; new ones may still be placed there (`deployctl node drain` also cordons the node).
Each instance is recreated on another node under the next drift number. Instances with local data stay unless --force.

Examples:
  deployctl drift --from node-1 --all
  deployctl drift --from node-1 --to node-2 --group demo.web.web --instance 1
  deployctl drift --from node-1 --group demo.web.web --force")]
pub struct Drift {
    /// Node to move instances from
    #[arg(long, value_name = "NODE")]
    pub from: String,
    /// Node to move instances to [default: any other]
    #[arg(long, value_name = "NODE")]
    pub to: Option<String>,
    /// Only instances of this PodGroup [default: of all]
    #[arg(long, short, value_name = "NAME")]
    pub group: Option<String>,
    /// Instances of every PodGroup; without --group and --all deployctl asks on a terminal, and refuses elsewhere
    #[arg(long, conflicts_with = "group")]
    pub all: bool,
    /// Only this instance of the PodGroup
    #[arg(long, short, value_name = "N", requires = "group", value_parser = clap::value_parser!(u32).range(1..))]
    pub instance: Option<u32>,
    /// Also move instances with local data (data is lost)
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub waiting: Waiting,
}

/// `deployctl evacuate`
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "\
Moves all instances off a node, local data is lost, and sets a constraint against it, which keeps new instances off the node \
until it is deleted. Prefer `deployctl node drain`: it cordons the node, and instances with local data stay unless --force.

Examples:
  deployctl evacuate node-2 --yes
  deployctl constraints delete node")]
pub struct Evacuate {
    /// Name of the node
    pub node: String,
    /// Do not ask; needed without a terminal
    #[arg(long, short)]
    pub yes: bool,
    #[command(flatten)]
    pub waiting: Waiting,
}
