//! Any state at all, also those no history leads to: what was stored by another version, or repaired by hand.

use std::time::Duration;

use proptest::prelude::*;

use super::plans::any_style;
use super::world::{World, grouped, plan, rolling, units};
use crate::rollout::availability::Ready;
use crate::rollout::controller::{Action, Control, Facts, Grouped, Next, Pod, RolloutStatus, Slot, Style, controller};
use crate::rollout::numbers::Amount;
use crate::rollout::properties::property;
use crate::rollout::recreate;
use crate::rollout::release::Phase;

fn any_pod() -> impl Strategy<Value = Pod> {
    (1..4u32, any::<[bool; 4]>()).prop_map(|(revision, [is_made, is_ready, is_placed, is_preparing])| {
        let mut pod = Pod::ordered(revision);
        let then = World::settled(Style::Recreate, &[]).facts.now;
        if is_made {
            (pod.created, pod.phase, pod.node) = (Some(then), recreate::Phase::Running, "n".to_owned());
            pod.ready = Ready { ready: is_ready, since: is_ready.then_some(then) };
            pod.is_preparing = is_preparing;
        } else if !is_placed {
            pod.unschedulable_since = Some(then);
        }
        pod
    })
}

fn any_slot() -> impl Strategy<Value = Slot> {
    let next = prop::option::weighted(0.3, (0..3usize, any_pod()));
    let main = prop::option::weighted(0.9, any_pod());
    let marks = (prop::bool::weighted(0.1), prop::bool::weighted(0.1));
    (0..3usize, main, next, marks, 0..2i64).prop_map(|(unit, main, next, (is_stopped, is_bound), leaving)| {
        // A pod beside nothing is the main one.
        let next = next.filter(|_| main.is_some()).map(|(unit, pod)| Next { unit, pod });
        Slot { number: 0, unit, is_stopped, is_bound, main, next, leaving }
    })
}

fn any_phase() -> impl Strategy<Value = Phase> {
    let all = [Phase::Idle, Phase::Running, Phase::WaitingForConfirm, Phase::Completed, Phase::Aborted];
    prop::sample::select(all.to_vec())
}

fn any_facts() -> impl Strategy<Value = Facts> {
    let slots = prop::collection::vec((any_slot(), prop::bool::weighted(0.9)), 0..9);
    let wishes = prop::collection::vec(prop::option::of(0..5i64), 1..4);
    let release = (any_phase(), 0..4u64, prop::collection::vec(0..5i64, 0..4), 0..4u64, 1..4u32);
    (any_style(), slots, wishes, 0..10i64, release, any::<[bool; 2]>()).prop_map(
        |(style, slots, wishes, replicas, (phase, group, committed, confirmed, target), [is_paused, is_rollback])| {
            let mut facts = World::settled(style, &[]).facts;
            let numbered = (1..).zip(slots).filter(|(_, (_, is_there))| *is_there);
            facts.slots = numbered.map(|(number, (slot, _))| Slot { number, ..slot }).collect();
            facts.units = units(wishes.into_iter().map(|wish| wish.map(Amount::Count)));
            (facts.replicas, facts.target) = (replicas, 3);
            facts.is_rollback = is_rollback;
            facts.equals.extend(is_rollback.then_some(1));
            let release = &mut facts.release;
            (release.phase, release.group, release.committed) = (phase, group, committed);
            (release.confirmed, release.target, release.is_paused) = (confirmed, target, is_paused);
            release.is_aborted = phase == Phase::Aborted;
            facts
        },
    )
}

