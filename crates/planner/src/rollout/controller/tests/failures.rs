//! Deadlines and failures: when a release is called stuck or failed, and what follows.

use std::time::Duration;

use super::world::{World, grouped, rolling};
use crate::rollout::controller::{Cause, Control, FailureAction, Grouped, Pod, RolloutStatus, Style, Verdict};
use crate::rollout::moment::Moment;
use crate::rollout::numbers::Amount;

/// Four instances, two at a time, toward a revision that never gets ready.
fn broken(action: FailureAction) -> World {
    let mut world = World::settled(Style::Groups(grouped(2, false)), &[2, 2]);
    world.facts.settings.failure_action = action;
    world.facts.settings.deadline = Some(Duration::from_secs(10));
    world.broken.insert(2);
    world.release(2);
    world
}

fn crash(world: &mut World) {
    for slot in &mut world.facts.slots {
        if let Some(main) = slot.main.as_mut().filter(|main| main.revision == 2) {
            main.signs.restarts = 3;
        }
    }
}

#[test]
fn a_crash_loop_is_a_failure_long_before_the_deadline() {
    let mut world = broken(FailureAction::Hold);
    world.run(2);
    crash(&mut world);
    let decision = world.decide();
    assert_eq!(
        (decision.verdict, decision.report.status),
        (Verdict::Hold(Cause::Crashing), RolloutStatus::Held(Cause::Crashing))
    );
    assert_eq!(world.run(30).release.group, 1, "nothing more is touched");
}

#[test]
fn every_plain_failure_is_named() {
    let named = |how: fn(&mut Pod)| {
        let mut world = broken(FailureAction::Hold);
        world.facts.settings.placement_patience = Some(Duration::from_secs(2));
        world.run(3);
        world
            .facts
            .slots
            .iter_mut()
            .filter_map(|slot| slot.main.as_mut())
            .filter(|main| main.revision == 2)
            .for_each(how);
        world.decide().verdict
    };
    assert_eq!(named(|pod| pod.signs.image_is_hopeless = true), Verdict::Hold(Cause::ImageHopeless));
    assert_eq!(named(|pod| pod.signs.early_exits = 2), Verdict::Hold(Cause::Crashing));
    assert_eq!(named(|pod| pod.is_hook_overdue = true), Verdict::Hold(Cause::HookOverdue));
    assert_eq!(named(|pod| pod.is_gate_overdue = true), Verdict::Hold(Cause::GateOverdue));
    let unplaced = |pod: &mut Pod| pod.unschedulable_since = Some(Moment::from_secs(1_000));
    assert_eq!(named(unplaced), Verdict::Hold(Cause::Unschedulable));
}

#[test]
fn a_release_that_may_goes_back_and_a_rollback_never_does() {
    let mut world = broken(FailureAction::Rollback);
    world.run(2);
    crash(&mut world);
    assert_eq!(world.decide().verdict, Verdict::Rollback(Cause::Crashing));
    world.facts.is_rollback = true;
    assert_eq!(world.decide().verdict, Verdict::Hold(Cause::Crashing));
    world.facts.is_rollback = false;
    world.facts.can_roll_back = false;
    assert_eq!(world.decide().verdict, Verdict::Hold(Cause::Crashing));
}

#[test]
fn a_release_that_goes_on_leaves_the_failed_behind() {
    let mut world = broken(FailureAction::Continue);
    world.run(2);
    crash(&mut world);
    let decision = world.decide();
    assert_eq!((decision.verdict, decision.release.group), (Verdict::Continue(Cause::Crashing), 2));
    world.pass();
    crash(&mut world);
    assert_eq!(world.run(4).report.status, RolloutStatus::Complete);
}

