//! Random histories of groups that are scaled, divided over units, and short of room.

use proptest::prelude::*;

use super::histories::replacement;
use super::*;

property! {
    fn scaling_at_any_time_advances_no_unit_and_the_rollout_completes(
        sizes in prop::collection::vec(1..6usize, 1..4), steps in prop::collection::vec((1..6usize, 1..20i64), 1..5),
        is_batched: bool, surge in 0..3i64,
    ) {
        let strategy = if is_batched { confirmed(3, true) } else { rolling(surge, 1) };
        let mut cluster = RolloutCluster::settled(strategy, &sizes);
        (cluster.start, cluster.end) = (1, 1);
        cluster.roll_out(2);
        for (ticks, replicas) in steps {
            cluster.run(ticks);
            let before = cluster.decide().report.units;
            cluster.facts.replicas = replicas;
            let held = Control::Pause;
            cluster.say(held);
            let after = cluster.decide().report.units;
            for (before, after) in before.iter().zip(&after).filter(|(before, after)| is_batched && before.target > 0 && after.target > 0) {
                let drift = (after.updated * before.target - before.updated * after.target).abs();
                prop_assert!(drift <= before.target.max(after.target), "{before:?} became {after:?}");
            }
            cluster.say(Control::Resume);
        }
        for _ in 0..300 {
            let decision = cluster.decide_and_confirm();
            cluster.pass();
            if decision.actions.is_empty() && cluster.is_over() {
                break;
            }
        }
        prop_assert_eq!(cluster.decide().report.status, RolloutStatus::Complete);
        prop_assert_eq!(i64::try_from(cluster.facts.instances.len()).expect("few"), cluster.facts.replicas);
        prop_assert!(cluster.revisions().iter().all(|revision| *revision == 2));
    }

    fn moves_between_units_keep_the_desired_number_available(
        sizes in prop::collection::vec(0..6usize, 2..4), preferences in prop::collection::vec(prop::option::of(0..6i64), 2..4),
        is_batched: bool,
    ) {
        let strategy = if is_batched { batches(3, true) } else { rolling(1, 0) };
        let mut cluster = RolloutCluster::settled(strategy, &sizes);
        (cluster.start, cluster.end) = (2, 2);
        for (unit, preference) in cluster.facts.units.iter_mut().zip(&preferences) {
            unit.preference = preference.map(Amount::Count);
        }
        for _ in 0..60 {
            cluster.decide();
            prop_assert!(cluster.available() >= cluster.facts.replicas);
            cluster.pass();
        }
        let decision = cluster.decide();
        prop_assert_eq!(decision.actions, []);
        let targets = &cluster.facts.state.allotment.targets;
        if targets.iter().sum::<i64>() == cluster.facts.replicas {
            let there: Vec<i64> = (0..targets.len()).map(|at| i64::try_from(cluster.facts.instances.iter().filter(|instance| instance.unit == at).count()).expect("few")).collect();
            prop_assert_eq!(&there, targets);
        }
    }

    fn scaling_a_rolling_update_keeps_both_bounds(
        replicas in 1..12usize, surge in 0..60i64, unavailable in 0..60i64, replacement in replacement(),
        steps in prop::collection::vec((0..6usize, 0..14i64), 1..6), is_broken: bool, (start, end) in (0..3i64, 0..3i64),
    ) {
        let strategy = RolloutStrategy::Rolling { surge: Some(Amount::Percent(surge)), unavailable: Some(Amount::Percent(unavailable)) };
        let mut cluster = RolloutCluster::settled(strategy, &[replicas]);
        cluster.facts.units[0].name.clear();
        cluster.facts.settings.replacement = Some(replacement);
        (cluster.start, cluster.end) = (start, end);
        cluster.broken.extend(is_broken.then_some(2));
        cluster.roll_out(2);
        for (ticks, replicas) in steps {
            for _ in 0..ticks {
                cluster.decide();
                cluster.pass();
            }
            cluster.facts.replicas = replicas;
            let before = cluster.available();
            let strategy = crate::rollout::limits::Strategy::RollingUpdate {
                surge: Some(Amount::Percent(surge)), unavailable: Some(Amount::Percent(unavailable)),
            };
            let limits = RolloutLimits::of(strategy, replicas);
            let actions = cluster.decide().actions;
            let pods = i64::try_from(cluster.pods().count()).expect("few");
            let is_needed = cluster.available() <= limits.min_available;
            prop_assert!(pods <= limits.max_total || is_needed, "{pods} pods after {actions:?}");
            prop_assert!(cluster.available() >= before.min(limits.min_available) || cluster.mix().len() < 2, "{before} served, then {} after {actions:?}", cluster.available());
        }
        cluster.broken.clear();
        cluster.finish(300);
        prop_assert_eq!(cluster.decide().report.status, RolloutStatus::Complete);
        prop_assert!(cluster.revisions().iter().all(|revision| *revision == 2));
    }

    fn unschedulable_pods_move_to_units_with_room_and_the_rollout_completes(
        sizes in prop::collection::vec(1..5usize, 2..4), room in prop::collection::vec(0..5usize, 1..3),
        is_batched: bool, surge in 0..4i64, unavailable in 0..3i64,
    ) {
        let strategy = if is_batched { batches(surge.max(1), true) } else { rolling(surge, unavailable) };
        let mut cluster = RolloutCluster::settled(strategy, &sizes);
        cluster.facts.units.iter_mut().for_each(|unit| unit.preference = None);
        cluster.facts.settings.auto_reschedule =
            Some(AutoReschedule { delay: Duration::from_secs(2), fail_back: FailBack::Lazy });
        (cluster.start, cluster.end) = (1, 1);
        // The last unit has room for all pods; the others for at most those that run there.
        cluster.room = room.into_iter().take(sizes.len() - 1).map(Some).collect();
        cluster.roll_out(2);
        cluster.finish(400);
        let decision = cluster.decide();
        prop_assert_eq!(decision.report.status, RolloutStatus::Complete, "{:?}", cluster.facts);
        prop_assert!(cluster.revisions().iter().all(|revision| *revision == 2));
        let quota: i64 = cluster.facts.state.allotment.targets.iter().sum();
        prop_assert_eq!(quota, cluster.facts.replicas, "no quota was made or lost");
    }

    fn a_new_order_of_units_moves_no_instance(
        sizes in prop::collection::vec(1..5usize, 2..5), replicas in 1..16i64, ticks in 1..12usize, is_batched: bool,
        rotation in 1..4usize,
    ) {
        let strategy = if is_batched { confirmed(3, true) } else { rolling(2, 1) };
        let mut cluster = RolloutCluster::settled(strategy, &sizes);
        cluster.facts.units.iter_mut().for_each(|unit| unit.preference = None);
        cluster.facts.replicas = replicas;
        cluster.start = 1;
        cluster.run(20);
        cluster.roll_out(2).run(ticks);
        let committed = |cluster: &RolloutCluster| -> Vec<(String, i64)> {
            let mut by_name: Vec<(String, i64)> =
                cluster.facts.units.iter().map(|unit| unit.name.clone()).zip(cluster.facts.state.committed.clone()).collect();
            by_name.sort();
            by_name
        };
        while !cluster.decide().actions.is_empty() {}
        let before = committed(&cluster);
        cluster.rotate_units(rotation);
        prop_assert_eq!(cluster.decide().actions, []);
        prop_assert_eq!(committed(&cluster), before);
    }
}
