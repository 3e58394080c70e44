//! Rolling updates, by example and over random histories.

use proptest::prelude::*;

use super::*;
use crate::rollout::limits::Strategy;
use crate::rollout::numbers::Amount;
use crate::rollout::properties::property;

fn limits(replicas: i64, surge: i64, unavailable: i64) -> RolloutLimits {
    let strategy =
        Strategy::RollingUpdate { surge: Some(Amount::Count(surge)), unavailable: Some(Amount::Count(unavailable)) };
    RolloutLimits::of(strategy, replicas)
}

fn size(spec: i64, available: i64) -> SetSize {
    SetSize { spec, available }
}

/// `old`: oldest first.
fn sets(new: SetSize, old: &[SetSize]) -> Sets {
    Sets { new, old: old.to_vec(), terminating: 0 }
}

/// The states `(old, new)` in which a rollout waits for pods, when all new pods become available while it waits (`healthy`)
/// or none ever does.
fn resting_states(limits: &RolloutLimits, old: i64, healthy: bool, most: usize) -> Vec<(i64, i64)> {
    let mut states = Vec::new();
    let mut now = sets(size(0, 0), &[size(old, old)]);
    while states.len() < most {
        loop {
            match step(limits, &now) {
                RollingStep::Nothing => break,
                RollingStep::ScaleNew(spec) => now.new.spec = spec,
                RollingStep::ScaleOld { sizes, .. } => now.old = sizes.iter().map(|spec| size(*spec, *spec)).collect(),
            }
        }
        let state = (sum(now.old.iter().map(|set| set.spec)), now.new.spec);
        if states.last() == Some(&state) {
            break;
        }
        states.push(state);
        if !healthy {
            break;
        }
        now.new.available = now.new.spec;
    }
    states
}

/// The sets after a step: a set removes unavailable pods first.
fn apply(sets: &Sets, step: &RollingStep) -> Sets {
    let mut after = sets.clone();
    match step {
        RollingStep::Nothing => {}
        RollingStep::ScaleNew(spec) => after.new = size(*spec, sets.new.available).clamped(),
        RollingStep::ScaleOld { sizes, .. } => {
            for (set, spec) in after.old.iter_mut().zip(sizes) {
                *set = size(*spec, set.available).clamped();
            }
        }
    }
    after
}

fn available(sets: &Sets) -> i64 {
    sum(sets.old.iter().map(|set| set.available).chain([sets.new.available]))
}

prop_compose! {
    fn any_size()(spec in 0..12i64)(spec in Just(spec), available in 0..=spec) -> SetSize {
        size(spec, available)
    }
}

prop_compose! {
    fn any_sets()(new in any_size(), old in prop::collection::vec(any_size(), 0..4)) -> Sets {
        Sets { new, old, terminating: 0 }
    }
}

property! {
    fn a_step_keeps_the_limits(
        sets in any_sets(), replicas in 0..12i64, surge in 0..5i64, unavailable in 0..5i64,
    ) {
        let limits = limits(replicas, surge, unavailable);
        let step = step(&limits, &sets);
        let after = apply(&sets, &step);
        prop_assert!(after.total() <= sets.total().max(limits.max_total), "never above maxTotal");
        if sets.new.spec <= replicas {
            prop_assert!(available(&after) >= available(&sets).min(limits.min_available), "never below because of us");
        }
        if let RollingStep::ScaleOld { cleaned, downed, .. } = step {
            let budget = sets.total() - limits.min_available - sets.new.unavailable();
            prop_assert!(cleaned + downed <= budget, "the identity of R-34");
            prop_assert!(cleaned + downed > 0);
        }
    }

    fn a_healthy_version_reaches_every_pod_and_a_broken_one_leaves_enough(
        replicas in 0..40i64, surge in 0..10i64, unavailable in 0..10i64, start in 0..60i64,
    ) {
        let limits = limits(replicas, surge, unavailable);
        let states = resting_states(&limits, start, true, 1_000);
        prop_assert_eq!(states.last(), Some(&(0, replicas)));
        for (old, new) in resting_states(&limits, start, false, 1_000) {
            prop_assert!(old >= limits.min_available.min(start));
            prop_assert!(old + new <= limits.max_total.max(start));
        }
    }

    fn a_rollout_with_failing_pods_converges_once_they_recover(
        sets in any_sets(), replicas in 0..12i64, surge in 0..5i64, unavailable in 0..5i64,
    ) {
        let limits = limits(replicas, surge, unavailable);
        let mut sets = sets;
        for _ in 0..200 {
            let next = step(&limits, &sets);
            if next == RollingStep::Nothing {
                sets.new.available = sets.new.spec;
            }
            sets = apply(&sets, &next);
        }
        prop_assert_eq!(sets.new, size(replicas, replicas));
        prop_assert_eq!(sets.total(), replicas);
    }

    fn no_rolling_step_overflows(spec: i64, available: i64, replicas: i64, surge: i64, unavailable: i64) {
        let odd = sets(size(spec, available), &[size(available, spec), size(spec, available)]);
        let limits = limits(replicas, surge, unavailable);
        step(&limits, &odd);
        step(&limits, &odd.clamped());
    }
}
