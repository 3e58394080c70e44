//! Instances leave a node one after another, exactly once, and only if another node fits.

use contract::command::Drift;

use super::world::*;
use super::*;

fn drift(from: &str) -> Drift {
    Drift { from: name(from), to: None, force: false, instance: None }
}

/// All instances on a.
fn on_a(instances: i64) -> TestGroup {
    let mut world = world(instances, &["a", "b", "c"]);
    world.constraints = vec!["constraint:node==a".to_owned()];
    let mut world = world.all_healthy();
    world.constraints.clear();
    world
}

#[test]
fn all_instances_of_a_node_leave_it_one_after_another() {
    let mut world = on_a(3);
    world.record.drifts = vec![drift("a")];
    let before = world.record.updated_at;
    let plan = world.settle(10);
    assert_eq!((world.places(), world.leaves(0)), (vec![Some("b"), Some("a"), Some("a")], Some("a")));
    assert_eq!((world.drifts(), world.instances[0].since, plan.store), (vec![1, 0, 0], at(10), true));
    let operation = OperationRecord { kind: Operation::Drifting, since: at(10), next: 2, last: 3 };
    assert_eq!(world.record.operation, Some(operation));
    assert!(!world.settle(11).store);
    world.vacate(12);
    assert_eq!((world.leaves(0), world.drifts()), (None, vec![1, 0, 0]));
    world.report(0, healthy(13), 13);
    assert_eq!((world.places(), world.drifts()), (vec![Some("b"), Some("c"), Some("a")], vec![1, 1, 0]));
    world.vacate(14);
    world.report(1, healthy(15), 15);
    world.vacate(16);
    assert!(world.record.operation.is_some(), "the last is on its way");
    assert!(world.report(2, starting(17), 17).finished());
    assert_eq!((world.drifts(), world.versions()), (vec![1; 3], vec![0; 3]));
    assert_eq!((world.record.drifts.len(), world.record.updated_at), (0, before));
    assert!(!world.settle(18).store);
}

#[test]
fn a_move_to_a_node_uses_no_other_node() {
    let mut world = on_a(2);
    world.record.drifts = vec![Drift { to: Some(name("c")), instance: Some(2), ..drift("a") }];
    world.settle(10);
    assert_eq!((world.places(), world.drifts()), (vec![Some("a"), Some("c")], vec![0, 1]));
    world.vacate(11);
    assert!(world.report(1, healthy(12), 12).finished());
}

#[test]
fn a_move_ignores_instances_on_other_nodes() {
    for change in [
        |drift: &mut Drift| drift.from = name("b"),
        |drift: &mut Drift| drift.to = Some(name("a")),
        |drift: &mut Drift| drift.instance = Some(7),
        |drift: &mut Drift| drift.from = name("unknown"),
    ] {
        let mut world = on_a(2);
        let mut asked = drift("a");
        change(&mut asked);
        world.record.drifts = vec![asked];
        let plan = world.settle(10);
        assert_eq!((plan.store, world.operation(), world.record.drifts.len()), (false, None, 0));
        assert_eq!((world.places(), world.record.last_error.as_str()), (vec![Some("a"); 2], ""));
    }
}

#[test]
fn a_stateful_instance_moves_only_with_force() {
    for (force, expected) in [(false, "a"), (true, "b")] {
        let mut world = world(1, &["a", "b"]);
        world.record.spec.pod.containers[0].volumes = vec!["/data".to_owned()];
        let mut world = world.all_healthy();
        world.record.drifts = vec![Drift { force, ..drift("a") }];
        world.settle(10);
        assert_eq!(world.places(), [Some(expected)]);
    }
}

#[test]
fn an_unschedulable_instance_stays_and_shows_why_until_the_next_operation() {
    let mut world = on_a(2);
    world.candidate("b").facts.memory = 10 * MIB;
    world.candidate("c").liveness = Liveness::Suspect;
    world.record.drifts = vec![drift("a")];
    let plan = world.settle(10);
    assert_eq!((world.record.last_error.as_str(), world.operation()), ("", None));
    let why = "it stays on a: no node fits: a: constraint:node!=a not met; b: memory 54 MiB short; c: suspect (no recent report)";
    assert_eq!(world.instances.iter().map(|instance| instance.not_moved.as_str()).collect::<Vec<_>>(), [why; 2]);
    assert!(plan.unplaced.is_some());
    world.settle(11);
    assert_eq!(world.instances[0].not_moved, why);
    world.candidate("b").facts.memory = 1024 * MIB;
    world.record.drifts = vec![drift("a")];
    world.settle(12);
    assert_eq!((world.places()[0], world.instances[0].not_moved.as_str()), (Some("b"), ""));
}

#[test]
fn a_stopped_instance_moves_too_without_a_wait() {
    let mut world = on_a(3);
    for index in [0, 1] {
        world.instances[index].target = TargetState::Stop;
        world.observed[index] = reported(RunState::Exit);
    }
    world.record.drifts = vec![drift("a")];
    world.settle(10);
    assert_eq!(world.drifts(), [1, 1, 1]);
    assert!(world.instances.iter().all(|instance| instance.leaves == Some(name("a"))));
}

