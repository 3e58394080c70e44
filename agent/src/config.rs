//! Every setting of the agent, from arguments and environment.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::time::Duration;

use contract::name::NodeName;

use crate::device::Device;
use crate::pool::Pool;

/// Runs the containers of one node. `deployd-agent join` joins a cluster with a token.
#[derive(Debug, clap::Parser)]
#[command(name = "deployd-agent", version, about)]
pub struct Config {
    /// Name of this node; default: the host name
    #[arg(long, env = "DEPLOYD_NAME", value_name = "NAME")]
    pub name: Option<NodeName>,
    /// Cluster this node belongs to; containers of other clusters on the same engine are never touched
    #[arg(long, env = "DEPLOYD_CLUSTER", default_value = "default", value_name = "ID")]
    pub cluster: String,
    /// Label that placement constraints match, as KEY=VALUE; may be given several times
    #[arg(long = "label", env = "DEPLOYD_LABELS", value_delimiter = ',', value_parser = label, value_name = "KEY=VALUE")]
    pub labels: Vec<(String, String)>,
    /// Where the agent keeps its ledger; each agent needs its own
    #[arg(long, env = "DEPLOYD_STATE_DIR", default_value = "/var/lib/deployd/agent", value_name = "DIR")]
    pub state_dir: PathBuf,
    /// Socket of the Docker engine
    #[arg(long, env = "DEPLOYD_DOCKER", default_value = "/var/run/docker.sock", value_name = "SOCKET")]
    pub docker: PathBuf,
    /// Memory for containers, in bytes; default: all of the machine's
    #[arg(long, env = "DEPLOYD_MEMORY", value_name = "BYTES")]
    pub memory: Option<u64>,
    /// Cores of this node; default: all of the machine's
    #[arg(long, env = "DEPLOYD_CPUS", value_name = "CORES")]
    pub cpus: Option<u32>,
    /// CPU overcommit factor: a quota is a ceiling, not a reservation
    #[arg(long, env = "DEPLOYD_CPU_OVERCOMMIT", default_value_t = 8, value_name = "TIMES")]
    pub cpu_overcommit: u32,
    /// Directory of volumes
    #[arg(long, env = "DEPLOYD_VOLUME_ROOT", default_value = "/data/lain/volumes", value_name = "DIR")]
    pub volume_root: String,
    /// Directory of cloud volumes
    #[arg(long, env = "DEPLOYD_CLOUD_VOLUME_ROOT", default_value = "/data/lain/cloud-volumes", value_name = "DIR")]
    pub cloud_volume_root: String,
    /// CPU level 8 is half of these cores; set the schedulers' option of the same name to the same value
    #[arg(long, env = "DEPLOYD_QUOTA_CORES", default_value_t = 8, value_name = "CORES",
        value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub quota_cores: u32,
    /// Block device and its capacity; each container may use that percentage of it. May be given several times; in the
    /// environment separated by ;
    #[arg(long = "device", env = "DEPLOYD_DEVICES", value_delimiter = ';', value_parser = Device::parse,
        value_name = "path=PATH,rate=SIZE,iops=COUNT,percent=70")]
    pub devices: Vec<Device>,
    /// Address at which others reach this node; default: the source address of its default route
    #[arg(long, env = "DEPLOYD_ADVERTISE_IP", value_name = "ADDRESS")]
    pub advertise_ip: Option<IpAddr>,
    /// Address on which ports of containers are published; default: the address at which others reach this node. 0.0.0.0
    /// publishes on all addresses
    #[arg(long, env = "DEPLOYD_PUBLISH_IP", value_name = "ADDRESS")]
    pub publish_ip: Option<IpAddr>,
    /// What containers of this node may request, with the final say over the leader's policies (TOML); default:
    /// /etc/deployd/policy.toml if it exists
    #[arg(long, env = "DEPLOYD_POLICY_FILE", value_name = "FILE")]
    pub policy_file: Option<PathBuf>,
    /// Processes of one container under the levels baseline and restricted; 0 means unlimited
    #[arg(long, env = "DEPLOYD_PIDS_LIMIT", default_value_t = 512, value_name = "COUNT",
        value_parser = clap::value_parser!(i64).range(0..=4_194_304))]
    pub pids_limit: i64,
    /// Interval of heartbeats
    #[arg(long, env = "DEPLOYD_HEARTBEAT", default_value = "3s", value_parser = fabric::duration::parse, value_name = "TIME")]
    pub heartbeat: Duration,
    /// Interval of inventories of all containers, in case an event was lost
    #[arg(long, env = "DEPLOYD_REREAD", default_value = "60s", value_parser = fabric::duration::parse, value_name = "TIME")]
    pub reread: Duration,
    /// After this time without a message of a scheduler the agent recreates missing containers itself
    #[arg(long, env = "DEPLOYD_ALONE_AFTER", default_value = "60s", value_parser = fabric::duration::parse, value_name = "TIME")]
    pub alone_after: Duration,
    /// Immediate restarts of a pod; further ones follow with back-off, 1 s doubling to 5 min
    #[arg(long, env = "DEPLOYD_MAX_RESTARTS", default_value_t = 3, value_name = "COUNT")]
    pub max_restarts: u32,
    /// A restart after a longer pause starts a new count. Running for 10 min, or for twice this time when that is shorter, ends
    /// the back-off
    #[arg(long, env = "DEPLOYD_RESTART_WINDOW", default_value = "30m", value_parser = fabric::duration::parse, value_name = "TIME")]
    pub restart_window: Duration,
    /// Address ranges for networks of pods, separated by , : each network gets 4096 addresses. Ranges with a route of this
    /// machine are skipped
    #[arg(long, env = "DEPLOYD_NETWORK_POOL", default_value = crate::pool::DEFAULT, value_parser = Pool::parse, value_name = "RANGES")]
    pub network_pool: Pool,
    /// Concurrent creates and starts; more than Docker can handle only adds waiting
    #[arg(long, env = "DEPLOYD_ENGINE_CONCURRENCY", default_value_t = 6, value_name = "COUNT")]
    pub engine_concurrency: usize,
    /// Address of /healthz, /readyz and /metrics
    #[arg(long, env = "DEPLOYD_LISTEN", default_value = "127.0.0.1:9013", value_name = "ADDRESS")]
    pub listen: SocketAddr,
    /// File with the public keys of the schedulers (deployctl bus-keys writes it): only orders signed with one of them are
    /// obeyed. Without it every order that arrives is obeyed
    #[arg(long, env = "DEPLOYD_ORDER_KEYS_FILE", value_name = "FILE")]
    pub order_keys_file: Option<PathBuf>,
    /// Where NATS is
    #[command(flatten)]
    pub nats: fabric::nats::Args,
    /// What is logged
    #[command(flatten)]
    pub log: fabric::telemetry::Args,
}

