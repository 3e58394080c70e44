//! Builds the apiserver and runs it.
//!
//! Shutdown: report not ready, keep serving while balancers notice (linger), finish the requests in flight, exit.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use contract::streams::COMMANDS;
use fabric::admin::{self, Readiness};
use fabric::clock::Clock;
use fabric::nats::Bus;
use fabric::shutdown::Shutdown;
use fabric::tls::ServerTls;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio::time::{sleep, timeout};

use crate::access::Access;
use crate::commands::{Commands, Sender};
use crate::config::Config;
use crate::debug_vars::DebugVars;
use crate::http::browser::Hosts;
use crate::http::{self, Api};
use crate::listen::{self, Limits, Listeners, Socket, Transport};
use crate::metrics::Metrics;
use crate::pending::Pending;
use crate::queries::Queries;
use crate::rates::Rates;
use crate::read_only::ReadOnlySwitch;
use crate::refused::{RefusedLog, Reporter};
use crate::sessions::Sessions;
use crate::streams::Streams;

/// Time for requests in flight to finish; longer than every deadline of a request.
const GRACE: Duration = Duration::from_secs(10);

/// Longest wait for the report of refused requests at the end.
const LAST_REPORT: Duration = Duration::from_secs(1);
/// How often it looks whether the stream of commands can be read.
const LOOK: Duration = Duration::from_secs(2);
/// The same while it cannot.
const LOOK_AGAIN: Duration = Duration::from_millis(200);
/// Deadline of a look.
const ONE_LOOK: Duration = Duration::from_secs(2);

