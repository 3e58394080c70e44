//! Releases by groups over units as executed histories.

use std::time::Duration;

use super::world::{World, grouped};
use crate::rollout::controller::{Action, Control, Grouped, RolloutStatus, Style};
use crate::rollout::groups::Spread;
use crate::rollout::numbers::Amount;

/// What a release did, group by group, as the table writes it: how many of each unit.
fn executed(world: &mut World) -> String {
    let unit_of = |world: &World, number: u32| {
        world.facts.slots.iter().find(|slot| slot.number == number).expect("it is there").unit
    };
    for _ in 0..60 {
        let decision = world.decide();
        if let RolloutStatus::WaitingForConfirm { group } = decision.report.status {
            world.say(Control::Confirm(group));
        }
        world.pass();
        if decision.report.status == RolloutStatus::Complete {
            break;
        }
    }
    assert_eq!(world.last.as_ref().expect("asked").report.status, RolloutStatus::Complete);
    let mut groups: Vec<(u64, Vec<usize>)> = Vec::new();
    for (group, actions) in &world.history {
        if groups.last().is_none_or(|(last, _)| last != group) {
            groups.push((*group, vec![0; world.facts.units.len()]));
        }
        let counts = &mut groups.last_mut().expect("just pushed").1;
        for action in actions {
            match action {
                Action::Renew(number) | Action::Create { slot: number, .. } => counts[unit_of(world, *number)] += 1,
                other => panic!("a group only renews and creates: {other:?}"),
            }
        }
    }
    let line = |(_, counts): &(u64, Vec<usize>)| counts.iter().map(ToString::to_string).collect::<Vec<_>>().join("/");
    groups.iter().map(line).collect::<Vec<_>>().join(" ")
}

fn release(grouped: Grouped, sizes: &[usize]) -> String {
    let mut world = World::settled(Style::Groups(grouped), sizes);
    world.release(2);
    let executed = executed(&mut world);
    assert!(world.revisions().iter().all(|revision| *revision == 2));
    executed
}

#[test]
fn the_tables_of_section_4_3() {
    let confirmed = Grouped { needs_confirm: true, ..grouped(4, true) };
    assert_eq!(release(confirmed, &[5, 5]), "1/1 2/2 2/2", "the article: 2, 4, 4");
    assert_eq!(release(grouped(4, true), &[4, 6]), "1/1 1/3 2/2");
    assert_eq!(release(grouped(4, true), &[2, 8]), "1/1 0/4 1/3");
    assert_eq!(release(grouped(4, false), &[5, 5]), "2/2 2/2 1/1");
    assert_eq!(release(grouped(3, false), &[5, 5]), "2/1 1/2 2/1 0/1");
    assert_eq!(release(grouped(4, true), &[4, 1, 5]), "1/1/1 2/0/2 1/0/2");
    assert_eq!(release(Grouped { spread: Spread::Sequential, ..grouped(2, true) }, &[3, 3]), "1/0 2/0 0/1 0/2");
    assert_eq!(release(Grouped { spread: Spread::Even, ..grouped(6, false) }, &[2, 10]), "2/4 0/6");
    assert_eq!(release(Grouped { batch_size: Amount::Percent(30), ..grouped(1, false) }, &[5, 5]), "2/1 1/2 2/1 0/1");
}

#[test]
fn a_release_that_resumes_needs_no_second_beta() {
    let resumed = |updated: [usize; 2]| {
        let mut world = World::settled(Style::Groups(grouped(4, true)), &[5, 5]);
        world.release(2);
        for slot in &mut world.facts.slots {
            let place = usize::try_from(slot.number).expect("small") - 1 - 5 * slot.unit;
            slot.main.as_mut().expect("one").revision = if place < updated[slot.unit] { 2 } else { 1 };
        }
        executed(&mut world)
    };
    assert_eq!(resumed([2, 2]), "2/2 1/1");
    assert_eq!(resumed([2, 0]), "0/1 2/2 1/2");
}

#[test]
fn creation_goes_by_the_same_groups() {
    let mut world = World::settled(Style::Groups(grouped(4, true)), &[0, 0]);
    world.facts.proven = None;
    world.facts.replicas = 10;
    world.release(2);
    assert_eq!(executed(&mut world), "1/1 2/2 2/2");
    let numbers: Vec<u32> = world.facts.slots.iter().map(|slot| slot.number).collect();
    assert_eq!(numbers, (1..=10).collect::<Vec<_>>());
}

