//! Metrics of the apiserver.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// Labels of the request counter.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Request {
    /// Path of the resource, or `other`.
    pub route: &'static str,
    /// Method, or `other`.
    pub method: &'static str,
    pub status: u16,
}

/// Labels of the latency histogram.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Timed {
    /// Path of the resource, or `other`.
    pub route: &'static str,
    /// Method, or `other`.
    pub method: &'static str,
}

/// Clones share the counters.
#[derive(Debug, Clone)]
pub struct Metrics {
    pub requests: Family<Request, Counter>,
    /// Time from the first byte of the request's body to the answer's headers.
    pub latency: Family<Timed, Histogram, fn() -> Histogram>,
    /// Commands without an outcome yet.
    pub waiting: Gauge,
    pub queued: Counter,
    /// Answers of a standby.
    pub stale: Counter,
    /// Queries without an answer.
    pub unanswered: Counter,
    /// Nodes that did not answer an inspect request in time.
    pub silent_nodes: Counter,
    /// Requests for logs that are being answered.
    pub log_readers: Gauge,
    pub log_bytes: Counter,
}

impl Metrics {
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            requests: Family::default(),
            latency: Family::new_with_constructor(latency_histogram),
            waiting: Gauge::default(),
            queued: Counter::default(),
            stale: Counter::default(),
            unanswered: Counter::default(),
            silent_nodes: Counter::default(),
            log_readers: Gauge::default(),
            log_bytes: Counter::default(),
        };
        let registry = registry.sub_registry_with_prefix("deployd_api");
        registry.register("requests", "Requests answered", metrics.requests.clone());
        registry.register("request_seconds", "Time until a request was answered", metrics.latency.clone());
        registry.register("waiting", "Changes that wait for a decision", metrics.waiting.clone());
        registry.register("queued", "Changes answered as queued", metrics.queued.clone());
        registry.register("stale_answers", "Answers given by a standby", metrics.stale.clone());
        registry.register("unanswered", "Queries that no scheduler answered", metrics.unanswered.clone());
        registry.register("silent_nodes", "Nodes that did not answer in time", metrics.silent_nodes.clone());
        registry.register("log_readers", "Requests for logs that are being answered", metrics.log_readers.clone());
        registry.register("log_bytes", "Bytes of logs sent to clients", metrics.log_bytes.clone());
        metrics
    }
}

fn latency_histogram() -> Histogram {
    Histogram::new([0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0])
}
