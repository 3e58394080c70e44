//! Accepts connections and serves them until told to stop.
//!
//! Our own loop because the ready-made one has no deadline for a request's head: a client that opens connections
//! and says nothing, or says it a byte a minute, could hold every one of them for ever.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use fabric::admin::Readiness;
use fabric::shutdown::Shutdown;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

/// Connections at once; the next one waits in the kernel's queue until another ends.
const MOST_CONNECTIONS: u32 = 8192;
/// How long a client may take for the head of a request, and how long a connection may be idle.
const LONGEST_HEAD: Duration = Duration::from_secs(30);
/// After a failed accept, most often for want of file descriptors.
const AFTER_FAILURE: Duration = Duration::from_millis(200);

/// What the accepting of connections obeys, and whom it answers.
#[derive(Debug, Clone)]
pub struct Life {
    /// Who may ask whether it lives.
    pub readiness: Readiness,
    /// When to stop.
    pub shutdown: Shutdown,
    /// What requests in flight get then to finish.
    pub grace: Duration,
}

/// Serves `router` until told to stop; then gives the requests in flight their grace.
pub async fn serve(listener: TcpListener, router: Router, life: Life) {
    let places = Arc::new(Semaphore::new(MOST_CONNECTIONS as usize));
    while let Some(stream) = next(&listener, &places, &life).await {
        // Never closed, and `next` returns only when one is free, so this does not wait.
        let Ok(place) = places.clone().acquire_owned().await else { break };
        let (router, shutdown) = (router.clone(), life.shutdown.clone());
        fabric::tasks::spawn("connection", async move {
            connection(stream, router, shutdown).await;
            drop(place);
        });
    }
    drop(listener);
    if timeout(life.grace, places.acquire_many(MOST_CONNECTIONS)).await.is_err() {
        tracing::warn!("requests still in flight are cut off");
    }
}

/// The next connection, once there is room for it; none at shutdown.
async fn next(listener: &TcpListener, places: &Semaphore, life: &Life) -> Option<TcpStream> {
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
    tokio::pin!(accept);
    loop {
        tokio::select! {
            stream = &mut accept => return Some(stream),
            () = life.readiness.asked() => {}
            () = life.shutdown.wait() => return None,
        }
    }
}

async fn connection(stream: TcpStream, router: Router, shutdown: Shutdown) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot set TCP_NODELAY");
    }
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(LONGEST_HEAD)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    tokio::pin!(serving);
    let result = tokio::select! {
        result = serving.as_mut() => result,
        () = shutdown.wait() => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = result {
        tracing::debug!(%error, "connection ended with an error");
    }
}
