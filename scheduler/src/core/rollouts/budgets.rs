//! Says what a release keeps to: instances that stay available and pods there may be.

use contract::rollout::{Amount, StrategyType};
use planner::group::inplace::{Way, update_way};
use planner::rollout::limits::{Limits, Strategy, USUAL_BUDGET};

use super::Look;

impl Look<'_> {
    pub(super) fn limits(&self) -> Limits {
        let spec = &self.group.record.spec;
        let replicas = spec.num_instances;
        let strategy = spec.strategy.clone().unwrap_or_default();
        match self.strategy() {
            StrategyType::Serial => in_turns(replicas, 1),
            StrategyType::Recreate => Limits::of(Strategy::Recreate, replicas),
            StrategyType::Batch | StrategyType::Beta => in_turns(replicas, self.largest_cut()),
            StrategyType::RollingUpdate => {
                let surge = strategy.max_surge.unwrap_or(USUAL_BUDGET);
                let surge = if self.has_no_second_pods() { Amount::Count(0) } else { surge };
                let unavailable = Some(strategy.max_unavailable.unwrap_or(USUAL_BUDGET));
                Limits::of(Strategy::RollingUpdate { surge: Some(surge), unavailable }, replicas)
            }
        }
    }

    /// Two pods cannot share data, nor an address.
    fn has_no_second_pods(&self) -> bool {
        let record = &self.group.record;
        let before = record.proven.and_then(|proven| record.former.get(&proven));
        let is_in_place =
            before.is_some_and(|before| match update_way(record.spec.update_policy, before, &record.spec.pod) {
                Way::Live | Way::SameAddress => true,
                Way::Anew | Way::Refused { .. } => false,
            });
        record.spec.pod.is_stateful() || is_in_place
    }
}

/// As many at a time are replaced where they are.
fn in_turns(replicas: i64, count: i64) -> Limits {
    let unavailable = count.min(replicas);
    Limits { replicas, surge: 0, unavailable, min_available: replicas.saturating_sub(unavailable), max_total: replicas }
}
