//! Settings of the apiserver.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use fabric::duration;
use ipnet::IpNet;

/// deployd-apiserver: the HTTP API of deployd. Several may run; clients may use any of them.
#[derive(Debug, Clone, clap::Parser)]
#[command(name = "deployd-apiserver", version)]
pub struct Config {
    /// Address the API listens on; /healthz, /readyz and /metrics are served there too
    #[arg(long, env = "DEPLOYD_LISTEN", default_value = "127.0.0.1:9003")]
    pub listen: SocketAddr,

    /// Unix socket on which the API listens too, for clients run by the same user; its file gets the mode 0600
    #[arg(long, env = "DEPLOYD_SOCKET", value_name = "PATH")]
    pub socket: Option<PathBuf>,

    /// Certificate of this server (PEM), with --tls-key: the API then speaks https. Renewed files are used without a restart
    #[arg(long, env = "DEPLOYD_TLS_CERT", value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,

    /// Private key of the certificate (PEM)
    #[arg(long, env = "DEPLOYD_TLS_KEY", value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,

    /// Addresses of proxies before this apiserver; may be repeated. Their requests need no TLS, and `X-Forwarded-For` or
    /// `Forwarded` of theirs names the client. The proxy must write that header itself
    #[arg(long, env = "DEPLOYD_BEHIND_PROXY", value_name = "CIDR", value_delimiter = ',', value_parser = network)]
    pub behind_proxy: Vec<IpNet>,

    /// Answer unencrypted requests of other machines; machines on the network path may read and change them
    #[arg(long, env = "DEPLOYD_INSECURE_HTTP")]
    pub insecure_http: bool,

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

    /// Most requests in a second of one principal, or of one address for clients without a token; twice as many at once. More are
    /// answered 429. 0: no limit
    #[arg(long, env = "DEPLOYD_REQUESTS_PER_SECOND", default_value_t = 50)]
    pub requests_per_second: u32,

    /// Most bytes that one principal or address may send in bodies within a minute; more are answered 429. 0: no limit
    #[arg(long, env = "DEPLOYD_BYTES_PER_MINUTE", default_value_t = 32 << 20)]
    pub bytes_per_minute: u64,

    /// Most followers of events (GET /api/events?follow=true) and readers of logs (GET /api/logs) of one principal, or of one address for clients without a token, of
    /// 1024 in all; more are answered 429
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
        if !self.is_protected() {
            return Err(format!(
                "--listen {} is reachable from other machines, and nothing encrypts their requests: give --tls-cert and --tls-key \
                 (`deployctl ca init` makes them), name the proxies before this apiserver with --behind-proxy, or listen on \
                 127.0.0.1; --insecure-http allows it",
                self.listen
            ));
        }
        self.nats.check()?;
        self.telemetry.check()
    }
}

impl Config {
    /// Whether no request of another machine travels unencrypted, or an operator allowed it.
    fn is_protected(&self) -> bool {
        let is_local = self.listen.ip().to_canonical().is_loopback();
        is_local || self.tls_cert.is_some() || !self.behind_proxy.is_empty() || self.insecure_http
    }
}

/// `10.0.0.0/24`, or one address.
fn network(text: &str) -> Result<IpNet, String> {
    let one = || text.parse::<IpAddr>().ok().map(|address| IpNet::from(address.to_canonical()));
    let found = text.parse::<IpNet>().ok().or_else(one);
    found.ok_or_else(|| format!("{text:?} is neither a network such as 10.0.0.0/24 nor an address"))
}

fn at_least_one(text: &str) -> Result<usize, String> {
    let number: usize = text.parse().map_err(|_| format!("{text:?} is not a number"))?;
    if number == 0 { Err("must be 1 or more".to_owned()) } else { Ok(number) }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use fabric::settings::Settings;

    use super::*;

    fn check(flags: &[&str]) -> Result<(), String> {
        let config = Config::try_parse_from(std::iter::once(&"deployd-apiserver").chain(flags));
        config.map_err(|error| error.to_string())?.check()
    }

    #[test]
    fn other_machines_are_served_only_encrypted_unless_an_operator_allows_more() {
        let refused = check(&["--listen", "0.0.0.0:9003"]).unwrap_err();
        for remedy in ["--tls-cert", "--behind-proxy", "--insecure-http", "127.0.0.1"] {
            assert!(refused.contains(remedy), "{refused}");
        }
        assert!(check(&["--listen", "[::]:9003"]).is_err());
        for flags in [
            &["--listen", "127.0.0.1:9003"][..],
            &["--listen", "[::1]:9003"],
            &["--listen", "0.0.0.0:9003", "--tls-cert", "c", "--tls-key", "k"],
            &["--listen", "0.0.0.0:9003", "--behind-proxy", "10.0.0.0/24,192.0.2.1"],
            &["--listen", "0.0.0.0:9003", "--insecure-http"],
        ] {
            assert_eq!(check(flags), Ok(()), "{flags:?}");
        }
    }

    #[test]
    fn certificate_and_key_belong_together_and_proxies_are_addresses() {
        assert!(check(&["--tls-cert", "c"]).is_err() && check(&["--tls-key", "k"]).is_err());
        assert!(check(&["--behind-proxy", "haproxy"]).unwrap_err().contains("10.0.0.0/24"));
    }
}
