//! What the planner does for each status of an instance.

use super::super::replace::wait_after;
use super::world::*;
use super::*;

#[test]
fn a_new_group_is_spread_and_its_operation_ends_when_all_run() {
    let mut world = world(3, &["a", "b"]);
    let plan = world.settle(0);
    assert_eq!(world.places(), [Some("a"), Some("b"), Some("a")]);
    assert_eq!((plan.store, plan.finished(), plan.wake_at), (true, false, Some(at(600))));
    world.observed = vec![reported(RunState::Success), reported(RunState::Success), reported(RunState::Pending)];
    assert!(!world.plan(1).finished());
    world.observed[2] = reported(RunState::Success);
    let plan = world.plan(2);
    assert_eq!((plan.store, plan.finished(), plan.statuses), (false, true, vec![PodStatus::Running; 3]));
}

#[test]
fn an_operation_releases_its_lock_at_its_time_limit() {
    let mut world = world(1, &["a"]);
    world.settle(0);
    assert!(!world.plan(599).finished());
    assert!(world.plan(600).finished());
}

#[test]
fn an_unschedulable_instance_waits_with_a_reason() {
    let mut world = world(1, &["a"]);
    world.record.spec.pod.filters = vec!["constraint:group==x".to_owned()];
    let plan = world.settle(0);
    assert_eq!((plan.waiting, plan.finished(), plan.wake_at), (true, true, None));
    assert_eq!(world.instances[0].why, "no node fits: a: constraint:group==x not met");
    assert!(!world.plan(1).store, "the reason alone is not worth a write");
    world.candidate("a").facts.labels.insert("group".to_owned(), "x".to_owned());
    world.settle(2);
    assert_eq!((world.places(), world.instances[0].drift, world.instances[0].why.as_str()), (vec![Some("a")], 0, ""));
}

#[test]
fn scaling_down_removes_the_highest_numbers_and_scaling_up_appends() {
    let mut world = world(4, &["a", "b"]).all_running();
    let before = world.instances.clone();
    world.record.spec.num_instances = 2;
    world.settle(2);
    assert_eq!(world.instances, before[..2]);
    world.record.spec.num_instances = 3;
    world.settle(3);
    assert_eq!((&world.instances[..2], world.instances.len()), (&before[..2], 3));
}

#[test]
fn a_scheduling_operation_waits_until_surplus_pods_are_gone() {
    let mut world = world(2, &["a"]).all_running();
    world.record.operation = Some(OperationRecord::new(Operation::Scheduling, at(2)));
    world.record.spec.num_instances = 1;
    world.has_leftovers = true;
    world.settle(2);
    assert!(!world.plan(3).finished());
    world.has_leftovers = false;
    assert!(world.plan(4).finished());
}

#[test]
fn a_failed_create_is_retried_on_other_nodes_with_back_off() {
    let mut world = world(1, &["a", "b"]);
    world.settle(0);
    world.observed = vec![reported(RunState::Error)];
    let plan = world.settle(1);
    assert_eq!((plan.wake_at, world.instances[0].why.as_str(), plan.store), (Some(at(11)), "E", true));
    assert!(plan.finished(), "an error settles the operation");
    assert!(!world.settle(10).store);
    world.settle(11);
    // The agent keeps trying by itself: it may have created the pod just before the instance moves away.
    assert_eq!((world.places(), world.leaves(0), world.instances[0].drift), (vec![Some("b")], Some("a"), 1));
    world.vacate(12);
    assert_eq!((world.places(), world.leaves(0), world.instances[0].drift), (vec![Some("b")], None, 1));
    assert_eq!(world.report(0, reported(RunState::Error), 12).wake_at, Some(at(32)));
    world.settle(32);
    assert_eq!((world.places(), world.instances[0].drift, world.instances[0].failures), (vec![Some("a")], 2, 2));
    world.still_on_old_node.clear();
    world.observed = vec![reported(RunState::Success)];
    world.settle(33);
    assert_eq!((world.instances[0].failures, world.instances[0].why.as_str()), (0, ""));
}

#[test]
fn waits_double_up_to_five_minutes() {
    let waits: Vec<u64> = (1..8).map(|failures| wait_after(failures).as_secs()).collect();
    assert_eq!(waits, [10, 20, 40, 80, 160, 300, 300]);
    assert_eq!(wait_after(u32::MAX), Duration::from_secs(300));
}

