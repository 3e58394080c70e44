//! Settings of the scheduler.

use std::net::SocketAddr;
use std::time::Duration;

use fabric::{duration, election};

use crate::core::io;

/// deployd-scheduler: decides what runs where. Run two or three; one leads, the others stand by.
#[derive(Debug, Clone, clap::Parser)]
#[command(name = "deployd-scheduler", version)]
pub struct Config {
    /// Name of this scheduler, shown by /api/cluster and in the election; host name and process id when not given
    #[arg(long, env = "DEPLOYD_NAME")]
    pub name: Option<String>,

    /// Address of /healthz, /readyz and /metrics
    #[arg(long, env = "DEPLOYD_LISTEN", default_value = "127.0.0.1:9012")]
    pub listen: SocketAddr,

    /// File with the private key that signs the orders of this scheduler (deployctl bus-keys writes it). Agents that have
    /// public keys obey only signed orders
    #[arg(long, env = "DEPLOYD_ORDER_KEY_FILE", value_name = "FILE")]
    pub order_key_file: Option<std::path::PathBuf>,

    /// File with the public keys of all schedulers (orders.pub of deployctl bus-keys). With it, a node's claim that the store came
    /// back with an older state counts only if a scheduler signed it; without it, one agent can make the leader stop deciding
    #[arg(long, env = "DEPLOYD_ORDER_KEYS_FILE", value_name = "FILE")]
    pub order_keys_file: Option<std::path::PathBuf>,

    /// File of the NATS server with the users of agents (nats-agents.conf of deployctl bus-keys). The scheduler writes the nodes that
    /// joined with a token into it and lets the NATS servers read it again. One for each NATS server
    #[arg(long, env = "DEPLOYD_BUS_AGENTS_FILE", value_name = "FILE")]
    pub bus_agents_file: Option<std::path::PathBuf>,

    /// Names of nodes that may join without a token, with `*` at the end for all that start so. A node of another name is listed as
    /// pending and gets no orders until `deployctl node approve`; nodes that the store knows, and those that joined with a token, are
    /// accepted. The same on all schedulers. Default: none
    #[arg(long, env = "DEPLOYD_ACCEPT_NODES", value_delimiter = ',', value_name = "NAME")]
    pub accept_nodes: Vec<String>,

    /// A node that sends no report for this time (five heartbeats) is suspect: no instance is placed there
    #[arg(long, env = "DEPLOYD_SUSPECT_AFTER", default_value = "15s", value_parser = duration::parse)]
    pub suspect_after: Duration,

    /// A node that sends no report for this time (enough for a reboot) is lost: its instances without local state move
    #[arg(long, env = "DEPLOYD_LOST_AFTER", default_value = "5m", value_parser = duration::parse)]
    pub lost_after: Duration,

    /// A new leader declares no node lost during this time, so that a failover alone moves no instance
    #[arg(long, env = "DEPLOYD_FAILOVER_GRACE", default_value = "30s", value_parser = duration::parse)]
    pub failover_grace: Duration,

    /// An operation releases the lock of its group after this time, finished or not
    #[arg(long, env = "DEPLOYD_OPERATION_LIMIT", default_value = "10m", value_parser = duration::parse)]
    pub operation_limit: Duration,

    /// In an upgrade or a restart, an instance has five times this, or five times its longer setup time, to become healthy
    #[arg(long, env = "DEPLOYD_HEALTH_POLL", default_value = "20s", value_parser = duration::parse)]
    pub health_poll: Duration,

    /// In an upgrade without a strategy, two exits with a non-zero code within this time of the start fail the version; an
    /// instance without a health check runs for this long before the next one is replaced
    #[arg(long, env = "DEPLOYD_EARLY_EXIT", default_value = "10s", value_parser = duration::parse)]
    pub early_exit: Duration,

    /// A dependency pod that no instance needs is removed after this time, so that a redeployment finds it running
    #[arg(long, env = "DEPLOYD_DEPENDENCY_GRACE", default_value = "5m", value_parser = duration::parse)]
    pub dependency_grace: Duration,

