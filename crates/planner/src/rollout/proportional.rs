//! Decides the sizes of the sets when a group is scaled during a rollout or a pause.
//!
//! A set is the pods of one revision. Scaling must not advance the rollout, so each set keeps its share of the total: sets of 3
//! and 2 pods, scaled from 5 to 10 replicas, get 6 and 4. The share is relative to the largest total at the last scaling, which
//! the rollout stores. Shares are not clamped by sign: a set whose stored numbers are outdated may grow while the total shrinks;
//! the largest set then gives up the difference.

use std::cmp::Reverse;

use serde::{Deserialize, Serialize};

use super::limits::{RolloutLimits, Strategy};
use super::numbers::{rounded_half_away, sum};

/// What the sets were last scaled for; distinguishes scaling from rolling.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScaledFor {
    pub desired: Option<i64>,
    /// `RolloutLimits::max_total` at that time.
    pub max: Option<i64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScaledSet {
    /// It runs the template of the group. Of several, the oldest is the new set.
    pub is_new: bool,
    /// Desired pods.
    pub spec: i64,
    pub available: i64,
    pub stored: ScaledFor,
}

impl ScaledSet {
    fn is_active(&self) -> bool {
        self.spec > 0
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScaleTarget {
    /// The limits at the new number of replicas.
    pub limits: RolloutLimits,
    /// Pods of the group now, used when no `max` is stored.
    pub seen: i64,
}

/// What is stored after a scaling, even when no size changed.
pub fn stored(limits: &RolloutLimits) -> ScaledFor {
    ScaledFor { desired: Some(limits.replicas), max: Some(limits.max_total) }
}

/// The new sizes. Both the sets and the sizes are sorted oldest first.
pub fn scale(strategy: Strategy, wanted: &ScaleTarget, sets: &[ScaledSet]) -> Vec<i64> {
    let mut sizes: Vec<i64> = sets.iter().map(|set| set.spec).collect();
    let newest = (0..sets.len()).find(|&at| sets[at].is_new);
    let active: Vec<usize> = (0..sets.len()).filter(|&at| sets[at].is_active()).collect();
    let replicas = wanted.limits.replicas;
    if active.len() <= 1 {
        let latest = || sets.len().checked_sub(1);
        if let Some(only) = active.first().copied().or(newest).or_else(latest) {
            sizes[only] = replicas;
        }
    } else if let Some(new) = newest.filter(|&at| is_saturated(&sets[at], replicas)) {
        for at in active.into_iter().filter(|at| *at != new) {
            sizes[at] = 0;
        }
    } else if matches!(strategy, Strategy::RollingUpdate { .. }) {
        divide(wanted, sets, active, &mut sizes);
    }
    sizes
}

/// Only a new set that is complete *and available* ends the old ones; otherwise a broken revision at full size would remove the
/// last healthy pods.
fn is_saturated(set: &ScaledSet, replicas: i64) -> bool {
    set.spec == replicas && set.stored.desired == Some(replicas) && set.available == replicas
}

fn divide(wanted: &ScaleTarget, sets: &[ScaledSet], mut active: Vec<usize>, sizes: &mut [i64]) {
    let allowed = if wanted.limits.replicas > 0 { wanted.limits.max_total } else { 0 };
    let add = allowed.saturating_sub(sum(active.iter().map(|&at| sets[at].spec)));
    if add == 0 {
        return;
    }
    if add > 0 {
        active.sort_by_key(|&at| (Reverse(sets[at].spec), Reverse(at)));
    } else {
        active.sort_by_key(|&at| (Reverse(sets[at].spec), at));
    }
    let mut left = add;
    for &at in &active {
        if left == 0 {
            break;
        }
        let part = fraction(wanted, sets[at].spec, sets[at].stored.max);
        let part = if add > 0 { part.min(left) } else { part.max(left) };
        sizes[at] = sum([sets[at].spec, part]);
        left = left.saturating_sub(part);
    }
    if let Some(&largest) = active.first() {
        sizes[largest] = sum([sizes[largest], left]).max(0);
    }
}

/// The pods that a set gains (or loses, if negative) to keep its share of the total.
pub fn fraction(wanted: &ScaleTarget, spec: i64, stored_max: Option<i64>) -> i64 {
    if wanted.limits.replicas == 0 {
        return spec.saturating_neg();
    }
    match stored_max.filter(|max| *max != 0).unwrap_or(wanted.seen) {
        0 => 0,
        before => rounded_half_away(i128::from(spec) * i128::from(wanted.limits.max_total), i128::from(before))
            .saturating_sub(spec),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Strategy, *};
    use crate::rollout::numbers::Amount;
    use crate::rollout::properties::property;

    const ROLLING: Strategy = Strategy::RollingUpdate { surge: None, unavailable: None };

    fn wanted(replicas: i64, surge: i64) -> ScaleTarget {
        let strategy = Strategy::RollingUpdate { surge: Some(Amount::Count(surge)), unavailable: None };
        ScaleTarget { limits: RolloutLimits::of(strategy, replicas), seen: 0 }
    }

    /// Sets of these sizes, oldest first; the last one is the new set.
    fn sets(specs: &[i64], max: i64) -> Vec<ScaledSet> {
        let set = |(at, spec): (usize, &i64)| ScaledSet {
            is_new: at + 1 == specs.len(),
            spec: *spec,
            available: 0,
            stored: ScaledFor { desired: None, max: Some(max) },
        };
        specs.iter().enumerate().map(set).collect()
    }

    property! {
        fn with_numbers_of_the_last_scaling_the_sizes_sum_up_to_what_is_allowed(
            specs in prop::collection::vec(1..20i64, 2..5), replicas in 0..60i64, surge in 0..5i64,
        ) {
            let total = specs.iter().sum();
            let wanted = wanted(replicas, surge);
            let sizes = scale(ROLLING, &wanted, &sets(&specs, total));
            prop_assert!(sizes.iter().all(|size| *size >= 0));
            prop_assert_eq!(sum(sizes), if replicas == 0 { 0 } else { wanted.limits.max_total });
        }

        fn no_scaling_overflows(specs in prop::collection::vec(any::<i64>(), 0..4), max: i64, replicas: i64, surge: i64) {
            scale(ROLLING, &wanted(replicas, surge), &sets(&specs, max));
        }

        fn every_set_keeps_its_part_and_the_largest_takes_the_rest(
            specs in prop::collection::vec(1..20i64, 2..5), replicas in 1..60i64, surge in 0..5i64,
        ) {
            let total: i64 = specs.iter().sum();
            let wanted = wanted(replicas, surge);
            let sizes = scale(ROLLING, &wanted, &sets(&specs, total));
            let add = wanted.limits.max_total - total;
            let largest = specs.iter().max().copied().unwrap_or(0);
            for (size, spec) in sizes.iter().zip(&specs) {
                prop_assert!((size - spec) * add.signum() >= 0, "none goes against the whole: {specs:?} to {sizes:?}");
                let off = (size * total - spec * wanted.limits.max_total).abs();
                // Each set before may have taken up to half a pod too much by rounding.
                let most = i64::try_from(specs.len()).expect("few") * total / 2;
                prop_assert!(off <= most || *spec == largest, "{specs:?} to {sizes:?}");
            }
        }
    }
}
