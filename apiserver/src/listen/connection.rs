//! One connection: its handshake, its requests, its end.

use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, HttpBody};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use contract::access::binding;
use fabric::shutdown::Shutdown;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, sleep_until};

use super::forwarded;
use super::peer::Peer;
use super::sockets::Stream;
use super::transport::{Opened, Transport};
use crate::access::peer_text;
use crate::http::browser::Hosts;
use crate::http::respond::Refused;
use crate::http::{request_line, router};
use crate::peers::{Busy, Connection, PeerLimit, Permit};
use crate::refused::RefusedLog;

/// Paths without a limit per peer: health checks and monitors must get through.
const ADMIN: [&str; 3] = ["/healthz", "/readyz", "/metrics"];
/// Paths that are answered under every name, and without TLS.
const HEALTH: [&str; 2] = ["/healthz", "/readyz"];
/// Deadline for the head of a request; also the idle timeout of a connection.
const LONGEST_HEAD: Duration = Duration::from_secs(30);
/// At shutdown, a connection younger than this is not idle: its first request may be arriving.
const FIRST_REQUEST: Duration = Duration::from_secs(1);

const LOOPBACK: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

/// Answers the requests of one connection.
pub(super) struct Handler {
    pub(super) router: Router,
    pub(super) requests: PeerLimit,
    pub(super) hosts: Arc<Hosts>,
    pub(super) transport: Arc<Transport>,
    pub(super) refused: RefusedLog,
    pub(super) peer: Peer,
}

/// What the connection is, as far as answers depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wire {
    Unix,
    Tls,
    Plain,
}

/// Opens the connection and serves it to its end.
pub(super) async fn run(stream: Stream, connection: Arc<Connection>, handler: Handler, closing: Shutdown) {
    let stream = match stream {
        Stream::Unix(stream) => return serve(stream, Wire::Unix, connection, handler, closing).await,
        Stream::Tcp(stream) => stream,
    };
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot set TCP_NODELAY");
    }
    let opened = tokio::select! {
        opened = handler.transport.open(stream, handler.address()) => opened,
        () = connection.closed() => None,
    };
    match opened {
        Some(Opened::Plain(stream)) => serve(stream, Wire::Plain, connection, handler, closing).await,
        Some(Opened::Tls(stream)) => serve(stream, Wire::Tls, connection, handler, closing).await,
        None => {}
    }
}

impl Handler {
    /// The address that the connection comes from. The unix socket counts as this machine.
    fn address(&self) -> IpAddr {
        self.peer.address().unwrap_or(LOOPBACK)
    }

    async fn answer(&self, kind: Wire, connection: &Connection, request: hyper::Request<Incoming>) -> Response {
        let busy = connection.begin();
        let path = request.uri().path();
        let is_admin = ADMIN.contains(&path);
        let judged =
            self.judge(kind, request.uri(), request.headers()).and_then(|()| self.client(kind, request.headers()));
        let peer = match judged {
            Ok(peer) => peer,
            Err(refused) => return self.refuse(&self.peer, &request, refused).await,
        };
        let permit = match self.requests.acquire(peer.source()) {
            Ok(permit) => Some(permit),
            Err(_) if is_admin => None,
            Err(full) => return self.refuse(&peer, &request, Refused::too_many("requests in flight", full)).await,
        };
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(peer);
        let router = TowerToHyperService::new(self.router.clone());
        let response = router.call(request).await.unwrap_or_else(|never| match never {});
        response.map(|inner| Body::new(Counted { inner, _held: (busy, permit) }))
    }

    /// Refuses a request before its client is identified.
    async fn refuse(&self, peer: &Peer, request: &hyper::Request<Incoming>, refused: Refused) -> Response {
        // Only for the unix socket: over TCP the user would have to be looked up.
        let uid = if peer.address().is_none() { peer.uid().await } else { None };
        let peer = peer_text(binding::Peer { address: peer.address(), uid });
        let line = request_line(&router::route(request.method(), request.uri().path()));
        self.refused.note((peer, String::new()), line, refused.status);
        refused.into_response()
    }

    /// Whether the request may come on this connection; before anything else. Health checks may use any name, need no TLS
    /// and learn nothing of the cluster.
    fn judge(&self, kind: Wire, uri: &Uri, headers: &HeaderMap) -> Result<(), Refused> {
        if HEALTH.contains(&uri.path()) {
            return Ok(());
        }
        if kind == Wire::Plain && !self.transport.admits_plain(self.address()) {
            return Err(Refused::new(StatusCode::FORBIDDEN, UNENCRYPTED));
        }
        match kind {
            // No name leads to a unix socket, so none can be misused.
            Wire::Unix => self.hosts.check_page(headers),
            Wire::Tls | Wire::Plain => self.hosts.check(headers, uri),
        }
    }

    /// The sender of the request: the client of the connection, or the one that a trusted proxy names.
    fn client(&self, kind: Wire, headers: &HeaderMap) -> Result<Peer, Refused> {
        if kind == Wire::Unix || !self.transport.is_proxy(self.address()) {
            return Ok(self.peer.clone());
        }
        let client = forwarded::client(headers, self.address(), &self.transport.proxies);
        let both =
            "the request has Forwarded and X-Forwarded-For; the proxy must remove the one that it does not write";
        client.map(Peer::at).map_err(|forwarded::Ambiguous| Refused::bad_request(both))
    }
}

const UNENCRYPTED: &str = "this connection is not encrypted, and the API answers only /healthz and /readyz there; use https \
    (--tls-cert and --tls-key of the apiserver), or name your proxy with --behind-proxy";

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

async fn serve<S>(stream: S, kind: Wire, connection: Arc<Connection>, handler: Handler, closing: Shutdown)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let first_request = Instant::now() + FIRST_REQUEST;
    let handler = Arc::new(handler);
    let service = service_fn(|request| {
        let (handler, connection) = (handler.clone(), connection.clone());
        async move { Ok::<_, std::convert::Infallible>(handler.answer(kind, &connection, request).await) }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn handler(from: &str, transport: Transport) -> Handler {
        Handler {
            router: Router::new(),
            requests: PeerLimit::new(1, 1),
            hosts: Arc::default(),
            transport: Arc::new(transport),
            refused: RefusedLog::default(),
            peer: Peer::at(from.parse().unwrap()),
        }
    }

    #[test]
    fn unencrypted_requests_of_another_machine_are_refused_except_for_health_checks() {
        let judged = |from: &str, kind: Wire, path: &'static str| {
            let transport = Transport { proxies: vec!["10.0.0.5/32".parse().unwrap()], ..Transport::default() };
            let judged = handler(from, transport).judge(kind, &Uri::from_static(path), &HeaderMap::new());
            judged.map_err(|refused| refused.status.as_u16())
        };
        assert_eq!(judged("192.0.2.1", Wire::Plain, "/api/nodes"), Err(403));
        assert_eq!(judged("192.0.2.1", Wire::Plain, "/metrics"), Err(403));
        assert_eq!(judged("192.0.2.1", Wire::Plain, "/readyz"), Ok(()));
        assert_eq!(judged("192.0.2.1", Wire::Tls, "/api/nodes"), Ok(()));
        assert_eq!(judged("10.0.0.5", Wire::Plain, "/api/nodes"), Ok(()));
        assert_eq!(judged("127.0.0.1", Wire::Plain, "/api/nodes"), Ok(()));
    }
}
