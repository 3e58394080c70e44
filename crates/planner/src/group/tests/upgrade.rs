//! A serial upgrade replaces one instance after another, waits for each, and takes nothing down that it cannot bring back.

use super::world::*;
use super::*;

#[test]
fn an_upgrade_starts_at_the_lowest_number_and_waits_until_each_instance_is_ready() {
    let mut world = world(3, &["a", "b"]).all_healthy();
    world.patch(10, |_| ());
    let before = world.places().len();
    let plan = world.settle(10);
    assert_eq!((world.versions(), plan.store, plan.finished()), (vec![1, 0, 0], true, false));
    assert_eq!((world.places().len(), world.leaves(0), world.drifts()), (before, None, vec![0; 3]), "it stays there");
    assert!(!world.settle(11).store, "the first is not up yet");
    let plan = world.report(0, starting(12), 12);
    assert_eq!((plan.store, plan.wake_at), (false, Some(at(112))), "five polls after it started");
    world.report(0, healthy(12), 13);
    assert_eq!(world.versions(), [1, 1, 0]);
    world.report(1, healthy(14), 15);
    assert_eq!(world.versions(), [1, 1, 1]);
    let plan = world.report(2, healthy(16), 17);
    let expected = GroupRecord { operation: None, proven: Some(0), updated_at: at(17), ..world.record.clone() };
    assert_eq!((plan.record, plan.wake_at), (Some(expected), Some(at(26))), "the lock ends with the last deploy");
    let plan = world.settle(26);
    let expected = GroupRecord { proven: Some(1), ..world.record.clone() };
    assert_eq!((plan.record, world.record.former.len()), (Some(expected), 0), "no instance runs the old version");
}

#[test]
fn an_upgrade_pause_separates_the_old_pod_from_the_new_one() {
    let mut world = world(2, &["a"]).all_healthy();
    let strategy = contract::rollout::Strategy { upgrade_pause: 10, ..Default::default() };
    world.record.spec.strategy = Some(strategy);
    world.patch(10, |_| ());
    world.still_on_old_node.insert(0);
    world.settle(10);
    assert_eq!((world.versions(), world.leaves(0)), (vec![1, 0], Some("a")), "nothing is ordered yet");
    world.still_on_old_node.clear();
    assert_eq!((world.settle(14).wake_at, world.leaves(0)), (Some(at(24)), Some("a")), "it is gone");
    world.settle(23);
    assert_eq!(world.leaves(0), Some("a"), "the pause is not over");
    world.settle(24);
    assert_eq!((world.leaves(0), world.instances[0].pause_until), (None, Timestamp::NEVER));
    world.report(0, healthy(25), 26);
    assert_eq!(world.versions(), [1, 1]);
}

#[test]
fn a_node_whose_clock_is_ahead_does_not_stop_an_upgrade() {
    let mut world = world(2, &["a"]).all_running();
    world.upgrade(10, |pod| pod.setup_time = 30);
    assert_eq!(world.report(0, running(HealthState::None, 9_000), 12).wake_at, Some(at(40)), "counted from the commit");
    world.settle(40);
    assert_eq!(world.versions(), [1, 1]);
}

#[test]
fn without_a_health_check_an_instance_is_ready_after_its_setup_time_of_at_most_five_minutes() {
    for (setup_time, ready_at) in [(-5, 22), (0, 22), (30, 42), (300, 312), (10_000, 312)] {
        let mut world = world(2, &["a"]).all_running();
        world.upgrade(10, |pod| pod.setup_time = setup_time);
        let wake_at = world.report(0, running(HealthState::None, 12), 12).wake_at;
        assert_eq!(wake_at, Some(at(ready_at)), "{setup_time}");
        world.settle(ready_at - 1);
        assert_eq!(world.versions(), [1, 0], "{setup_time}");
        world.settle(ready_at);
        assert_eq!(world.versions(), [1, 1], "{setup_time}");
    }
}

#[test]
fn an_unhealthy_instance_is_skipped_after_its_timeout_unless_it_is_the_first() {
    let mut world = world(3, &["a"]).all_healthy();
    world.record.proven = None;
    world.upgrade(10, |_| ());
    world.report(0, healthy(11), 11);
    assert_eq!(
        (world.report(1, running(HealthState::Unhealthy, 12), 12).wake_at, world.versions()),
        (Some(at(112)), vec![1, 1, 0])
    );
    world.settle(112);
    assert_eq!(world.versions(), [1, 1, 1]);
    // The first one is rolled back; without an earlier version the upgrade waits for it.
    let mut world = super::world::world(3, &["a"]).all_healthy();
    world.record.proven = None;
    world.patch(10, |_| ());
    world.record.former.clear();
    world.settle(10);
    let plan = world.report(0, running(HealthState::Unhealthy, 12), 500);
    assert_eq!((world.versions(), plan.wake_at), (vec![1, 0, 0], Some(at(610))));
}

