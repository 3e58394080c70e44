//! Another number of instances, in the middle of a release and outside of one.

use std::collections::BTreeMap;

use super::world::{World, grouped, rolling, units};
use crate::rollout::controller::{Action, Control, Grouped, RolloutStatus, Style, Unit};
use crate::rollout::groups::Kind;
use crate::rollout::limits::PodReplacement;
use crate::rollout::numbers::Amount;

#[test]
fn outside_a_release_instances_come_at_once_and_the_highest_numbers_go() {
    let confirmed = Style::Groups(Grouped { needs_confirm: true, ..grouped(1, true) });
    for style in [rolling(1, 0), Style::Recreate, confirmed] {
        let mut world = World::settled(style, &[3]);
        world.facts.replicas = 5;
        let create = |slot| Action::Create { slot, unit: 0, revision: 1 };
        assert_eq!(world.decide().actions, [create(4), create(5)]);
        world.pass();
        assert_eq!(world.decide().report.status, RolloutStatus::Complete);
        world.facts.replicas = 2;
        assert_eq!(world.decide().actions, [Action::Remove(5), Action::Remove(4), Action::Remove(3)]);
    }
}

#[test]
fn a_rolling_update_keeps_the_parts_of_its_sets() {
    let mut world = World::settled(rolling(3, 2), &[10]);
    world.facts.settings.replacement = Some(PodReplacement::Started);
    world.broken.insert(2);
    world.release(2).run(3);
    assert_eq!(world.mix(), BTreeMap::from([(1, 8), (2, 5)]));
    world.facts.replicas = 50;
    world.facts.settings.style = rolling(6, 2);
    world.decide();
    assert_eq!((world.mix(), world.facts.slots.len()), (BTreeMap::from([(1, 34), (2, 22)]), 50));
}

#[test]
fn who_grows_under_a_smaller_surge_gives_up_a_second_pod_that_serves_nobody() {
    let mut world = World::settled(rolling(1, 0), &[2]);
    world.broken.insert(2);
    world.release(2).run(3);
    assert_eq!(world.mix(), BTreeMap::from([(1, 2), (2, 1)]));
    world.facts.replicas = 6;
    world.facts.settings.style = rolling(0, 1);
    world.decide();
    assert_eq!((world.pods().count(), world.facts.slots.len()), (6, 6));
}

#[test]
fn in_a_pause_everything_that_comes_is_of_the_revision_there_is() {
    let mut world = World::settled(rolling(1, 0), &[3]);
    world.say(Control::Pause);
    world.release(2).facts.replicas = 5;
    world.decide();
    assert_eq!(world.revisions(), [1, 1, 1, 1, 1]);
}

#[test]
fn template_and_replicas_together_grow_first_at_the_old_revision() {
    let mut world = World::settled(Style::Groups(grouped(2, false)), &[2, 2]);
    world.facts.replicas = 6;
    let actions = world.release(2).decide().actions;
    let create = |slot, unit| Action::Create { slot, unit, revision: 1 };
    assert_eq!(actions[..2], [create(5, 0), create(6, 1)]);
    assert_eq!(world.run(20).report.status, RolloutStatus::Complete);
    assert_eq!(world.mix(), BTreeMap::from([(2, 6)]));
}

/// Two units of five; two updated in each, and the release waits.
fn waiting() -> World {
    let mut world = World::settled(Style::Groups(Grouped { needs_confirm: true, ..grouped(4, false) }), &[5, 5]);
    world.release(2).run(3);
    assert_eq!(world.facts.release.committed, [2, 2]);
    world
}

