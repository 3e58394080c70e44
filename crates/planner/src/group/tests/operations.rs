//! Starts, stops and restarts: asked once, answered once, and no lock is held for what cannot answer.

use super::world::*;
use super::*;

fn answered(mut facts: Option<PodFacts>, starts: u32, restarts: u32) -> Option<PodFacts> {
    if let Some(facts) = &mut facts {
        (facts.starts_done, facts.restarts_done) = (starts, restarts);
    }
    facts
}

fn asked(world: &World) -> Vec<(TargetState, u32, u32)> {
    world.slots.iter().map(|slot| (slot.target, slot.starts_requested, slot.restarts_requested)).collect()
}

const RUN: TargetState = TargetState::Run;
const STOP: TargetState = TargetState::Stop;

#[test]
fn a_stop_is_told_to_all_at_once_and_over_when_none_runs() {
    let mut world = world(3, &["a"]).all_healthy();
    world.run_operation(Operation::Stopping, 1..=3, 10);
    let plan = world.settle(10);
    assert_eq!((asked(&world), plan.store, plan.finished()), (vec![(STOP, 0, 0); 3], true, false));
    let next = |world: &World| world.record.operation.as_ref().map(|operation| (operation.next, operation.last));
    assert_eq!(next(&world), Some((4, 3)));
    assert_eq!(world.settle(11).record, None);
    world.observed = vec![reported(RunState::Exit); 3];
    let plan = world.settle(12);
    assert!(plan.finished() && !plan.store);
    assert_eq!(plan.statuses, [InstanceStatus::Exited; 3]);
}

#[test]
fn one_instance_is_stopped_and_the_others_do_not_matter() {
    let mut world = world(3, &["a"]).all_healthy();
    world.run_operation(Operation::Stopping, 2..=2, 10);
    world.settle(10);
    assert_eq!(asked(&world), [(RUN, 0, 0), (STOP, 0, 0), (RUN, 0, 0)]);
    world.observed[0] = reported(RunState::Pending);
    world.observed[1] = reported(RunState::Exit);
    assert!(world.settle(11).finished());
}

#[test]
fn silent_nodes_do_not_hold_the_lock() {
    for (kind, target) in [(Operation::Stopping, STOP), (Operation::Starting, RUN)] {
        let mut world = world(2, &["a", "b"]).all_healthy();
        world.candidate("a").liveness = Liveness::Suspect;
        world.candidate("b").engine = EngineState::Hung;
        world.run_operation(kind, 1..=2, 10);
        assert!(world.settle(10).finished());
        assert!(world.slots.iter().all(|slot| slot.target == target));
    }
}

#[test]
fn a_start_is_over_when_each_has_answered() {
    let mut world = world(2, &["a"]).all_healthy();
    world.slots[0].target = STOP;
    world.observed[0] = reported(RunState::Exit);
    world.run_operation(Operation::Starting, 1..=2, 10);
    let plan = world.settle(10);
    assert_eq!((asked(&world), plan.finished()), (vec![(RUN, 1, 0); 2], false));
    world.observed = vec![answered(reported(RunState::Pending), 1, 0), answered(healthy(0), 1, 0)];
    assert!(!world.settle(11).finished());
    // It ended again: the start was done, what follows is the restart policy's business.
    world.observed[0] = answered(reported(RunState::Exit), 1, 0);
    assert!(world.settle(12).finished());
}

#[test]
fn a_start_does_not_wait_for_instances_without_a_place_nor_for_those_that_cannot_be_made() {
    let mut world = world(2, &["a"]).all_healthy();
    world.observed[0] = reported(RunState::Error);
    world.record.spec.num_instances = 3;
    world.settle(5);
    world.constraints = vec!["constraint:node==z".to_owned()];
    world.slots[2].node = None;
    world.run_operation(Operation::Starting, 1..=3, 10);
    world.observed[1] = answered(healthy(0), 1, 0);
    let plan = world.settle(10);
    assert!(plan.finished(), "{plan:?}");
    assert_eq!(plan.statuses, [InstanceStatus::CreateFailed, InstanceStatus::Running, InstanceStatus::Unplaced]);
}

#[test]
fn a_start_does_not_wait_for_the_next_attempt() {
    let mut world = world(1, &["a", "b"]).all_healthy();
    world.observed[0] = reported(RunState::Error);
    assert_eq!(world.settle(5).wake_at, Some(at(15)));
    world.run_operation(Operation::Starting, 1..=1, 6);
    world.settle(6);
    assert_eq!((world.drifts(), world.places()), (vec![1], vec![Some("b")]));
}

