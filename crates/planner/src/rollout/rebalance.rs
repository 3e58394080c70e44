//! Decides the next step of moving pods between units while the total stays the same.
//!
//! Make before break: a unit below its target grows immediately, a unit above it shrinks only as far as enough pods are
//! available without it. 10 replicas, targets 8 and 2, now 5 and 5: first 8 and 5; when 6 of the 8 are available, 8 and 4;
//! when all are, 8 and 2. Unavailable surplus pods go immediately; the largest surplus shrinks first.

use std::cmp::Reverse;

use super::numbers::sum;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UnitPods {
    pub target: i64,
    /// Pods desired now.
    pub spec: i64,
    pub available: i64,
}

impl UnitPods {
    fn surplus(self) -> i64 {
        self.spec.saturating_sub(self.target).max(0)
    }
    /// a status that lags behind must not count pods that are no longer desired.
    fn counted(self) -> i64 {
        self.available.min(self.spec).max(0)
    }
}

/// The sizes that the units get now.
pub fn step(replicas: i64, units: &[UnitPods]) -> Vec<i64> {
    let mut spare = sum(units.iter().map(|unit| unit.counted())).saturating_sub(replicas).max(0);
    let mut sizes: Vec<i64> = units.iter().map(|unit| unit.spec.max(unit.target)).collect();
    let mut order: Vec<usize> = (0..units.len()).collect();
    order.sort_by_key(|&at| (Reverse(units[at].surplus()), at));
    for at in order {
        let unit = units[at];
        let idle = unit.surplus().min(unit.spec.saturating_sub(unit.counted())).max(0);
        let serving = (unit.surplus() - idle).min(spare);
        sizes[at] -= idle + serving;
        spare -= serving;
    }
    sizes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::rollout::properties::property;

    fn unit(target: i64, spec: i64, available: i64) -> UnitPods {
        UnitPods { target, spec, available }
    }

    fn any_unit() -> impl Strategy<Value = UnitPods> {
        (0..10i64, 0..10i64, 0..10i64).prop_map(|(target, spec, available)| unit(target, spec, available.min(spec)))
    }

    property! {
        fn a_step_keeps_as_many_available_as_are_wanted(units in prop::collection::vec(any_unit(), 1..6)) {
            let replicas = sum(units.iter().map(|unit| unit.target));
            let before = sum(units.iter().map(|unit| unit.available));
            let sizes = step(replicas, &units);
            let after = sum(units.iter().zip(&sizes).map(|(unit, size)| unit.available.min(*size)));
            prop_assert!(after >= before.min(replicas));
            prop_assert!(units.iter().zip(&sizes).all(|(unit, size)| *size >= unit.target));
        }

        fn once_everything_is_available_the_targets_are_reached(units in prop::collection::vec(any_unit(), 1..6)) {
            let replicas = sum(units.iter().map(|unit| unit.target));
            let grown: Vec<UnitPods> = units.iter().zip(step(replicas, &units))
                .map(|(unit, size)| UnitPods { spec: size, available: size, ..*unit }).collect();
            let targets: Vec<i64> = units.iter().map(|unit| unit.target).collect();
            prop_assert_eq!(step(replicas, &grown), targets);
        }

        fn no_rebalance_overflows(replicas: i64, target: i64, spec: i64, available: i64) {
            step(replicas, &[unit(target, spec, available), unit(spec, available, target), unit(i64::MIN, i64::MAX, 0)]);
        }
    }
}