#[test]
fn a_unit_keeps_its_ratio_when_it_grows_and_when_it_shrinks() {
    let mut world = waiting();
    world.facts.replicas = 20;
    world.decide();
    let split = |world: &World, unit| {
        let of = |revision| {
            let is = |slot: &&crate::rollout::controller::Slot| {
                slot.unit == unit && slot.main.as_ref().is_some_and(|main| main.revision == revision)
            };
            world.facts.slots.iter().filter(is).count()
        };
        (of(2), of(1))
    };
    assert_eq!((split(&world, 0), split(&world, 1)), ((4, 6), (4, 6)));
    assert_eq!(world.facts.release.committed, [4, 4]);
    assert_eq!(world.facts.release.group, 1, "scaling is no group");
    let mut world = waiting();
    world.facts.replicas = 6;
    world.decide();
    assert_eq!((split(&world, 0), split(&world, 1)), ((1, 2), (1, 2)));
    assert_eq!(world.run(5).report.status, RolloutStatus::WaitingForConfirm { group: 1 });
    world.say(Control::Confirm(1));
    assert_eq!(world.run(5).report.status, RolloutStatus::Complete);
}

#[test]
fn a_unit_that_joins_starts_at_the_target_revision() {
    let mut world = waiting();
    world.facts.units = units([None; 3]);
    world.facts.replicas = 15;
    world.decide();
    let joined: Vec<u32> = world
        .facts
        .slots
        .iter()
        .filter(|slot| slot.unit == 2)
        .filter_map(|slot| Some(slot.main.as_ref()?.revision))
        .collect();
    assert_eq!(joined, [2, 2, 2, 2, 2]);
}

#[test]
fn the_replicas_there_are_end_a_creation() {
    let mut world = World::settled(Style::Groups(Grouped { needs_confirm: true, ..grouped(4, true) }), &[0, 0]);
    world.facts.proven = None;
    world.facts.replicas = 10;
    world.release(2).run(3);
    assert_eq!((world.facts.slots.len(), world.facts.release.kind), (2, Some(Kind::Beta)));
    world.facts.replicas = 2;
    assert_eq!(world.run(3).report.status, RolloutStatus::Complete);
}

#[test]
fn when_every_unit_is_pinned_to_zero_nothing_is_done() {
    let mut world = World::settled(Style::Groups(grouped(4, true)), &[2, 2]);
    world.facts.units.iter_mut().for_each(|unit| unit.wish = Some(Amount::Count(0)));
    let decision = world.decide();
    assert_eq!((decision.actions, decision.report.warnings.len()), (vec![], 1));
}

#[test]
fn a_group_whose_instances_were_stopped_grows_by_what_is_wanted() {
    let mut world = World::settled(Style::Groups(grouped(4, false)), &[5]);
    world.release(2).decide();
    assert_eq!(world.facts.release.committed, [4]);
    world.facts.slots.iter_mut().take(4).for_each(|slot| slot.is_stopped = true);
    world.facts.replicas = 6;
    world.decide();
    assert_eq!(world.facts.slots.len(), 6);
}

#[test]
fn the_lowest_free_numbers_are_taken() {
    let mut world = World::settled(Style::Groups(grouped(4, true)), &[2, 2]);
    world.facts.units[1].wish = Some(Amount::Count(2));
    world.facts.replicas = 3;
    assert_eq!(world.decide().actions, [Action::Remove(2)], "the highest of the unit that has too many");
    world.facts.replicas = 4;
    assert_eq!(world.decide().actions, [Action::Create { slot: 2, unit: 0, revision: 1 }]);
}

#[test]
fn without_units_the_highest_numbers_go_also_in_the_middle_of_a_release() {
    let mut world = World::settled(rolling(1, 0), &[6]);
    world.facts.units[0].name.clear();
    world.release(2).run(4);
    assert_eq!(world.revisions(), [2, 2, 2, 1, 1, 1]);
    world.facts.replicas = 4;
    let actions = world.decide().actions;
    let removed: Vec<&Action> = actions.iter().filter(|action| matches!(action, Action::Remove(_))).collect();
    assert_eq!(removed, [&Action::Remove(6), &Action::Remove(5)]);
}

#[test]
fn in_units_who_serves_least_goes_first() {
    let mut world = World::settled(Style::Groups(grouped(4, true)), &[3, 3]);
    world.kill(1);
    world.facts.replicas = 4;
    assert_eq!(world.decide().actions, [Action::Remove(2), Action::Remove(6)]);
}