#[test]
fn an_upgrade_waits_at_an_instance_that_does_not_run() {
    for state in [RunState::Exit, RunState::Fail, RunState::Error, RunState::Missing] {
        let mut world = world(3, &["a"]).all_healthy();
        world.upgrade(10, |_| ());
        world.report(0, healthy(11), 11);
        for now in [12, 130, 400] {
            world.report(1, reported(state), now);
            assert_eq!(world.versions(), [1, 1, 0], "{state:?}");
        }
    }
}

#[test]
fn the_lock_is_released_at_the_time_limit_and_the_upgrade_continues() {
    let mut world = world(3, &["a"]).all_healthy();
    world.upgrade(10, |_| ());
    world.report(0, healthy(11), 11);
    assert!(!world.report(1, reported(RunState::Pending), 609).finished());
    assert!(world.settle(610).finished());
    assert_eq!((world.versions(), world.record.proven), (vec![1, 1, 0], Some(0)));
    let unfinished = "the upgrade to version 1 ended at its time limit: 2 of 3 instances have it";
    assert_eq!(world.record.last_error, unfinished);
    world.report(1, healthy(700), 700);
    assert_eq!((world.versions(), world.operation()), (vec![1, 1, 1], None));
    world.report(2, healthy(701), 702);
    let plan = world.settle(711);
    assert_eq!((world.record.proven, world.record.former.len(), plan.record.is_some()), (Some(1), 0, true));
    assert_eq!((world.settle(712).record, world.record.last_error.as_str()), (None, ""));
}

#[test]
fn an_instance_moves_only_if_the_new_version_does_not_fit_on_its_node() {
    let mut world = world(2, &["a", "b"]).all_healthy();
    world.upgrade(10, |pod| pod.filters = vec!["constraint:node==b".to_owned()]);
    assert_eq!((world.places(), world.leaves(0)), (vec![Some("b"), Some("b")], Some("a")));
    assert_eq!((world.versions(), world.drifts()), (vec![1, 0], vec![0, 0]));
    let plan = world.settle(11);
    assert_eq!((plan.statuses[0], plan.store), (PodStatus::Moving, false));
    let plan = world.vacate(12);
    assert_eq!((world.leaves(0), plan.store, plan.statuses[0]), (None, true, PodStatus::Starting));
    world.report(0, healthy(13), 13);
    assert_eq!((world.versions(), world.leaves(1)), (vec![1, 1], None));
}

#[test]
fn resources_of_the_old_pod_count_as_free_for_the_new_one() {
    let mut world = world(1, &["a"]);
    world.candidate("a").facts.memory = 100 * MIB;
    let mut world = world.all_healthy();
    world.upgrade(10, |pod| pod.containers[0].memory_limit = 100 << 20);
    assert_eq!((world.versions(), world.places()), (vec![1], vec![Some("a")]));
    assert_eq!(world.nodes[&name("a")].used.memory, 100 * MIB);
}

#[test]
fn an_instance_whose_new_version_does_not_fit_keeps_running_with_a_reason() {
    let mut world = world(2, &["a"]);
    world.candidate("a").facts.memory = 150 * MIB;
    let mut world = world.all_healthy();
    let running = world.instances.clone();
    let plan = world.upgrade(10, |pod| pod.containers[0].memory_limit = 100 << 20);
    let why = "no node fits: a: memory 14 MiB short";
    assert_eq!((plan.waiting, plan.store, plan.unplaced.is_some()), (true, false, true));
    assert_eq!(world.instances[0].why, format!("it is not upgraded to version 1: {why}"));
    assert_eq!(world.record.last_error, format!("instance 1 is not upgraded to version 1: {why}"));
    assert_eq!((&world.instances[0].node, world.versions()), (&running[0].node, vec![0, 0]));
    // Other reasons are not worth a write.
    world.candidate("a").facts.memory = 151 * MIB;
    assert_eq!(world.settle(11).record, None);
    world.candidate("a").facts.memory = 300 * MIB;
    world.settle(12);
    assert_eq!((world.versions(), world.record.last_error.as_str()), (vec![1, 0], ""));
}

