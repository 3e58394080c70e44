//! An upgrade whose first instance does not become ready is rolled back.

use super::world::*;
use super::*;

const TEXT: &str = "Your Last upgrade is terrrible, so we won't upgrade it, please check your code carefully!!";

/// All instances run version 0; the upgrade to version 1 gave it to the first instance at 10.
fn upgrading(instances: i64) -> TestGroup {
    let mut world = world(instances, &["a", "b"]).all_healthy();
    assert_eq!(world.record.proven, Some(0));
    world.upgrade(10, |pod| pod.containers[0].image = "bad".to_owned());
    world
}

#[test]
fn an_unhealthy_first_instance_gets_the_completed_spec_as_a_new_version() {
    let mut world = upgrading(3);
    assert_eq!(world.report(0, running(HealthState::Unhealthy, 12), 12).wake_at, Some(at(112)));
    assert_eq!(world.settle(111).incidents, []);
    let plan = world.settle(112);
    assert_eq!(plan.incidents, [(1, Incident::BadUpgrade { version: 1 })]);
    let record = &world.record;
    assert_eq!(
        (record.spec.version, record.spec.pod.version, record.spec.pod.containers[0].image.as_str()),
        (2, 2, "i")
    );
    assert_eq!((record.spec.updated_at, record.spec.pod.updated_at), (at(112), at(112)));
    assert_eq!((&record.equals, record.last_error.as_str()), (&BTreeSet::from([0]), TEXT));
    assert_eq!(record.operation, Some(OperationRecord::new(Operation::Upgrading, at(112))));
    assert_eq!((world.versions(), world.instances[0].since), (vec![2, 0, 0], at(112)), "the others were never touched");
    assert_eq!(world.settle(113).incidents, [], "reported once");
    assert!(world.record.operation.is_some(), "not over before the first is deployed again");
    let plan = world.report(0, healthy(114), 114);
    assert!(plan.finished());
    world.settle(124);
    let record = &world.record;
    assert_eq!((record.proven, record.last_error.as_str()), (Some(2), TEXT), "the text stays");
    assert_eq!(record.former.keys().copied().collect::<Vec<_>>(), [0], "two instances still run it");
    let again = world.settle(125);
    assert_eq!((again.record, again.store), (None, false));
}

#[test]
fn a_group_of_one_is_rolled_back_too() {
    let mut world = upgrading(1);
    let plan = world.report(0, running(HealthState::Unhealthy, 10), 110);
    assert_eq!((world.versions(), plan.incidents.len()), (vec![2], 1));
    assert!(world.report(0, healthy(111), 111).finished());
    world.settle(121);
    assert_eq!((world.record.proven, world.record.former.len()), (Some(2), 0));
}

#[test]
fn an_instance_that_exits_or_cannot_be_created_fails_at_its_timeout() {
    for state in [RunState::Exit, RunState::Fail, RunState::Error] {
        let mut world = upgrading(2);
        world.observed[0] = reported(state);
        let plan = world.plan(109);
        assert_eq!(plan.incidents, [], "{state:?}");
        assert!(plan.wake_at.is_some_and(|wake| wake <= at(110)), "{state:?}");
        assert_eq!(world.plan(110).incidents.len(), 1, "{state:?}");
    }
}

#[test]
fn an_instance_that_is_being_created_has_until_the_time_limit_of_the_operation() {
    let mut world = upgrading(2);
    assert_eq!(world.report(0, reported(RunState::Pending), 500).wake_at, Some(at(610)));
    let plan = world.settle(610);
    assert_eq!((plan.incidents.len(), world.operation()), (1, Some(Operation::Upgrading)));
}

#[test]
fn the_first_running_instance_tries_the_version() {
    let mut world = world(3, &["a"]).all_healthy();
    world.instances[0].target = TargetState::Stop;
    world.observed[0] = reported(RunState::Exit);
    world.upgrade(10, |_| ());
    assert_eq!(world.versions(), [1, 1, 0]);
    world.observed = vec![reported(RunState::Exit), running(HealthState::Unhealthy, 10), healthy(0)];
    let plan = world.settle(110);
    assert_eq!((world.versions(), plan.incidents), (vec![2, 2, 0], vec![(2, Incident::BadUpgrade { version: 1 })]));
}

#[test]
fn a_later_instance_rolls_nothing_back() {
    let mut world = upgrading(2);
    world.report(0, healthy(11), 11);
    world.observed = vec![running(HealthState::Unhealthy, 11), running(HealthState::Unhealthy, 12)];
    let plan = world.settle(300);
    assert_eq!((world.versions(), plan.finished(), plan.incidents), (vec![1, 1], true, vec![]));
}

#[test]
fn a_rollback_is_not_rolled_back() {
    let mut world = upgrading(2);
    world.report(0, running(HealthState::Unhealthy, 10), 110);
    assert!(world.report(0, running(HealthState::Unhealthy, 111), 112).finished());
    let plan = world.settle(400);
    assert_eq!((world.versions(), plan.incidents), (vec![2, 0], vec![]));
    assert_eq!((world.record.last_error.as_str(), world.record.proven), (TEXT, Some(0)));
}

#[test]
fn two_bad_upgrades_leave_untouched_instances_alone() {
    let mut world = upgrading(3);
    world.report(0, running(HealthState::Unhealthy, 10), 110);
    world.report(0, healthy(111), 111);
    world.settle(121);
    world.upgrade(200, |pod| pod.containers[0].image = "worse".to_owned());
    assert_eq!(world.versions(), [3, 0, 0]);
    world.report(0, running(HealthState::Unhealthy, 200), 300);
    assert_eq!((world.versions(), &world.record.equals), (vec![4, 0, 0], &BTreeSet::from([0])));
    assert!(world.report(0, healthy(301), 301).finished());
    assert_eq!(world.versions(), [4, 0, 0]);
}

#[test]
fn an_upgrade_after_a_rollback_reaches_all_instances() {
    let mut world = upgrading(2);
    world.report(0, running(HealthState::Unhealthy, 10), 110);
    world.report(0, healthy(111), 111);
    world.upgrade(200, |_| ());
    world.report(0, healthy(201), 201);
    assert!(world.report(1, healthy(202), 202).finished());
    world.settle(212);
    assert_eq!((world.versions(), world.record.former.len()), (vec![3, 3], 0));
}

#[test]
fn a_lost_node_does_not_count_against_the_version() {
    let mut world = upgrading(2);
    world.candidate("a").liveness = Liveness::Lost;
    world.settle(400);
    assert_eq!((world.versions(), world.instances[0].since), (vec![1, 0], at(400)));
    let plan = world.report(0, starting(402), 402);
    assert_eq!((plan.incidents, plan.wake_at), (vec![], Some(at(502))));
}

#[test]
fn an_instance_that_no_upgrade_touched_is_not_on_trial() {
    let mut world = world(1, &["a"]);
    world.record.operation = None;
    world.record.former.insert(0, world.record.spec.pod.clone());
    (world.record.proven, world.record.spec.version, world.record.spec.pod.version) = (Some(0), 1, 1);
    world.settle(1_000);
    let plan = world.settle(1_001);
    assert_eq!((world.versions(), plan.incidents), (vec![1], vec![]), "it was only just added");
}
