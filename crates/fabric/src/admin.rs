//! Admin endpoints of every process: `/healthz`, `/readyz`, `/metrics`.
//!
//! Healthy means that the process answers. Ready means that it can do its work; otherwise `/readyz` gives the reason.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use prometheus_client::registry::Registry;
use tokio::sync::watch;

use crate::shutdown::Shutdown;

/// Readiness of the process; clones share one value.
#[derive(Debug, Clone)]
pub struct Readiness {
    state: Arc<watch::Sender<Result<(), String>>>,
    /// Number of liveness questions to the main loop, and the last one that it answered.
    asked: Arc<watch::Sender<u64>>,
    answered: Arc<watch::Sender<u64>>,
}

impl Default for Readiness {
    fn default() -> Self {
        Self::new()
    }
}

impl Readiness {
    /// Starts as not ready.
    pub fn new() -> Self {
        Self {
            state: Arc::new(watch::Sender::new(Err("starting".to_owned()))),
            asked: Arc::default(),
            answered: Arc::default(),
        }
    }

    /// Sets the readiness, or the reason against it. A change is logged.
    pub fn set(&self, state: Result<(), String>) {
        self.state.send_if_modified(|current| {
            let changed = *current != state;
            if changed {
                match &state {
                    Ok(()) => tracing::info!("ready"),
                    Err(reason) => tracing::warn!(%reason, "not ready"),
                }
                *current = state;
            }
            changed
        });
    }

    pub fn get(&self) -> Result<(), String> {
        self.state.borrow().clone()
    }

    /// For the main loop, as one arm of its `select!`: returns when a task calls [`Readiness::answered`], and thereby
    /// answers it. Cancel-safe.
    pub async fn asked(&self) {
        let answered = *self.answered.borrow();
        // Fails only when the sender is dropped, and `self` holds it.
        if let Ok(question) = self.asked.subscribe().wait_for(|asked| *asked > answered).await {
            self.answered.send_replace(*question);
        }
    }

    /// Waits until the main loop has answered.
    pub async fn answered(&self) {
        let mut question = 0;
        self.asked.send_modify(|asked| {
            *asked += 1;
            question = *asked;
        });
        // Fails only when the sender is dropped, and `self` holds it.
        let _ = self.answered.subscribe().wait_for(|answered| *answered >= question).await;
    }

    pub fn subscribe(&self) -> watch::Receiver<Result<(), String>> {
        self.state.subscribe()
    }
}

/// The three routes, to serve alone or to merge into a router.
pub fn routes(readiness: Readiness, registry: Arc<Registry>) -> axum::Router {
    axum::Router::new()
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(ready).with_state(readiness))
        .route("/metrics", get(metrics).with_state(registry))
}

/// Serves the three routes on `address` until shutdown. Fails immediately if the address cannot be bound.
pub async fn serve(
    address: SocketAddr,
    readiness: Readiness,
    registry: Arc<Registry>,
    shutdown: Shutdown,
) -> std::io::Result<()> {
    let listener = tokio::net::TcpListener::bind(address).await?;
    tracing::info!(address = %listener.local_addr()?, "admin endpoints listen");
    axum::serve(listener, routes(readiness, registry))
        .with_graceful_shutdown(async move { shutdown.wait().await })
        .await
}

async fn ready(State(readiness): State<Readiness>) -> impl IntoResponse {
    match readiness.get() {
        Ok(()) => (StatusCode::OK, "ready\n".to_owned()),
        Err(reason) => (StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")),
    }
}

async fn metrics(State(registry): State<Arc<Registry>>) -> impl IntoResponse {
    let mut text = String::new();
    match prometheus_client::encoding::text::encode(&mut text, &registry) {
        Ok(()) => (
            StatusCode::OK,
            [(header::CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")],
            text,
        ),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, [(header::CONTENT_TYPE, "text/plain")], error.to_string()),
    }
}
