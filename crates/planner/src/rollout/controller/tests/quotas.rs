//! Random histories of groups that are scaled, divided over units, and short of room.

use std::time::Duration;

use proptest::prelude::*;

use super::histories::{is_over, replacement};
use super::world::{World, grouped, rolling};
use crate::rollout::controller::{AutoReschedule, Control, FailBack, Grouped, RolloutStatus, Style};
use crate::rollout::limits::Limits;
use crate::rollout::numbers::Amount;
use crate::rollout::properties::property;

property! {
    fn scaling_at_any_time_moves_no_unit_along_and_everything_ends(
        sizes in prop::collection::vec(1..6usize, 1..4), steps in prop::collection::vec((1..6usize, 1..20i64), 1..5),
        by_groups: bool, surge in 0..3i64,
    ) {
        let style = if by_groups { Style::Groups(Grouped { needs_confirm: true, ..grouped(3, true) }) } else { rolling(surge, 1) };
        let mut world = World::settled(style, &sizes);
        (world.start, world.end) = (1, 1);
        world.release(2);
        for (ticks, replicas) in steps {
            world.run(ticks);
            let before = world.decide().report.units;
            world.facts.replicas = replicas;
            let held = Control::Pause;
            world.say(held);
            let after = world.decide().report.units;
            for (before, after) in before.iter().zip(&after).filter(|(before, after)| by_groups && before.target > 0 && after.target > 0) {
                let drift = (after.updated * before.target - before.updated * after.target).abs();
                prop_assert!(drift <= before.target.max(after.target), "{before:?} became {after:?}");
            }
            world.say(Control::Resume);
        }
        for _ in 0..300 {
            let decision = world.decide();
            if let RolloutStatus::WaitingForConfirm { group } = decision.report.status {
                world.say(Control::Confirm(group));
            }
            world.pass();
            if decision.actions.is_empty() && is_over(&world) {
                break;
            }
        }
        prop_assert_eq!(world.decide().report.status, RolloutStatus::Complete);
        prop_assert_eq!(i64::try_from(world.facts.slots.len()).expect("few"), world.facts.replicas);
        prop_assert!(world.revisions().iter().all(|revision| *revision == 2));
    }

    fn moving_between_units_keeps_as_many_serving_as_are_wanted(
        sizes in prop::collection::vec(0..6usize, 2..4), wishes in prop::collection::vec(prop::option::of(0..6i64), 2..4),
        by_groups: bool,
    ) {
        let style = if by_groups { Style::Groups(grouped(3, true)) } else { rolling(1, 0) };
        let mut world = World::settled(style, &sizes);
        (world.start, world.end) = (2, 2);
        for (unit, wish) in world.facts.units.iter_mut().zip(&wishes) {
            unit.wish = wish.map(Amount::Count);
        }
        for _ in 0..60 {
            world.decide();
            prop_assert!(world.available() >= world.facts.replicas);
            world.pass();
        }
        let decision = world.decide();
        prop_assert_eq!(decision.actions, []);
        let targets = &world.facts.release.allotment.targets;
        if targets.iter().sum::<i64>() == world.facts.replicas {
            let there: Vec<i64> = (0..targets.len()).map(|at| i64::try_from(world.facts.slots.iter().filter(|slot| slot.unit == at).count()).expect("few")).collect();
            prop_assert_eq!(&there, targets);
        }
    }

    fn scaling_a_rolling_update_keeps_both_bounds(
        replicas in 1..12usize, surge in 0..60i64, unavailable in 0..60i64, replacement in replacement(),
        steps in prop::collection::vec((0..6usize, 0..14i64), 1..6), is_broken: bool, (start, end) in (0..3i64, 0..3i64),
    ) {
        let style = Style::Rolling { surge: Some(Amount::Percent(surge)), unavailable: Some(Amount::Percent(unavailable)) };
        let mut world = World::settled(style, &[replicas]);
        world.facts.units[0].name.clear();
        world.facts.settings.replacement = Some(replacement);
        (world.start, world.end) = (start, end);
        world.broken.extend(is_broken.then_some(2));
        world.release(2);
        for (ticks, replicas) in steps {
            for _ in 0..ticks {
                world.decide();
                world.pass();
            }
            world.facts.replicas = replicas;
            let before = world.available();
            let strategy = crate::rollout::limits::Strategy::RollingUpdate {
                surge: Some(Amount::Percent(surge)), unavailable: Some(Amount::Percent(unavailable)),
            };
            let limits = Limits::of(strategy, replicas);
            let actions = world.decide().actions;
            let pods = i64::try_from(world.pods().count()).expect("few");
            let is_needed = world.available() <= limits.min_available;
            prop_assert!(pods <= limits.max_total || is_needed, "{pods} pods after {actions:?}");
            prop_assert!(world.available() >= before.min(limits.min_available) || world.mix().len() < 2, "{before} served, then {} after {actions:?}", world.available());
        }
        world.broken.clear();
        for _ in 0..300 {
            let actions = world.decide().actions;
            world.pass();
            if actions.is_empty() && is_over(&world) {
                break;
            }
        }
        prop_assert_eq!(world.decide().report.status, RolloutStatus::Complete);
        prop_assert!(world.revisions().iter().all(|revision| *revision == 2));
    }

    fn pods_without_room_go_where_there_is_some_and_the_release_ends(
        sizes in prop::collection::vec(1..5usize, 2..4), room in prop::collection::vec(0..5usize, 1..3),
        by_groups: bool, surge in 0..4i64, unavailable in 0..3i64,
    ) {
        let style = if by_groups { Style::Groups(grouped(surge.max(1), true)) } else { rolling(surge, unavailable) };
        let mut world = World::settled(style, &sizes);
        world.facts.units.iter_mut().for_each(|unit| unit.wish = None);
        world.facts.settings.auto_reschedule =
            Some(AutoReschedule { delay: Duration::from_secs(2), fail_back: FailBack::Lazy });
        (world.start, world.end) = (1, 1);
        // The last unit has room for all; the others for what runs there at most, or less once it went.
        world.room = room.into_iter().take(sizes.len() - 1).map(Some).collect();
        world.release(2);
        for _ in 0..400 {
            let actions = world.decide().actions;
            world.pass();
            if actions.is_empty() && is_over(&world) {
                break;
            }
        }
        let decision = world.decide();
        prop_assert_eq!(decision.report.status, RolloutStatus::Complete, "{:?}", world.facts);
        prop_assert!(world.revisions().iter().all(|revision| *revision == 2));
        let quota: i64 = world.facts.release.allotment.targets.iter().sum();
        prop_assert_eq!(quota, world.facts.replicas, "no quota was made or lost");
    }

    fn units_declared_in_another_order_move_nobody(
        sizes in prop::collection::vec(1..5usize, 2..5), replicas in 1..16i64, ticks in 1..12usize, by_groups: bool,
        rotation in 1..4usize,
    ) {
        let style = if by_groups { Style::Groups(Grouped { needs_confirm: true, ..grouped(3, true) }) } else { rolling(2, 1) };
        let mut world = World::settled(style, &sizes);
        world.facts.units.iter_mut().for_each(|unit| unit.wish = None);
        world.facts.replicas = replicas;
        world.start = 1;
        world.run(20);
        world.release(2).run(ticks);
        let committed = |world: &World| -> Vec<(String, i64)> {
            let mut by_name: Vec<(String, i64)> =
                world.facts.units.iter().map(|unit| unit.name.clone()).zip(world.facts.release.committed.clone()).collect();
            by_name.sort();
            by_name
        };
        while !world.decide().actions.is_empty() {}
        let before = committed(&world);
        world.rotate_units(rotation);
        prop_assert_eq!(world.decide().actions, []);
        prop_assert_eq!(committed(&world), before);
    }
}
