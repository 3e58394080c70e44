//! What the notifier counts.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// The counters; clones share them.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    /// Notices a callback took.
    pub delivered: Counter,
    /// Attempts that failed.
    pub failed: Counter,
    /// Notices given up.
    pub dead: Counter,
    /// Notices put back because their lane was full.
    pub put_back: Counter,
    /// Notices dropped because their callback is not registered any more.
    pub unregistered: Counter,
    /// Callbacks being served.
    pub lanes: Gauge,
}

impl Metrics {
    /// Counters at zero, shown by `registry`.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        let registry = registry.sub_registry_with_prefix("deployd_notifier");
        registry.register("delivered", "Notices a callback took", metrics.delivered.clone());
        registry.register("failed", "Attempts that failed", metrics.failed.clone());
        registry.register("dead", "Notices given up", metrics.dead.clone());
        registry.register("put_back", "Notices put back because their lane was full", metrics.put_back.clone());
        let help = "Notices dropped because their callback is not registered any more";
        registry.register("unregistered", help, metrics.unregistered.clone());
        registry.register("lanes", "Callbacks being served", metrics.lanes.clone());
        metrics
    }
}
