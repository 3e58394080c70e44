//! Shutdown: one flag, set once, that every task can wait for.

use tokio_util::sync::CancellationToken;

/// The flag; clones share it.
#[derive(Debug, Clone, Default)]
pub struct Shutdown {
    token: CancellationToken,
}

impl Shutdown {
    pub fn new() -> Self {
        Self::default()
    }

    /// A flag that SIGTERM or SIGINT sets. Call it inside the runtime.
    pub fn on_signals() -> Self {
        use tokio::signal::unix::{SignalKind, signal};
        let shutdown = Self::new();
        match (signal(SignalKind::terminate()), signal(SignalKind::interrupt())) {
            (Ok(mut terminate), Ok(mut interrupt)) => {
                let flag = shutdown.clone();
                crate::tasks::spawn("signals", async move {
                    tokio::select! {
                        _ = terminate.recv() => tracing::info!("SIGTERM: stopping"),
                        _ = interrupt.recv() => tracing::info!("SIGINT: stopping"),
                    }
                    flag.trigger();
                });
            }
            (Err(error), _) | (_, Err(error)) => tracing::error!(%error, "cannot listen for signals"),
        }
        shutdown
    }

    /// Returns when the flag is set.
    pub async fn wait(&self) {
        self.token.cancelled().await;
    }

    pub fn trigger(&self) {
        self.token.cancel();
    }

    pub fn is_triggered(&self) -> bool {
        self.token.is_cancelled()
    }
}
