//! Metrics of the agent.

use std::sync::atomic::AtomicU64;

use contract::report::EngineState;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::core::Tally;
use crate::core::io::{Action, ActionFailure, ContainerSeen};

/// Clones share the counters.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    orders: Family<OrderResult, Counter<u64, AtomicU64>>,
    actions: Family<ActionEnd, Counter<u64, AtomicU64>>,
    engine: Family<EngineLabel, Gauge>,
    containers: Gauge,
    dropped: Counter<u64, AtomicU64>,
    sessions: Gauge,
    session_bytes: Counter<u64, AtomicU64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OrderResult {
    decision: &'static str,
}
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ActionEnd {
    step: &'static str,
    result: &'static str,
}
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EngineLabel {
    state: &'static str,
}

impl Metrics {
    pub fn new() -> (Self, Registry) {
        let all = Self::default();
        let mut registry = Registry::with_prefix("deployd_agent");
        registry.register("orders", "Orders by result", all.orders.clone());
        registry.register("steps", "Actions on containers, by kind and result", all.actions.clone());
        registry.register("engine_state", "1 for the current state of the engine", all.engine.clone());
        registry.register("containers", "Containers of this node", all.containers.clone());
        registry.register("unsaid", "Messages dropped because the queue to the bus was full", all.dropped.clone());
        registry.register("sessions", "Logs that apiservers are reading", all.sessions.clone());
        registry.register("session_bytes", "Bytes of log lines sent to apiservers", all.session_bytes.clone());
        (all, registry)
    }

    /// Raises the counters to the totals in `tally`.
    pub fn orders(&self, tally: Tally) {
        let Tally { accepted, stale, conflict, failed, astray } = tally;
        let totals = [accepted, stale, conflict, failed, astray];
        for (decision, total) in ["accepted", "stale", "conflict", "failed", "astray"].into_iter().zip(totals) {
            let counter = self.orders.get_or_create(&OrderResult { decision });
            counter.inc_by(total.saturating_sub(counter.get()));
        }
    }

    /// Counts one order that was rejected for its signature.
    pub fn order_rejected(&self) {
        self.orders.get_or_create(&OrderResult { decision: "rejected" }).inc();
    }

    pub fn action_done(&self, action: &Action, result: &Result<Option<ContainerSeen>, ActionFailure>) {
        let kind = match action {
            Action::Create { .. } => "create",
            Action::Replace { .. } => "replace",
            Action::Update { .. } => "update",
            Action::ReadEnd { .. } => "read_end",
            Action::Start { .. } => "start",
            Action::Stop { .. } => "stop",
            Action::Remove { .. } => "remove",
        };
        self.count(kind, result.as_ref().err());
    }

    /// Counts one pull.
    pub fn fetched(&self, result: &Result<(), ActionFailure>) {
        self.count("fetch", result.as_ref().err());
    }

    fn count(&self, action: &'static str, failure: Option<&ActionFailure>) {
        let result = match failure {
            None => "ok",
            Some(ActionFailure::Refused(_) | ActionFailure::NoImage { .. }) => "refused",
            Some(ActionFailure::Unreachable(_)) => "unreachable",
        };
        self.actions.get_or_create(&ActionEnd { step: action, result }).inc();
    }

    pub fn engine(&self, state: EngineState) {
        for (one, name) in [(EngineState::Up, "up"), (EngineState::Hung, "hung"), (EngineState::Down, "down")] {
            self.engine.get_or_create(&EngineLabel { state: name }).set(i64::from(one == state));
        }
    }

    pub fn containers(&self, count: usize) {
        self.containers.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    pub fn sessions(&self, count: usize) {
        self.sessions.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    pub fn session_bytes(&self, bytes: usize) {
        self.session_bytes.inc_by(bytes as u64);
    }

    /// Counts one dropped message.
    pub fn dropped(&self) {
        self.dropped.inc();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_counted_once() {
        let (metrics, registry) = Metrics::new();
        let tally = Tally { accepted: 2, stale: 1, ..Tally::default() };
        metrics.orders(tally);
        metrics.orders(tally);
        metrics.engine(EngineState::Hung);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).expect("encodes");
        assert!(text.contains("deployd_agent_orders_total{decision=\"accepted\"} 2"), "{text}");
        assert!(text.contains("deployd_agent_engine_state{state=\"hung\"} 1"), "{text}");
    }
}