property! {
    fn from_any_state_a_second_leader_does_nothing_more_and_the_plan_ends(facts in any_facts(), turn in 0..9usize) {
        let decision = controller(&facts);
        let mut turned = facts.clone();
        let by = turn.min(turned.slots.len());
        turned.slots.rotate_left(by);
        prop_assert_eq!(&controller(&turned), &decision, "in whatever order the instances come");
        let mut world = World::settled(Style::Recreate, &[]);
        world.facts = facts.clone();
        world.decide();
        let is_held = facts.units.iter().all(|unit| unit.wish == Some(Amount::Count(0)));
        let is_over = decision.release.phase == Phase::Aborted;
        prop_assert!(plan(&facts).completes || is_held || is_over, "{:?}", plan(&facts));
    }

    fn another_strategy_in_the_middle_of_a_release_brings_it_to_its_end(
        before in any_style(), after in any_style(), sizes in prop::collection::vec(0..5usize, 1..4), ticks in 0..10usize,
        (start, end) in (0..3i64, 0..3i64), undo: bool,
    ) {
        let mut world = World::settled(before, &sizes);
        (world.start, world.end) = (start, end);
        world.release(2).run(ticks);
        if undo && world.facts.release.is_open() {
            world.undo(3);
        }
        world.facts.settings.style = after;
        let mut quiet = 0;
        for _ in 0..300 {
            let decision = world.decide();
            if let RolloutStatus::WaitingForConfirm { group } = decision.report.status {
                world.say(Control::Confirm(group));
            }
            world.pass();
            let is_over = decision.actions.is_empty() && !decision.release.is_open();
            quiet = if is_over { quiet + 1 } else { 0 };
            if quiet > 4 {
                break;
            }
        }
        prop_assert_eq!(world.decide().report.status, RolloutStatus::Complete);
        prop_assert!(world.facts.slots.iter().all(|slot| slot.next.is_none()), "{:?}", world.facts.slots);
        let facts = &world.facts;
        prop_assert!(world.pods().all(|pod| facts.is_target(pod.revision)), "{:?}", world.facts.slots);
    }

    fn nothing_moves_in_a_freeze_and_a_pause_lets_only_scaling_through(facts in any_facts()) {
        let mut frozen = facts.clone();
        frozen.release.is_frozen = true;
        prop_assert_eq!(controller(&frozen).actions, []);
        let mut paused = facts;
        paused.release.is_paused = true;
        (paused.settings.auto_reschedule, paused.release.is_aborted) = (None, false);
        let there = i64::try_from(paused.slots.len()).expect("few");
        let is_recreating = matches!(paused.settings.style, Style::Recreate);
        let decision = controller(&paused);
        for action in decision.actions {
            let is_allowed = match action {
                // A recreation that took everything away brings something back.
                Action::Create { .. } => there < paused.replicas || is_recreating,
                Action::Remove(_) => there > paused.replicas,
                // What is stopped needs no second pod, and fewer instances may have fewer.
                Action::Drop(_) | Action::Promote(_) => true,
                Action::Surge(_) | Action::Renew(_) | Action::Retire(_) | Action::Move { .. } => false,
                Action::Reassign { .. } | Action::Divert { .. } => false,
            };
            prop_assert!(is_allowed, "{action:?}");
        }
    }
}

#[test]
fn a_change_in_place_takes_one_instance_at_a_time_and_waits_for_what_leaves() {
    let mut world = World::settled(rolling(0, 0), &[3]);
    (world.start, world.end) = (1, 2);
    world.release(2);
    let mut least = 3;
    for _ in 0..40 {
        let actions = world.decide().actions;
        assert!(actions.len() <= 1 && actions.iter().all(|action| matches!(action, Action::Renew(_))), "{actions:?}");
        least = least.min(world.available());
        let double = world
            .facts
            .slots
            .iter()
            .any(|slot| slot.leaving > 0 && slot.main.as_ref().is_some_and(|main| main.created.is_some()));
        assert!(!double, "an address belongs to one at a time");
        world.pass();
    }
    assert_eq!((least, world.revisions()), (2, vec![2, 2, 2]));
}

#[test]
fn a_stopped_instance_neither_holds_a_release_nor_starts_with_it() {
    for style in [rolling(1, 0), Style::Recreate, Style::Groups(grouped(2, true))] {
        let mut world = World::settled(style, &[4]);
        let stopped = &mut world.facts.slots[1];
        stopped.is_stopped = true;
        stopped.main.as_mut().expect("it has one").ready.ready = false;
        world.facts.settings.deadline = Some(Duration::from_secs(10));
        assert_eq!(world.release(2).run(60).report.status, RolloutStatus::Complete, "{style:?}");
        assert_eq!(world.revisions(), [2, 2, 2, 2]);
        assert!(world.facts.slots[1].is_stopped && !world.facts.slots[1].main.as_ref().expect("one").ready.ready);
    }
}

#[test]
fn a_release_that_waited_to_be_confirmed_goes_on_when_its_groups_are_no_more() {
    let mut world = World::settled(Style::Groups(Grouped { needs_confirm: true, ..grouped(2, true) }), &[3]);
    assert_eq!(world.release(2).run(3).report.status, RolloutStatus::WaitingForConfirm { group: 1 });
    world.facts.settings.style = rolling(1, 0);
    assert_eq!(world.run(10).report.status, RolloutStatus::Complete);
}

#[test]
fn a_rolling_update_that_becomes_one_by_groups_leaves_no_instance_with_two_pods() {
    let mut world = World::settled(rolling(2, 0), &[4]);
    world.release(2).decide();
    world.facts.settings.style = Style::Groups(grouped(1, false));
    assert_eq!(world.decide().actions[..2], [Action::Drop(1), Action::Drop(2)]);
    assert_eq!(world.run(20).report.status, RolloutStatus::Complete);
    assert_eq!(world.revisions(), [2, 2, 2, 2]);
}

#[test]
fn of_two_pods_of_the_target_the_one_that_serves_stays() {
    let mut world = World::settled(rolling(1, 0), &[2]);
    for slot in &mut world.facts.slots {
        slot.next = slot.main.clone().map(|pod| Next { unit: 0, pod });
    }
    world.facts.slots[1].main.as_mut().expect("one").ready.ready = false;
    assert_eq!(world.decide().actions, [Action::Drop(1), Action::Promote(2)]);
}
