//! Instances that go to another unit.

use std::time::Duration;

use super::world::{World, grouped, rolling};
use crate::rollout::conduct::{Action, AutoReschedule, FailBack, Grouped, Stand, Style, Unit};
use crate::rollout::moment::Moment;
use crate::rollout::numbers::Amount;

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
    world.facts.units = free.map(|free_slots| Unit { wish: None, free_slots }).to_vec();
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
    assert_eq!(world.run(10).report.stand, Stand::Complete);
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
    assert_eq!(world.release(2).run(30).report.stand, Stand::Complete);
    world.decide();
    world.pass();
    world.decide();
    assert_eq!((sizes(&world), world.revisions()), (vec![5, 1], vec![2; 6]));
}
