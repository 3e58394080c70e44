//! `proxy`: an HTTP server of this machine that adds the user's token to the requests of programs without one.

mod forward;
mod guard;

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use contract::api::Failure;
use fabric::shutdown::Shutdown;
use fabric::socket_owner::{self, Ends};
use hyper::body::Incoming;
use hyper::header::CONTENT_TYPE;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use reqwest::Body;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OnceCell, Semaphore};

use crate::api::{self, Api, Server, Target};
use crate::args;
use crate::output::access;

/// Open connections; further ones wait in the queue of the kernel.
const MOST_CONNECTIONS: usize = 256;
/// Deadline for the head of a request; also the idle timeout of a connection.
const LONGEST_HEAD: Duration = Duration::from_secs(30);
/// Longest silence of an apiserver: it ends a request after 30 s, and sends a line on event streams every 15 s.
const SILENCE: Duration = Duration::from_secs(60);
/// Longest life of an event stream.
const LONGEST: Duration = Duration::from_secs(24 * 3600);
/// Pause after a failed accept, most often for lack of file descriptors.
const AFTER_FAILURE: Duration = Duration::from_millis(200);

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Api(#[from] api::Error),
    #[error("{0} is not an address of this machine itself; others could use your token: listen on 127.0.0.1 or [::1]")]
    Open(SocketAddr),
    #[error("there is no token to add; `deployctl login URL` stores one, --token-file FILE names one")]
    NoToken,
    #[error("cannot listen on {address}; --listen names another address")]
    Listen {
        address: SocketAddr,
        #[source]
        source: io::Error,
    },
}

/// `deployctl proxy`: serves until Ctrl-C.
pub async fn proxy(api: &Api, asked: &args::Proxy) -> Result<(), Error> {
    let address = asked.listen;
    if !address.ip().to_canonical().is_loopback() {
        return Err(Error::Open(address));
    }
    if api.target().credential.is_none() {
        return Err(Error::NoToken);
    }
    let view = api.access().await?;
    let failed = |source| Error::Listen { address, source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let shutdown = Shutdown::on_signals();
    let principal = access::principal(&view.principal, &view.bindings);
    println!("http://{address} passes requests on to {} as {principal}; Ctrl-C ends it", api.target().describe());
    serve(&listener, Proxy::new(api.target(), &asked.allowed_uids)?, &shutdown).await;
    Ok(())
}

struct Proxy {
    target: Target,
    servers: Vec<Server>,
    /// Users whose programs may use it.
    users: Vec<u32>,
}

impl Proxy {
    fn new(target: &Target, allowed: &[u32]) -> Result<Arc<Self>, Error> {
        let servers = target.servers(LONGEST, Some(SILENCE))?;
        let own = rustix::process::geteuid().as_raw();
        let users = std::iter::once(own).chain(allowed.iter().copied()).collect();
        Ok(Arc::new(Self { target: target.clone(), servers, users }))
    }

    async fn answer(&self, client: &Caller, request: Request<Incoming>) -> Response<Body> {
        if let Err(reason) = guard::check(request.headers(), request.uri()) {
            return refusal(StatusCode::FORBIDDEN, &reason);
        }
        match client.user().await {
            Some(uid) if self.users.contains(&uid) => forward::forward(&self.target, &self.servers, request).await,
            Some(uid) => {
                let reason =
                    format!("this proxy serves its own user; --allow-uid {uid} opens it to programs of user {uid}");
                refusal(StatusCode::FORBIDDEN, &reason)
            }
            None => refusal(
                StatusCode::FORBIDDEN,
                "this proxy serves its own user, and the user of this connection is unknown",
            ),
        }
    }
}

/// The other end of a connection.
struct Caller {
    ends: Option<Ends>,
    uid: OnceCell<Option<u32>>,
}

impl Caller {
    fn of(stream: &TcpStream) -> Self {
        let ends = || Some(Ends { client: stream.peer_addr().ok()?, server: stream.local_addr().ok()? });
        Self { ends: ends(), uid: OnceCell::new() }
    }

    /// Its user; none when the kernel does not say.
    async fn user(&self) -> Option<u32> {
        let look = async || socket_owner::of(self.ends?).await;
        *self.uid.get_or_init(look).await
    }
}

async fn serve(listener: &TcpListener, proxy: Arc<Proxy>, shutdown: &Shutdown) {
    let permits = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    let accept = async {
        loop {
            // The semaphore is never closed.
            let Ok(permit) = permits.clone().acquire_owned().await else { return };
            match listener.accept().await {
                Ok((stream, _)) => {
                    let proxy = proxy.clone();
                    fabric::tasks::spawn("connection", async move {
                        connection(stream, &proxy).await;
                        drop(permit);
                    });
                }
                Err(error) => {
                    eprintln!("could not accept a connection: {error}");
                    tokio::time::sleep(AFTER_FAILURE).await;
                }
            }
        }
    };
    tokio::select! {
        () = accept => {}
        () = shutdown.wait() => {}
    }
}

async fn connection(stream: TcpStream, proxy: &Proxy) {
    let client = &Caller::of(&stream);
    let answer = service_fn(move |request| async move { Ok::<_, Infallible>(proxy.answer(client, request).await) });
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(LONGEST_HEAD)
        .serve_connection(TokioIo::new(stream), answer);
    // A client that breaks its connection needs no answer.
    drop(serving.await);
}

/// An answer of the proxy itself, with a body like those of the API.
fn refusal(status: StatusCode, reason: &str) -> Response<Body> {
    let message = format!("deployctl proxy: {reason}");
    let body = Failure { data: message.clone(), message };
    let body = serde_json::to_vec(&body).expect("bodies of the API have string keys only");
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static("application/json"));
    response
}
