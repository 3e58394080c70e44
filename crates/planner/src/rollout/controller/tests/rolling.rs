//! Rolling updates and recreation as executed histories.

use std::collections::BTreeMap;

use super::world::{World, healthy, rolling, settings};
use crate::rollout::controller::{Action, Control, Next, Pod, RolloutStatus, Slot, Style, controller};
use crate::rollout::limits::PodReplacement;
use crate::rollout::numbers::Amount;

/// The states `old,new` in which nothing can happen until a pod becomes available.
fn states(style: Style, replicas: usize) -> Vec<(usize, usize)> {
    let mut world = World::settled(style, &[replicas]);
    world.facts.settings.replacement = Some(PodReplacement::Started);
    world.release(2);
    let mut states = Vec::new();
    for _ in 0..40 {
        let decision = world.decide();
        if !decision.actions.is_empty() {
            let mix = world.mix();
            states.push((mix.get(&1).copied().unwrap_or(0), mix.get(&2).copied().unwrap_or(0)));
        }
        world.pass();
    }
    assert_eq!(world.last.expect("asked").report.status, RolloutStatus::Complete);
    states
}

#[test]
fn the_traces_of_section_2_5() {
    assert_eq!(states(rolling(3, 2), 10), [(8, 5), (3, 10), (0, 10)]);
    assert_eq!(states(rolling(1, 0), 3), [(3, 1), (2, 2), (1, 3), (0, 3)]);
    assert_eq!(states(rolling(0, 1), 3), [(2, 1), (1, 2), (0, 3)]);
    assert_eq!(states(rolling(4, 0), 4), [(4, 4), (0, 4)]);
    assert_eq!(states(rolling(0, 4), 4), [(0, 4)]);
    let percent = |surge, unavailable| Style::Rolling {
        surge: Some(Amount::Percent(surge)),
        unavailable: Some(Amount::Percent(unavailable)),
    };
    assert_eq!(states(percent(0, 1), 2), [(1, 1), (0, 2)], "both zero after rounding: one may be missing");
}

#[test]
fn a_pod_comes_beside_the_lowest_number_and_takes_its_place() {
    let mut world = World::settled(rolling(1, 0), &[3]);
    world.release(2).run(20);
    let actions: Vec<Vec<Action>> = world.history.into_iter().map(|(_, actions)| actions).collect();
    let expected = [
        vec![Action::Surge(1)],
        vec![Action::Promote(1), Action::Surge(2)],
        vec![Action::Promote(2), Action::Surge(3)],
        vec![Action::Promote(3)],
    ];
    assert_eq!(actions, expected);
}

/// Ten instances at 3/2 whose new version never gets ready, with one old pod dead: 8 old, 5 new.
fn crashing() -> World {
    let mut world = World::settled(rolling(3, 2), &[10]);
    world.broken.insert(2);
    world.release(2).run(5);
    assert_eq!(world.mix(), BTreeMap::from([(1, 8), (2, 5)]));
    let sick = world
        .facts
        .slots
        .iter()
        .position(|slot| slot.next.is_none() && slot.main.as_ref().is_some_and(|m| m.revision == 1));
    world.kill(sick.expect("some have no second pod"));
    world
}

#[test]
fn a_broken_revision_stalls_with_the_minimum_serving() {
    let mut world = crashing();
    let before = world.facts.slots.clone();
    assert_eq!(world.decide().actions, []);
    assert_eq!((before == world.facts.slots, world.available()), (true, 7), "eight, but for the one that died");
}

#[test]
fn an_undo_takes_back_the_crash_loopers_and_touches_no_healthy_pod() {
    let mut world = crashing();
    let good: Vec<u32> = world
        .facts
        .slots
        .iter()
        .filter(|slot| slot.main.as_ref().is_some_and(|main| main.revision == 1))
        .map(|slot| slot.number)
        .collect();
    world.undo(3);
    let decision = world.decide();
    let dropped = decision.actions.iter().filter(|action| matches!(action, Action::Drop(_))).count();
    assert_eq!((dropped, world.mix()), (3, BTreeMap::from([(1, 8), (2, 1), (3, 2)])), "{:?}", decision.actions);
    assert_eq!(world.run(20).report.status, RolloutStatus::Complete);
    assert_eq!(world.mix(), BTreeMap::from([(1, 8), (3, 2)]));
    let touched =
        |action: &Action| good.iter().any(|slot| matches!(action, Action::Renew(n) | Action::Promote(n) if n == slot));
    assert!(!world.history[1..].iter().flat_map(|(_, actions)| actions).any(touched));
}

#[test]
fn a_third_revision_takes_the_unhealthy_of_both_others_first() {
    let mut world = crashing();
    world.release(3).decide();
    assert_eq!(world.mix(), BTreeMap::from([(1, 7), (2, 1), (3, 5)]));
    assert_eq!(world.run(20).report.status, RolloutStatus::Complete);
    assert_eq!(world.mix(), BTreeMap::from([(3, 10)]));
}

#[test]
fn pods_that_leave_count_where_they_must_be_gone_first() {
    let total = |replacement| {
        let mut world = World::settled(rolling(1, 1), &[4]);
        world.facts.settings.replacement = Some(replacement);
        world.end = 5;
        world.release(2);
        let mut most = 0;
        for _ in 0..80 {
            world.decide();
            let exist = world.pods().filter(|pod| pod.created.is_some()).count();
            let leaving: i64 = world.facts.slots.iter().map(|slot| slot.leaving).sum();
            most = most.max(exist + usize::try_from(leaving).expect("some"));
            world.pass();
        }
        assert_eq!(world.mix(), BTreeMap::from([(2, 4)]));
        most
    };
    assert_eq!(total(PodReplacement::Complete), 5);
    assert!(total(PodReplacement::Started) > 5);
}

