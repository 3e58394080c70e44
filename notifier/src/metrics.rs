//! What the notifier counts.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// The counters; clones share them.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    pub delivered: Counter,
    pub failed: Counter,
    /// Notices moved to the dead letters.
    pub dead: Counter,
    /// Notices returned to the bus because their queue was full.
    pub put_back: Counter,
    pub unregistered: Counter,
    /// Notices whose callback has an address that is closed to callbacks.
    pub refused: Counter,
    pub queues: Gauge,
}

impl Metrics {
    /// Counters at zero, shown by `registry`.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        let registry = registry.sub_registry_with_prefix("deployd_notifier");
        registry.register("delivered", "Notices accepted by a callback", metrics.delivered.clone());
        registry.register("failed", "Attempts that failed", metrics.failed.clone());
        registry.register("dead", "Notices moved to the dead letters", metrics.dead.clone());
        registry.register(
            "put_back",
            "Notices returned to the bus because the queue of their callback was full",
            metrics.put_back.clone(),
        );
        let help = "Notices dropped because their callback is not registered";
        registry.register("unregistered", help, metrics.unregistered.clone());
        let help = "Notices given up because the address of their callback is closed to callbacks";
        registry.register("refused", help, metrics.refused.clone());
        registry.register("lanes", "Open queues, one per callback", metrics.queues.clone());
        metrics
    }
}
