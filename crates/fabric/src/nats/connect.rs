//! Connecting to NATS.
//!
//! async-nats reconnects by itself, but without jitter, and pings only once a minute: both are configured here.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use async_nats::{ConnectError, ConnectErrorKind, ConnectOptions, Event, ServerAddr};
use contract::bus::Identity;
use tokio::sync::watch;
use tokio::time::Instant;

use super::{Bus, Error};
use crate::backoff;

/// How long a starting process waits for a server.
const PATIENCE: Duration = Duration::from_secs(30);
/// Refusals after which it gives up. A server that reads its configuration again refuses known clients for some milliseconds.
const MOST_REFUSALS: u32 = 3;
/// A silent server is detected after two pings.
const PING: Duration = Duration::from_secs(5);
/// The oldest version that can sync to disk before it acknowledges.
const OLDEST: (i64, i64, i64) = (2, 10, 0);
/// Deadline of one JetStream API call.
pub(super) const API_LIMIT: Duration = Duration::from_secs(5);

/// Where NATS is.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
pub struct Args {
    /// NATS servers, comma separated; the client connects to one of them
    #[arg(
        long = "nats",
        env = "DEPLOYD_NATS",
        default_value = "nats://127.0.0.1:4222",
        value_delimiter = ',',
        value_name = "URL"
    )]
    pub urls: Vec<String>,
    /// File with `user:seed` (an nkey, as `deployctl bus-keys` writes it), `user:password` or a token for NATS, so that
    /// neither shows in the process list
    #[arg(long = "nats-credentials-file", env = "DEPLOYD_NATS_CREDENTIALS_FILE", value_name = "FILE")]
    pub credentials_file: Option<PathBuf>,
    /// CA that signed the certificates of the NATS servers (PEM); the connection then uses TLS. `tls://` without it uses the
    /// CAs of this machine
    #[arg(id = "nats_ca", long = "nats-ca", env = "DEPLOYD_NATS_CA", value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// Certificate of this process for NATS servers that verify their clients (PEM), with --nats-key
    #[arg(id = "nats_cert", long = "nats-cert", env = "DEPLOYD_NATS_CERT", value_name = "FILE", requires = "nats_key")]
    pub cert: Option<PathBuf>,
    /// Private key of --nats-cert (PEM)
    #[arg(id = "nats_key", long = "nats-key", env = "DEPLOYD_NATS_KEY", value_name = "FILE", requires = "nats_cert")]
    pub key: Option<PathBuf>,
    /// Connect to NATS servers on other machines without TLS; machines on the network path may read orders and specs
    #[arg(id = "insecure_bus", long = "insecure-bus", env = "DEPLOYD_INSECURE_BUS")]
    pub insecure: bool,
    /// Servers that hold each stream: 3 where three servers form a cluster. Streams that exist are raised to it, never lowered
    #[arg(long = "stream-replicas", env = "DEPLOYD_STREAM_REPLICAS", default_value_t = 1, value_name = "COUNT",
        value_parser = clap::value_parser!(u8).range(1..=5))]
    pub stream_replicas: u8,
}

impl Args {
    /// One server, for tests and tools.
    pub fn at(url: impl Into<String>) -> Self {
        Self {
            urls: vec![url.into()],
            credentials_file: None,
            ca: None,
            cert: None,
            key: None,
            insecure: false,
            stream_replicas: 1,
        }
    }

    /// Refuses servers on other machines that would be reached unencrypted.
    pub fn check(&self) -> Result<(), String> {
        let open = self.servers().find(|(host, _)| !crate::tls::is_loopback(host));
        match open {
            Some((host, _)) if !self.uses_tls() && !self.insecure => Err(format!(
                "--nats {host} is another machine, and orders and specs would travel unencrypted: give --nats-ca \
                 (docs/operations.md, TLS), or allow it with --insecure-bus"
            )),
            _ => Ok(()),
        }
    }

    fn uses_tls(&self) -> bool {
        let is_tls = |url: &String| url.trim().starts_with("tls://");
        self.ca.is_some() || self.cert.is_some() || self.urls.iter().any(is_tls)
    }