#[test]
fn recreation_ends_everything_before_anything_starts() {
    let mut world = World::settled(Style::Recreate, &[3]);
    world.end = 3;
    world.release(2).run(20);
    let create = |slot| Action::Create { slot, unit: 0, revision: 2 };
    let actions: Vec<Vec<Action>> = world.history.iter().map(|(_, actions)| actions.clone()).collect();
    let expected =
        [vec![Action::Retire(1), Action::Retire(2), Action::Retire(3)], vec![create(1), create(2), create(3)]];
    assert_eq!(actions, expected);
    assert_eq!(world.last.expect("asked").report.status, RolloutStatus::Complete);
}

#[test]
fn a_pause_between_the_halves_of_a_recreation_does_not_leave_the_group_down() {
    let mut world = World::settled(Style::Recreate, &[2]);
    world.release(2).decide();
    world.say(Control::Pause);
    world.pass();
    world.decide();
    assert_eq!(world.revisions(), [2, 2]);
}

#[test]
fn a_paused_rollout_moves_nothing_and_goes_on_where_it_was() {
    let mut world = World::settled(rolling(1, 0), &[3]);
    world.release(2).decide();
    world.say(Control::Pause);
    world.pass();
    assert_eq!((world.decide().actions, world.run(1).report.status), (vec![], RolloutStatus::Paused));
    world.say(Control::Resume);
    assert_eq!(world.decide().actions, [Action::Promote(1), Action::Surge(2)]);
}

#[test]
fn an_abort_keeps_the_mix_and_leaves_no_slot_with_two_pods() {
    let mut world = World::settled(rolling(2, 0), &[4]);
    world.release(2).decide();
    world.pass();
    let second = world.facts.slots[1].next.as_mut().expect("it is doubled");
    second.pod.ready.ready = false;
    world.say(Control::Abort);
    assert_eq!(world.decide().actions, [Action::Promote(1), Action::Drop(2)]);
    assert_eq!((world.run(5).report.status, world.revisions()), (RolloutStatus::Aborted, vec![2, 1, 1, 1]));
}

#[test]
fn a_stopped_instance_counts_nowhere_and_is_turned_last() {
    let mut world = World::settled(rolling(0, 1), &[3]);
    let stopped = &mut world.facts.slots[0];
    stopped.is_stopped = true;
    stopped.main.as_mut().expect("it has one").ready.ready = false;
    world.release(2).run(20);
    let actions: Vec<Action> = world.history.iter().flat_map(|(_, actions)| actions.clone()).collect();
    assert_eq!(actions, [Action::Renew(2), Action::Renew(3), Action::Renew(1)]);
    assert_eq!(world.last.expect("asked").report.status, RolloutStatus::Complete);
}

#[test]
fn the_sick_go_first_then_by_rank() {
    let mut world = World::settled(rolling(0, 1), &[4]);
    world.facts.slots[2].main.as_mut().expect("one").ready.ready = false;
    assert_eq!(world.release(2).decide().actions, [Action::Renew(3)]);
    let mut world = World::settled(rolling(0, 1), &[4]);
    world.facts.slots[3].main.as_mut().expect("one").cost = -5;
    assert_eq!(world.release(2).decide().actions, [Action::Renew(4)]);
}

#[test]
fn a_recreation_that_finds_a_second_pod_of_the_target_keeps_it() {
    let mut world = World::settled(rolling(1, 0), &[2]);
    world.release(2);
    world.facts.slots[0].next = Some(Next { unit: 0, pod: healthy(2) });
    world.facts.settings = settings(Style::Recreate);
    assert_eq!(controller(&world.facts).actions, [Action::Promote(1), Action::Retire(2)]);
}

#[test]
fn what_is_changed_in_place_is_not_taken_without_a_successor_while_others_still_go() {
    let mut world = World::settled(rolling(0, 2), &[4]);
    world.facts.settings.keeps_addresses = true;
    world.release(2).decide();
    // One of two is up again, and the old pod of the other still goes.
    world.facts.slots[0].main = Some(healthy(2));
    world.facts.slots[0].leaving = 0;
    world.facts.slots[1].leaving = 1;
    assert_eq!(controller(&world.facts).actions, [Action::Renew(3)]);
}

#[test]
fn a_recreation_that_is_given_up_between_its_halves_does_not_leave_the_group_down() {
    let mut world = World::settled(Style::Recreate, &[2]);
    world.end = 2;
    world.release(2).decide();
    world.say(Control::Abort);
    for _ in 0..5 {
        world.pass();
        world.decide();
    }
    assert_eq!((world.revisions(), world.last.expect("asked").report.status), (vec![2, 2], RolloutStatus::Aborted));
}

#[test]
fn a_pod_that_takes_over_before_it_is_made_waits_for_nobody_and_both_count() {
    let mut world = World::settled(rolling(2, 2), &[4]);
    world.facts.settings.replacement = Some(PodReplacement::Complete);
    world.kill(0);
    world.release(2);
    world.decide();
    // One that waits for another to leave is one with it.
    let comes = |main: &Pod| !main.follows;
    let pods =
        |slot: &Slot| i64::from(slot.main.as_ref().is_some_and(comes)) + i64::from(slot.next.is_some()) + slot.leaving;
    let there: i64 = world.facts.slots.iter().map(pods).sum();
    assert!(there <= 6, "{there} pods are ordered or still go: {:?}", world.facts.slots);
}
