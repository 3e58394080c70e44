//! Accepts and serves connections; shuts down without failing a request.
//!
//! axum's own loop has no deadline for request heads (a silent client could hold a connection forever) and no limits per
//! peer ([`crate::peers`]).
//!
//! Shutdown has two phases. *Linger*: accept connections as before, because balancers poll readiness only now and then, and
//! send `Connection: close` with every answer; closing idle connections ourselves could hit one whose next request is
//! arriving. *Close*: accept no more, end idle connections, give requests in flight their grace.

use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, HttpBody};
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::middleware::map_response_with_state;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use fabric::admin::Readiness;
use fabric::shutdown::Shutdown;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::http::browser::Hosts;
use crate::http::respond::Refused;
use crate::peers::{self, Busy, Connection, Connections, PeerLimit, Permit};

/// Open connections. A further one replaces an idle one, or is refused when none is idle.
const MOST_CONNECTIONS: u32 = 8192;
/// Concurrent requests of all peers: one per connection.
const MOST_REQUESTS: usize = MOST_CONNECTIONS as usize;
/// Paths without a limit per peer: health checks and monitors must get through.
const ADMIN: [&str; 3] = ["/healthz", "/readyz", "/metrics"];
/// Paths that are answered under every name.
const HEALTH: [&str; 2] = ["/healthz", "/readyz"];
/// Sent to a connection beyond the limits before it is closed.
const REFUSAL: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 1\r\nContent-Type: text/plain\r\n\
    Content-Length: 76\r\n\r\ntoo many connections of this address answer requests; try again in a moment\n";
/// Deadline for the head of a request; also the idle timeout of a connection.
const LONGEST_HEAD: Duration = Duration::from_secs(30);
/// At shutdown, a connection younger than this is not idle: its first request may be arriving.
const FIRST_REQUEST: Duration = Duration::from_secs(1);
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
}

/// The client's address, in the extensions of a request.
#[derive(Debug, Clone, Copy)]
pub struct Peer(pub IpAddr);

/// Serves `router` until shutdown, then lingers and closes.
pub async fn serve(listener: TcpListener, router: Router, limits: Limits) {
    let acceptor = Acceptor {
        permits: Arc::new(Semaphore::new(MOST_CONNECTIONS as usize)),
        connections: Connections::new(MOST_CONNECTIONS as usize, limits.connections_per_peer),
        requests: PeerLimit::new(MOST_REQUESTS, limits.requests_per_peer),
        hosts: Arc::new(limits.hosts.clone()),
        router: router.layer(map_response_with_state(limits.shutdown.clone(), close_after_response)),
        closing: Shutdown::new(),
    };
    while let Some(accepted) = next(&listener, &acceptor.connections, &limits, limits.shutdown.wait()).await {
        acceptor.take(accepted).await;
    }
    let enough = Instant::now() + limits.linger;
    while let Some(accepted) = next(&listener, &acceptor.connections, &limits, sleep_until(enough)).await {
        acceptor.take(accepted).await;
    }
    for accepted in queued(listener) {
        acceptor.take(accepted).await;
    }
    acceptor.closing.trigger();
    if timeout(limits.grace, acceptor.permits.acquire_many(MOST_CONNECTIONS)).await.is_err() {
        tracing::warn!("shutdown cuts off requests in flight");
    }
}

type IncomingConnection = (TcpStream, IpAddr);

struct Acceptor {
    permits: Arc<Semaphore>,
    connections: Connections,
    requests: PeerLimit,
    hosts: Arc<Hosts>,
    router: Router,
    closing: Shutdown,
}