#[test]
fn the_next_group_waits_for_a_confirmation_and_the_last_for_none() {
    let mut world = World::settled(Style::Groups(Grouped { needs_confirm: true, ..grouped(2, false) }), &[2, 2]);
    world.release(2).run(5);
    assert_eq!(world.last.as_ref().expect("asked").report.status, RolloutStatus::WaitingForConfirm { group: 1 });
    assert_eq!(world.revisions().iter().filter(|revision| **revision == 2).count(), 2);
    world.say(Control::Confirm(1));
    assert_eq!(world.run(5).report.status, RolloutStatus::Complete);
}

#[test]
fn confirmation_switched_off_while_it_waits_lets_it_go_on() {
    let mut world = World::settled(Style::Groups(Grouped { needs_confirm: true, ..grouped(2, false) }), &[2, 2]);
    world.release(2).run(5);
    world.facts.settings.style = Style::Groups(grouped(2, false));
    assert_eq!(world.run(5).report.status, RolloutStatus::Complete);
}

#[test]
fn a_confirmation_in_a_pause_is_kept() {
    let mut world = World::settled(Style::Groups(Grouped { needs_confirm: true, ..grouped(2, false) }), &[2, 2]);
    world.release(2).run(5);
    world.say(Control::Pause);
    world.say(Control::Confirm(1));
    assert_eq!((world.decide().actions, world.run(3).report.status), (vec![], RolloutStatus::Paused));
    world.say(Control::Resume);
    assert_eq!(world.decide().actions.len(), 2);
}

#[test]
fn the_beta_is_a_pod_that_serves_and_costs_least() {
    let mut world = World::settled(Style::Groups(grouped(2, true)), &[3]);
    world.facts.slots[0].main.as_mut().expect("one").ready.ready = false;
    world.facts.slots[2].main.as_mut().expect("one").cost = -1;
    assert_eq!(world.release(2).decide().actions, [Action::Renew(3)]);
    world.pass();
    assert_eq!(world.decide().actions, [Action::Renew(1), Action::Renew(2)], "then the one that costs nothing");
}

#[test]
fn a_rollback_goes_back_through_the_units_and_touches_only_what_is_bad() {
    let mut world = World::settled(Style::Groups(Grouped { needs_confirm: true, ..grouped(4, true) }), &[5, 5]);
    world.broken.insert(2);
    world.release(2).run(3);
    let bad: Vec<u32> = world
        .facts
        .slots
        .iter()
        .filter(|slot| slot.main.as_ref().is_some_and(|main| main.revision == 2))
        .map(|slot| slot.number)
        .collect();
    assert_eq!(bad.len(), 2);
    world.facts.settings.style =
        Style::Groups(Grouped { batch_size: Amount::Count(1), needs_confirm: true, ..grouped(4, true) });
    world.history.clear();
    assert_eq!(world.undo(3).run(20).report.status, RolloutStatus::Complete, "nobody is asked");
    let actions: Vec<Action> = world.history.iter().flat_map(|(_, actions)| actions.clone()).collect();
    assert_eq!(actions, [Action::Renew(bad[1]), Action::Renew(bad[0])]);
}

#[test]
fn a_window_lets_only_so_many_be_under_way() {
    let mut world = World::settled(Style::Groups(Grouped { window: Some(2), ..grouped(6, false) }), &[6]);
    world.release(2);
    let mut taken = Vec::new();
    for _ in 0..8 {
        taken.push(world.decide().actions.len());
        world.pass();
    }
    assert_eq!(taken, [2, 2, 2, 0, 0, 0, 0, 0]);
    assert_eq!(world.last.expect("asked").report.status, RolloutStatus::Complete);
}

#[test]
fn a_pod_that_is_ready_counts_only_after_its_time() {
    let mut world = World::settled(Style::Groups(grouped(1, false)), &[2]);
    world.facts.settings.min_ready = Duration::from_secs(5);
    world.release(2).decide();
    world.pass();
    let decision = world.decide();
    assert_eq!((decision.actions, decision.report.waits_for), (vec![], vec![1]));
    assert_eq!(decision.wake_at, Some(world.facts.now.after(Duration::from_secs(5))));
    (0..5).for_each(|_| world.pass());
    assert_eq!(world.decide().actions, [Action::Renew(2)]);
}
