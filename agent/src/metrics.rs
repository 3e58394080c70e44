//! What the agent counts, for `/metrics`.

use std::sync::atomic::AtomicU64;

use contract::report::EngineState;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::core::Tally;
use crate::core::io::{Action, ActionFailure, ContainerSeen};

/// The agent's figures; clones share them.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    orders: Family<Verdict, Counter<u64, AtomicU64>>,
    actions: Family<ActionEnd, Counter<u64, AtomicU64>>,
    engine: Family<EngineLabel, Gauge>,
    containers: Gauge,
    unsaid: Counter<u64, AtomicU64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Verdict {
    verdict: &'static str,
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
    /// The figures, and the registry that shows them.
    pub fn new() -> (Self, Registry) {
        let all = Self::default();
        let mut registry = Registry::with_prefix("deployd_agent");
        registry.register("orders", "Orders by what became of them", all.orders.clone());
        registry.register("steps", "Steps done with the engine, by kind and end", all.actions.clone());
        registry.register("engine_state", "1 for the state the engine is in", all.engine.clone());
        registry.register("containers", "Containers of this node", all.containers.clone());
        registry.register("unsaid", "Messages dropped because the bus did not take them", all.unsaid.clone());
        (all, registry)
    }

    /// Counts orders up to `tally`.
    pub fn orders(&self, tally: Tally) {
        let Tally { accepted, stale, conflict, failed, astray } = tally;
        let totals = [accepted, stale, conflict, failed, astray];
        for (verdict, total) in ["accepted", "stale", "conflict", "failed", "astray"].into_iter().zip(totals) {
            let counter = self.orders.get_or_create(&Verdict { verdict });
            counter.inc_by(total.saturating_sub(counter.get()));
        }
    }

    /// Counts one step.
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

    /// Counts one fetch of an image.
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

    /// Shows how the engine is.
    pub fn engine(&self, state: EngineState) {
        for (one, name) in [(EngineState::Up, "up"), (EngineState::Hung, "hung"), (EngineState::Down, "down")] {
            self.engine.get_or_create(&EngineLabel { state: name }).set(i64::from(one == state));
        }
    }

    /// Shows how many containers there are.
    pub fn containers(&self, count: usize) {
        self.containers.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Counts one message that was dropped.
    pub fn unsaid(&self) {
        self.unsaid.inc();
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
        assert!(text.contains("deployd_agent_orders_total{verdict=\"accepted\"} 2"), "{text}");
        assert!(text.contains("deployd_agent_engine_state{state=\"hung\"} 1"), "{text}");
    }
}
