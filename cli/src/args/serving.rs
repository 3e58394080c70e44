//! The flags of `health` and `clear`.

use std::time::Duration;

use clap::Args as ClapArgs;

/// `deployctl health`
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "\
http://HOST:PORT/PATH is well when it answers 2xx, tcp://HOST:PORT when it takes connections. What is not well is told, and
the exit code is 1.

Examples:
  deployctl health http://127.0.0.1:9003/readyz
  deployctl health --wait 60s tcp://nats:4222 http://etcd:2379/health")]
pub struct Health {
    /// What to ask; all of them must be well
    #[arg(required = true, value_name = "URL")]
    pub urls: Vec<String>,
    /// Ask again for so long [default: ask once]
    #[arg(long, value_name = "TIME", value_parser = fabric::duration::parse)]
    pub wait: Option<Duration>,
}

/// `deployctl clear`
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "\
For a cluster whose processes are gone: as long as they run, they make the containers again.

Example:
  deployctl clear --cluster compose")]
pub struct Clear {
    /// Whose containers and networks
    #[arg(long, value_name = "ID")]
    pub cluster: String,
}