    /// A condition that persists is reported to callbacks again after this time, whichever scheduler leads
    #[arg(long, env = "DEPLOYD_TELL_AGAIN_AFTER", default_value = "1h", value_parser = duration::parse)]
    pub tell_again_after: Duration,

    /// Scheduling stops when at least this many nodes, and at least 10 % of all nodes, become suspect within --losses-within (0: never). Default 3: a failing network must not move every instance
    #[arg(long, env = "DEPLOYD_LOSSES_STOP", default_value_t = 3)]
    pub losses_stop: u32,

    /// See --losses-stop
    #[arg(long, env = "DEPLOYD_LOSSES_WITHIN", default_value = "3m", value_parser = duration::parse)]
    pub losses_within: Duration,

    /// A container engine that does not answer its agent for this time is reported to callbacks
    #[arg(long, env = "DEPLOYD_ENGINE_AWAY_AFTER", default_value = "30s", value_parser = duration::parse)]
    pub engine_away_after: Duration,

    /// A killed leader is replaced after this time (whole seconds; etcd grants 2s at least)
    #[arg(long, env = "DEPLOYD_LEASE_TTL", default_value = "5s", value_parser = duration::parse)]
    pub lease_ttl: Duration,

    /// The interval at which the leader renews its lease
    #[arg(long, env = "DEPLOYD_LEASE_RENEW", default_value = "1s", value_parser = duration::parse)]
    pub lease_renew: Duration,

    /// A leader that cannot renew its lease steps down after this time; less than --lease-ttl, so that two never lead together
    #[arg(long, env = "DEPLOYD_LEASE_STEP_DOWN", default_value = "3500ms", value_parser = duration::parse)]
    pub lease_step_down: Duration,

    /// Number of cores of which a pod's CPU level is a share
    #[arg(long, env = "DEPLOYD_QUOTA_CORES", default_value_t = 8)]
    pub quota_cores: u32,

    /// etcd's quota, its --quota-backend-bytes; at 70 % of it creates, larger specs and scale-out are refused. 0: never
    #[arg(long, env = "DEPLOYD_ETCD_QUOTA_BYTES", default_value_t = fabric::etcd::QUOTA_BYTES, value_name = "BYTES")]
    pub etcd_quota_bytes: u64,

    /// Clients without a token that the apiservers may let in: `ROLE[@NAMESPACE] from SOURCE`, where the source is a network,
    /// uid:self, uid:N or any; may be repeated. The scheduler accepts only bindings that it has too, so give the same ones to
    /// the apiservers
    #[arg(long, env = "DEPLOYD_ANONYMOUS", value_name = "BINDING", value_delimiter = ';')]
    pub anonymous: Vec<contract::access::AnonymousBinding>,

    /// The bus
    #[command(flatten)]
    pub nats: fabric::nats::Args,

    /// The store
    #[command(flatten)]
    pub etcd: fabric::etcd::Args,

    /// The log
    #[command(flatten)]
    pub telemetry: fabric::telemetry::Args,
}

impl Config {
    /// The configured name, or host name and process id.
    pub fn name(&self) -> String {
        self.name.clone().unwrap_or_else(|| {
            let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
            let host = if host.trim().is_empty() { "scheduler" } else { host.trim() };
            format!("{host}-{}", std::process::id())
        })
    }

    pub(crate) fn core_settings(&self) -> io::Settings {
        io::Settings {
            name: self.name(),
            suspect_after: self.suspect_after,
            lost_after: self.lost_after,
            failover_grace: self.failover_grace,
            operation_limit: self.operation_limit,
            health_poll: self.health_poll,
            early_exit: self.early_exit,
            dependency_grace: self.dependency_grace,
            tell_again_after: self.tell_again_after,
            losses_stop: self.losses_stop,
            losses_within: self.losses_within,
            engine_away_after: self.engine_away_after,
            quota_cores: self.quota_cores,
            store_quota: self.etcd_quota_bytes,
            most_outcomes: io::Settings::default().most_outcomes,
            anonymous: self.anonymous.clone(),
            enforces_access: true,
            orders_at_once: io::Settings::default().orders_at_once,
            accepted_nodes: self.accept_nodes.clone(),
            order_keys: String::new(),
            faults: io::Faults::default(),
        }
    }

