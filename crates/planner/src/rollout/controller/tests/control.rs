//! What people may say, and what is refused.

use super::world::{World, grouped};
use crate::rollout::controller::{Action, Control, Grouped, Refusal, RolloutStatus, Style, apply};

fn confirmed() -> Style {
    Style::Groups(Grouped { needs_confirm: true, ..grouped(2, false) })
}

#[test]
fn a_confirmation_names_the_group_that_waits() {
    let mut world = World::settled(confirmed(), &[3, 3]);
    world.release(2).decide();
    let say = |world: &World, control| apply(&world.facts.release, control, world.facts.now);
    assert_eq!(say(&world, Control::Confirm(1)), Err(Refusal::NotWaiting), "the group is not done");
    world.run(3);
    assert_eq!(say(&world, Control::Confirm(2)), Err(Refusal::OtherGroup { current: 1 }));
    world.say(Control::Confirm(1));
    let once = world.facts.release.clone();
    world.say(Control::Confirm(1));
    assert_eq!(world.facts.release, once);
    world.decide();
    world.say(Control::Confirm(1));
    assert_eq!(world.facts.release.group, 2, "a repeated confirmation confirms nothing else");
    world.run(3);
    assert_eq!(world.last.expect("asked").report.status, RolloutStatus::WaitingForConfirm { group: 2 });
}

#[test]
fn everything_may_be_said_twice() {
    let mut world = World::settled(confirmed(), &[3, 3]);
    world.release(2).run(3);
    for control in
        [Control::Pause, Control::Resume, Control::Freeze, Control::Unfreeze, Control::Skip(1), Control::Abort]
    {
        world.say(control);
        let once = world.facts.release.clone();
        world.say(control);
        assert_eq!(world.facts.release, once, "{control:?}");
    }
}

#[test]
fn nothing_moves_in_a_freeze_not_even_the_number_of_instances() {
    let mut world = World::settled(confirmed(), &[3, 3]);
    world.release(2).decide();
    world.say(Control::Freeze);
    world.facts.replicas = 2;
    world.pass();
    let decision = world.decide();
    assert_eq!((decision.actions, decision.report.status), (vec![], RolloutStatus::Frozen));
    world.say(Control::Unfreeze);
    assert_eq!(world.decide().actions.len(), 4);
}

#[test]
fn a_group_that_is_skipped_is_not_waited_for() {
    let mut world = World::settled(Style::Groups(grouped(2, false)), &[2, 2]);
    world.broken.insert(2);
    world.release(2).run(3);
    assert_eq!(world.facts.release.group, 1);
    assert_eq!(apply(&world.facts.release, Control::Skip(2), world.facts.now), Err(Refusal::OtherGroup { current: 1 }));
    world.say(Control::Skip(1));
    assert_eq!(world.decide().release.group, 2);
}

#[test]
fn an_abort_keeps_the_mix_for_good() {
    let mut world = World::settled(confirmed(), &[3, 3]);
    world.release(2).run(3);
    world.say(Control::Abort);
    assert_eq!(world.run(5).report.status, RolloutStatus::Aborted);
    assert_eq!(world.revisions().iter().filter(|revision| **revision == 2).count(), 2);
    assert_eq!(apply(&world.facts.release, Control::Skip(1), world.facts.now), Err(Refusal::Over));
    let mut done = World::settled(confirmed(), &[1]);
    done.decide();
    assert_eq!(apply(&done.facts.release, Control::Abort, done.facts.now), Err(Refusal::Over));
}

#[test]
fn in_a_pause_scaling_still_works_and_crashed_pods_keep_their_revision() {
    let mut world = World::settled(confirmed(), &[3, 3]);
    world.release(2).run(3);
    world.say(Control::Pause);
    world.facts.replicas = 8;
    let decision = world.decide();
    let created: Vec<u32> = decision
        .actions
        .iter()
        .filter_map(|action| match action {
            Action::Create { revision, .. } => Some(*revision),
            _ => None,
        })
        .collect();
    assert_eq!(created, [1, 1], "a third of each unit is updated, and two more keep it so");
}
