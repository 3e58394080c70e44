//! The flags of the local cluster: `up` and `down`.

use std::time::Duration;

use clap::Args as ClapArgs;
use contract::access::AnonymousBinding;
use contract::name::NodeName;
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
    /// Number of nodes: agents that share the one local Docker engine
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
    /// On Ctrl-C keep containers and PodGroups for the next `up`
    #[arg(long)]
    pub keep_containers: bool,
    /// How long to wait until everything is ready
    #[arg(long, default_value = "60s", value_parser = fabric::duration::parse)]
    pub timeout: Duration,
    /// A label of the nodes: one value for all, or one value per node, starting again after the last; an empty value gives
    /// the node no such label. May be repeated [default: group=default and unit=cell-a,cell-b]
    #[arg(long = "label", value_name = "KEY=VALUE[,VALUE...]", value_parser = NodeLabel::parse)]
    pub labels: Vec<NodeLabel>,
    /// Memory of each node in bytes [default: a fair share of the machine's]
    #[arg(long, value_name = "BYTES")]
    pub node_memory: Option<u64>,
    /// Cores of each node [default: the machine's, which all of them share]
    #[arg(long, value_name = "N")]
    pub node_cpus: Option<u32>,
    /// Scheduler setting: time without a heartbeat until a node is suspect
    #[arg(long, value_name = "TIME", value_parser = fabric::duration::parse)]
    pub suspect_after: Option<Duration>,
    /// Scheduler setting: time without a heartbeat until a node's instances move elsewhere
    #[arg(long, value_name = "TIME", value_parser = fabric::duration::parse)]
    pub lost_after: Option<Duration>,
    /// Scheduler setting: how long a new leader waits for heartbeats before it declares a node lost
    #[arg(long, value_name = "TIME", value_parser = fabric::duration::parse)]
    pub failover_grace: Option<Duration>,
    /// Name of a node whose agent you start yourself: `up` writes its keys to DIR/keys. May be repeated
    #[arg(long = "extra-node", value_name = "NAME")]
    pub extra_nodes: Vec<NodeName>,
    /// Clients without a token that are let in, beside programs of your own user: `ROLE[@NAMESPACE] from SOURCE`, where the source
    /// is a network, uid:N or any. May be repeated
    #[arg(long, env = "DEPLOYD_ANONYMOUS", value_name = "BINDING", value_delimiter = ';')]
    pub anonymous: Vec<AnonymousBinding>,
    /// Use only flags that the previous version knows: no keys on the bus, so any process of this machine can command every
    /// node, and no callbacks to this machine. For tests of two versions side by side
    #[arg(long, hide = true)]
    pub previous_flags: bool,
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
            extra_nodes: self.extra_nodes.clone(),
            anonymous: self.anonymous.clone(),
            previous_flags: self.previous_flags,
        }
    }
}

/// `deployctl down`
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "\
Without --keep-containers the next `up` starts a new cluster: tokens, policies, joined nodes and the audit log are gone with the \
PodGroups.

Examples:
  deployctl down
  deployctl down --keep-containers
  deployctl down --purge")]
pub struct Down {
    /// Keep containers and PodGroups for the next `up`
    #[arg(long)]
    pub keep_containers: bool,
    /// Remove logs and volumes too: the cluster's whole directory
    #[arg(long, conflicts_with = "keep_containers")]
    pub purge: bool,
}
