//! Decides how many pods a release may add and take away at a time (section 1).
//!
//! Admission and resolution are two questions: an explicit 0/0 is rejected when it is asked for, but percentages that both
//! round to zero are not anybody's mistake, and then one pod may be unavailable, since surge may be impossible.

pub use contract::rollout::PodReplacement;

use super::numbers::{Amount, sum};

/// Surge and unavailability of a rolling update that does not say.
pub const USUAL_BUDGET: Amount = Amount::Percent(25);

/// How a set is replaced by another, as far as counts go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    /// Within budgets.
    RollingUpdate {
        /// How many more than desired there may be; missing is none.
        surge: Option<Amount>,
        /// How many of the desired may be missing; missing is none.
        unavailable: Option<Amount>,
    },
    /// All old pods go before a new one comes.
    Recreate,
}

/// The two budgets as counts, before they are held against the desired replicas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Rounded up.
    pub surge: i64,
    /// Rounded down.
    pub unavailable: i64,
}

/// What a rollout really keeps to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RolloutLimits {
    /// Pods wanted.
    pub replicas: i64,
    /// How many more there may be.
    pub surge: i64,
    /// How many of them may be missing.
    pub unavailable: i64,
    /// Pods that must stay available.
    pub min_available: i64,
    /// Pods there may be at most.
    pub max_total: i64,
}

/// Resolves the budgets against the desired replicas.
pub fn resolve_budget(surge: Option<Amount>, unavailable: Option<Amount>, desired: i64) -> Budget {
    let surge = surge.map_or(0, |amount| amount.rounded_up(desired));
    let unavailable = unavailable.map_or(0, |amount| amount.rounded_down(desired));
    // "Both zero after rounding": a rollout that may do neither would never move.
    Budget { surge, unavailable: if surge == 0 && unavailable == 0 { 1 } else { unavailable } }
}

impl RolloutLimits {
    /// The limits of a strategy at a number of replicas.
    pub fn of(strategy: Strategy, replicas: i64) -> Self {
        match strategy {
            Strategy::Recreate => Self { replicas, surge: 0, unavailable: 0, min_available: 0, max_total: replicas },
            Strategy::RollingUpdate { surge, unavailable } => {
                let posts = resolve_budget(surge, unavailable, replicas);
                // At zero replicas this is zero although the both-zero rule says one.
                let unavailable = posts.unavailable.min(replicas);
                Self {
                    replicas,
                    surge: posts.surge,
                    unavailable,
                    min_available: replicas.saturating_sub(unavailable),
                    max_total: sum([replicas, posts.surge]),
                }
            }
        }
    }
}

/// When a pod that goes stops counting, for a group that does not say (D-3).
pub fn default_replacement(strategy: Strategy, limits: &RolloutLimits, keeps_addresses: bool) -> PodReplacement {
    if limits.surge == 0 || keeps_addresses || strategy == Strategy::Recreate {
        PodReplacement::Complete
    } else {
        PodReplacement::Started
    }
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
    fn the_table_of_section_1() {
        let resolved = |desired, surge, unavailable| {
            let limits = RolloutLimits::of(rolling(Amount::Percent(surge), Amount::Percent(unavailable)), desired);
            (limits.surge, limits.unavailable, limits.min_available, limits.max_total)
        };
        assert_eq!(resolved(10, 25, 25), (3, 2, 8, 13));
        assert_eq!(resolved(3, 25, 25), (1, 0, 3, 4));
        assert_eq!(resolved(1, 25, 25), (1, 0, 1, 2));
        assert_eq!(resolved(2, 0, 1), (0, 1, 1, 2));
        assert_eq!(resolved(15, 25, 25), (4, 3, 12, 19));
        assert_eq!(resolved(0, 0, 0), (0, 0, 0, 0), "nothing wanted: nothing may be missing");
    }

    #[test]
    fn a_missing_budget_is_zero() {
        assert_eq!(resolve_budget(None, None, 10), Budget { surge: 0, unavailable: 1 });
        assert_eq!(resolve_budget(Some(Amount::Percent(39)), None, 10), Budget { surge: 4, unavailable: 0 });
        assert_eq!(resolve_budget(None, Some(Amount::Percent(39)), 10), Budget { surge: 0, unavailable: 3 });
    }

    #[test]
    fn pods_that_leave_count_where_there_is_no_room_for_two() {
        let default_for = |strategy, keeps| default_replacement(strategy, &RolloutLimits::of(strategy, 4), keeps);
        let surging = rolling(Amount::Count(1), Amount::Count(0));
        assert_eq!(default_for(surging, false), PodReplacement::Started);
        assert_eq!(default_for(surging, true), PodReplacement::Complete);
        assert_eq!(default_for(rolling(Amount::Count(0), Amount::Count(1)), false), PodReplacement::Complete);
        assert_eq!(default_for(Strategy::Recreate, false), PodReplacement::Complete);
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
