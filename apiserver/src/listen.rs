//! Accepts connections and serves them until told to stop, and leaves without failing anybody.
//!
//! Our own loop because the ready-made one has no deadline for a request's head: a client that opens connections
//! and says nothing, or says it a byte a minute, could hold every one of them for ever. Nor does it limit what one peer may
//! use ([`crate::peers`]).
//!
//! Leaving has two parts. While it *lingers* it takes connections as before, because balancers learn only now and then that it is
//! not ready any more, and every answer says `Connection: close`, so that clients go elsewhere by themselves: an idle connection
//! that we closed could be the one whose next request is just arriving. Then it *closes*: no more connections, idle ones end,
//! requests in flight get their grace.

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

use crate::http::respond::Refused;
use crate::peers::{self, Busy, Connection, Connections, PeerLimit, Permit};

/// Connections at once. The next one takes the place of one that only waits; when all answer requests it is refused.
const MOST_CONNECTIONS: u32 = 8192;
/// Requests that are answered at once, of all peers: one for each connection.
const MOST_REQUESTS: usize = MOST_CONNECTIONS as usize;
/// Paths that are answered whatever a peer has in flight: monitors and balancers must not be kept out.
const ADMIN: [&str; 3] = ["/healthz", "/readyz", "/metrics"];
/// The answer to a connection beyond the limits, sent before the server closes it.
const REFUSAL: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 1\r\nContent-Type: text/plain\r\n\
    Content-Length: 76\r\n\r\ntoo many connections of this address answer requests; try again in a moment\n";
/// How long a client may take for the head of a request, and how long a connection may be idle.
const LONGEST_HEAD: Duration = Duration::from_secs(30);
/// A connection that is younger may have its first request on the way: it is not idle, even if it has said nothing yet.
const FIRST_WORDS: Duration = Duration::from_secs(1);
/// After a failed accept, most often for want of file descriptors.
const AFTER_FAILURE: Duration = Duration::from_millis(200);

/// What the accepting of connections obeys, and whom it answers.
#[derive(Debug, Clone)]
pub struct Life {
    /// Who may ask whether it lives.
    pub readiness: Readiness,
    /// When to leave.
    pub shutdown: Shutdown,
    /// How long connections are taken after that.
    pub linger: Duration,
    /// What requests in flight get then to finish.
    pub grace: Duration,
    /// Connections of one peer.
    pub connections_per_peer: usize,
    /// Requests of one peer that are answered at once.
    pub requests_per_peer: usize,
}

/// The peer that a request comes from, in its extensions.
#[derive(Debug, Clone, Copy)]
pub struct Peer(pub IpAddr);

/// Serves `router` until told to stop; then lingers, closes, and gives the requests in flight their grace.
pub async fn serve(listener: TcpListener, router: Router, life: Life) {
    let acceptor = Acceptor {
        places: Arc::new(Semaphore::new(MOST_CONNECTIONS as usize)),
        connections: Connections::new(MOST_CONNECTIONS as usize, life.connections_per_peer),
        requests: PeerLimit::new(MOST_REQUESTS, life.requests_per_peer),
        router: router.layer(map_response_with_state(life.shutdown.clone(), send_elsewhere)),
        closing: Shutdown::new(),
    };
    while let Some(accepted) = next(&listener, &acceptor.connections, &life, life.shutdown.wait()).await {
        acceptor.take(accepted).await;
    }
    let enough = Instant::now() + life.linger;
    while let Some(accepted) = next(&listener, &acceptor.connections, &life, sleep_until(enough)).await {
        acceptor.take(accepted).await;
    }
    for accepted in queued(listener) {
        acceptor.take(accepted).await;
    }
    acceptor.closing.trigger();
    if timeout(life.grace, acceptor.places.acquire_many(MOST_CONNECTIONS)).await.is_err() {
        tracing::warn!("requests still in flight are cut off");
    }
}

type Accepted = (TcpStream, IpAddr);

/// Serves connections.
struct Acceptor {
    places: Arc<Semaphore>,
    connections: Connections,
    requests: PeerLimit,
    router: Router,
    closing: Shutdown,
}

impl Acceptor {
    /// Serves one connection, or refuses it.
    async fn take(&self, (stream, address): Accepted) {
        let Some(connection) = self.connections.admit(peers::of(address)) else {
            // A new connection has room for this; if not, its client finds it closed.
            let _ = stream.try_write(REFUSAL);
            return;
        };
        // Never closed, and whichever was closed for this one is about to give its place back.
        let Ok(place) = self.places.clone().acquire_owned().await else { return };
        let (router, requests, closing) = (self.router.clone(), self.requests.clone(), self.closing.clone());
        fabric::tasks::spawn("connection", async move {
            serve_connection(stream, Arc::new(connection), Answering { router, requests }, closing).await;
            drop(place);
        });
    }
}

/// Answers the requests of one connection.
struct Answering {
    router: Router,
    requests: PeerLimit,
}

impl Answering {
    async fn answer(&self, connection: &Connection, request: hyper::Request<hyper::body::Incoming>) -> Response {
        let busy = connection.begin();
        let is_admin = ADMIN.contains(&request.uri().path());
        let place = match self.requests.take(connection.peer) {
            Ok(place) => Some(place),
            Err(_) if is_admin => None,
            Err(full) => return Refused::too_many("requests in flight", full).into_response(),
        };
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(Peer(connection.peer));
        let router = TowerToHyperService::new(self.router.clone());
        let response = router.call(request).await.unwrap_or_else(|never| match never {});
        response.map(|inner| Body::new(Counted { inner, _held: (busy, place) }))
    }
}

/// A body that counts as a request in flight until it is sent.
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

/// Whoever asks a server that leaves shall ask another next time.
async fn send_elsewhere(State(leaving): State<Shutdown>, mut response: Response) -> Response {
    if leaving.is_triggered() {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// The connections the kernel has taken for us; to close the listener over them would reset them.
fn queued(listener: TcpListener) -> Vec<Accepted> {
    let Ok(listener) = listener.into_std() else { return Vec::new() };
    // It does not block, so this ends with the queue. What cannot be used is as lost as it was.
    std::iter::from_fn(|| listener.accept().ok())
        .filter_map(|(stream, address)| {
            stream.set_nonblocking(true).ok()?;
            Some((TcpStream::from_std(stream).ok()?, address.ip()))
        })
        .collect()
}

/// The next connection; none when `end` comes.
async fn next(
    listener: &TcpListener,
    connections: &Connections,
    life: &Life,
    end: impl Future<Output = ()>,
) -> Option<Accepted> {
    let accept = async {
        loop {
            match listener.accept().await {
                Ok((stream, address)) => return (stream, address.ip()),
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
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
            () = life.readiness.asked() => {}
            () = &mut end => return None,
        }
    }
}

async fn serve_connection(stream: TcpStream, connection: Arc<Connection>, answering: Answering, closing: Shutdown) {
    let first_words = Instant::now() + FIRST_WORDS;
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot set TCP_NODELAY");
    }
    let answering = Arc::new(answering);
    let service = service_fn(|request| {
        let (answering, connection) = (answering.clone(), connection.clone());
        async move { Ok::<_, std::convert::Infallible>(answering.answer(&connection, request).await) }
    });
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(LONGEST_HEAD)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(serving);
    let end = async {
        closing.wait().await;
        sleep_until(first_words).await;
    };
    let result = tokio::select! {
        // First what has arrived, then the end.
        biased;
        result = serving.as_mut() => result,
        () = connection.closed() => {
            if connection.is_busy() {
                // A request came in that moment: it is answered.
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
