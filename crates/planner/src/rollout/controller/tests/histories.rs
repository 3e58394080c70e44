//! Random histories: pods take their time, some are killed, some revisions are broken, and the leader forgets everything.

use proptest::prelude::*;

use super::world::{World, grouped, rolling};
use crate::rollout::controller::{Action, Control, Grouped, Pod, RolloutStatus, Slot, Style, UnitCount, apply};
use crate::rollout::groups::Spread;
use crate::rollout::limits::{Limits, PodReplacement};
use crate::rollout::numbers::Amount;
use crate::rollout::properties::property;
use crate::rollout::release;

pub(super) fn replacement() -> impl Strategy<Value = PodReplacement> {
    prop::sample::select(vec![PodReplacement::Started, PodReplacement::Complete])
}

fn limits(world: &World, surge: i64, unavailable: i64) -> Limits {
    let strategy = crate::rollout::limits::Strategy::RollingUpdate {
        surge: Some(Amount::Count(surge)),
        unavailable: Some(Amount::Count(unavailable)),
    };
    Limits::of(strategy, world.facts.replicas)
}

/// Pods that are there or will be: what must never be more than the total.
fn total(world: &World) -> i64 {
    let complete = world.facts.settings.replacement == Some(PodReplacement::Complete);
    let of = |slot: &Slot| {
        let made = |pod: &Pod| pod.created.is_some();
        let pods = i64::from(slot.main.is_some()) + i64::from(slot.next.is_some());
        // One that waits for another to leave is not there yet.
        let waits = slot.leaving > 0 && !slot.main.as_ref().is_some_and(made) && slot.main.is_some();
        pods + if complete { slot.leaving - i64::from(waits) } else { 0 }
    };
    world.facts.slots.iter().map(of).sum()
}

/// The release ended, nobody is under way and everybody serves.
pub(super) fn is_over(world: &World) -> bool {
    let is_settled = world.facts.slots.iter().all(|slot| slot.next.is_none() && slot.leaving == 0);
    is_settled && !world.facts.release.is_open() && world.available() == world.facts.replicas
}

/// One tick of a rolling update, with what must hold of it.
fn tick(world: &mut World, limits: &Limits) -> Result<Vec<Action>, TestCaseError> {
    let before = world.available();
    let actions = world.decide().actions;
    prop_assert!(total(world) <= limits.max_total, "{} pods after {actions:?}", total(world));
    let after = world.available();
    prop_assert!(after >= before.min(limits.min_available), "{before} serve, then {after} after {actions:?}");
    world.pass();
    Ok(actions)
}

