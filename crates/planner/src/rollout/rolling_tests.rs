//! What a rolling update may and may not do, by example and over random histories.

use proptest::prelude::*;

use super::{Strategy, *};
use crate::rollout::numbers::Amount;
use crate::rollout::properties::property;

fn limits(replicas: i64, surge: i64, unavailable: i64) -> Limits {
    let strategy =
        Strategy::RollingUpdate { surge: Some(Amount::Count(surge)), unavailable: Some(Amount::Count(unavailable)) };
    Limits::of(strategy, replicas)
}

fn size(spec: i64, available: i64) -> Size {
    Size { spec, available }
}

fn old(name: &str, created: i64, spec: i64, available: i64) -> OldSet {
    OldSet { name: name.to_owned(), created: Moment::from_secs(created), size: size(spec, available) }
}

fn sets(new: Size, old: &[OldSet]) -> Sets {
    Sets { new, old: old.to_vec(), terminating: 0 }
}

#[test]
fn the_traces_of_section_2_5() {
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
    assert_eq!(step(&limits, &sets(size(5, 0), &[old("good", 0, 8, 7)])), Step::Nothing);
    // Undo: the good set is the new one now.
    assert_eq!(
        step(&limits, &sets(size(8, 7), &[old("bad", 1, 5, 0)])),
        Step::ScaleOld { sizes: vec![1], cleaned: 4, downed: 0 }
    );
    assert_eq!(step(&limits, &sets(size(8, 7), &[old("bad", 1, 1, 0)])), Step::ScaleNew(10));
}

#[test]
fn a_roll_over_takes_the_unhealthy_of_all_old_sets_first() {
    let both = [old("broken", 1, 5, 0), old("oldest", 0, 8, 7)];
    let limits = limits(10, 3, 2);
    assert_eq!(step(&limits, &sets(size(0, 0), &both)), Step::ScaleOld { sizes: vec![1, 7], cleaned: 5, downed: 0 });
    assert_eq!(step(&limits, &sets(size(0, 0), &[old("broken", 1, 1, 0), old("oldest", 0, 7, 7)])), Step::ScaleNew(5));
}

#[test]
fn sets_of_one_age_give_up_pods_in_the_order_of_their_names() {
    let duplicate_agents = [old("b", 0, 2, 0), old("a", 0, 2, 0)];
    assert_eq!(clean_unhealthy(&duplicate_agents, 3), Removal { sizes: vec![1, 0], removed: 3 });
    assert_eq!(clean_unhealthy(&duplicate_agents, -1), Removal { sizes: vec![2, 2], removed: 0 });
}

#[test]
fn a_new_set_that_is_too_large_shrinks_to_what_is_wanted() {
    assert_eq!(step(&limits(10, 2, 0), &sets(size(11, 11), &[old("old", 0, 2, 2)])), Step::ScaleNew(10));
}

#[test]
fn a_lagging_status_takes_five_old_pods_unless_it_is_clamped() {
    let lagging = sets(size(4, 8), &[old("old", 0, 6, 6)]);
    let limits = limits(10, 0, 1);
    assert_eq!(step(&limits, &lagging), Step::ScaleOld { sizes: vec![1], cleaned: 0, downed: 5 });
    assert_eq!(step(&limits, &lagging.clamped()), Step::ScaleOld { sizes: vec![5], cleaned: 0, downed: 1 });
    // More available than asked for is no reason to add pods to an old set.
    assert_eq!(clean_unhealthy(&[old("old", 0, 2, 5)], 3), Removal { sizes: vec![2], removed: 0 });
}

#[test]
fn pods_on_their_way_out_hold_growth_back_where_they_count() {
    let leaving = Sets { terminating: 1, ..sets(size(0, 0), &[old("old", 0, 3, 3)]) };
    assert_eq!(step(&limits(4, 0, 1), &leaving), Step::Nothing);
    assert_eq!(step(&limits(4, 0, 1), &Sets { terminating: 0, ..leaving }), Step::ScaleNew(1));
}

/// What is available after a step: a set removes pods that are not available first (section 3.4).
fn apply(sets: &Sets, step: &Step) -> Sets {
    let mut after = sets.clone();
    match step {
        Step::Nothing => {}
        Step::ScaleNew(spec) => after.new = size(*spec, sets.new.available).clamped(),
        Step::ScaleOld { sizes, .. } => {
            for (set, spec) in after.old.iter_mut().zip(sizes) {
                set.size = size(*spec, set.size.available).clamped();
            }
        }
    }
    after
}

fn available(sets: &Sets) -> i64 {
    sum(sets.old.iter().map(|set| set.size.available).chain([sets.new.available]))
}

prop_compose! {
    fn any_size()(spec in 0..12i64)(spec in Just(spec), available in 0..=spec) -> Size {
        size(spec, available)
    }
}

prop_compose! {
    fn any_sets()(new in any_size(), olds in prop::collection::vec((any_size(), 0..4i64), 0..4)) -> Sets {
        let old = |(at, (size, created)): (usize, (Size, i64))| OldSet {
            name: format!("o{at}"), created: Moment::from_secs(created), size,
        };
        Sets { new, old: olds.into_iter().enumerate().map(old).collect(), terminating: 0 }
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
        if let Step::ScaleOld { cleaned, downed, .. } = step {
            let budget = sets.total() - limits.min_available - sets.new.unavailable();
            prop_assert!(cleaned + downed <= budget, "the identity of section 2.4");
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
            if next == Step::Nothing {
                sets.new.available = sets.new.spec;
            }
            sets = apply(&sets, &next);
        }
        prop_assert_eq!(sets.new, size(replicas, replicas));
        prop_assert_eq!(sets.total(), replicas);
    }

    fn no_set_is_too_large_to_roll(spec: i64, available: i64, replicas: i64, surge: i64, unavailable: i64) {
        let odd = sets(size(spec, available), &[old("a", 0, available, spec), old("b", 0, spec, available)]);
        let limits = limits(replicas, surge, unavailable);
        step(&limits, &odd);
        step(&limits, &odd.clamped());
    }
}
