//! The flags of `get`, `ls` and `ps`.

use clap::{Args as ClapArgs, Subcommand};

use super::listing::{ListOutput, Listing, Scope, Selector};

/// `deployctl get`
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "\
A name may hold `*` for any text; quote it, so that the shell leaves it alone. A namespace in DEPLOYD_NAMESPACE is the default of \
--namespace.

Examples:
  deployctl get podgroup
  deployctl get podgroup 'demo.*' --output wide
  deployctl get podgroup demo.web.web --output json
  deployctl get instances demo.web.web --watch
  deployctl get nodes --selector zone=a,disk!=hdd
  deployctl get all --namespace demo")]
pub struct Get {
    #[command(subcommand)]
    pub what: GetWhat,
}

#[derive(Debug, Clone, Subcommand)]
pub enum GetWhat {
    /// One PodGroup with its instances, or a list of PodGroups
    #[command(alias = "podgroups", alias = "pg", alias = "groups", alias = "group")]
    Podgroup(Groups),
    /// A list of instances
    #[command(alias = "instance", alias = "pods", alias = "pod")]
    Instances(Instances),
    /// A list of nodes
    #[command(alias = "node")]
    Nodes(Nodes),
    /// PodGroups, instances and nodes
    All(All),
}

/// `deployctl get podgroup` and `deployctl ls`
#[derive(Debug, Clone, ClapArgs)]
pub struct Groups {
    /// Name, or a pattern such as 'shop.*'; all when absent
    pub name: Option<String>,
    /// Only PodGroups whose Labels match, such as tier=web,team!=a
    #[arg(long, short = 'l', value_name = "LABELS")]
    pub selector: Option<Selector>,
    #[command(flatten)]
    pub scope: Scope,
    #[command(flatten)]
    pub listing: Listing,
}

/// `deployctl get instances` and `deployctl ps`
#[derive(Debug, Clone, ClapArgs)]
pub struct Instances {
    /// Name of the PodGroup, or a pattern such as 'shop.*'; all when absent
    pub name: Option<String>,
    /// Only instances of PodGroups whose Labels match, such as tier=web,team!=a
    #[arg(long, short = 'l', value_name = "LABELS")]
    pub selector: Option<Selector>,
    /// Only instances on this node
    #[arg(long, value_name = "NODE")]
    pub node: Option<String>,
    #[command(flatten)]
    pub scope: Scope,
    #[command(flatten)]
    pub listing: Listing,
}

/// `deployctl get nodes`
#[derive(Debug, Clone, ClapArgs)]
pub struct Nodes {
    /// Name, or a pattern such as 'rack-3-*'; all when absent
    pub name: Option<String>,
    /// Only nodes whose labels match, such as zone=a,disk!=hdd
    #[arg(long, short = 'l', value_name = "LABELS")]
    pub selector: Option<Selector>,
    #[command(flatten)]
    pub listing: Listing,
}

/// `deployctl get all`
#[derive(Debug, Clone, ClapArgs)]
pub struct All {
    #[command(flatten)]
    pub scope: Scope,
    /// Output format
    #[arg(long, short, value_enum, default_value_t = ListOutput::Table)]
    pub output: ListOutput,
}

pub(super) const LS: &str = "\
Short for `deployctl get podgroup`.

Examples:
  deployctl ls
  deployctl ls 'shop.*' --output wide";
pub(super) const PS: &str = "\
Short for `deployctl get instances`.

Examples:
  deployctl ps
  deployctl ps demo.web.web --watch
  deployctl ps --node node-1 --output name";
