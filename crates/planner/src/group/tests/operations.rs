//! Starts, stops and restarts: requested once, done once, and the lock does not wait for silent nodes.

use super::world::*;
use super::*;

fn answered(mut facts: Option<PodFacts>, starts: u32, restarts: u32) -> Option<PodFacts> {
    if let Some(facts) = &mut facts {
        (facts.starts_done, facts.restarts_done) = (starts, restarts);
    }
    facts
}

fn asked(world: &TestGroup) -> Vec<(TargetState, u32, u32)> {
    world
        .instances
        .iter()
        .map(|instance| (instance.target, instance.starts_requested, instance.restarts_requested))
        .collect()
}

const RUN: TargetState = TargetState::Run;
const STOP: TargetState = TargetState::Stop;

#[test]
fn a_stop_applies_to_all_instances_and_ends_when_none_runs() {
    let mut world = world(3, &["a"]).all_healthy();
    let plan = world.operate(Operation::Stopping, 1..=3, 10);
    assert_eq!((asked(&world), plan.store, plan.finished()), (vec![(STOP, 0, 0); 3], true, false));
    let next = |world: &TestGroup| world.record.operation.as_ref().map(|operation| (operation.next, operation.last));
    assert_eq!(next(&world), Some((4, 3)));
    assert_eq!(world.settle(11).record, None);
    world.observed = vec![reported(RunState::Exit); 3];
    let plan = world.settle(12);
    assert!(plan.finished() && !plan.store);
    assert_eq!(plan.statuses, [PodStatus::Exited; 3]);
}

#[test]
fn one_instance_is_stopped_and_the_others_do_not_matter() {
    let mut world = world(3, &["a"]).all_healthy();
    world.operate(Operation::Stopping, 2..=2, 10);
    assert_eq!(asked(&world), [(RUN, 0, 0), (STOP, 0, 0), (RUN, 0, 0)]);
    world.observed[0] = reported(RunState::Pending);
    assert!(world.report(1, reported(RunState::Exit), 11).finished());
}

#[test]
fn operations_do_not_wait_for_silent_nodes() {
    for (kind, target) in [(Operation::Stopping, STOP), (Operation::Starting, RUN)] {
        let mut world = world(2, &["a", "b"]).all_healthy();
        world.candidate("a").liveness = Liveness::Suspect;
        world.candidate("b").engine = EngineState::Hung;
        assert!(world.operate(kind, 1..=2, 10).finished());
        assert!(world.instances.iter().all(|instance| instance.target == target));
    }
}

#[test]
fn a_start_ends_when_each_instance_has_confirmed_it() {
    let mut world = world(2, &["a"]).all_healthy();
    world.instances[0].target = STOP;
    world.observed[0] = reported(RunState::Exit);
    let plan = world.operate(Operation::Starting, 1..=2, 10);
    assert_eq!((asked(&world), plan.finished()), (vec![(RUN, 1, 0); 2], false));
    world.observed = vec![answered(reported(RunState::Pending), 1, 0), answered(healthy(0), 1, 0)];
    assert!(!world.settle(11).finished());
    // It exited again: the start was done, and the restart policy decides what follows.
    assert!(world.report(0, answered(reported(RunState::Exit), 1, 0), 12).finished());
}

#[test]
fn a_start_does_not_wait_for_instances_that_cannot_be_placed_or_created() {
    let mut world = world(2, &["a"]).all_healthy();
    world.observed[0] = reported(RunState::Error);
    world.record.spec.num_instances = 3;
    world.settle(5);
    world.constraints = vec!["constraint:node==z".to_owned()];
    world.instances[2].node = None;
    world.run_operation(Operation::Starting, 1..=3, 10);
    let plan = world.report(1, answered(healthy(0), 1, 0), 10);
    assert!(plan.finished(), "{plan:?}");
    assert_eq!(plan.statuses, [PodStatus::CreateFailed, PodStatus::Running, PodStatus::Unplaced]);
}

#[test]
fn a_start_does_not_wait_for_the_back_off() {
    let mut world = world(1, &["a", "b"]).all_healthy();
    assert_eq!(world.report(0, reported(RunState::Error), 5).wake_at, Some(at(15)));
    world.operate(Operation::Starting, 1..=1, 6);
    assert_eq!((world.drifts(), world.places()), (vec![1], vec![Some("b")]));
}

