//! Says what a release keeps to: instances that stay available and pods there may be.

use contract::rollout::StrategyType;
use planner::rollout::limits::RolloutLimits;

use super::Look;

impl Look<'_> {
    pub(super) fn limits(&self) -> RolloutLimits {
        let replicas = self.group.record.spec.num_instances;
        match self.strategy() {
            StrategyType::Serial => in_turns(replicas, 1),
            StrategyType::Batch | StrategyType::Beta => in_turns(replicas, self.largest_cut()),
            StrategyType::RollingUpdate | StrategyType::Recreate => self.budget,
        }
    }
}

/// As many at a time are replaced where they are.
fn in_turns(replicas: i64, count: i64) -> RolloutLimits {
    let unavailable = count.min(replicas);
    RolloutLimits {
        replicas,
        surge: 0,
        unavailable,
        min_available: replicas.saturating_sub(unavailable),
        max_total: replicas,
    }
}