#[test]
fn an_instance_that_stays_down_delays_the_rest_for_five_polls() {
    let mut world = on_a(2);
    world.record.drifts = vec![drift("a")];
    world.settle(10);
    world.vacate(11);
    assert_eq!(world.report(0, reported(RunState::Exit), 20).wake_at, Some(at(110)));
    world.settle(110);
    assert_eq!(world.drifts(), [1, 1]);
}

#[test]
fn moves_wait_for_the_lock_and_keep_their_order() {
    let mut world = on_a(1);
    world.run_operation(Operation::Stopping, 1..=1, 10);
    world.record.drifts =
        vec![Drift { to: Some(name("b")), ..drift("a") }, Drift { to: Some(name("c")), ..drift("b") }];
    world.settle(10);
    assert_eq!(world.places(), [Some("a")]);
    let plan = world.report(0, reported(RunState::Exit), 11);
    assert_eq!((world.operation(), plan.wake_at), (Some(Operation::Drifting), Some(at(11))));
    world.settle(11);
    assert_eq!(world.places(), [Some("b")]);
    let plan = world.settle(12);
    assert!(plan.finished());
    assert_eq!((world.places(), world.record.drifts.len(), world.drifts()), (vec![Some("c")], 0, vec![2]));
    assert_eq!(world.leaves(0), Some("a"), "b never had it");
}

#[test]
fn a_move_ends_at_its_time_limit_and_reports_its_progress() {
    let mut world = on_a(3);
    world.record.drifts = vec![drift("a")];
    world.settle(10);
    assert!(!world.settle(609).finished());
    assert!(world.settle(610).finished());
    assert_eq!(world.record.last_error, "the drift ended at its time limit: it reached instance 1 of 3");
    assert_eq!((world.record.drifts.len(), world.leaves(0)), (0, Some("a")));
    assert!(!world.settle(611).store, "and goes no further");
}

#[test]
fn a_forced_move_does_not_wait_for_a_lost_node() {
    let mut world = world(1, &["a", "b"]);
    world.record.spec.pod.containers[0].volumes = vec!["/data".to_owned()];
    let mut world = world.all_healthy();
    world.candidate("a").liveness = Liveness::Lost;
    world.record.drifts = vec![Drift { force: true, ..drift("a") }];
    world.settle(10);
    assert_eq!((world.places(), world.leaves(0), world.drifts()), (vec![Some("b")], None, vec![1]));
    // Also if the node is lost after the move began.
    let mut later = super::world::world(1, &["a", "b"]);
    later.record.spec.pod.containers[0].volumes = vec!["/data".to_owned()];
    let mut later = later.all_healthy();
    later.record.drifts = vec![Drift { force: true, ..drift("a") }];
    later.settle(10);
    later.candidate("a").liveness = Liveness::Lost;
    later.settle(700);
    assert_eq!((later.places(), later.leaves(0)), (vec![Some("b")], Some("a")));
    later.record.drifts = vec![Drift { force: true, ..drift("a") }];
    later.settle(701);
    assert_eq!((later.places(), later.leaves(0), later.drifts()), (vec![Some("b")], None, vec![1]));
}

#[test]
fn moving_an_instance_that_is_moving_changes_its_destination_and_uses_no_name() {
    let mut world = on_a(1);
    world.record.drifts = vec![Drift { to: Some(name("b")), ..drift("a") }];
    world.settle(10);
    world.settle(610);
    world.record.drifts = vec![Drift { to: Some(name("c")), ..drift("a") }];
    world.settle(611);
    assert_eq!((world.places(), world.leaves(0), world.drifts()), (vec![Some("c")], Some("a"), vec![1]));
}

#[test]
fn an_operation_waits_for_the_instance_that_an_unlocked_upgrade_took_down() {
    for kind in [Operation::Drifting, Operation::Restarting] {
        let mut world = on_a(2);
        world.upgrade(10, |_| ());
        let limit = 10 + 600;
        world.report(0, healthy(limit - 2), limit - 1);
        assert_eq!((world.versions(), world.instances[1].since), (vec![1, 1], at(limit - 1)));
        let plan = world.settle(limit);
        assert!(plan.finished(), "the upgrade gave its lock back");
        if kind == Operation::Drifting {
            world.record.drifts = vec![drift("a")];
        } else {
            world.run_operation(kind, 1..=1, limit + 1);
        }
        world.settle(limit + 1);
        let plan = world.settle(limit + 1);
        assert_eq!((world.operation(), plan.wake_at.is_some()), (Some(kind), true));
        let is_untouched = |world: &TestGroup| world.leaves(0).is_none() && world.instances[0].restarts_requested == 0;
        assert!(is_untouched(&world), "{kind:?}: two would be down");
        world.report(1, healthy(limit + 2), limit + 3);
        assert!(!is_untouched(&world), "{kind:?} continues");
    }
}