#[test]
fn a_broken_update_that_is_scaled_in_keeps_those_that_serve() {
    let half = Some(Amount::Percent(50));
    let mut world = World::settled(Style::Rolling { surge: None, unavailable: half }, &[10]);
    world.facts.units[0].name.clear();
    world.broken.insert(2);
    world.release(2).run(3);
    assert_eq!((world.mix(), world.available()), (BTreeMap::from([(1, 5), (2, 5)]), 5));
    world.facts.replicas = 5;
    world.decide();
    assert_eq!((world.facts.slots.len(), world.available()), (5, 3), "three of five must serve");
}

#[test]
fn between_two_updates_those_that_serve_are_kept_too() {
    let half = Some(Amount::Percent(50));
    let mut world = World::settled(Style::Rolling { surge: None, unavailable: half }, &[10]);
    world.facts.units[0].name.clear();
    world.broken.insert(2);
    world.release(2).run(3);
    assert_eq!((world.mix(), world.available()), (BTreeMap::from([(1, 5), (2, 5)]), 5));
    world.release(3).facts.replicas = 5;
    world.decide();
    assert_eq!(
        (world.facts.slots.len(), world.available()),
        (5, 3),
        "nothing is updated yet, and three of five must serve"
    );
}

#[test]
fn who_serves_in_one_unit_is_kept_rather_than_who_serves_nobody_in_another() {
    let mut world = World::settled(Style::Rolling { surge: None, unavailable: Some(Amount::Count(2)) }, &[2, 2]);
    world.release(2).kill(0);
    world.kill(1);
    world.broken.insert(2);
    world.run(2);
    assert_eq!((world.revisions(), world.available()), (vec![2, 2, 1, 1], 2));
    world.facts.settings.style = rolling(0, 1);
    world.facts.replicas = 3;
    let actions = world.decide().actions;
    assert!(actions.contains(&Action::Remove(2)), "the second unit has one too many, and both serve: {actions:?}");
    assert_eq!((world.facts.slots.len(), world.available()), (3, 2), "two of three must serve");
}

#[test]
fn second_pods_are_fewer_when_instances_are() {
    let mut world = World::settled(Style::Rolling { surge: Some(Amount::Percent(30)), unavailable: None }, &[10]);
    world.facts.units[0].name.clear();
    world.broken.insert(2);
    world.release(2).run(2);
    assert_eq!(world.pods().count(), 13);
    world.facts.replicas = 4;
    world.decide();
    assert_eq!((world.facts.slots.len(), world.pods().count(), world.available()), (4, 6, 4));
}

#[test]
fn a_recreation_that_is_scaled_in_waits_for_what_the_lost_instances_leave_behind() {
    let mut world = World::settled(Style::Recreate, &[4]);
    world.end = 3;
    assert_eq!(world.release(2).decide().actions, [1, 2, 3, 4].map(Action::Retire));
    world.pass();
    world.facts.slots.iter_mut().take(2).for_each(|slot| slot.leaving = 0);
    world.facts.replicas = 2;
    assert_eq!(world.decide().actions, [Action::Remove(4), Action::Remove(3)], "the pods of both still go");
    world.pass();
    assert_eq!(world.decide().actions, []);
    world.pass();
    world.pass();
    let create = |slot| Action::Create { slot, unit: 0, revision: 2 };
    assert_eq!(world.decide().actions, [create(1), create(2)]);
}

#[test]
fn units_in_another_order_are_known_by_their_names() {
    let mut world = World::settled(Style::Groups(Grouped { needs_confirm: true, ..grouped(4, true) }), &[2, 6]);
    world.release(2).run(3);
    world.say(Control::Confirm(1));
    world.run(3);
    assert_eq!(world.facts.release.committed, [2, 4]);
    world.rotate_units(1);
    assert_eq!((world.decide().actions, world.facts.release.committed.clone()), (vec![], vec![4, 2]));
    world.facts.units.insert(0, Unit { name: "new".to_owned(), wish: Some(Amount::Count(0)), free_slots: None });
    for slot in &mut world.facts.slots {
        slot.unit += 1;
    }
    assert_eq!((world.decide().actions, world.facts.release.committed.clone()), (vec![], vec![0, 4, 2]));
}
