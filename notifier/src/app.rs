//! Puts the notifier together and runs it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use contract::streams::{NOTICE_ACK_WAIT, NOTICES, NOTICES_PENDING};
use contract::subjects;
use fabric::admin::{self, Readiness};
use fabric::clock::Clock;
use fabric::nats::{Bus, Consumer, SharedConsumer};
use fabric::shutdown::Shutdown;
use planner::webhook::Schedule;
use prometheus_client::registry::Registry;
use reqwest::dns::Resolve;
use tokio::sync::watch;

use crate::callbacks::Callbacks;
use crate::config::Config;
use crate::metrics::Metrics;
use crate::post::Poster;
use crate::queue::Tools;
use crate::resolve::SystemResolver;
use crate::router::Router;
use crate::signature::{self, Secrets};

/// Why the notifier cannot run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot use the message bus")]
    Bus(#[source] fabric::nats::Error),
    #[error("cannot sign notices")]
    Secrets(#[source] signature::Error),
    #[error("cannot serve on {address}")]
    Listen {
        address: SocketAddr,
        #[source]
        source: std::io::Error,
    },
}

/// A notifier that is connected.
#[derive(Debug)]
pub struct App {
    config: Config,
    registry: Registry,
    consumer: Consumer,
    tools: Arc<Tools>,
}

impl App {
    /// Connects to the bus and joins the consumer.
    pub async fn build(config: Config) -> Result<Self, Error> {
        Self::build_with(config, Arc::new(SystemResolver)).await
    }

    /// As [`Self::build`], with another source of addresses.
    pub async fn build_with(config: Config, resolver: Arc<dyn Resolve>) -> Result<Self, Error> {
        let secrets = Secrets::read(&config.webhook_secret_files).map_err(Error::Secrets)?;
        let policy = config.callback.policy(config.listen, &config.nats);
        let bus = Bus::connect(&config.nats, &config.name).await.map_err(Error::Bus)?;
        let consumer = bus.consume(&notices(config.ack_wait));
        let mut registry = Registry::default();
        let tools = Arc::new(Tools {
            callbacks: Callbacks::new(bus.clone()),
            bus,
            poster: Poster::new(config.timeout, policy, resolver, secrets),
            schedule: Schedule::new(config.retry_delays.clone()),
            // Two of three progress messages may get lost before the bus redelivers the job.
            progress_every: (config.ack_wait.min(NOTICE_ACK_WAIT) / 3).max(Duration::from_millis(10)),
            metrics: Metrics::register(&mut registry),
            clock: Clock::start(),
        });
        Ok(Self { config, registry, consumer, tools })
    }

    /// Delivers notices until `shutdown`, then puts back what it holds.
    pub async fn run(self, shutdown: Shutdown) -> Result<(), Error> {
        let Self { config, registry, mut consumer, tools } = self;
        let readiness = Readiness::new();
        let mut serving = fabric::tasks::spawn(
            "admin",
            admin::serve(config.listen, readiness.clone(), Arc::new(registry), shutdown.clone()),
        );
        fabric::systemd::start(&readiness, &shutdown);
        fabric::tasks::spawn(
            "readiness",
            follow(tools.bus.clone(), consumer.available(), readiness.clone(), shutdown.clone()),
        );
        // Triggered after the consumer is closed: jobs that the queues return earlier would come back to this process.
        let leaving = Shutdown::new();
        let bus = tools.bus.clone();
        let mut router = Router::new(tools, leaving.clone());
        tracing::info!(version = env!("CARGO_PKG_VERSION"), "notifier started");
        let failed = loop {
            tokio::select! {
                // Shutdown first: a job taken after it would have to be returned.
                biased;
                () = shutdown.wait() => break None,
                () = readiness.asked() => {}
                ended = &mut serving => break ended.ok().and_then(Result::err),
                job = consumer.next() => router.take(job).await,
            }
        };
        shutdown.trigger();
        let fetched = consumer.close().await;
        leaving.trigger();
        for job in &fetched {
            router.put_back(job).await;
        }
        router.close().await;
        if let Err(error) = bus.flush().await {
            tracing::warn!(%error, "could not flush; other notifiers get the returned notices late");
        }
        match failed {
            Some(source) => Err(Error::Listen { address: config.listen, source }),
            None => Ok(()),
        }
    }
}

/// Ready while NATS is connected and the consumer of notices answers.
async fn follow(bus: Bus, mut available: watch::Receiver<bool>, readiness: Readiness, shutdown: Shutdown) {
    let mut connected = bus.connected();
    loop {
        let state = match (*connected.borrow_and_update(), *available.borrow_and_update()) {
            (false, _) => Err("no connection to NATS"),
            (true, false) => Err("cannot read notices yet: no scheduler has created their stream and its consumer"),
            (true, true) => Ok(()),
        };
        if shutdown.is_triggered() {
            return readiness.set(Err("shutting down".to_owned()));
        }
        readiness.set(state.map_err(str::to_owned));
        tokio::select! {
            changed = connected.changed() => if changed.is_err() { return },
            changed = available.changed() => if changed.is_err() { return },
            () = shutdown.wait() => {}
        }
    }
}

fn notices(ack_wait: Duration) -> SharedConsumer<'static> {
    SharedConsumer {
        stream: NOTICES.name,
        name: subjects::NOTICES_CONSUMER,
        filter: subjects::ALL_NOTICES,
        ack_wait,
        max_ack_pending: NOTICES_PENDING,
    }
}
