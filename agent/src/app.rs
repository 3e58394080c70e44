//! Builds the agent and runs it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use contract::labels::Owner;
use contract::name::NodeName;
use contract::node::Presence;
use contract::report::NodeFacts;
use fabric::admin::Readiness;
use fabric::clock::Clock;
use fabric::nats::Bus;
use fabric::shutdown::Shutdown;
use fabric::signing::OrderKeys;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tracing::{info, warn};

use crate::config::Config;
use crate::container::Host;
use crate::core::Core;
use crate::core::io::{Faults, Settings};
use crate::device::Device;
use crate::docker::{Engine, Machine};
use crate::engine_health::EngineHealth;
use crate::identity;
use crate::ledger::LedgerFile;
use crate::metrics::Metrics;
use crate::name_claim::{self, Claim, Taken};
use crate::policy::{self, NodePolicy};
use crate::shell::disk::Disk;
use crate::shell::executor::{self, ContainerRules, Executor};
use crate::shell::prober::Prober;
use crate::shell::publisher::Publisher;
use crate::shell::subscriptions::{self, Subscriptions};
use crate::shell::{INPUTS, Shell};

/// How long a starting agent waits for Docker's facts about the machine. Then it starts with the kernel's facts, so that the
/// node appears with its engine down instead of not at all.
const ENGINE_DEADLINE: Duration = Duration::from_secs(30);

/// The agent, ready to run.
pub struct App {
    shell: Shell,
    shutdown: Shutdown,
    name_claim: JoinHandle<Result<(), Taken>>,
}

impl App {
    /// Locks the state directory, connects to Docker and NATS, claims the node's name and starts the tasks.
    pub async fn build(config: Config, shutdown: Shutdown) -> anyhow::Result<Self> {
        let node = config.node_name().map_err(anyhow::Error::msg)?;
        let owner = Owner { cluster: config.cluster.clone(), node: node.clone() };
        let policy = policy(&config)?;
        let (file, ledger) = LedgerFile::open(&config.state_dir)?;
        let identity = identity::of(&config.state_dir)?;
        let order_keys = config.order_keys_file.as_deref().map(OrderKeys::load).transpose()?;
        if order_keys.is_none() {
            warn!(
                "orders need no signature: any process that may write to NATS can command this node; set --order-keys-file"
            );
        }
        let incarnation = ulid::Ulid::generate().to_string();
        let (metrics, registry) = Metrics::new();
        let readiness = Readiness::new();
        serve_admin(&config, &readiness, registry, &shutdown);
        fabric::systemd::start(&readiness, &shutdown);

        let clock = Clock::start();
        let (health, states) = EngineHealth::new();
        let host = host(&config, &owner);
        let engine = Engine::new(config.docker.clone(), host.clone(), config.engine_concurrency, health.clone());
        let engine = Arc::new(engine.with_pool(config.network_pool.clone()));
        let facts = node_facts(&config, &machine(&engine).await);
        info!(%node, cluster = %owner.cluster, memory = facts.memory, cores = facts.cores, engine = %facts.engine_version,
            version = env!("CARGO_PKG_VERSION"), "agent started");
        let bus = Bus::connect(&config.nats, &format!("agent-{node}")).await.context("cannot connect to NATS")?;
        let me = Presence {
            identity: identity.clone(),
            incarnation: incarnation.clone(),
            host: name_claim::host(),
            address: facts.ip.clone(),
            since: clock.now(),
            settled: false,
        };
        let mut claim = Claim::new(bus.clone(), node.clone(), me).await.context("cannot subscribe")?;
        claim.settle().await?;
        let name_claim = claim.keep(shutdown.clone());

        let (sender, inputs) = mpsc::channel(INPUTS);
        let publisher = Publisher::start(bus.clone(), &node, metrics.clone());
        executor::watch(&engine, health.clone(), states, clock.now().as_millis() * 1_000_000, &sender);
        let subscriptions = Subscriptions {
            bus,
            owner,
            facts: facts.clone(),
            engine: Arc::clone(&engine),
            health,
            publisher: publisher.clone(),
            clock,
            order_keys,
            metrics: metrics.clone(),
        };
        subscriptions::start(subscriptions, &sender).await.context("cannot subscribe")?;

        let shell = Shell {
            core: Core::new(Settings { identity, incarnation, ..settings(&config, &node, facts) }, ledger),
            clock,
            inputs,
            prober: Prober::new(Arc::clone(&engine), sender.clone()),
            executor: Executor::new(engine, ContainerRules { host, policy }, sender.clone(), metrics.clone()),
            publisher,
            disk: Disk::start(file, sender),
            metrics,
            readiness,
        };
        Ok(Self { shell, shutdown, name_claim })
    }