#[test]
fn without_progress_the_deadline_passes_but_not_in_a_pause() {
    let mut world = broken(FailureAction::Hold);
    world.run(5);
    world.say(Control::Pause);
    world.run(50);
    world.say(Control::Resume);
    assert_eq!(world.run(5).report.status, RolloutStatus::Progressing);
    assert_eq!(world.run(10).verdict, Verdict::Hold(Cause::DeadlineExceeded));
    assert_eq!(world.facts.release.failure.as_ref().expect("it failed").slots.len(), 2);
    world.say(Control::Resume);
    assert_eq!(world.run(5).verdict, Verdict::Fine, "it gets its time again");
    world.broken.clear();
    assert_eq!(world.run(10).report.status, RolloutStatus::Complete);
}

#[test]
fn what_was_only_slow_is_forgiven_when_it_moves() {
    let mut world = broken(FailureAction::Hold);
    assert_eq!(world.run(20).verdict, Verdict::Hold(Cause::DeadlineExceeded));
    world.broken.clear();
    assert_eq!(world.run(10).report.status, RolloutStatus::Complete);
}

#[test]
fn a_few_may_be_missing_at_the_deadline() {
    let mut world = broken(FailureAction::Hold);
    world.facts.settings.failure_threshold = Amount::Percent(100);
    assert_eq!(world.run(60).report.status, RolloutStatus::Complete, "each group goes on at its deadline");
    assert_eq!(world.revisions(), [2, 2, 2, 2]);
}

#[test]
fn a_crash_loop_that_is_ready_now_and_then_does_not_move_the_deadline() {
    let mut world = World::settled(rolling(1, 0), &[3]);
    world.facts.settings.deadline = Some(Duration::from_secs(10));
    world.facts.settings.min_ready = Duration::from_secs(3);
    world.broken.insert(2);
    world.release(2);
    let mut verdict = Verdict::Fine;
    for tick in 0..20 {
        let pod = world.facts.slots[0].next.as_mut().map(|next| &mut next.pod.ready);
        if let Some(ready) = pod {
            (ready.ready, ready.since) = (tick % 2 == 0, Some(world.facts.now));
        }
        verdict = world.decide().verdict;
        world.pass();
    }
    assert_eq!(verdict, Verdict::Hold(Cause::DeadlineExceeded));
    assert_eq!(world.available(), 3, "all old ones serve");
}

#[test]
fn a_slow_group_makes_progress_with_every_pod() {
    let mut world = World::settled(Style::Groups(grouped(8, false)), &[8]);
    world.facts.settings.deadline = Some(Duration::from_secs(10));
    world.broken.insert(2);
    world.release(2);
    for tick in 0..56 {
        if tick % 7 == 6 {
            let late =
                world.facts.slots.iter_mut().filter_map(|slot| slot.main.as_mut()).find(|main| !main.ready.ready);
            let ready = &mut late.expect("one is not ready").ready;
            (ready.ready, ready.since) = (true, Some(world.facts.now));
        }
        assert_eq!(world.decide().verdict, Verdict::Fine, "tick {tick}");
        world.pass();
    }
    assert_eq!(world.decide().report.status, RolloutStatus::Complete);
}

#[test]
fn an_instance_that_restarted_long_ago_does_not_fail_the_release_that_goes_back_to_it() {
    let mut world = broken(FailureAction::Hold);
    world.facts.slots[3].main.as_mut().expect("one").signs.restarts = 7;
    world.run(2);
    assert_eq!(world.undo(3).run(10).report.status, RolloutStatus::Complete);
}

#[test]
fn a_crash_while_it_waits_to_be_confirmed_is_a_failure_too() {
    let mut world = broken(FailureAction::Hold);
    world.facts.settings.style = Style::Groups(Grouped { needs_confirm: true, ..grouped(2, false) });
    world.broken.clear();
    assert_eq!(world.run(4).report.status, RolloutStatus::WaitingForConfirm { group: 1 });
    crash(&mut world);
    world.say(Control::Confirm(1));
    assert_eq!(world.decide().report.status, RolloutStatus::Held(Cause::Crashing));
    world.say(Control::Resume);
    assert_eq!(world.decide().release.group, 2, "the confirmation was kept");
}