#[test]
fn a_stateful_instance_is_upgraded_on_its_node_or_not_at_all() {
    let mut world = world(1, &["a", "b"]);
    world.record.spec.pod.containers[0].volumes = vec!["/data".to_owned()];
    let mut world = world.all_healthy();
    world.upgrade(10, |pod| pod.filters = vec!["constraint:node!=~a".to_owned(), "constraint:node==b".to_owned()]);
    assert_eq!((world.places(), world.versions()), (vec![Some("a")], vec![1]), "the pin takes the filter's place");
    world.observed[0] = healthy(11);
    let plan = world.upgrade(12, |pod| pod.filters = vec!["constraint:zone==x".to_owned()]);
    assert_eq!((world.versions(), plan.waiting), (vec![1], true));
    // Data that the new version does not use does not bind it.
    world.patch(13, |pod| {
        pod.filters = vec!["constraint:node==b".to_owned()];
        pod.containers[0].volumes.clear();
    });
    world.settle(13);
    assert_eq!((world.versions(), world.places(), world.leaves(0)), (vec![3], vec![Some("b")], Some("a")));
}

#[test]
fn a_stopped_instance_gets_the_new_version_and_stays_stopped() {
    let mut world = world(3, &["a"]).all_healthy();
    for index in [0, 1] {
        world.instances[index].target = TargetState::Stop;
        world.observed[index] = reported(RunState::Exit);
    }
    world.upgrade(10, |_| ());
    assert_eq!(world.versions(), [1, 1, 1]);
    assert_eq!(
        world.instances.iter().map(|instance| instance.target).collect::<Vec<_>>(),
        [TargetState::Stop, TargetState::Stop, TargetState::Run]
    );
    world.observed = vec![reported(RunState::Exit), reported(RunState::Exit), healthy(11)];
    assert!(world.settle(11).finished());
}

#[test]
fn a_recreated_instance_keeps_its_version() {
    let mut world = world(2, &["a", "b"]).all_healthy();
    world.upgrade(10, |_| ());
    world.report(1, reported(RunState::Missing), 11);
    assert_eq!((world.versions(), world.drifts()), (vec![1, 0], vec![0, 1]));
    world.observed[1] = healthy(12);
    world.candidate("a").liveness = Liveness::Lost;
    world.settle(13);
    assert_eq!((world.versions(), world.drifts(), world.places()), (vec![1, 0], vec![1, 1], vec![Some("b"); 2]));
}

#[test]
fn an_instance_on_a_silent_node_is_not_upgraded_and_one_on_a_lost_node_elsewhere() {
    let mut world = world(2, &["a", "b"]).all_healthy();
    world.candidate("a").liveness = Liveness::Suspect;
    world.patch(10, |_| ());
    assert!(!world.settle(10).store);
    world.candidate("a").liveness = Liveness::Lost;
    world.settle(11);
    assert_eq!((world.versions(), world.places(), world.leaves(0)), (vec![1, 0], vec![Some("b"); 2], None));
}

#[test]
fn a_failing_instance_gets_the_new_version_without_back_off() {
    let mut world = world(1, &["a"]).all_healthy();
    world.report(0, reported(RunState::Error), 10);
    assert_eq!(world.instances[0].failures, 1);
    world.upgrade(11, |_| ());
    let instance = &world.instances[0];
    assert_eq!(
        (instance.version, instance.failures, instance.retry_at, instance.why.as_str()),
        (1, 0, Timestamp::NEVER, "")
    );
}

#[test]
fn an_unschedulable_instance_gets_the_new_version_immediately() {
    let mut world = world(1, &["a"]);
    world.record.spec.pod.filters = vec!["constraint:node==z".to_owned()];
    world.settle(0);
    world.upgrade(10, |pod| pod.filters.clear());
    assert_eq!((world.versions(), world.places(), world.drifts()), (vec![1], vec![Some("a")], vec![0]));
}

