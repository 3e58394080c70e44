//! The flags of what stands beside the processes: `health`, `balance` and `clear`.

use std::net::SocketAddr;
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

/// `deployctl balance`
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "\
Connections go round the apiservers that are ready. One that does not answer at all loses its connections, so that clients try
again at once instead of waiting. SIGTERM ends it when the connections in flight have ended, or after 10 seconds.

Example:
  deployctl balance --listen 0.0.0.0:9003 --to apiserver-1:9003,apiserver-2:9003")]
pub struct Balance {
    /// Address to listen on
    #[arg(long, default_value = "127.0.0.1:9003", value_name = "ADDRESS")]
    pub listen: SocketAddr,
    /// Apiservers, as HOST:PORT; names are looked up for each connection
    #[arg(long, required = true, value_delimiter = ',', value_name = "HOST:PORT")]
    pub to: Vec<String>,
    /// Between two looks at an apiserver's /readyz
    #[arg(long, default_value = "1s", value_name = "TIME", value_parser = fabric::duration::parse)]
    pub every: Duration,
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