/// Why the apiserver cannot run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot use the message bus")]
    Bus(#[source] fabric::nats::Error),
    #[error("cannot listen on {address}")]
    Listen {
        address: SocketAddr,
        #[source]
        source: std::io::Error,
    },
    #[error("cannot listen on the unix socket")]
    Socket(#[source] listen::Error),
    #[error("cannot use the certificate of the API")]
    Tls(#[source] fabric::tls::Error),
}

/// An apiserver that listens.
#[derive(Debug)]
pub struct App {
    listeners: Listeners,
    address: SocketAddr,
    router: axum::Router,
    readiness: Readiness,
    linger: Duration,
    connections_per_peer: usize,
    requests_per_peer: usize,
    hosts: Hosts,
    transport: Transport,
    bus: Bus,
    access: Access,
    reporter: Reporter,
    /// Ends the subscription of the inbox; triggered last, because requests in flight still wait for outcomes.
    inbox: Shutdown,
    /// Ends followers of events; triggered first, because a follower never ends by itself.
    leaving: Shutdown,
}

impl App {
    /// Connects to the bus and binds the address.
    pub async fn build(config: Config) -> Result<Self, Error> {
        let transport = transport(&config)?;
        let (listeners, address) = listeners(&config).await?;
        let bus = Bus::connect(&config.nats, &config.name).await.map_err(Error::Bus)?;
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        let queries = Queries::new(bus.clone(), metrics.clone(), config.query_deadline, config.inspect_deadline);
        let pending = Pending::new(config.most_waiting, metrics.waiting.clone());
        let sender = Sender {
            by: config.name.clone(),
            publish_deadline: config.publish_deadline,
            outcome_deadline: config.outcome_deadline,
            metrics: metrics.clone(),
        };
        let inbox = Shutdown::new();
        let commands = Commands::start(bus.clone(), queries.clone(), pending, sender, inbox.clone());
        let commands = commands.await.map_err(Error::Bus)?;
        let readiness = Readiness::new();
        let (read_only, debug_vars) = (ReadOnlySwitch::new(queries.clone()), DebugVars::new(Clock::start().now()));
        let streams = Streams::new(bus.clone(), config.followers_per_peer);
        let sessions = Sessions::new(bus.clone());
        let leaving = streams.leaving.clone();
        let linger = config.linger;
        let (connections_per_peer, requests_per_peer) = (config.connections_per_peer, config.requests_per_peer);
        let hosts = Hosts::new(&config.hosts);
        let callback_policy = config.callback.policy(address, &config.nats);
        let join = http::join::Offer::new(&config.nats.urls, config.nats.ca.clone(), config.tls_cert.is_some());
        let (name, access) = (config.name, Access::new(queries.clone(), config.anonymous));
        let follow_access = access.clone();
        let (rates, refused) = (Rates::new(config.requests_per_second, config.bytes_per_minute), RefusedLog::default());
        let reporter =
            Reporter { log: refused.clone(), commands: commands.clone(), access: access.clone(), name: name.clone() };
        let api = Api {
            name,
            commands,
            read_only,
            debug_vars,
            queries,
            metrics,
            streams,
            sessions,
            callback_policy,
            access,
            join,
            rates,
            refused,
        };
        let router = router(Arc::new(api), &readiness, registry);
        Ok(Self {
            listeners,
            address,
            router,
            readiness,
            linger,
            connections_per_peer,
            requests_per_peer,
            hosts,
            transport,
            bus,
            access: follow_access,
            reporter,
            inbox,
            leaving,
        })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers requests until `shutdown`, then finishes those in flight.
    pub async fn run(self, shutdown: Shutdown) {
        tracing::info!(address = %self.address, version = env!("CARGO_PKG_VERSION"), "apiserver started");
        fabric::systemd::start(&self.readiness, &shutdown);
        let (readiness, linger) = (self.readiness.clone(), self.linger);
        let (connections_per_peer, requests_per_peer) = (self.connections_per_peer, self.requests_per_peer);
        let shutting = shutdown.clone();
        let limits = Limits {
            readiness,
            shutdown: shutting,
            linger,
            grace: GRACE,
            connections_per_peer,
            requests_per_peer,
            hosts: self.hosts,
            transport: self.transport,
            refused: self.reporter.log.clone(),
        };
        fabric::tasks::spawn("readiness", follow(self.bus, self.readiness, shutdown.clone()));
        fabric::tasks::spawn("access", self.access.follow(shutdown.clone()));
        fabric::tasks::spawn("followers", end_followers(shutdown.clone(), self.leaving));
        fabric::tasks::spawn("refused requests", self.reporter.clone().run(shutdown));
        listen::serve(self.listeners, self.router, limits).await;
        // The report is stored within milliseconds; its outcome need not be awaited.
        let _ = timeout(LAST_REPORT, self.reporter.report()).await;
        self.inbox.trigger();
    }
}

fn transport(config: &Config) -> Result<Transport, Error> {
    let files = config.tls_cert.as_ref().zip(config.tls_key.as_ref());
    let tls = files.map(|(certificate, key)| ServerTls::load(certificate, key)).transpose().map_err(Error::Tls)?;
    Ok(Transport { tls, proxies: config.behind_proxy.clone(), is_insecure: config.insecure_http })
}

async fn listeners(config: &Config) -> Result<(Listeners, SocketAddr), Error> {
    let listen = |source| Error::Listen { address: config.listen, source };
    let tcp = TcpListener::bind(config.listen).await.map_err(listen)?;
    let address = tcp.local_addr().map_err(listen)?;
    let socket = match &config.socket {
        Some(path) => Some(Socket::bind(path).await.map_err(Error::Socket)?),
        None => None,
    };
    Ok((Listeners { tcp, socket }, address))
}

fn router(api: Arc<Api>, readiness: &Readiness, registry: Registry) -> axum::Router {
    let guard = axum::middleware::from_fn_with_state(api.clone(), http::guard::admin);
    let admin = admin::routes(readiness.clone(), Arc::new(registry)).route_layer(guard);
    axum::Router::new().fallback(http::entry).with_state(api).merge(admin)
}

async fn end_followers(shutdown: Shutdown, leaving: Shutdown) {
    shutdown.wait().await;
    leaving.trigger();
}

/// Ready while NATS is connected and can store commands.
async fn follow(bus: Bus, readiness: Readiness, shutdown: Shutdown) {
    let mut connected = bus.connected();
    loop {
        let up = *connected.borrow_and_update();
        if shutdown.is_triggered() {
            return readiness.set(Err("shutting down".to_owned()));
        }
        let state = async { if up { can_command(&bus).await } else { Err("no connection to NATS".to_owned()) } };
        let pause = tokio::select! {
            state = state => {
                let pause = if state.is_ok() { LOOK } else { LOOK_AGAIN };
                readiness.set(state);
                pause
            }
            // A slow bus must not delay "not ready".
            () = shutdown.wait() => continue,
        };
        tokio::select! {
            changed = connected.changed() => if changed.is_err() { return },
            () = shutdown.wait() => {}
            () = sleep(pause), if up => {}
        }
    }
}

/// Whether the stream of commands exists. Schedulers create it, also after the server has lost its data.
async fn can_command(bus: &Bus) -> Result<(), String> {
    match timeout(ONE_LOOK, bus.has_stream(COMMANDS.name)).await {
        Ok(Ok(true)) => Ok(()),
        Ok(Ok(false)) => Err("cannot store commands yet: no scheduler has created their stream".to_owned()),
        Ok(Err(error)) => Err(format!("cannot store commands: {error}")),
        Err(_) => Err("cannot store commands: no answer from JetStream".to_owned()),
    }
}