    /// The settings of a connection that concern TLS. The files are read for each connection, so renewed ones need no restart.
    fn secure(&self, options: ConnectOptions) -> ConnectOptions {
        if !self.uses_tls() {
            // A server names the others of its cluster, which are on other machines.
            return if self.insecure { options } else { options.ignore_discovered_servers() };
        }
        let options = options.require_tls(true);
        let options = self.ca.iter().fold(options, |options, ca| options.add_root_certificates(ca.clone()));
        let pair = self.cert.clone().zip(self.key.clone());
        pair.into_iter().fold(options, |options, (cert, key)| options.add_client_certificate(cert, key))
    }

    /// Host and port of each server; malformed URLs are left out, connecting reports them.
    pub fn servers(&self) -> impl Iterator<Item = (String, u16)> {
        let parsed = self.urls.iter().filter_map(|url| url.trim().parse::<ServerAddr>().ok());
        parsed.map(|server| (server.host().to_owned(), server.port()))
    }

    fn shown(&self) -> String {
        // Do not log the user and password of a URL.
        crate::settings::without_secret(&self.urls.join(","))
    }
}

pub(super) async fn connect(args: &Args, name: &str) -> Result<Bus, Error> {
    let addresses = addresses(args)?;
    let credentials = match &args.credentials_file {
        None => Credentials::None,
        Some(path) => {
            let text = tokio::fs::read_to_string(path).await;
            text.and_then(|text| Credentials::parse(&text)).map_err(|source| credentials_error(path, source))?
        }
    };
    let started = Instant::now();
    let (mut attempt, mut refusals) = (0, 0);
    loop {
        attempt += 1;
        let (connected_tx, connected) = watch::channel(false);
        let (connections_tx, connections) = watch::channel(0);
        let (refused_tx, refused) = watch::channel(BTreeSet::new());
        let seen = Seen { connected: connected_tx, connections: connections_tx, refused: refused_tx };
        let options = args.secure(credentials.clone().identify(options(name, seen)));
        match options.connect(addresses.as_slice()).await {
            Ok(client) => {
                let jetstream =
                    async_nats::jetstream::context::ContextBuilder::new().timeout(API_LIMIT).build(client.clone());
                let replicas = usize::from(args.stream_replicas);
                return accept(Bus { client, jetstream, connected, connections, refused, replicas }).await;
            }
            Err(source) => {
                let is_refusal = matches!(
                    source.kind(),
                    ConnectErrorKind::AuthorizationViolation | ConnectErrorKind::Authentication
                );
                refusals += u32::from(is_refusal);
                tracing::warn!(servers = %args.shown(), error = %source, attempt, "cannot connect to NATS");
                give_up(args, source, (refusals, started))?;
            }
        }
        tokio::time::sleep(backoff::delay(attempt, Duration::from_millis(100), Duration::from_secs(2))).await;
    }
}

/// The error of an attempt after which there is no other one.
fn give_up(args: &Args, source: ConnectError, (refusals, started): (u32, Instant)) -> Result<(), Error> {
    let addresses = args.shown();
    if refusals >= MOST_REFUSALS {
        return Err(Error::Refused { addresses, source });
    }
    if let Some(problem) = crate::tls::problem(&source) {
        return Err(Error::Tls { addresses, problem, source });
    }
    if started.elapsed() >= PATIENCE {
        return Err(Error::Unreachable { addresses, waited: PATIENCE, source });
    }
    Ok(())
}

/// How a process proves its identity to NATS.
#[derive(Clone)]
enum Credentials {
    None,
    /// The server knows the public key; the seed never leaves this process.
    Key {
        user: String,
        seed: String,
    },
    Password {
        user: String,
        password: String,
    },
    Token(String),
}

impl Credentials {
    fn parse(text: &str) -> std::io::Result<Self> {
        match text.trim().split_once(':') {
            Some((user, seed)) if nkeys::KeyPair::from_seed(seed).is_ok() => {
                Ok(Self::Key { user: user.to_owned(), seed: seed.to_owned() })
            }
            // A damaged seed must not go to the server as a password.
            Some((_, seed)) if seed.starts_with("SU") => Err(std::io::Error::other("the seed of the key is damaged")),
            Some((user, password)) => Ok(Self::Password { user: user.to_owned(), password: password.to_owned() }),
            None => Ok(Self::Token(text.trim().to_owned())),
        }
    }