#[test]
fn a_second_patch_starts_over_and_the_group_runs_three_versions() {
    let mut world = world(3, &["a"]).all_healthy();
    world.upgrade(10, |_| ());
    world.report(0, healthy(11), 11);
    world.observed[1] = healthy(12);
    world.upgrade(12, |_| ());
    assert_eq!(world.versions(), [2, 1, 0]);
    assert_eq!(world.record.former.keys().copied().collect::<Vec<_>>(), [0, 1]);
    for (index, now) in [(0, 13), (1, 14), (2, 15)] {
        world.report(index, healthy(now), now);
    }
    world.settle(25);
    assert_eq!((world.versions(), world.operation(), world.record.former.len()), (vec![2; 3], None, 0));
}

#[test]
fn the_resources_of_each_version_are_counted_separately() {
    let mut world = world(2, &["a", "b"]);
    world.candidate("a").facts.memory = 200 * MIB;
    world.candidate("b").facts.memory = 64 * MIB;
    let mut world = world.all_healthy();
    // The second instance is on b, which is lost while the first one grows on a.
    world.patch(10, |pod| pod.containers[0].memory_limit = 150 << 20);
    world.candidate("b").liveness = Liveness::Lost;
    let plan = world.settle(10);
    assert_eq!((world.versions(), world.places()), (vec![1, 0], vec![Some("a"), Some("b")]));
    assert_eq!(world.instances[1].why, "node b is lost; no node fits: a: memory 14 MiB short; b: lost");
    assert!(plan.waiting);
}

#[test]
fn a_lost_node_is_not_waited_for_unless_there_is_data_on_it() {
    let leaving = |stateful: bool| {
        let mut world = world(1, &["a", "b", "c"]);
        if stateful {
            world.record.spec.pod.containers[0].volumes = vec!["/data".to_owned()];
        }
        let mut world = world.all_healthy();
        world.instances[0].leaves = Some(name("c"));
        world.still_on_old_node.insert(0);
        world
    };
    let mut stateless = leaving(false);
    stateless.candidate("c").liveness = Liveness::Lost;
    let plan = stateless.settle(10);
    assert_eq!((stateless.leaves(0), plan.store), (None, true));
    let mut stateful = leaving(true);
    stateful.candidate("c").liveness = Liveness::Lost;
    let plan = stateful.settle(10);
    assert_eq!((stateful.leaves(0), plan.statuses[0]), (Some("c"), PodStatus::Moving));
    assert_eq!(
        stateful.instances[0].why,
        "node c, which it leaves, is lost; the instance is stateful and waits for it"
    );
    // The node that it moves to is replaced: nothing was ordered there, so no name is used and no data is bound.
    let mut target = leaving(true);
    target.candidate("a").liveness = Liveness::Lost;
    target.settle(10);
    assert_eq!((target.places(), target.leaves(0), target.drifts()), (vec![Some("b")], Some("c"), vec![0]));
}

#[test]
fn addresses_are_kept_while_an_instance_is_down() {
    let mut world = world(1, &["a"]).all_healthy();
    let with = |ip: &str| {
        let mut facts = healthy(1).expect("facts");
        ip.clone_into(&mut facts.containers[0].ip);
        Some(facts)
    };
    let plan = world.report(0, with("10.0.0.1"), 2);
    assert_eq!((world.instances[0].addresses.clone(), plan.store), (vec!["10.0.0.1".to_owned()], false));
    world.report(0, with(""), 3);
    world.report(0, reported(RunState::Exit), 4);
    assert_eq!(world.instances[0].addresses, ["10.0.0.1"]);
    world.report(0, with("10.0.0.2"), 5);
    assert_eq!(world.instances[0].addresses, ["10.0.0.2"]);
}

#[test]
fn a_rollback_returns_to_a_completed_deployment() {
    let mut world = world(2, &["a"]);
    world.settle(0);
    world.observed = vec![healthy(1), reported(RunState::Exit)];
    assert!(world.settle(2).finished());
    assert_eq!(world.record.proven, None, "one of them does not run");
    world.report(1, healthy(3), 3);
    assert_eq!(world.record.proven, None, "it may still exit early");
    world.settle(13);
    assert_eq!(world.record.proven, Some(0), "it came up later");
}

#[test]
fn no_instance_is_taken_down_while_a_lower_one_is_being_created() {
    let mut world = world(3, &["a"]).all_healthy();
    world.patch(10, |_| ());
    // The second instance has the new version already.
    world.instances[1].version = 1;
    world.settle(10);
    assert_eq!(world.versions(), [1, 1, 0]);
    assert!(!world.settle(11).store, "the second is well, but the first is not up yet");
    world.report(0, healthy(12), 12);
    assert_eq!(world.versions(), [1, 1, 1]);
}