    /// Runs until shutdown, or until another agent has the node's name.
    pub async fn run(self) -> Result<(), Taken> {
        self.shell.run(self.shutdown).await;
        info!("agent stopped; containers keep running");
        // The claim ends with the shutdown, so the next agent finds the name free.
        self.name_claim.await.unwrap_or(Ok(()))
    }
}

fn serve_admin(
    config: &Config,
    readiness: &Readiness,
    registry: prometheus_client::registry::Registry,
    shutdown: &Shutdown,
) {
    let (address, readiness, shutdown) = (config.listen, readiness.clone(), shutdown.clone());
    fabric::tasks::spawn("admin", async move {
        if let Err(reason) = fabric::admin::serve(address, readiness, Arc::new(registry), shutdown.clone()).await {
            // Without /healthz a supervisor would consider the agent dead, so it stops.
            tracing::error!(%address, %reason, "cannot serve the admin address");
            shutdown.trigger();
        }
    });
}

async fn machine(engine: &Engine) -> Machine {
    let asked = async {
        loop {
            match engine.machine().await {
                Ok(machine) => return machine,
                Err(reason) => warn!(%reason, "waiting for Docker"),
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    };
    match tokio::time::timeout(ENGINE_DEADLINE, asked).await {
        Ok(machine) => machine,
        Err(_) => {
            warn!("starting without Docker; its labels are missing until the next start");
            kernel_machine()
        }
    }
}

/// Cores and memory by the kernel.
fn kernel_machine() -> Machine {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kilobytes = total.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or(0);
    Machine { cores: u32::try_from(cores).unwrap_or(1), memory: kilobytes * 1024, ..Machine::default() }
}

fn node_facts(config: &Config, machine: &Machine) -> NodeFacts {
    let ip = config.address().to_string();
    let cores = config.cpus.unwrap_or(machine.cores);
    let mut labels = machine.labels.clone();
    labels.extend(config.labels.iter().cloned());
    NodeFacts {
        address: format!("{ip}:2375"),
        ip,
        cpu_millis: u64::from(cores) * 1000 * u64::from(config.cpu_overcommit.max(1)),
        cores,
        memory: config.memory.unwrap_or(machine.memory),
        labels,
        engine_version: machine.version.clone(),
        agent_version: env!("CARGO_PKG_VERSION").to_owned(),
        wire: contract::WIRE_VERSION,
        fetches_ahead: true,
    }
}

fn policy(config: &Config) -> Result<NodePolicy, policy::Error> {
    let (volumes, cloud_volumes) = (Path::new(&config.volume_root), Path::new(&config.cloud_volume_root));
    let protected = [config.docker.as_path(), config.state_dir.as_path(), volumes, cloud_volumes];
    let policy = NodePolicy::new(&protected, config.pids_limit).with_file(config.policy_file.as_deref())?;
    if let Some(level) = policy.level() {
        info!(%level, "this node has a policy file, which has the final say");
    }
    Ok(policy)
}

fn host(config: &Config, owner: &Owner) -> Host {
    Host {
        owner: owner.clone(),
        volume_root: config.volume_root.clone(),
        cloud_volume_root: config.cloud_volume_root.clone(),
        quota_cores: config.quota_cores,
        publish_ip: config.publish_address().map(|ip| ip.to_string()).unwrap_or_default(),
        throttles: config.devices.iter().map(Device::throttle).collect(),
    }
}

fn settings(config: &Config, node: &NodeName, facts: NodeFacts) -> Settings {
    Settings {
        owner: Owner { cluster: config.cluster.clone(), node: node.clone() },
        identity: String::new(),
        incarnation: String::new(),
        facts,
        heartbeat: config.heartbeat,
        reread: config.reread,
        most_restarts: config.max_restarts,
        restart_window: config.restart_window,
        alone_after: config.alone_after,
        faults: Faults::default(),
    }
}