    pub(crate) fn election_settings(&self) -> election::Settings {
        let (ttl, renew, step_down_after) = (self.lease_ttl, self.lease_renew, self.lease_step_down);
        election::Settings { ttl, renew, step_down_after, ..election::Settings::default() }
    }
}

impl fabric::settings::Settings for Config {
    fn check(&self) -> Result<(), String> {
        let limits = [
            ("--lease-renew", self.lease_renew, "--lease-step-down", self.lease_step_down),
            ("--lease-step-down", self.lease_step_down, "--lease-ttl", self.lease_ttl),
            ("--suspect-after", self.suspect_after, "--lost-after", self.lost_after),
        ];
        for (small, value, large, limit) in limits {
            if value >= limit {
                return Err(format!("{small} ({value:?}) must be less than {large} ({limit:?})"));
            }
        }
        if self.quota_cores == 0 {
            return Err("--quota-cores must be at least 1".to_owned());
        }
        self.nats.check()?;
        self.etcd.check()?;
        self.telemetry.check()
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use fabric::settings::Settings;

    use super::*;

    fn parse(arguments: &[&str]) -> Result<Config, String> {
        let all = ["deployd-scheduler"].iter().chain(arguments);
        Config::try_parse_from(all).map_err(|error| error.to_string())
    }

    #[test]
    fn the_defaults_are_valid_and_equal_those_of_the_core() {
        let config = parse(&[]).unwrap();
        assert_eq!(config.check(), Ok(()));
        let (ours, core) = (config.core_settings(), io::Settings::default());
        assert_eq!((ours.suspect_after, ours.lost_after), (core.suspect_after, core.lost_after));
        assert_eq!((ours.failover_grace, ours.operation_limit), (core.failover_grace, core.operation_limit));
        assert_eq!((ours.health_poll, ours.dependency_grace), (core.health_poll, core.dependency_grace));
        assert_eq!((ours.tell_again_after, ours.losses_stop), (core.tell_again_after, core.losses_stop));
        assert_eq!((ours.losses_within, ours.engine_away_after), (core.losses_within, core.engine_away_after));
        assert_eq!((ours.quota_cores, ours.early_exit), (core.quota_cores, core.early_exit));
        assert_eq!((ours.store_quota, ours.accepted_nodes), (core.store_quota, Vec::<String>::new()));
        let (lease, usual) = (config.election_settings(), election::Settings::default());
        assert_eq!((lease.ttl, lease.renew, lease.step_down_after), (usual.ttl, usual.renew, usual.step_down_after));
    }

    #[test]
    fn every_file_in_deploy_sets_the_quota_that_the_scheduler_expects() {
        let deploy = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy");
        let quota = fabric::etcd::QUOTA_BYTES;
        for (file, setting) in [
            ("docker-compose.yml", format!("ETCD_QUOTA_BACKEND_BYTES: \"{quota}\"")),
            ("docker-compose.ha.yml", format!("ETCD_QUOTA_BACKEND_BYTES: \"{quota}\"")),
            ("config/scheduler.env", format!("DEPLOYD_ETCD_QUOTA_BYTES={quota}")),
            ("config/scheduler.env", format!("--quota-backend-bytes={quota}")),
        ] {
            let text = std::fs::read_to_string(deploy.join(file)).unwrap();
            assert!(text.contains(&setting), "{file} lacks {setting}");
            assert!(text.contains("5m"), "{file} compacts every five minutes");
        }
        let local = fabric::local::etcd_arguments(&deploy, 1, 2);
        assert!(local.contains(&format!("--quota-backend-bytes={quota}")), "{local:?}");
        assert!(local.contains(&"--auto-compaction-retention=5m".to_owned()), "{local:?}");
    }

    #[test]
    fn a_step_down_time_above_the_lease_is_refused() {
        let flaw = parse(&["--lease-step-down", "6s"]).unwrap().check().unwrap_err();
        assert!(flaw.contains("--lease-step-down") && flaw.contains("--lease-ttl"), "{flaw}");
        assert!(parse(&["--lost-after", "10s"]).unwrap().check().is_err());
        assert!(parse(&["--lost-after", "soon"]).is_err());
    }
}
