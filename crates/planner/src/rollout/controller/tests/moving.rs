//! Instances that go to another unit.

use std::time::Duration;

use super::world::{World, grouped, healthy, rolling};
use crate::rollout::controller::{
    Action, AutoReschedule, Cause, Control, FailBack, Grouped, RolloutStatus, Style, Unit,
};
use crate::rollout::moment::Moment;
use crate::rollout::numbers::Amount;
use crate::rollout::recreate::Phase;

fn sizes(world: &World) -> Vec<usize> {
    (0..world.facts.units.len()).map(|at| world.facts.slots.iter().filter(|slot| slot.unit == at).count()).collect()
}

#[test]
fn quota_that_moves_is_made_before_it_is_broken() {
    for style in [rolling(1, 0), Style::Groups(grouped(4, true))] {
        let mut world = World::settled(style, &[5, 5]);
        world.facts.units[0].wish = Some(Amount::Count(8));
        let decision = world.decide();
        let moved = |slot| Action::Move { slot, unit: 0 };
        assert_eq!((decision.actions, sizes(&world)), (vec![moved(10), moved(9), moved(8)], vec![5, 5]));
        world.pass();
        world.facts.slots[9].next.as_mut().expect("it moves").pod.ready.ready = false;
        assert_eq!(world.decide().actions, [Action::Promote(8), Action::Promote(9)]);
        world.pass();
        assert_eq!((world.decide().actions, sizes(&world)), (vec![Action::Promote(10)], vec![8, 2]));
    }
}

#[test]
fn an_instance_that_serves_nobody_follows_at_once() {
    let mut world = World::settled(rolling(1, 0), &[2, 2]);
    world.kill(2);
    world.facts.units[0].wish = Some(Amount::Count(3));
    let decision = world.decide();
    assert_eq!(decision.actions, [Action::Move { slot: 3, unit: 0 }, Action::Promote(3)]);
}

#[test]
fn an_instance_that_ended_for_good_does_not_hold_up_those_that_move() {
    for style in [rolling(1, 0), Style::Groups(grouped(4, true))] {
        let mut world = World::settled(style, &[2, 2]);
        world.kill(0);
        world.facts.units[0].wish = Some(Amount::Count(3));
        assert_eq!(world.decide().actions, [Action::Move { slot: 4, unit: 0 }]);
        world.facts.slots[3].next.as_mut().expect("it moves").pod = healthy(1);
        assert_eq!(world.decide().actions, [], "the first may come back");
        world.facts.slots[0].main.as_mut().expect("a pod").phase = Phase::Failed;
        assert_eq!((world.decide().actions, sizes(&world)), (vec![Action::Promote(4)], vec![3, 1]));
    }
}

#[test]
fn a_move_that_is_no_longer_wanted_is_taken_back() {
    let mut world = World::settled(rolling(1, 0), &[3, 3]);
    world.facts.units[0].wish = Some(Amount::Count(5));
    world.decide();
    world.facts.units[0].wish = None;
    assert_eq!(world.decide().actions, [Action::Drop(5), Action::Drop(6)]);
    assert_eq!(sizes(&world), [3, 3]);
}

#[test]
fn a_unit_that_is_no_longer_declared_is_left() {
    let mut world = World::settled(Style::Groups(grouped(4, true)), &[2, 2, 2]);
    world.facts.units.pop();
    world.run(1);
    world.decide();
    assert_eq!(world.facts.slots.iter().map(|slot| slot.unit).collect::<Vec<_>>(), [0, 0, 1, 1, 1, 0]);
}

/// Ten instances over two units toward revision 2, all at once; the new pods of some find no room.
fn stuck(free: [Option<i64>; 2], stuck_units: &[usize]) -> World {
    let mut world = World::settled(Style::Groups(grouped(10, false)), &[5, 5]);
    world.facts.units.iter_mut().zip(free).for_each(|(unit, free_slots)| unit.free_slots = free_slots);
    world.facts.settings.auto_reschedule =
        Some(AutoReschedule { delay: Duration::from_secs(30), fail_back: FailBack::Lazy });
    world.release(2).decide();
    for unit in stuck_units {
        let of_unit = world.facts.slots.iter_mut().filter(|slot| slot.unit == *unit).take(2);
        for main in of_unit.filter_map(|slot| slot.main.as_mut()) {
            main.unschedulable_since = Some(Moment::from_secs(1_000));
        }
    }
    world
}

#[test]
fn pods_without_room_go_where_there_is_some_after_their_delay() {
    let mut world = stuck([None, None], &[0]);
    assert_eq!(world.decide().actions, []);
    world.facts.now = Moment::from_secs(1_030);
    let moved = |slot| Action::Reassign { slot, unit: 1 };
    assert_eq!((world.decide().actions, sizes(&world)), (vec![moved(1), moved(2)], vec![3, 7]));
    assert_eq!(
        (world.facts.release.allotment.targets.clone(), world.facts.release.committed.clone()),
        (vec![3, 7], vec![3, 7])
    );
    assert_eq!(world.run(10).report.status, RolloutStatus::Complete);
    assert_eq!(sizes(&world), [3, 7], "it does not come back by itself");
}

#[test]
fn when_everybody_is_stuck_nobody_moves() {
    let mut world = stuck([None, None], &[0, 1]);
    world.facts.now = Moment::from_secs(1_030);
    let decision = world.decide();
    assert_eq!(decision.actions, []);
    assert_eq!(decision.report.units.iter().map(|unit| unit.unplaced).collect::<Vec<_>>(), [2, 2]);
}