impl Config {
    pub fn node_name(&self) -> Result<NodeName, String> {
        node_name(self.name.as_ref())
    }

    pub fn address(&self) -> IpAddr {
        self.known_address().unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST))
    }

    /// Where ports are published; none means all addresses, when this node knows none of its own.
    pub fn publish_address(&self) -> Option<IpAddr> {
        self.publish_ip.or_else(|| self.known_address())
    }

    fn known_address(&self) -> Option<IpAddr> {
        self.advertise_ip.or_else(own_address)
    }
}

impl fabric::settings::Settings for Config {
    fn check(&self) -> Result<(), String> {
        self.node_name()?;
        self.nats.check()?;
        self.log.check()
    }
}

/// The given name, or that of the machine.
pub fn node_name(given: Option<&NodeName>) -> Result<NodeName, String> {
    if let Some(name) = given {
        return Ok(name.clone());
    }
    let own = std::fs::read_to_string("/proc/sys/kernel/hostname").map_err(|error| error.to_string())?;
    own.trim().parse().map_err(|error| format!("the machine's name {:?} {error}; give --name", own.trim()))
}

/// Source address of the default route. Connecting a datagram socket sends nothing; the target is a documentation address.
fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9)).ok()?;
    Some(socket.local_addr().ok()?.ip()).filter(|address| !address.is_unspecified())
}

pub fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => Ok((key.trim().to_owned(), value.trim().to_owned())),
        Some(_) | None => Err(format!("{text:?} is not a label; write KEY=VALUE")),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[test]
    fn labels_may_repeat_and_be_listed() {
        let config = Config::parse_from(["deployd-agent", "--label", "group=default", "--label", "unit=a,rack=3"]);
        let pairs = [("group", "default"), ("unit", "a"), ("rack", "3")].map(|(k, v)| (k.to_owned(), v.to_owned()));
        assert_eq!(config.labels, pairs);
        assert!(Config::try_parse_from(["deployd-agent", "--label", "group"]).is_err());
    }

    #[test]
    fn devices_may_repeat_and_a_wrong_one_is_refused() {
        let words = ["deployd-agent", "--device", "path=/dev/sda,rate=1m", "--device", "path=/dev/sdb,iops=9"];
        let devices = ["path=/dev/sda,rate=1m", "path=/dev/sdb,iops=9"].map(|text| Device::parse(text).expect("good"));
        assert_eq!(Config::parse_from(words).devices, devices);
        let listed = ["deployd-agent", "--device", "path=/dev/sda,rate=1m;path=/dev/sdb,iops=9"];
        assert_eq!(Config::parse_from(listed).devices, devices);
        for wrong in ["--device=/dev/sda", "--quota-cores=0"] {
            assert!(Config::try_parse_from(["deployd-agent", wrong]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn networks_come_from_the_given_ranges_and_a_wrong_one_is_refused() {
        let given = Config::parse_from(["deployd-agent", "--network-pool", "10.200.0.0/16,172.20.0.0/14"]);
        assert_eq!(given.network_pool.to_string(), "10.200.0.0/16,172.20.0.0/14");
        assert_eq!(Config::parse_from(["deployd-agent"]).network_pool, Pool::default());
        assert!(Config::try_parse_from(["deployd-agent", "--network-pool", "10.200.0.0/24"]).is_err());
    }

    #[test]
    fn a_node_has_a_name_and_an_address_by_default() {
        let config = Config::parse_from(["deployd-agent", "--name", "n1", "--advertise-ip", "127.0.0.1"]);
        assert_eq!(config.node_name().expect("given").as_str(), "n1");
        assert_eq!(config.address(), IpAddr::V4(Ipv4Addr::LOCALHOST));
        assert!(!Config::parse_from(["deployd-agent"]).address().is_unspecified());
        assert!(Config::try_parse_from(["deployd-agent", "--name", "a b"]).is_err());
    }

    #[test]
    fn ports_are_published_on_the_address_of_the_node_unless_an_operator_chooses() {
        let config = Config::parse_from(["deployd-agent", "--name", "n1", "--advertise-ip", "127.0.0.1"]);
        assert_eq!(config.publish_address(), Some(IpAddr::V4(Ipv4Addr::LOCALHOST)), "not on all addresses");
        let all = Config::parse_from(["deployd-agent", "--advertise-ip", "127.0.0.1", "--publish-ip", "0.0.0.0"]);
        assert_eq!(all.publish_address(), Some(IpAddr::V4(Ipv4Addr::UNSPECIFIED)));
    }
}