#[test]
fn restarts_go_one_after_another_each_when_the_one_before_is_well() {
    let mut world = world(3, &["a"]).all_healthy();
    world.run_operation(Operation::Restarting, 1..=3, 10);
    let plan = world.settle(10);
    assert_eq!((asked(&world), plan.store), (vec![(RUN, 0, 1), (RUN, 0, 0), (RUN, 0, 0)], true));
    assert!(!world.settle(11).store, "not answered: what is seen is from before");
    world.observed[0] = answered(starting(12), 0, 1);
    assert_eq!(world.settle(12).wake_at, Some(at(112)));
    world.observed[0] = answered(healthy(12), 0, 1);
    world.settle(13);
    assert_eq!(asked(&world), [(RUN, 0, 1), (RUN, 0, 1), (RUN, 0, 0)]);
    world.observed[1] = answered(healthy(14), 0, 1);
    world.settle(14);
    assert_eq!(asked(&world), [(RUN, 0, 1); 3]);
    assert!(!world.settle(15).finished());
    world.observed[2] = answered(starting(16), 0, 1);
    assert!(world.settle(16).finished(), "nobody waits for the last one to be well");
    assert!(!world.settle(17).store);
}

#[test]
fn a_restarted_instance_that_stays_down_or_unwell_holds_the_rest_for_five_polls() {
    for facts in [reported(RunState::Exit), reported(RunState::Error), running(HealthState::Unhealthy, 10)] {
        let mut world = world(2, &["a"]).all_healthy();
        world.run_operation(Operation::Restarting, 1..=2, 10);
        world.settle(10);
        world.observed[0] = answered(facts.clone(), 0, 1);
        let plan = world.plan(109);
        assert_eq!(plan.slots[1].restarts_requested, 0, "{facts:?}");
        assert!(plan.wake_at.is_some_and(|wake| wake <= at(110)), "{facts:?}");
        assert_eq!(world.plan(110).slots[1].restarts_requested, 1, "{facts:?}");
    }
}

#[test]
fn a_restart_of_one_instance_is_over_with_it_and_runs_what_was_stopped() {
    let mut world = world(2, &["a"]).all_healthy();
    world.slots[1].target = STOP;
    world.observed[1] = reported(RunState::Exit);
    world.run_operation(Operation::Restarting, 2..=2, 10);
    world.settle(10);
    assert_eq!(asked(&world), [(RUN, 0, 0), (RUN, 0, 1)]);
    world.observed[1] = answered(healthy(11), 0, 1);
    assert!(world.settle(11).finished());
}

#[test]
fn a_restart_passes_by_what_has_no_place() {
    let mut world = world(2, &["a"]).all_healthy();
    world.slots[0].node = None;
    world.constraints = vec!["constraint:node==z".to_owned()];
    world.run_operation(Operation::Restarting, 1..=2, 10);
    world.settle(10);
    assert_eq!(asked(&world), [(RUN, 0, 1), (RUN, 0, 1)]);
    world.observed[1] = answered(healthy(11), 0, 1);
    assert!(world.settle(11).finished());
}

#[test]
fn a_restart_ends_at_its_limit_and_says_how_far_it_came() {
    let mut world = world(3, &["a"]).all_healthy();
    world.run_operation(Operation::Restarting, 1..=3, 10);
    world.settle(10);
    world.observed[0] = reported(RunState::Pending);
    assert!(!world.settle(609).finished());
    let plan = world.settle(610);
    assert!(plan.finished());
    assert_eq!(world.record.last_error, "the restart ended at its time limit: it came to instance 1 of 3");
    assert!(!world.settle(611).store, "and goes no further");
}

#[test]
fn an_upgrade_that_lost_its_lock_waits_for_the_restart_and_then_goes_on() {
    let mut world = world(2, &["a"]).all_healthy();
    world.patch(10, |_| ());
    world.run_operation(Operation::Restarting, 2..=2, 10);
    world.settle(10);
    assert_eq!((world.versions(), asked(&world)[1]), (vec![0, 0], (RUN, 0, 1)));
    world.observed[1] = answered(healthy(11), 0, 1);
    let plan = world.settle(11);
    assert_eq!((plan.finished(), plan.wake_at), (true, Some(at(11))));
    world.settle(11);
    assert_eq!(world.versions(), [1, 0]);
}

#[test]
fn a_start_or_restart_of_a_stateful_instance_whose_container_is_gone_says_so() {
    for (kind, verb) in [(Operation::Starting, "started"), (Operation::Restarting, "restarted")] {
        let mut world = world(2, &["a"]);
        world.record.spec.pod.stateful = true;
        let mut world = world.all_healthy();
        world.observed[1] = reported(RunState::Missing);
        world.settle(5);
        world.run_operation(kind, 2..=2, 10);
        assert!(world.settle(10).finished());
        let told = format!("instance 2 cannot be {verb}: its container on node a is missing");
        assert!(world.record.last_error.starts_with(&told), "{}", world.record.last_error);
        assert_eq!(world.drifts(), [0, 0], "it is not created again");
    }
}
