//! Accepts and serves connections; shuts down without failing a request.
//!
//! axum's own loop has no deadline for request heads (a silent client could hold a connection forever) and no limits per
//! peer ([`crate::peers`]).
//!
//! Shutdown has two phases. *Linger*: accept connections as before, because balancers poll readiness only now and then, and
//! send `Connection: close` with every answer; closing idle connections ourselves could hit one whose next request is
//! arriving. *Close*: accept no more, end idle connections, give requests in flight their grace.

mod connection;
mod forwarded;
mod peer;
mod sockets;
mod transport;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::middleware::map_response_with_state;
use axum::response::Response;
use fabric::admin::Readiness;
use fabric::shutdown::Shutdown;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, sleep_until, timeout};

pub use self::peer::Peer;
pub use self::sockets::{Error, Listeners, Socket};
pub use self::transport::Transport;

use self::connection::Handler;
use self::sockets::{Incoming, Stream};
use crate::http::browser::Hosts;
use crate::peers::{Connections, PeerLimit};
use crate::refused::RefusedLog;

/// Open connections. A further one replaces an idle one, or is refused when none is idle.
const MOST_CONNECTIONS: u32 = 8192;
/// Concurrent requests of all peers: one per connection.
const MOST_REQUESTS: usize = MOST_CONNECTIONS as usize;
/// Sent to a connection beyond the limits before it is closed.
const REFUSAL: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 1\r\nContent-Type: text/plain\r\n\
    Content-Length: 76\r\n\r\ntoo many connections of this address answer requests; try again in a moment\n";
/// Pause after a failed accept, most often for lack of file descriptors.
const AFTER_FAILURE: Duration = Duration::from_millis(200);

#[derive(Debug, Clone)]
pub struct Limits {
    /// Polled by the accept loop, so that a watchdog sees that it is alive.
    pub readiness: Readiness,
    pub shutdown: Shutdown,
    /// How long connections are accepted after `shutdown`.
    pub linger: Duration,
    /// Time for requests in flight to finish after that.
    pub grace: Duration,
    pub connections_per_peer: usize,
    pub requests_per_peer: usize,
    /// Names of this API.
    pub hosts: Hosts,
    pub transport: Transport,
    pub refused: RefusedLog,
}

/// Serves `router` until shutdown, then lingers and closes.
pub async fn serve(listeners: Listeners, router: Router, limits: Limits) {
    let acceptor = Acceptor {
        permits: Arc::new(Semaphore::new(MOST_CONNECTIONS as usize)),
        connections: Connections::new(MOST_CONNECTIONS as usize, limits.connections_per_peer),
        requests: PeerLimit::new(MOST_REQUESTS, limits.requests_per_peer),
        hosts: Arc::new(limits.hosts.clone()),
        transport: Arc::new(limits.transport.clone()),
        refused: limits.refused.clone(),
        router: router.layer(map_response_with_state(limits.shutdown.clone(), close_after_response)),
        closing: Shutdown::new(),
    };
    while let Some(accepted) = next(&listeners, &acceptor.connections, &limits, limits.shutdown.wait()).await {
        acceptor.take(accepted).await;
    }
    let enough = Instant::now() + limits.linger;
    while let Some(accepted) = next(&listeners, &acceptor.connections, &limits, sleep_until(enough)).await {
        acceptor.take(accepted).await;
    }
    for accepted in listeners.close() {
        acceptor.take(accepted).await;
    }
    acceptor.closing.trigger();
    if timeout(limits.grace, acceptor.permits.acquire_many(MOST_CONNECTIONS)).await.is_err() {
        tracing::warn!("shutdown cuts off requests in flight");
    }
}

struct Acceptor {
    permits: Arc<Semaphore>,
    connections: Connections,
    requests: PeerLimit,
    hosts: Arc<Hosts>,
    transport: Arc<Transport>,
    refused: RefusedLog,
    router: Router,
    closing: Shutdown,
}

impl Acceptor {
    /// Serves one connection, or refuses it.
    async fn take(&self, (stream, peer): Incoming) {
        let Some(connection) = self.connections.admit(peer.source()) else {
            // Best effort: a new connection has buffer space for it. A client that speaks TLS could not read it.
            match stream {
                Stream::Tcp(stream) if self.transport.tls.is_none() => drop(stream.try_write(REFUSAL)),
                Stream::Unix(stream) => drop(stream.try_write(REFUSAL)),
                Stream::Tcp(_) => {}
            }
            return;
        };
        // The semaphore is never closed; a connection that was closed in favour of this one releases its permit soon.
        let Ok(permit) = self.permits.clone().acquire_owned().await else { return };
        let closing = self.closing.clone();
        let handler = Handler {
            router: self.router.clone(),
            requests: self.requests.clone(),
            hosts: self.hosts.clone(),
            transport: self.transport.clone(),
            refused: self.refused.clone(),
            peer,
        };
        fabric::tasks::spawn("connection", async move {
            connection::run(stream, Arc::new(connection), handler, closing).await;
            drop(permit);
        });
    }
}

/// During shutdown, makes clients reconnect elsewhere.
async fn close_after_response(State(leaving): State<Shutdown>, mut response: Response) -> Response {
    if leaving.is_triggered() {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// The next connection; none after `end`.
async fn next(
    listeners: &Listeners,
    connections: &Connections,
    limits: &Limits,
    end: impl Future<Output = ()>,
) -> Option<Incoming> {
    let accept = async {
        loop {
            match listeners.accept().await {
                Ok(accepted) => return accepted,
                Err(error) => {
                    tracing::warn!(%error, "could not accept a connection");
                    connections.relieve();
                    sleep(AFTER_FAILURE).await;
                }
            }
        }
    };
    tokio::pin!(accept, end);
    loop {
        tokio::select! {
            accepted = &mut accept => return Some(accepted),
            () = limits.readiness.asked() => {}
            () = &mut end => return None,
        }
    }
}
