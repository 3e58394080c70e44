//! Settings of the apiserver.

use std::net::SocketAddr;
use std::time::Duration;

use fabric::duration;

/// deployd-apiserver: the HTTP API of deployd. Several may run; clients may use any of them.
#[derive(Debug, Clone, clap::Parser)]
#[command(name = "deployd-apiserver", version)]
pub struct Config {
    /// Address the API listens on; /healthz, /readyz and /metrics are served there too
    #[arg(long, env = "DEPLOYD_LISTEN", default_value = "127.0.0.1:9003")]
    pub listen: SocketAddr,

    /// Name of this apiserver, shown by /api/cluster and in commands
    #[arg(long, env = "DEPLOYD_NAME", default_value = "apiserver")]
    pub name: String,

    /// How long a change waits for the leader's decision before it is answered as queued (clients give up after 10s)
    #[arg(long, env = "DEPLOYD_OUTCOME_DEADLINE", default_value = "5s", value_parser = duration::parse)]
    pub outcome_deadline: Duration,

    /// How long a change waits for the bus to store it; after that the answer is 503 with an unknown outcome
    #[arg(long, env = "DEPLOYD_PUBLISH_DEADLINE", default_value = "3s", value_parser = duration::parse)]
    pub publish_deadline: Duration,

    /// How long a query waits for the leader before the apiserver asks a standby
    #[arg(long, env = "DEPLOYD_QUERY_DEADLINE", default_value = "3s", value_parser = duration::parse)]
    pub query_deadline: Duration,

    /// How long nodes may take to describe their containers; after that the answer is built without them
    #[arg(long, env = "DEPLOYD_INSPECT_DEADLINE", default_value = "800ms", value_parser = duration::parse)]
    pub inspect_deadline: Duration,

    /// Name under which clients call the API (`http://deployd.lain:9003` needs `--host deployd.lain`); may be repeated.
    /// Addresses and localhost always work. A request for any other name is answered 403: it may come from a web page
    /// whose name points to this machine
    #[arg(long = "host", env = "DEPLOYD_HOST", value_name = "NAME", value_delimiter = ',')]
    pub hosts: Vec<String>,

    /// Clients without a token that this apiserver lets in: `ROLE[@NAMESPACE] from SOURCE`, where the source is a network,
    /// uid:self, uid:N or any; may be repeated. Changes need the same binding at the schedulers. Default: none
    #[arg(long, env = "DEPLOYD_ANONYMOUS", value_name = "BINDING", value_delimiter = ';')]
    pub anonymous: Vec<contract::access::AnonymousBinding>,

    /// Most changes that may wait for a decision; more are answered 503 and not accepted
    #[arg(long, env = "DEPLOYD_MOST_WAITING", default_value_t = 4096)]
    pub most_waiting: usize,

    /// Most connections of one address (IPv6: of one /64 network), of 8192 in all; beyond it a new connection closes the oldest
    /// idle one. Clients behind one balancer count as one address
    #[arg(long, env = "DEPLOYD_CONNECTIONS_PER_PEER", default_value_t = 2048, value_parser = at_least_one)]
    pub connections_per_peer: usize,

    /// Most concurrent requests of one address; more are answered 429. Keep it below the connections, so that
    /// some of them can always be closed for health checks from the same address
    #[arg(long, env = "DEPLOYD_REQUESTS_PER_PEER", default_value_t = 1024, value_parser = at_least_one)]
    pub requests_per_peer: usize,

    /// Most followers of events (GET /api/events?follow=true) of one address, of 256 in all; more are answered 429
    #[arg(long, env = "DEPLOYD_FOLLOWERS_PER_PEER", default_value_t = 32, value_parser = at_least_one)]
    pub followers_per_peer: usize,

    /// How long connections are still accepted after SIGTERM, while /readyz is 503 and answers carry `Connection: close`:
    /// longer than your load balancer needs to notice (the HAProxy of the compose stack checks every second)
    #[arg(long, env = "DEPLOYD_LINGER", default_value = "3s", value_parser = duration::parse)]
    pub linger: Duration,

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
        if self.requests_per_peer >= self.connections_per_peer {
            return Err("--requests-per-peer must be below --connections-per-peer".to_owned());
        }
        if let Some(name) = self.hosts.iter().find(|name| name.is_empty() || name.contains([':', '/', '@', ' '])) {
            return Err(format!("--host {name:?} is not a name; write it without scheme and port"));
        }
        self.telemetry.check()
    }
}

fn at_least_one(text: &str) -> Result<usize, String> {
    let number: usize = text.parse().map_err(|_| format!("{text:?} is not a number"))?;
    if number == 0 { Err("must be 1 or more".to_owned()) } else { Ok(number) }
}
