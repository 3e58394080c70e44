//! Accepts connections and serves them until told to stop, and leaves without failing anybody.
//!
//! Our own loop because the ready-made one has no deadline for a request's head: a client that opens connections
//! and says nothing, or says it a byte a minute, could hold every one of them for ever.
//!
//! Leaving has two parts. While it *lingers* it takes connections as before, because balancers learn only now and then that it is
//! not ready any more, and every answer says `Connection: close`, so that clients go elsewhere by themselves: an idle connection
//! that we closed could be the one whose next request is just arriving. Then it *closes*: no more connections, idle ones end,
//! requests in flight get their grace.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::middleware::map_response_with_state;
use axum::response::Response;
use fabric::admin::Readiness;
use fabric::shutdown::Shutdown;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, sleep_until, timeout};

/// Connections at once; the next one waits in the kernel's queue until another ends.
const MOST_CONNECTIONS: u32 = 8192;
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
}

/// Serves `router` until told to stop; then lingers, closes, and gives the requests in flight their grace.
pub async fn serve(listener: TcpListener, router: Router, life: Life) {
    let desk = Desk {
        places: Arc::new(Semaphore::new(MOST_CONNECTIONS as usize)),
        router: router.layer(map_response_with_state(life.shutdown.clone(), send_elsewhere)),
        closing: Shutdown::new(),
    };
    while let Some(stream) = next(&listener, &desk.places, &life, life.shutdown.wait()).await {
        desk.take(stream).await;
    }
    let enough = Instant::now() + life.linger;
    while let Some(stream) = next(&listener, &desk.places, &life, sleep_until(enough)).await {
        desk.take(stream).await;
    }
    for stream in queued(listener) {
        desk.take(stream).await;
    }
    desk.closing.trigger();
    if timeout(life.grace, desk.places.acquire_many(MOST_CONNECTIONS)).await.is_err() {
        tracing::warn!("requests still in flight are cut off");
    }
}

/// Who serves connections.
struct Desk {
    places: Arc<Semaphore>,
    router: Router,
    closing: Shutdown,
}

impl Desk {
    /// Serves one connection; waits when there are too many.
    async fn take(&self, stream: TcpStream) {
        // Never closed, so there is always a place in the end.
        let Ok(place) = self.places.clone().acquire_owned().await else { return };
        let (router, closing) = (self.router.clone(), self.closing.clone());
        fabric::tasks::spawn("connection", async move {
            connection(stream, router, closing).await;
            drop(place);
        });
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
fn queued(listener: TcpListener) -> Vec<TcpStream> {
    let Ok(listener) = listener.into_std() else { return Vec::new() };
    // It does not block, so this ends with the queue. What cannot be used is as lost as it was.
    std::iter::from_fn(|| listener.accept().ok())
        .filter_map(|(stream, _)| {
            stream.set_nonblocking(true).ok()?;
            TcpStream::from_std(stream).ok()
        })
        .collect()
}

/// The next connection, once there is room for it; none when `end` comes.
async fn next(
    listener: &TcpListener,
    places: &Semaphore,
    life: &Life,
    end: impl Future<Output = ()>,
) -> Option<TcpStream> {
    let accept = async {
        drop(places.acquire().await);
        loop {
            match listener.accept().await {
                Ok((stream, _)) => return stream,
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    sleep(AFTER_FAILURE).await;
                }
            }
        }
    };
    tokio::pin!(accept, end);
    loop {
        tokio::select! {
            stream = &mut accept => return Some(stream),
            () = life.readiness.asked() => {}
            () = &mut end => return None,
        }
    }
}

async fn connection(stream: TcpStream, router: Router, closing: Shutdown) {
    let first_words = Instant::now() + FIRST_WORDS;
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot set TCP_NODELAY");
    }
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(LONGEST_HEAD)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    tokio::pin!(serving);
    let end = async {
        closing.wait().await;
        sleep_until(first_words).await;
    };
    let result = tokio::select! {
        // First what has arrived, then the end.
        biased;
        result = serving.as_mut() => result,
        () = end => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = result {
        tracing::debug!(%error, "connection ended with an error");
    }
}
