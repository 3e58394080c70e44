//! Puts the notifier together and runs it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use contract::streams::{DEAD_LETTERS, NOTICES};
use contract::subjects;
use fabric::admin::{self, Readiness};
use fabric::clock::Clock;
use fabric::nats::{Bus, Consumer};
use fabric::shutdown::Shutdown;
use planner::webhook::Schedule;
use prometheus_client::registry::Registry;
use reqwest::dns::Resolve;

use crate::callbacks::Callbacks;
use crate::config::Config;
use crate::metrics::Metrics;
use crate::post::Poster;
use crate::queue::Tools;
use crate::resolve::SystemResolver;
use crate::router::Router;
use crate::signature::{self, Secrets};

/// No limit: notices that wait for a retry count as pending, so with a limit one dead callback with many notices would
/// block all others. The size of the stream bounds them.
const MAX_ACK_PENDING: i64 = -1;

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
        ensure_streams(&bus).await.map_err(Error::Bus)?;
        let (stream, durable, filter) = (NOTICES.name, subjects::NOTICES_CONSUMER, subjects::ALL_NOTICES);
        let consumer = bus.consume(stream, durable, filter, config.ack_wait, MAX_ACK_PENDING);
        let consumer = consumer.await.map_err(Error::Bus)?;
        let mut registry = Registry::default();
        let tools = Arc::new(Tools {
            callbacks: Callbacks::new(bus.clone()),
            bus,
            poster: Poster::new(config.timeout, policy, resolver, secrets),
            schedule: Schedule::new(config.retry_delays.clone()),
            // Two of three progress messages may get lost before the bus redelivers the job.
            progress_every: (config.ack_wait / 3).max(Duration::from_millis(10)),
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
        fabric::tasks::spawn("readiness", follow(tools.bus.clone(), readiness.clone(), shutdown.clone()));
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

/// Ready while NATS is connected and has the streams.
async fn follow(bus: Bus, readiness: Readiness, shutdown: Shutdown) {
    let mut connected = bus.connected();
    loop {
        let up = *connected.borrow_and_update();
        if shutdown.is_triggered() {
            return readiness.set(Err("shutting down".to_owned()));
        }
        // Checked after each connect: the server may have lost its data.
        readiness.set(match up {
            true => ensure_streams(&bus).await.map_err(|error| format!("the streams are missing: {error}")),
            false => Err("no connection to NATS".to_owned()),
        });
        tokio::select! {
            changed = connected.changed() => if changed.is_err() { return },
            () = shutdown.wait() => {}
        }
    }
}

async fn ensure_streams(bus: &Bus) -> Result<(), fabric::nats::Error> {
    for stream in [&NOTICES, &DEAD_LETTERS] {
        bus.ensure_stream(&(stream).into()).await?;
    }
    Ok(())
}
