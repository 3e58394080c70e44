//! When to stop: one flag that is raised once and heard by everybody.

use tokio_util::sync::CancellationToken;

/// Clone it freely; all clones are the same flag.
#[derive(Debug, Clone, Default)]
pub struct Shutdown {
    token: CancellationToken,
}

impl Shutdown {
    /// A flag nobody has raised.
    pub fn new() -> Self {
        Self::default()
    }

    /// A flag that SIGTERM or SIGINT raises. Call it inside the runtime.
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

    /// Returns once the flag is raised.
    pub async fn wait(&self) {
        self.token.cancelled().await;
    }

    /// Raises the flag.
    pub fn trigger(&self) {
        self.token.cancel();
    }

    /// Whether it is raised.
    pub fn is_triggered(&self) -> bool {
        self.token.is_cancelled()
    }
}