#[test]
fn restarts_follow_each_other_when_the_previous_instance_is_ready() {
    let mut world = world(3, &["a"]).all_healthy();
    let plan = world.operate(Operation::Restarting, 1..=3, 10);
    assert_eq!((asked(&world), plan.store), (vec![(RUN, 0, 1), (RUN, 0, 0), (RUN, 0, 0)], true));
    assert!(!world.settle(11).store, "not answered: what is seen is from before");
    assert_eq!(world.report(0, answered(starting(12), 0, 1), 12).wake_at, Some(at(112)));
    world.report(0, answered(healthy(12), 0, 1), 13);
    assert_eq!(asked(&world), [(RUN, 0, 1), (RUN, 0, 1), (RUN, 0, 0)]);
    world.report(1, answered(healthy(14), 0, 1), 14);
    assert_eq!(asked(&world), [(RUN, 0, 1); 3]);
    assert!(!world.settle(15).finished());
    assert!(
        world.report(2, answered(starting(16), 0, 1), 16).finished(),
        "the end does not wait for the last instance to be ready"
    );
    assert!(!world.settle(17).store);
}

#[test]
fn a_restarted_instance_that_is_not_ready_delays_the_rest_for_five_polls() {
    for facts in [reported(RunState::Exit), reported(RunState::Error), running(HealthState::Unhealthy, 10)] {
        let mut world = world(2, &["a"]).all_healthy();
        world.operate(Operation::Restarting, 1..=2, 10);
        world.observed[0] = answered(facts.clone(), 0, 1);
        let plan = world.plan(109);
        assert_eq!(plan.instances[1].restarts_requested, 0, "{facts:?}");
        assert!(plan.wake_at.is_some_and(|wake| wake <= at(110)), "{facts:?}");
        assert_eq!(world.plan(110).instances[1].restarts_requested, 1, "{facts:?}");
    }
}

#[test]
fn a_restart_of_one_instance_starts_it_if_it_was_stopped() {
    let mut world = world(2, &["a"]).all_healthy();
    world.instances[1].target = STOP;
    world.observed[1] = reported(RunState::Exit);
    world.operate(Operation::Restarting, 2..=2, 10);
    assert_eq!(asked(&world), [(RUN, 0, 0), (RUN, 0, 1)]);
    assert!(world.report(1, answered(healthy(11), 0, 1), 11).finished());
}

#[test]
fn a_restart_skips_unschedulable_instances() {
    let mut world = world(2, &["a"]).all_healthy();
    world.instances[0].node = None;
    world.constraints = vec!["constraint:node==z".to_owned()];
    world.operate(Operation::Restarting, 1..=2, 10);
    assert_eq!(asked(&world), [(RUN, 0, 1), (RUN, 0, 1)]);
    assert!(world.report(1, answered(healthy(11), 0, 1), 11).finished());
}

#[test]
fn a_restart_ends_at_its_time_limit_and_reports_its_progress() {
    let mut world = world(3, &["a"]).all_healthy();
    world.operate(Operation::Restarting, 1..=3, 10);
    assert!(!world.report(0, reported(RunState::Pending), 609).finished());
    let plan = world.settle(610);
    assert!(plan.finished());
    assert_eq!(world.record.last_error, "the restart ended at its time limit: it reached instance 1 of 3");
    assert!(!world.settle(611).store, "and goes no further");
}

#[test]
fn an_unlocked_upgrade_waits_for_the_restart_and_continues() {
    let mut world = world(2, &["a"]).all_healthy();
    world.patch(10, |_| ());
    world.operate(Operation::Restarting, 2..=2, 10);
    assert_eq!((world.versions(), asked(&world)[1]), (vec![0, 0], (RUN, 0, 1)));
    let plan = world.report(1, answered(healthy(11), 0, 1), 11);
    assert_eq!((plan.finished(), plan.wake_at), (true, Some(at(11))));
    world.settle(11);
    assert_eq!(world.versions(), [1, 0]);
}

#[test]
fn a_start_or_restart_of_a_stateful_instance_without_its_container_is_an_error() {
    for (kind, verb) in [(Operation::Starting, "started"), (Operation::Restarting, "restarted")] {
        let mut world = world(2, &["a"]);
        world.record.spec.pod.stateful = true;
        let mut world = world.all_healthy();
        world.report(1, reported(RunState::Missing), 5);
        assert!(world.operate(kind, 2..=2, 10).finished());
        let text = format!("instance 2 cannot be {verb}: its container on node a is missing");
        assert!(world.record.last_error.starts_with(&text), "{}", world.record.last_error);
        assert_eq!(world.drifts(), [0, 0], "it is not created again");
    }
}
