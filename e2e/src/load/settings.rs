//! What is asked of a run.

use std::path::PathBuf;
use std::time::Duration;

use fabric::duration;

/// Instances of one group at most: one more is added while measuring, and 5,000 is the cluster's own limit.
const LARGEST_GROUP: i64 = 4_900;

/// Simulated agents over real NATS and etcd, with a real scheduler.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Agents {
    /// Nodes, each a real agent core over a simulated engine
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) nodes: u32,
    /// Instances in all
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) instances: u32,
    /// Instances of one group
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=LARGEST_GROUP))]
    pub(crate) group_size: u32,
    /// An engine takes about so long to make a container
    #[arg(long, default_value = "200ms", value_parser = duration::parse)]
    pub(crate) start_after: Duration,
    /// Schedulers; with one there is no takeover to measure
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=3))]
    pub(crate) schedulers: u32,
    /// Steady state is measured for so long
    #[arg(long, default_value = "20s", value_parser = duration::parse)]
    pub(crate) steady: Duration,
    /// Groups that are scaled by one, each after the other
    #[arg(long, default_value_t = 20)]
    pub(crate) changes: u32,
    /// The whole run ends after so long, done or not
    #[arg(long, default_value = "10m", value_parser = duration::parse)]
    pub(crate) limit: Duration,
    /// Where the figures go as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Where the servers' data and logs stay; otherwise they go when the run ends
    #[arg(long, value_name = "FOLDER")]
    pub(crate) keep: Option<PathBuf>,
}

/// Placement alone.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Placement {
    /// Nodes
    #[arg(long, default_value_t = 6_100, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) nodes: u32,
    /// Instances in all
    #[arg(long, default_value_t = 2_000_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) instances: u32,
    /// Instances of one group
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=5_000))]
    pub(crate) group_size: u32,
    /// Where the figures go as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}