property! {
    fn a_rolling_update_keeps_its_bounds_and_ends_whatever_is_killed(
        replicas in 1..12usize, surge in 0..5i64, unavailable in 0..5i64, replacement in replacement(),
        (start, end) in (0..4i64, 0..4i64), kills in prop::collection::vec((0..40usize, 0..12usize), 0..12),
    ) {
        let mut world = World::settled(rolling(surge, unavailable), &[replicas]);
        world.facts.settings.replacement = Some(replacement);
        (world.start, world.end) = (start, end);
        let limits = limits(&world, surge, unavailable);
        world.release(2);
        for time in 0..400 {
            kills.iter().filter(|(when, _)| *when == time).for_each(|(_, at)| world.kill(*at));
            let actions = tick(&mut world, &limits)?;
            if time > 40 && actions.is_empty() && is_over(&world) {
                break;
            }
        }
        prop_assert_eq!(world.decide().report.status, RolloutStatus::Complete);
        prop_assert_eq!(world.revisions(), vec![2; replicas]);
        prop_assert!(world.facts.slots.iter().all(|slot| slot.next.is_none()));
    }

    fn revisions_pushed_at_any_time_keep_the_bounds_and_the_last_one_wins(
        replicas in 1..10usize, surge in 0..4i64, unavailable in 0..4i64, replacement in replacement(),
        pushes in prop::collection::vec((1..8usize, any::<bool>()), 1..5),
    ) {
        let mut world = World::settled(rolling(surge, unavailable), &[replicas]);
        world.facts.settings.replacement = Some(replacement);
        (world.start, world.end) = (1, 2);
        let limits = limits(&world, surge, unavailable);
        let last = u32::try_from(pushes.len()).expect("few") + 2;
        for (target, (ticks, is_broken)) in (2..).zip(pushes) {
            if is_broken {
                world.broken.insert(target);
            }
            world.release(target);
            for _ in 0..ticks {
                tick(&mut world, &limits)?;
            }
        }
        world.release(last);
        for _ in 0..400 {
            if tick(&mut world, &limits)?.is_empty() && is_over(&world) {
                break;
            }
        }
        prop_assert_eq!(world.decide().report.status, RolloutStatus::Complete);
        prop_assert_eq!(world.revisions(), vec![last; replicas]);
    }

    fn a_broken_revision_stalls_and_an_undo_leaves_healthy_old_pods_alone(
        replicas in 1..12usize, surge in 0..5i64, unavailable in 0..5i64, replacement in replacement(), by_groups: bool,
    ) {
        let style = if by_groups { Style::Groups(grouped(surge.max(1), true)) } else { rolling(surge, unavailable) };
        let mut world = World::settled(style, &[replicas]);
        world.facts.settings.replacement = Some(replacement);
        (world.start, world.end) = (1, 1);
        world.broken.insert(2);
        world.release(2).run(30);
        let least = if by_groups { i64::try_from(replicas).expect("few") - 1 } else { limits(&world, surge, unavailable).min_available };
        prop_assert!(world.available() >= least);
        let good: Vec<u32> = world.facts.slots.iter().filter(|slot| slot.main.as_ref().is_some_and(|main| main.revision == 1)).map(|slot| slot.number).collect();
        world.history.clear();
        prop_assert_eq!(world.undo(3).run(300).report.status, RolloutStatus::Complete);
        let touched = world.history.iter().flat_map(|(_, actions)| actions).any(|action| match action {
            Action::Renew(number) | Action::Promote(number) | Action::Retire(number) => good.contains(number),
            _ => false,
        });
        prop_assert!(!touched, "{:?}", world.history);
        prop_assert!(!world.mix().contains_key(&2));
    }

    fn groups_end_and_each_stays_within_its_size_and_its_share(
        sizes in prop::collection::vec(1..7usize, 1..4), size in 1..7i64, beta: bool, needs_confirm: bool,
        spread in prop::sample::select(vec![Spread::Proportional, Spread::Even, Spread::Sequential]),
        kills in prop::collection::vec((0..60usize, 0..18usize), 0..10),
    ) {
        let style = Style::Groups(Grouped { spread, needs_confirm, ..grouped(size, beta) });
        let mut world = World::settled(style, &sizes);
        (world.start, world.end) = (2, 1);
        world.release(2);
        for time in 0..400 {
            kills.iter().filter(|(when, _)| *when == time).for_each(|(_, at)| world.kill(*at));
            let decision = world.decide();
            if let RolloutStatus::WaitingForConfirm { group } = decision.report.status {
                prop_assert!(needs_confirm);
                world.say(Control::Confirm(group));
            }
            let most = usize::try_from(size).expect("small").max(if beta { sizes.len() } else { 0 });
            prop_assert!(decision.actions.len() <= most, "{:?}", decision.actions);
            let is_committed = |(at, unit): (usize, &UnitCount)| {
                unit.updated == decision.release.committed[at] && unit.updated <= unit.target
            };
            prop_assert!(decision.report.units.iter().enumerate().all(is_committed));
            world.pass();
            if time > 60 && decision.actions.is_empty() && is_over(&world) {
                break;
            }
        }
        prop_assert_eq!(world.decide().report.status, RolloutStatus::Complete);
        prop_assert_eq!(world.revisions(), vec![2; sizes.iter().sum::<usize>()]);
    }

    fn every_group_but_the_last_is_confirmed_before_the_next(
        sizes in prop::collection::vec(0..5usize, 1..4), size in 1..5i64, beta: bool,
        spread in prop::sample::select(vec![Spread::Proportional, Spread::Even, Spread::Sequential]),
        said in prop::collection::vec(prop::option::weighted(0.3, 0..6u64), 0..60),
    ) {
        let mut world = World::settled(Style::Groups(Grouped { spread, needs_confirm: true, ..grouped(size, beta) }), &sizes);
        world.start = 1;
        world.release(2);
        for group in said {
            let (before, release) = (world.facts.release.clone(), world.decide().release);
            prop_assert!(release.group <= before.group + 1 || release.target != before.target);
            if release.group > before.group.max(1) && before.target == 2 {
                prop_assert_eq!(before.phase, release::Phase::WaitingForConfirm);
                prop_assert_eq!(before.confirmed, before.group, "only what was confirmed is followed");
            }
            if let Some(confirmed) = group.and_then(|group| apply(&world.facts.release, Control::Confirm(group), world.facts.now).ok()) {
                let waits = world.facts.release.phase == release::Phase::WaitingForConfirm;
                prop_assert!(waits || confirmed == world.facts.release, "a confirmation out of turn changes nothing");
                world.facts.release = confirmed;
            }
            world.pass();
        }
    }
}
