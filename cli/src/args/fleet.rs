//! The flags of what is done to instances and nodes that run: start, stop, restart, drift, evacuate.

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
    /// Whether to wait until it is done.
    #[command(flatten)]
    pub waiting: Waiting,
}

/// `deployctl drift`
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "\
An instance is made anew elsewhere under the next drift number. Instances that are bound to their data stay, unless forced.

Examples:
  deployctl drift --from node-1
  deployctl drift --from node-1 --to node-2 --group demo.web.web --instance 1 --wait
  deployctl drift --from node-1 --force")]
pub struct Drift {
    /// The node they leave
    #[arg(long, value_name = "NODE")]
    pub from: String,
    /// The node they go to [default: any other]
    #[arg(long, value_name = "NODE")]
    pub to: Option<String>,
    /// Only instances of this PodGroup [default: of all]
    #[arg(long, short, value_name = "NAME")]
    pub group: Option<String>,
    /// Only this instance of the PodGroup
    #[arg(long, short, value_name = "N", requires = "group", value_parser = clap::value_parser!(u32).range(1..))]
    pub instance: Option<u32>,
    /// Even instances that are bound to their data
    #[arg(long)]
    pub force: bool,
    /// Whether to wait until they have moved.
    #[command(flatten)]
    pub waiting: Waiting,
}

/// `deployctl evacuate`
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "\
New work stays away from the node until its constraint is deleted.

Examples:
  deployctl evacuate node-2 --wait
  deployctl constraints delete node")]
pub struct Evacuate {
    /// Name of the node
    pub node: String,
    /// Whether to wait until everything has moved.
    #[command(flatten)]
    pub waiting: Waiting,
}
