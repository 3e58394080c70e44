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

#[test]
fn the_traces_of_r_35() {
    let trace =
        |replicas, surge, unavailable| resting_states(&limits(replicas, surge, unavailable), replicas, true, 60);
    assert_eq!(trace(10, 3, 2), [(8, 5), (3, 10), (0, 10)]);
    assert_eq!(trace(3, 1, 0), [(3, 1), (2, 2), (1, 3), (0, 3)]);
    assert_eq!(trace(3, 0, 1), [(2, 1), (1, 2), (0, 3)]);
    assert_eq!(trace(4, 4, 0), [(4, 4), (0, 4)]);
    assert_eq!(trace(4, 0, 4), [(0, 4)]);
    assert_eq!(trace(0, 1, 0), [(0, 0)]);
    assert_eq!(resting_states(&limits(10, 3, 2), 10, false, 60), [(8, 5)]);
    assert_eq!(resting_states(&limits(1_000_000, 1, 0), 1_000_000, true, 60).len(), 60);
}

#[test]
fn a_crash_loop_freezes_and_an_undo_removes_the_crash_loopers() {
    let limits = limits(10, 3, 2);
    assert_eq!(step(&limits, &sets(size(5, 0), &[size(8, 7)])), RollingStep::Nothing);
    // Undo: the good set is the new set now.
    assert_eq!(
        step(&limits, &sets(size(8, 7), &[size(5, 0)])),
        RollingStep::ScaleOld { sizes: vec![1], cleaned: 4, downed: 0 }
    );
    assert_eq!(step(&limits, &sets(size(8, 7), &[size(1, 0)])), RollingStep::ScaleNew(10));
}

#[test]
fn a_roll_over_takes_the_unhealthy_of_all_old_sets_first() {
    let both = [size(8, 7), size(5, 0)];
    let limits = limits(10, 3, 2);
    assert_eq!(
        step(&limits, &sets(size(0, 0), &both)),
        RollingStep::ScaleOld { sizes: vec![7, 1], cleaned: 5, downed: 0 }
    );
    assert_eq!(step(&limits, &sets(size(0, 0), &[size(7, 7), size(1, 0)])), RollingStep::ScaleNew(5));
}

#[test]
fn the_oldest_set_gives_up_its_unavailable_pods_first() {
    let two_sets = [size(2, 0), size(2, 0)];
    assert_eq!(clean_unhealthy(&two_sets, 3), Removal { sizes: vec![0, 1], removed: 3 });
    assert_eq!(clean_unhealthy(&two_sets, -1), Removal { sizes: vec![2, 2], removed: 0 });
}

#[test]
fn a_new_set_that_is_too_large_shrinks_to_what_is_wanted() {
    assert_eq!(step(&limits(10, 2, 0), &sets(size(11, 11), &[size(2, 2)])), RollingStep::ScaleNew(10));
}

#[test]
fn a_lagging_status_takes_five_old_pods_unless_it_is_clamped() {
    let lagging = sets(size(4, 8), &[size(6, 6)]);
    let limits = limits(10, 0, 1);
    assert_eq!(step(&limits, &lagging), RollingStep::ScaleOld { sizes: vec![1], cleaned: 0, downed: 5 });
    assert_eq!(step(&limits, &lagging.clamped()), RollingStep::ScaleOld { sizes: vec![5], cleaned: 0, downed: 1 });
    // More available than desired pods are no reason to grow an old set.
    assert_eq!(clean_unhealthy(&[size(2, 5)], 3), Removal { sizes: vec![2], removed: 0 });
}

#[test]
fn terminating_pods_that_count_hold_growth_back() {
    let leaving = Sets { terminating: 1, ..sets(size(0, 0), &[size(3, 3)]) };
    assert_eq!(step(&limits(4, 0, 1), &leaving), RollingStep::Nothing);
    assert_eq!(step(&limits(4, 0, 1), &Sets { terminating: 0, ..leaving }), RollingStep::ScaleNew(1));
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