impl Acceptor {
    /// Serves one connection, or refuses it.
    async fn take(&self, (stream, address): IncomingConnection) {
        let Some(connection) = self.connections.admit(peers::of(address)) else {
            // Best effort: a new connection has buffer space for it.
            let _ = stream.try_write(REFUSAL);
            return;
        };
        // The semaphore is never closed; a connection that was closed in favour of this one releases its permit soon.
        let Ok(permit) = self.permits.clone().acquire_owned().await else { return };
        let closing = self.closing.clone();
        let handler =
            Handler { router: self.router.clone(), requests: self.requests.clone(), hosts: self.hosts.clone() };
        fabric::tasks::spawn("connection", async move {
            serve_connection(stream, Arc::new(connection), handler, closing).await;
            drop(permit);
        });
    }
}

/// Answers the requests of one connection.
struct Handler {
    router: Router,
    requests: PeerLimit,
    hosts: Arc<Hosts>,
}

impl Handler {
    async fn answer(&self, connection: &Connection, request: hyper::Request<hyper::body::Incoming>) -> Response {
        let busy = connection.begin();
        let is_admin = ADMIN.contains(&request.uri().path());
        // Before anything else. Health checks may use any name and learn nothing of the cluster.
        if !HEALTH.contains(&request.uri().path())
            && let Err(refused) = self.hosts.check(request.headers(), request.uri())
        {
            return refused.into_response();
        }
        let permit = match self.requests.acquire(connection.peer) {
            Ok(permit) => Some(permit),
            Err(_) if is_admin => None,
            Err(full) => return Refused::too_many("requests in flight", full).into_response(),
        };
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(Peer(connection.peer));
        let router = TowerToHyperService::new(self.router.clone());
        let response = router.call(request).await.unwrap_or_else(|never| match never {});
        response.map(|inner| Body::new(Counted { inner, _held: (busy, permit) }))
    }
}

/// A body whose request counts as in flight until the body is sent.
struct Counted {
    inner: Body,
    _held: (Busy, Option<Permit>),
}

impl HttpBody for Counted {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<hyper::body::Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.inner).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        self.inner.size_hint()
    }
}

/// During shutdown, makes clients reconnect elsewhere.
async fn close_after_response(State(leaving): State<Shutdown>, mut response: Response) -> Response {
    if leaving.is_triggered() {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// Connections in the kernel's accept queue; closing the listener would reset them.
fn queued(listener: TcpListener) -> Vec<IncomingConnection> {
    let Ok(listener) = listener.into_std() else { return Vec::new() };
    // The listener does not block, so this ends with the queue.
    std::iter::from_fn(|| listener.accept().ok())
        .filter_map(|(stream, address)| {
            stream.set_nonblocking(true).ok()?;
            Some((TcpStream::from_std(stream).ok()?, address.ip()))
        })
        .collect()
}

/// The next connection; none after `end`.
async fn next(
    listener: &TcpListener,
    connections: &Connections,
    limits: &Limits,
    end: impl Future<Output = ()>,
) -> Option<IncomingConnection> {
    let accept = async {
        loop {
            match listener.accept().await {
                Ok((stream, address)) => return (stream, address.ip()),
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

async fn serve_connection(stream: TcpStream, connection: Arc<Connection>, handler: Handler, closing: Shutdown) {
    let first_request = Instant::now() + FIRST_REQUEST;
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot set TCP_NODELAY");
    }
    let handler = Arc::new(handler);
    let service = service_fn(|request| {
        let (handler, connection) = (handler.clone(), connection.clone());
        async move { Ok::<_, std::convert::Infallible>(handler.answer(&connection, request).await) }
    });
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(LONGEST_HEAD)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(serving);
    let end = async {
        closing.wait().await;
        sleep_until(first_request).await;
    };
    let result = tokio::select! {
        // Requests that have arrived come before the shutdown.
        biased;
        result = serving.as_mut() => result,
        () = connection.closed() => {
            if connection.is_busy() {
                // A request arrived at this moment: answer it first.
                serving.as_mut().graceful_shutdown();
                serving.await
            } else {
                return;
            }
        }
        () = end => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = result {
        tracing::debug!(%error, "connection ended with an error");
    }
}