#[test]
fn a_missing_container_is_recreated_immediately_and_later_with_back_off() {
    let mut world = world(1, &["a"]).all_running();
    world.observed = vec![reported(RunState::Missing)];
    let plan = world.settle(10);
    assert_eq!((world.instances[0].drift, plan.incidents), (1, vec![(1, Incident::Missing)]));
    world.observed = vec![reported(RunState::Missing)];
    let plan = world.settle(11);
    assert_eq!((world.instances[0].drift, plan.wake_at, plan.incidents), (1, Some(at(20)), vec![]));
    world.settle(20);
    assert_eq!((world.instances[0].drift, world.instances[0].failures), (2, 2));
    world.observed = vec![reported(RunState::Success)];
    assert_eq!(world.settle(21).wake_at, Some(at(40)));
    world.settle(40);
    assert_eq!(world.instances[0].failures, 0);
}

#[test]
fn a_missing_container_is_recreated_on_its_own_healthy_node_rather_than_next_to_a_sibling() {
    for instance in 0..3 {
        let mut world = world(3, &["a", "b", "c"]).all_running();
        assert_eq!(world.places(), [Some("a"), Some("b"), Some("c")]);
        world.report(instance, reported(RunState::Missing), 10);
        assert_eq!(world.places(), [Some("a"), Some("b"), Some("c")], "instance {} is missing", instance + 1);
        assert_eq!((world.instances[instance].drift, world.leaves(instance)), (1, None));
    }
}

#[test]
fn a_node_that_could_not_create_a_container_is_avoided() {
    let mut world = world(2, &["a", "b"]).all_running();
    world.report(0, reported(RunState::Error), 10);
    world.settle(20);
    assert_eq!(world.places(), [Some("b"), Some("b")]);
}

#[test]
fn while_the_guard_is_off_a_missing_instance_is_left_with_a_reason() {
    let mut world = world(2, &["a", "b"]).all_running();
    world.guard_enabled = false;
    let plan = world.report(0, reported(RunState::Missing), 10);
    assert_eq!((plan.statuses.as_slice(), plan.wake_at), (&[PodStatus::LeftAlone, PodStatus::Running][..], None));
    assert_eq!((world.instances[0].drift, plan.incidents, plan.store), (0, vec![], false));
    assert_eq!(world.instances[0].why, "its container on node a is missing and the guard sleeps");
    // The guard does not concern lost nodes.
    world.candidate("b").liveness = Liveness::Lost;
    world.settle(11);
    assert_eq!(world.places(), [Some("a"), Some("a")]);
    world.guard_enabled = true;
    let plan = world.settle(12);
    assert_eq!((world.instances[0].drift, world.instances[0].why.as_str()), (1, ""));
    assert_eq!(plan.incidents, [(1, Incident::Missing)]);
}

#[test]
fn a_constraint_of_the_cluster_counts_like_a_filter_of_the_pod() {
    let placed = |constraint: &str, count: i64| {
        let mut world = world(count, &["a", "b"]);
        world.constraints = vec![constraint.to_owned()];
        world.settle(0);
        world.instances.iter().map(|instance| instance.node.as_ref().map(NodeName::to_string)).collect::<Vec<_>>()
    };
    let all = |node: Option<&str>, count: usize| vec![node.map(str::to_owned); count];
    assert_eq!(placed("constraint:node!=~a", 3), all(Some("b"), 3), "kept off if possible");
    assert_eq!(placed("constraint:node!=a", 3), all(Some("b"), 3));
    assert_eq!(
        placed("constraint:node!=~/[ab]/", 1),
        all(Some("a"), 1),
        "a soft expression that no node meets is dropped"
    );
    assert_eq!(placed("constraint:node!=/[ab]/", 1), all(None, 1), "a condition is not");
    assert_eq!(placed("constraint:node==b", 2), all(Some("b"), 2));
    // Running pods stay on their node.
    let mut world = world(2, &["a", "b"]).all_running();
    world.constraints = vec!["constraint:node!=a".to_owned()];
    world.settle(5);
    assert_eq!(world.places(), [Some("a"), Some("b")]);
}

