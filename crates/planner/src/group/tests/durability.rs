//! The time that others wait for an instance starts when the decision about it is committed: its node does not know it
//! earlier.

use super::world::*;
use super::*;

/// The second of three instances was just given version 1, and that is not committed.
fn half_upgraded() -> TestGroup {
    let mut world = world(3, &["a"]).all_healthy();
    world.upgrade(10, |_| ());
    world.observed[0] = healthy(11);
    world.is_uncommitted = true;
    world.settle(12);
    assert_eq!(world.versions(), [1, 1, 0]);
    world
}

#[test]
fn no_second_instance_is_taken_down_while_an_upgrade_is_not_committed() {
    let mut world = half_upgraded();
    world.patch(13, |_| ());
    for now in [13, 112, 500] {
        let wake_at = world.settle(now).wake_at;
        assert_eq!(world.versions(), [1, 1, 0], "{now}");
        assert!(wake_at.is_some_and(|wake| wake > at(now)), "it is looked at again");
    }
    (world.is_uncommitted, world.committed_at) = (false, Some(500));
    assert_eq!((world.settle(501).wake_at, world.versions()), (Some(at(600)), vec![1, 1, 0]), "it had no time yet");
    world.settle(600);
    assert_eq!(world.versions(), [2, 1, 0]);
}

#[test]
fn other_operations_wait_for_the_commit_too() {
    for kind in [Operation::Restarting, Operation::Drifting] {
        let mut world = half_upgraded();
        let drift = contract::command::Drift { instance: Some(3), from: name("a"), to: None, force: false };
        world.record.drifts = vec![drift];
        world.candidate("a").facts.memory = 1024 * MIB;
        world.nodes.insert(name("b"), world.nodes[&name("a")].clone());
        world.run_operation(kind, 3..=3, 13);
        let processed = |world: &TestGroup| (world.instances[2].restarts_requested, world.drifts()[2]) != (0, 0);
        world.settle(500);
        assert!(!processed(&world), "{kind:?}");
        (world.is_uncommitted, world.committed_at) = (false, Some(500));
        world.settle(599);
        assert!(!processed(&world), "{kind:?}");
        world.settle(600);
        assert!(processed(&world), "{kind:?}");
    }
}

#[test]
fn a_version_that_was_not_committed_is_not_rolled_back() {
    let mut world = world(2, &["a"]).all_healthy();
    world.upgrade(10, |_| ());
    world.is_uncommitted = true;
    for now in [11, 700, 2_000] {
        world.settle(now);
        assert_eq!((world.record.spec.version, world.versions()), (1, vec![1, 0]), "{now}");
    }
    (world.is_uncommitted, world.committed_at) = (false, Some(2_000));
    world.settle(2_001);
    world.report(0, reported(RunState::Exit), 2_099);
    assert_eq!(world.record.spec.version, 1);
    world.settle(2_100);
    assert_eq!(world.record.spec.version, 2, "it did not come up in its time");
}

#[test]
fn the_next_operation_waits_for_an_unconfirmed_restart() {
    let mut world = world(3, &["a"]).all_healthy();
    world.operate(Operation::Restarting, 2..=2, 10);
    assert_eq!(world.instances[1].restarts_requested, 1);
    world.run_operation(Operation::Restarting, 1..=1, 11);
    world.settle(12);
    assert_eq!(world.instances[0].restarts_requested, 0, "the other one runs only because it was not restarted yet");
    if let Some(observed) = &mut world.observed[1] {
        observed.restarts_done = 1;
    }
    world.settle(13);
    assert_eq!(world.instances[0].restarts_requested, 1);
}

#[test]
fn a_new_leader_does_not_wait_again_for_an_instance_that_timed_out() {
    let mut world = half_upgraded();
    world.is_uncommitted = false;
    world.observed[1] = running(HealthState::Unhealthy, 13);
    // A new leader knows only that the decision was committed before its term.
    world.committed_at = Some(300);
    let plan = world.upgrade(301, |_| ());
    assert!(plan.wake_at.is_none_or(|wake| wake >= at(301)), "{:?}", plan.wake_at);
    assert_eq!(world.versions(), [2, 1, 0]);
}