#[test]
fn quota_comes_back_with_the_next_scaling_or_eagerly_with_time() {
    let mut world = stuck([None, None], &[0]);
    world.facts.now = Moment::from_secs(1_030);
    world.run(10);
    world.facts.replicas = 12;
    world.run(10);
    assert_eq!(sizes(&world), [6, 6]);
    let mut world = stuck([None, None], &[0]);
    world.facts.settings.auto_reschedule =
        Some(AutoReschedule { delay: Duration::from_secs(30), fail_back: FailBack::Eager });
    world.facts.now = Moment::from_secs(1_030);
    world.run(10);
    world.facts.now = Moment::from_secs(2_000);
    (0..3).for_each(|_| {
        world.decide();
        world.pass();
    });
    assert_eq!(sizes(&world), [5, 5]);
}

#[test]
fn a_release_takes_an_instance_that_is_about_to_move() {
    let mut world = World::settled(Style::Groups(Grouped { window: None, ..grouped(10, false) }), &[3, 3]);
    world.facts.units[0].wish = Some(Amount::Count(5));
    world.decide();
    assert_eq!(world.release(2).run(30).report.status, RolloutStatus::Complete);
    world.decide();
    world.pass();
    world.decide();
    assert_eq!((sizes(&world), world.revisions()), (vec![5, 1], vec![2; 6]));
}

/// Three instances of one unit and one of another toward revision 2; the first unit has no room for anything new.
fn crowded(style: Style, sizes: &[usize]) -> World {
    let mut world = World::settled(style, sizes);
    world.facts.units.iter_mut().for_each(|unit| unit.wish = None);
    world.facts.settings.auto_reschedule =
        Some(AutoReschedule { delay: Duration::from_secs(2), fail_back: FailBack::Lazy });
    world.room = vec![Some(0)];
    world.release(2);
    world
}

#[test]
fn a_second_pod_without_room_goes_to_another_unit_and_the_instance_follows() {
    let mut world = crowded(rolling(1, 0), &[1, 1]);
    assert_eq!(world.decide().actions, [Action::Surge(1)]);
    (0..3).for_each(|_| world.pass());
    assert_eq!(world.decide().actions, [Action::Divert { slot: 1, unit: 1 }]);
    assert_eq!(world.facts.release.allotment.targets, [0, 2]);
    world.pass();
    assert_eq!(world.decide().actions, [Action::Promote(1), Action::Surge(2)]);
    assert_eq!(world.run(10).report.status, RolloutStatus::Complete);
    assert_eq!((sizes(&world), world.revisions()), (vec![0, 2], vec![2, 2]));
}

#[test]
fn an_instance_bound_to_its_data_stays_where_there_is_no_room() {
    let mut world = crowded(rolling(1, 0), &[1, 1]);
    world.facts.slots[0].is_bound = true;
    world.facts.settings.placement_patience = Some(Duration::from_secs(5));
    world.run(20);
    assert_eq!((sizes(&world), world.available()), (vec![1, 1], 2));
    assert_eq!(world.decide().report.status, RolloutStatus::Held(Cause::Unschedulable));
}

#[test]
fn a_second_pod_nobody_has_room_for_fails_the_release() {
    let mut world = World::settled(rolling(1, 0), &[2]);
    world.facts.settings.placement_patience = Some(Duration::from_secs(5));
    world.room = vec![Some(0)];
    world.release(2).run(10);
    let decision = world.decide();
    assert_eq!(decision.report.status, RolloutStatus::Held(Cause::Unschedulable));
    assert_eq!((decision.release.failure.expect("it failed").slots, world.available()), (vec![1], 2));
}

#[test]
fn quota_follows_pods_that_get_stuck_one_after_the_other() {
    let mut world = crowded(Style::Groups(grouped(1, false)), &[3, 3]);
    assert_eq!(world.run(60).report.status, RolloutStatus::Complete);
    assert_eq!((sizes(&world), world.facts.release.allotment.sent.clone()), (vec![0, 6], vec![(0, 1)]));
}

#[test]
fn a_stuck_pod_its_unit_has_too_many_of_goes_where_the_division_wants_it() {
    for style in [rolling(1, 0), rolling(0, 1), Style::Groups(grouped(1, true))] {
        let mut world = crowded(style, &[3, 1]);
        world.facts.settings.auto_reschedule = None;
        world.facts.units[0].wish = Some(Amount::Count(0));
        assert_eq!(world.run(60).report.status, RolloutStatus::Complete, "{style:?}");
        assert_eq!((sizes(&world), world.revisions()), (vec![0, 4], vec![2; 4]));
    }
}

#[test]
fn an_abort_takes_back_a_second_pod_that_was_diverted() {
    let mut world = crowded(rolling(1, 0), &[1, 1]);
    world.decide();
    (0..3).for_each(|_| world.pass());
    world.decide();
    world.say(Control::Abort);
    let decision = world.decide();
    assert_eq!(decision.actions[0], Action::Drop(1));
    (0..5).for_each(|_| {
        world.decide();
        world.pass();
    });
    assert_eq!(world.revisions(), [1, 1], "the mix stays");
}

#[test]
fn a_unit_that_is_left_behind_does_not_bring_back_quota_when_its_last_instance_goes() {
    let mut world = stuck([None, None], &[0]);
    world.facts.now = Moment::from_secs(1_030);
    world.run(10);
    assert_eq!(world.facts.release.allotment.targets, [3, 7]);
    let declared = world.facts.units.clone();
    let gone = Unit { name: "gone".to_owned(), wish: Some(Amount::Count(0)), free_slots: None };
    world.facts.units.push(gone);
    assert_eq!((world.decide().actions, sizes(&world)), (vec![], vec![3, 7, 0]));
    world.facts.units = declared;
    assert_eq!((world.decide().actions, sizes(&world)), (vec![], vec![3, 7]));
}