#[test]
fn an_instance_with_data_is_recreated_on_its_node_and_a_stateful_one_not_at_all() {
    let mut soft = world(1, &["a", "b"]);
    soft.record.spec.pod.containers[0].volumes = vec!["/data".to_owned()];
    let mut soft = soft.all_running();
    soft.observed = vec![reported(RunState::Missing)];
    soft.settle(10);
    assert_eq!((soft.places(), soft.instances[0].drift), (vec![Some("a")], 1));
    let mut hard = world(1, &["a", "b"]);
    hard.record.spec.pod.stateful = true;
    let mut hard = hard.all_running();
    hard.observed = vec![reported(RunState::Missing)];
    let plan = hard.settle(10);
    assert_eq!((plan.statuses, hard.instances[0].drift, plan.store), (vec![PodStatus::LeftAlone], 0, false));
}

#[test]
fn instances_of_a_lost_node_are_moved_unless_they_are_stateful() {
    let mut stateless = world(2, &["a", "b", "c"]).all_running();
    stateless.candidate("a").liveness = Liveness::Lost;
    stateless.settle(10);
    assert_eq!((stateless.places(), stateless.instances[0].drift), (vec![Some("c"), Some("b")], 1));
    let mut stateful = world(2, &["a", "b", "c"]);
    stateful.record.spec.pod.containers[0].volumes = vec!["/data".to_owned()];
    let mut stateful = stateful.all_running();
    stateful.candidate("a").liveness = Liveness::Lost;
    let plan = stateful.settle(10);
    assert_eq!((stateful.places(), plan.statuses[0]), (vec![Some("a"), Some("b")], PodStatus::LeftAlone));
    assert_eq!(stateful.instances[0].why, "node a is lost; the instance is stateful and waits for it");
}

#[test]
fn an_unschedulable_instance_of_a_lost_node_keeps_its_node() {
    let mut world = world(1, &["a"]).all_running();
    world.candidate("a").liveness = Liveness::Lost;
    let plan = world.settle(10);
    assert_eq!((world.places(), plan.store, plan.waiting), (vec![Some("a")], false, true));
    assert_eq!(world.instances[0].why, "node a is lost; no node fits: a: lost");
    world.candidate("a").liveness = Liveness::Alive;
    world.settle(11);
    assert_eq!((world.instances[0].drift, world.instances[0].why.as_str()), (0, ""));
}

#[test]
fn a_silent_node_keeps_its_instances() {
    for change in [
        |candidate: &mut Candidate| candidate.liveness = Liveness::Suspect,
        |candidate: &mut Candidate| candidate.liveness = Liveness::Unknown,
        |candidate: &mut Candidate| candidate.engine = EngineState::Hung,
    ] {
        let mut world = world(2, &["a", "b"]).all_running();
        change(world.candidate("a"));
        world.observed[0] = reported(RunState::Missing);
        let plan = world.plan(10);
        assert_eq!((plan.store, plan.statuses), (false, vec![PodStatus::Unreachable, PodStatus::Running]));
    }
}

#[test]
fn a_removal_ends_when_no_node_has_a_pod_left() {
    let mut world = world(2, &["a"]).all_running();
    world.record.operation = Some(OperationRecord::new(Operation::Removing, at(5)));
    world.has_leftovers = true;
    let plan = world.plan(5);
    assert_eq!((plan.instances.len(), plan.store, plan.finished(), plan.wake_at), (0, true, false, Some(at(605))));
    world.has_leftovers = false;
    assert!(!world.plan(6).finished(), "its instances are still placed");
    world.instances = Vec::new();
    assert!(world.plan(6).finished());
}

#[test]
fn a_group_whose_ports_are_taken_runs_nothing_and_has_no_lock() {
    let mut world = world(2, &["a"]);
    world.record.taken_ports = vec![1];
    let plan = world.settle(0);
    assert_eq!((plan.instances.len(), plan.store, plan.finished(), plan.wake_at), (0, false, true, None));
    let again = world.settle(1);
    assert_eq!((again.store, again.finished()), (false, false), "nothing more to do");
    world.record.taken_ports = Vec::new();
    assert_eq!(world.settle(2).instances.len(), 2);
}
