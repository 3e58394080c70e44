//! Operations on a group with a strategy, besides rollouts.

use super::*;

fn run_operation(cluster: &mut TestCluster, kind: Operation) {
    let last = u32::try_from(cluster.world.instances.len()).expect("few");
    cluster.world.run_operation(kind, 1..=last, cluster.now);
    cluster.replan();
}

#[test]
fn a_rollout_waits_for_the_lock() {
    let mut cluster = cluster(3, &["a", "b"], rolling(0, 1));
    cluster.start = 3;
    run_operation(&mut cluster, Operation::Restarting);
    cluster.patch(|_| ());
    run_operation(&mut cluster, Operation::Restarting);
    cluster.tick();
    assert_eq!((cluster.versions(), cluster.world.operation()), (all(0, 3), Some(Operation::Restarting)));
    cluster.run(80);
    assert_eq!(
        (cluster.versions(), cluster.status(), cluster.world.operation()),
        (all(1, 3), RolloutStatus::Complete, None)
    );
}

#[test]
fn a_lock_left_by_a_serial_upgrade_is_released() {
    let mut cluster = cluster(2, &["a"], rolling(0, 1));
    for kind in [Operation::Deploying, Operation::Scheduling, Operation::Upgrading] {
        run_operation(&mut cluster, kind);
        cluster.run(2);
        assert_eq!(cluster.world.operation(), None, "{kind:?}");
    }
}

#[test]
fn a_stopped_instance_gets_the_new_version_last_and_stays_stopped() {
    let mut cluster = cluster(3, &["a", "b"], rolling(1, 0));
    run_operation(&mut cluster, Operation::Stopping);
    cluster.world.record.operation.as_mut().expect("an operation").last = 1;
    cluster.run(5);
    cluster.patch(|_| ()).run(60);
    assert_eq!((cluster.versions(), cluster.status()), (all(1, 3), RolloutStatus::Complete));
    assert_eq!((cluster.world.instances[0].target, cluster.containers.len()), (TargetState::Stop, 2));
    run_operation(&mut cluster, Operation::Starting);
    cluster.run(10);
    assert_eq!((cluster.serving(), cluster.containers.len()), (3, 3));
}

#[test]
fn a_move_takes_both_pods_of_an_instance() {
    let mut cluster = cluster(1, &["a", "b", "c"], rolling(1, 0));
    cluster.behaviour.insert(1, PodBehaviour::Unwell);
    cluster.patch(|_| ()).run(3);
    let [main, next] = [0, 1].map(|at| cluster.world.instances[0].pods().nth(at).and_then(|pod| pod.node.clone()));
    assert_ne!(main, next);
    for from in [main.clone(), next.clone()].into_iter().flatten() {
        cluster.world.record.drifts.push(Drift { from, to: None, force: false, instance: None });
    }
    cluster.replan().run(30);
    assert_eq!((cluster.world.record.drifts.len(), cluster.versions()), (0, vec![vec![0, 1]]));
    let after = [0, 1].map(|at| cluster.world.instances[0].pods().nth(at).and_then(|pod| pod.node.clone()));
    assert!(after[0] != main && after[1] != next && after[1].is_some(), "{after:?}");
}

#[test]
fn a_move_waits_for_the_instance_that_an_expired_move_took_down() {
    let mut world = world(3, &["a", "b", "c"]);
    world.record.spec.strategy = Some(rolling(0, 1));
    world.constraints = vec!["constraint:node==a".to_owned()];
    let mut world = world.all_healthy();
    world.constraints.clear();
    let drift = |instance| Drift { from: name("a"), to: None, force: false, instance };
    world.record.drifts = vec![drift(None), drift(Some(3))];
    world.settle(210);
    world.still_on_old_node.clear();
    world.settle(211);
    let limit = 210 + 600;
    world.observed[0] = healthy(limit - 2);
    world.settle(limit - 1);
    assert_eq!((world.leaves(1), world.instances[1].since), (Some("a"), at(limit - 1)));
    world.settle(limit);
    let plan = world.settle(limit + 1);
    assert_eq!((world.record.drifts.len(), world.operation()), (1, Some(Operation::Drifting)), "the next has its turn");
    assert_eq!((world.leaves(2), plan.wake_at.is_some()), (None, true), "two would be down");
    world.still_on_old_node.clear();
    world.settle(limit + 2);
    world.observed[1] = healthy(limit + 3);
    world.settle(limit + 3);
    assert_eq!(world.leaves(2), Some("a"), "it continues");
}

#[test]
fn a_frozen_group_recreates_lost_pods_at_their_version() {
    let mut cluster = cluster(3, &["a", "b"], rolling(1, 0));
    cluster.say(Control::Freeze);
    cluster.patch(|_| ()).scale(5).run(10);
    assert_eq!((cluster.versions(), cluster.status()), (all(0, 3), RolloutStatus::Frozen));
    cluster.world.candidate("a").liveness = Liveness::Lost;
    cluster.replan().run(10);
    assert_eq!((cluster.versions(), cluster.serving()), (all(0, 3), 3));
    cluster.say(Control::Unfreeze).run(80);
    assert_eq!((cluster.versions(), cluster.status()), (all(1, 5), RolloutStatus::Complete));
}

#[test]
fn a_stateful_instance_never_has_two_pods_and_stays_on_its_node() {
    let mut cluster = fresh(3, &["a", "b"], rolling(1, 0));
    cluster.world.record.spec.pod.containers[0].volumes = vec!["/data".to_owned()];
    cluster.run(20);
    cluster.forget();
    let places = |cluster: &TestCluster| -> Vec<Option<NodeName>> {
        cluster.world.instances.iter().map(|instance| instance.node.clone()).collect()
    };
    let before = places(&cluster);
    cluster.patch(|_| ()).run(60);
    assert_eq!((cluster.versions(), places(&cluster)), (all(1, 3), before));
    assert_eq!((cluster.fewest, cluster.most), (2, 3), "one at a time instead");
}

#[test]
fn a_group_changes_to_a_strategy_and_back() {
    let mut cluster = cluster(3, &["a", "b"], rolling(1, 0));
    let containers = cluster.containers.clone();
    cluster.world.record.spec.strategy = None;
    cluster.replan().run(5);
    assert_eq!((cluster.versions(), &cluster.containers), (all(0, 3), &containers));
    cluster.world.patch(cluster.now, |_| ());
    cluster.replan().run(60);
    assert_eq!((cluster.versions(), cluster.world.operation()), (all(1, 3), None));
    cluster.world.record.spec.strategy = Some(batches(StrategyType::Beta, 2));
    cluster.replan().run(5);
    assert_eq!((cluster.versions(), cluster.status()), (all(1, 3), RolloutStatus::Complete));
    cluster.patch(|_| ()).run(60);
    assert_eq!((cluster.versions(), cluster.status()), (all(2, 3), RolloutStatus::Complete));
}
