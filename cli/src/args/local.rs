//! The flags of the local cluster: `up` and `down`.

use std::time::Duration;

use clap::Args as ClapArgs;
use devcluster::plan::{NodeLabel, Settings};

/// `deployctl up`
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "\
Examples:
  deployctl up                       three nodes and the demo, until Ctrl-C
  deployctl up --detach              the same in the background; `deployctl down` stops it
  deployctl up --port 9100           API on 9100 and 9101
  deployctl up --label zone=a,b,b    node-1 in zone a, node-2 and node-3 in zone b
  deployctl up --port 0 --dir /tmp/c --no-demo --detach   a second cluster on free ports")]
pub struct Up {
    /// How many nodes: agents that share the one local engine
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub nodes: u16,
    /// Return when the cluster is ready and leave it running in the background
    #[arg(long, short)]
    pub detach: bool,
    /// Port of the first apiserver, the second takes the next; 0 takes free ports
    #[arg(long, default_value_t = 9003, env = "DEPLOYD_PORT")]
    pub port: u16,
    /// Do not deploy the demo
    #[arg(long)]
    pub no_demo: bool,
    /// On Ctrl-C leave containers and PodGroups to the next `up`
    #[arg(long)]
    pub keep_containers: bool,
    /// How long to wait until everything is ready
    #[arg(long, default_value = "60s", value_parser = fabric::duration::parse)]
    pub timeout: Duration,
    /// A label of the nodes: one value for all of them, or one value per node in their order, which begins anew after the
    /// last; a node whose value is empty has none. May be repeated [default: group=default and unit=cell-a,cell-b]
    #[arg(long = "label", value_name = "KEY=VALUE[,VALUE...]", value_parser = NodeLabel::parse)]
    pub labels: Vec<NodeLabel>,
    /// Memory of each node in bytes [default: a fair share of the machine's]
    #[arg(long, value_name = "BYTES")]
    pub node_memory: Option<u64>,
    /// Cores of each node [default: the machine's, which all of them share]
    #[arg(long, value_name = "N")]
    pub node_cpus: Option<u32>,
    /// Handed to the schedulers: silence until a node is suspect
    #[arg(long, value_name = "TIME", value_parser = fabric::duration::parse)]
    pub suspect_after: Option<Duration>,
    /// Handed to the schedulers: silence until a node's work is given to others
    #[arg(long, value_name = "TIME", value_parser = fabric::duration::parse)]
    pub lost_after: Option<Duration>,
    /// Handed to the schedulers: how long a fresh leader listens before it calls a node lost
    #[arg(long, value_name = "TIME", value_parser = fabric::duration::parse)]
    pub failover_grace: Option<Duration>,
}

impl Up {
    /// The settings of the cluster to start.
    pub fn settings(&self) -> Settings {
        Settings {
            nodes: self.nodes,
            port: self.port,
            labels: self.labels.clone(),
            node_memory: self.node_memory,
            node_cpus: self.node_cpus,
            suspect_after: self.suspect_after,
            lost_after: self.lost_after,
            failover_grace: self.failover_grace,
        }
    }
}

/// `deployctl down`
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "Examples:\n  deployctl down\n  deployctl down --purge")]
pub struct Down {
    /// Leave containers and PodGroups to the next `up`
    #[arg(long)]
    pub keep_containers: bool,
    /// Remove logs and volumes too: the cluster's whole directory
    #[arg(long, conflicts_with = "keep_containers")]
    pub purge: bool,
}
