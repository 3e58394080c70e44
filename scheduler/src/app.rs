//! Connects a scheduler to NATS and etcd and runs it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use contract::keys;
use fabric::admin::{self, Readiness};
use fabric::clock::Clock;
use fabric::election::Election;
use fabric::etcd::Store;
use fabric::nats::Bus;
use fabric::shutdown::Shutdown;
use fabric::signing::{OrderKeys, OrderSigner};
use prometheus_client::registry::Registry;

use crate::config::Config;
use crate::core::Core;
use crate::core::io::Settings;
use crate::metrics::Metrics;
use crate::shell::{self, Context, Shell};

/// How long a stopping scheduler waits for etcd to revoke its lease.
const REVOKE_TIMEOUT: Duration = Duration::from_secs(2);

/// Why a scheduler cannot run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot use NATS")]
    Bus(#[source] fabric::nats::Error),
    #[error("cannot use etcd")]
    Store(#[source] fabric::etcd::Error),
    #[error("cannot sign orders")]
    Key(#[source] fabric::signing::Error),
    #[error(transparent)]
    Schema(#[from] shell::schema::Error),
    #[error("cannot listen on {address}; is another process there? Choose one with --listen")]
    Listen {
        address: SocketAddr,
        #[source]
        source: std::io::Error,
    },
}

/// A scheduler that is connected and not yet running.
#[derive(Debug)]
pub struct App {
    config: Config,
    bus: Bus,
    store: Store,
    signer: Option<Arc<OrderSigner>>,
    order_keys: Option<Arc<OrderKeys>>,
}

impl App {
    /// Connects to NATS and etcd, creates missing streams and checks the schema.
    pub async fn build(config: Config) -> Result<Self, Error> {
        let name = config.name();
        let version = env!("CARGO_PKG_VERSION");
        tracing::info!(version, %name, "starting deployd-scheduler");
        let signer = config.order_key_file.as_deref().map(OrderSigner::load).transpose().map_err(Error::Key)?;
        let order_keys = config.order_keys_file.as_deref().map(OrderKeys::load).transpose().map_err(Error::Key)?;
        if signer.is_none() {
            tracing::warn!(
                "orders are not signed: any process that may write to NATS can command every node; set --order-key-file"
            );
        }
        let (bus, store) = tokio::join!(Bus::connect(&config.nats, &name), Store::connect(&config.etcd));
        let (bus, store) = (bus.map_err(Error::Bus)?, store.map_err(Error::Store)?);
        shell::streams::ensure_all(&bus).await.map_err(Error::Bus)?;
        shell::schema::check(&store).await?;
        fabric::tasks::spawn("streams", shell::streams::keep(bus.clone()));
        fabric::tasks::spawn("durability", {
            let bus = bus.clone();
            async move {
                bus.syncs_always().await;
            }
        });
        Ok(Self { config, bus, store, signer: signer.map(Arc::new), order_keys: order_keys.map(Arc::new) })
    }

    /// Runs until shutdown, then revokes its lease, so that another scheduler leads immediately.
    pub async fn run(self, shutdown: Shutdown) -> Result<(), Error> {
        let Self { config, bus, store, signer, order_keys } = self;
        let metrics = Metrics::default();
        let mut registry = Registry::default();
        metrics.register(&mut registry);
        metrics.store_quota.set(i64::try_from(config.etcd_quota_bytes).unwrap_or(i64::MAX));
        let readiness = Readiness::new();
        fabric::systemd::start(&readiness, &shutdown);
        let listen = config.listen;
        let admin = admin::serve(listen, readiness.clone(), Arc::new(registry), shutdown.clone());

        let settings = config.election_settings();
        let election = Election::start(store.clone(), keys::LEADER, &config.name(), settings, shutdown.clone());
        let context = Context { name: config.name(), bus, store, signer, order_keys, clock: Clock::start(), metrics };
        if let Some(file) = config.bus_agents_file.clone() {
            let (bus, store, pending) =
                (context.bus.clone(), context.store.clone(), context.metrics.access_pending.clone());
            fabric::tasks::spawn("bus agents", shell::bus_agents::keep(file, bus, store, pending));
        }
        let order_keys = context.order_keys.as_deref().map(OrderKeys::text).unwrap_or_default();
        let core = Core::new(Settings { order_keys, ..config.core_settings() });
        let shell = Shell::start(core, context, &election, readiness);
        let result = tokio::select! {
            served = admin => served.map_err(|source| Error::Listen { address: listen, source }),
            ran = shell.run(shutdown.clone()) => ran.map_err(Error::Schema),
        };
        shutdown.trigger();
        if tokio::time::timeout(REVOKE_TIMEOUT, election.ended()).await.is_err() {
            tracing::warn!("etcd did not revoke the lease in time; it expires after --lease-ttl");
        }
        tracing::info!("stopped");
        result
    }
}
