//! Decides how many pods a rollout may add and take away at a time.
//!
//! maxSurge is rounded up and maxUnavailable is rounded down: 25% each of 10 replicas are 3 and 2, so at least 8 pods stay
//! available and at most 13 exist; 25% each of 3 replicas are 1 and 0. The API rejects an explicit 0/0. Percentages that both
//! round to 0 are accepted, and then one pod may be unavailable: 0% and 1% of 10 replicas are 0 and 1.

pub use contract::rollout::PodReplacement;

use super::numbers::{Amount, sum};

/// maxSurge and maxUnavailable of a rolling update whose spec leaves them out.
pub const USUAL_BUDGET: Amount = Amount::Percent(25);

/// How pods of one revision replace those of another, as far as counts are concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    /// `None` is 0.
    RollingUpdate { surge: Option<Amount>, unavailable: Option<Amount> },
    /// The last old pod is gone before the first new one starts. Rollouts by batches use these limits too: the batch is the
    /// limit.
    Recreate,
}

/// maxSurge and maxUnavailable as counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    pub surge: i64,
    pub unavailable: i64,
}

/// The bounds that a rollout keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RolloutLimits {
    pub replicas: i64,
    pub surge: i64,
    pub unavailable: i64,
    /// `replicas - unavailable`.
    pub min_available: i64,
    /// `replicas + surge`.
    pub max_total: i64,
}

/// Resolves both budgets against the desired replicas. 39% of 10 are a surge of 4 and an unavailability of 3.
pub fn resolve_budget(surge: Option<Amount>, unavailable: Option<Amount>, desired: i64) -> Budget {
    let surge = surge.map_or(0, |amount| amount.rounded_up(desired));
    let unavailable = unavailable.map_or(0, |amount| amount.rounded_down(desired));
    // A rollout that may neither add nor remove a pod would never progress.
    Budget { surge, unavailable: if surge == 0 && unavailable == 0 { 1 } else { unavailable } }
}

impl RolloutLimits {
    /// 10 replicas, maxSurge 3, maxUnavailable 2: at least 8 available, at most 13 pods.
    pub fn of(strategy: Strategy, replicas: i64) -> Self {
        match strategy {
            Strategy::Recreate => Self { replicas, surge: 0, unavailable: 0, min_available: 0, max_total: replicas },
            Strategy::RollingUpdate { surge, unavailable } => {
                let budget = resolve_budget(surge, unavailable, replicas);
                // With 0 replicas nothing may be unavailable, although the budget is at least 1.
                let unavailable = budget.unavailable.min(replicas);
                Self {
                    replicas,
                    surge: budget.surge,
                    unavailable,
                    min_available: replicas.saturating_sub(unavailable),
                    max_total: sum([replicas, budget.surge]),
                }
            }
        }
    }
}

/// Until when a terminating pod counts, if the spec leaves it out: until it is gone where there is no room for two pods,
/// else only until its termination starts.
pub fn default_replacement(strategy: Strategy, limits: &RolloutLimits) -> PodReplacement {
    if limits.surge == 0 || strategy == Strategy::Recreate { PodReplacement::Complete } else { PodReplacement::Started }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Strategy, *};
    use crate::rollout::properties::property;

    fn rolling(surge: Amount, unavailable: Amount) -> Strategy {
        Strategy::RollingUpdate { surge: Some(surge), unavailable: Some(unavailable) }
    }

    #[test]
    fn terminating_pods_count_where_there_is_no_room_for_two() {
        let default_for = |strategy| default_replacement(strategy, &RolloutLimits::of(strategy, 4));
        let surging = rolling(Amount::Count(1), Amount::Count(0));
        assert_eq!(default_for(surging), PodReplacement::Started);
        assert_eq!(default_for(rolling(Amount::Count(0), Amount::Count(1))), PodReplacement::Complete);
        assert_eq!(default_for(Strategy::Recreate), PodReplacement::Complete);
    }

    fn any_budget() -> impl proptest::strategy::Strategy<Value = Option<Amount>> {
        use proptest::strategy::Strategy as _;

        prop::option::of(prop_oneof![(0..50i64).prop_map(Amount::Count), (0..=150i64).prop_map(Amount::Percent)])
    }

    property! {
        fn something_may_always_move_and_the_bounds_enclose_the_replicas(
            surge in 0..200i64, unavailable in 0..=100i64, replicas in 1..1_000i64,
        ) {
            let limits = RolloutLimits::of(rolling(Amount::Percent(surge), Amount::Percent(unavailable)), replicas);
            prop_assert!(limits.max_total > limits.min_available);
            prop_assert!((0..=replicas).contains(&limits.min_available));
            prop_assert!(limits.max_total >= replicas);
        }

        fn the_budgets_are_never_both_zero(surge in any_budget(), unavailable in any_budget(), desired in 0..10_000i64) {
            let posts = resolve_budget(surge, unavailable, desired);
            prop_assert!(posts.surge > 0 || posts.unavailable > 0);
            let limits = RolloutLimits::of(Strategy::RollingUpdate { surge, unavailable }, desired);
            prop_assert!(limits.max_total > limits.min_available || desired == 0);
            prop_assert!((0..=desired).contains(&limits.min_available));
        }
    }
}
