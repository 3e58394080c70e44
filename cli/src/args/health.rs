//! The flags of `health` and `clear`.

use std::time::Duration;

use clap::Args as ClapArgs;

/// `deployctl health`
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "\
http://HOST:PORT/PATH is healthy when it answers 2xx, tcp://HOST:PORT when it accepts connections. Exit code 1 when one is \
not; standard error says which.

Examples:
  deployctl health http://127.0.0.1:9003/readyz
  deployctl health --wait 60s tcp://nats:4222 http://etcd:2379/health")]
pub struct Health {
    /// Endpoints to check; all must be healthy
    #[arg(required = true, value_name = "URL")]
    pub urls: Vec<String>,
    /// Keep retrying for this long [default: check once]
    #[arg(long, value_name = "TIME", value_parser = fabric::duration::parse)]
    pub wait: Option<Duration>,
}

/// `deployctl clear`
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "\
Stop the processes of the cluster first: running agents create the containers again.

Example:
  deployctl clear --cluster compose")]
pub struct Clear {
    /// Id of the cluster whose containers and networks to remove
    #[arg(long, value_name = "ID")]
    pub cluster: String,
    /// Do not ask on a terminal
    #[arg(long, short)]
    pub yes: bool,
}
