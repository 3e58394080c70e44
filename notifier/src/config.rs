//! Settings of the notifier.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use fabric::duration;

/// deployd-notifier: posts notices to callback URLs. Run as many as you like, they share the work.
#[derive(Debug, Clone, clap::Parser)]
#[command(name = "deployd-notifier", version)]
pub struct Config {
    /// Address of /healthz, /readyz and /metrics
    #[arg(long, env = "DEPLOYD_LISTEN", default_value = "127.0.0.1:9014")]
    pub listen: SocketAddr,

    /// Name of this notifier on the bus
    #[arg(long, env = "DEPLOYD_NAME", default_value = "notifier")]
    pub name: String,

    /// How long a callback may take to answer
    #[arg(long, env = "DEPLOYD_TIMEOUT", default_value = "15s", value_parser = duration::parse)]
    pub timeout: Duration,

    /// Waiting times after each failed attempt, each lengthened by up to 20 %; after the last the notice is given up
    #[arg(
        long,
        env = "DEPLOYD_RETRY_DELAYS",
        default_value = "5s,5m,30m,2h,5h,10h",
        value_delimiter = ',',
        value_parser = duration::parse
    )]
    pub retry_delays: Vec<Duration>,

    /// How long a notifier may be silent about a notice it holds before another gets it. Applies where this notifier creates the
    /// consumer of notices; schedulers create it with the default
    #[arg(long, env = "DEPLOYD_ACK_WAIT", default_value = "30s", value_parser = duration::parse)]
    pub ack_wait: Duration,

    /// File with a secret (whsec_ and base64) that notices are signed with, see docs/operations.md; repeatable, for a rotation
    #[arg(
        long = "webhook-secret-file",
        env = "DEPLOYD_WEBHOOK_SECRET_FILE",
        value_delimiter = ',',
        value_name = "FILE"
    )]
    pub webhook_secret_files: Vec<PathBuf>,

    /// The addresses of callbacks
    #[command(flatten)]
    pub callback: fabric::callback::Args,

    /// The bus
    #[command(flatten)]
    pub nats: fabric::nats::Args,

    /// The log
    #[command(flatten)]
    pub telemetry: fabric::telemetry::Args,
}

impl fabric::settings::Settings for Config {
    fn check(&self) -> Result<(), String> {
        self.nats.check()?;
        self.telemetry.check()
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use planner::webhook::Schedule;

    use super::*;

    #[test]
    fn the_default_delays_are_the_planners() {
        let config = Config::parse_from(["deployd-notifier"]);
        assert_eq!(Schedule::new(config.retry_delays), Schedule::default());
    }
}