    /// A process with a key reads replies only under its own prefix, so that no other process can read them.
    fn identify(self, options: ConnectOptions) -> ConnectOptions {
        match self {
            Self::None => options,
            Self::Key { user, seed } => options.custom_inbox_prefix(Identity::inbox_of(&user)).nkey(seed),
            Self::Password { user, password } => options.user_and_password(user, password),
            Self::Token(token) => options.token(token),
        }
    }
}

fn credentials_error(path: &std::path::Path, source: std::io::Error) -> Error {
    Error::Credentials { path: path.display().to_string(), source }
}

fn addresses(args: &Args) -> Result<Vec<ServerAddr>, Error> {
    let parse = |url: &String| url.trim().parse::<ServerAddr>();
    let parsed: Result<Vec<_>, _> = args.urls.iter().filter(|url| !url.trim().is_empty()).map(parse).collect();
    let parsed = parsed.and_then(|list| match list.is_empty() {
        true => Err(std::io::Error::other("the list is empty")),
        false => Ok(list),
    });
    parsed.map_err(|source| Error::Address { addresses: args.shown(), source })
}

/// What the events of a connection say.
struct Seen {
    connected: watch::Sender<bool>,
    connections: watch::Sender<u64>,
    /// Subjects that the server did not let this process publish to since it connected.
    refused: watch::Sender<BTreeSet<String>>,
}

/// Subjects that are remembered as refused; each is a call of ours, so there are few.
const MOST_REFUSED: usize = 64;

fn options(name: &str, seen: Seen) -> ConnectOptions {
    crate::http::install_crypto();
    let seen = std::sync::Arc::new(seen);
    ConnectOptions::new()
        .name(name)
        .ping_interval(PING)
        .connection_timeout(Duration::from_secs(2))
        .request_timeout(Some(API_LIMIT))
        .max_reconnects(None)
        .reconnect_delay_callback(|attempt| backoff::delay(attempt, Duration::from_millis(50), Duration::from_secs(2)))
        .event_callback(move |event| {
            let seen = seen.clone();
            async move { observe(&event, &seen) }
        })
}

fn observe(event: &Event, seen: &Seen) {
    match event {
        Event::Connected => {
            // The accounts of the server may have changed.
            seen.refused.send_replace(BTreeSet::new());
            seen.connections.send_modify(|count| *count += 1);
            seen.connected.send_replace(true);
            tracing::info!("connected to NATS");
        }
        Event::Disconnected | Event::Closed => {
            seen.connected.send_replace(false);
            tracing::warn!("connection to NATS lost, reconnecting");
        }
        // The client dropped messages because we read too slowly. Reports repair themselves, so this costs a heartbeat.
        Event::SlowConsumer(subscription) => {
            tracing::warn!(subscription, "dropped messages: the subscription reads too slowly")
        }
        Event::LameDuckMode => tracing::info!("the NATS server is shutting down"),
        Event::Draining => tracing::debug!("draining the connection"),
        Event::ServerError(error) => {
            tracing::warn!(%error, "the NATS server reported an error");
            if let Some(subject) = refused_subject(&error.to_string()) {
                seen.refused.send_if_modified(|known| known.len() < MOST_REFUSED && known.insert(subject));
            }
        }
        Event::ClientError(error) => tracing::debug!(%error, "the NATS client reported an error"),
    }
}

/// The subject of `Permissions Violation for Publish to "a.b"`.
fn refused_subject(error: &str) -> Option<String> {
    let (_, rest) = error.split_once("Permissions Violation for Publish to \"")?;
    rest.split_once('"').map(|(subject, _)| subject.to_owned())
}

async fn accept(bus: Bus) -> Result<Bus, Error> {
    let version = bus.client.server_info().version;
    let (major, minor, patch) = OLDEST;
    if !bus.client.is_server_compatible(major, minor, patch) {
        return Err(Error::TooOld { version });
    }
    // The event that sets `connected` runs on its own task; the caller must find the bus connected.
    bus.wait_connected(Instant::now() + API_LIMIT).await?;
    tracing::debug!(%version, "NATS server accepted");
    Ok(bus)
}
