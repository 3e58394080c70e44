//! The command lines of `agents` and `placement`.

use std::path::PathBuf;
use std::time::Duration;

use fabric::duration;

/// Below the cluster's limit of 5,000, because measuring adds instances.
const LARGEST_GROUP: i64 = 4_900;

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Agents {
    /// Nodes, each a real agent core over a simulated engine
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) nodes: u32,
    /// Total number of instances
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) instances: u32,
    /// Instances per group
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=LARGEST_GROUP))]
    pub(crate) group_size: u32,
    /// Average time to create a container
    #[arg(long, default_value = "200ms", value_parser = duration::parse)]
    pub(crate) start_after: Duration,
    /// Schedulers; with one the takeover is not measured
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=3))]
    pub(crate) schedulers: u32,
    /// Duration of the steady-state measurement
    #[arg(long, default_value = "20s", value_parser = duration::parse)]
    pub(crate) steady: Duration,
    /// Groups to scale by one instance, one after another
    #[arg(long, default_value_t = 20)]
    pub(crate) changes: u32,
    /// Time limit of the whole run
    #[arg(long, default_value = "10m", value_parser = duration::parse)]
    pub(crate) limit: Duration,
    /// Write the figures to this file as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Keep the servers' data and logs in this folder
    #[arg(long, value_name = "FOLDER")]
    pub(crate) keep: Option<PathBuf>,
}

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Placement {
    /// Nodes
    #[arg(long, default_value_t = 6_100, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) nodes: u32,
    /// Total number of instances
    #[arg(long, default_value_t = 2_000_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) instances: u32,
    /// Instances per group
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=5_000))]
    pub(crate) group_size: u32,
    /// Write the figures to this file as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}
