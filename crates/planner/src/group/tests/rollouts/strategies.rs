//! Each strategy deploys a group and brings it to another version.

use super::*;

#[test]
fn a_rolling_update_starts_one_and_then_stops_one() {
    let mut cluster = cluster(3, &["a", "b"], rolling(1, 0));
    cluster.patch(|pod| pod.containers[0].image = "j".to_owned()).tick();
    assert_eq!(cluster.versions(), [vec![0, 1], vec![0], vec![0]]);
    cluster.run(40);
    assert_eq!((cluster.versions(), cluster.status()), (all(1, 3), RolloutStatus::Complete));
    assert_eq!((cluster.fewest, cluster.most), (3, 4), "no instance was missing");
    assert_eq!((cluster.world.record.proven, cluster.world.record.former.len()), (Some(1), 0));
    assert_eq!(cluster.containers.len(), 3);
}

#[test]
fn each_strategy_keeps_its_budget_and_reaches_every_instance() {
    // instances, strategy; the fewest that serve, the most pods, the last batch
    let table = [
        (4, rolling(0, 2), 2, 4, 0),
        (8, strategy(StrategyType::RollingUpdate), 6, 10, 0),
        (5, batches(StrategyType::Batch, 2), 3, 5, 3),
    ];
    for (instances, strategy, fewest, most, batch) in table {
        let mut cluster = cluster(instances, &["a", "b", "c"], strategy.clone());
        cluster.patch(|_| ()).run(60);
        assert_eq!((cluster.fewest, cluster.most), (fewest, most), "{strategy:?}");
        assert_eq!(cluster.versions(), vec![vec![1]; cluster.world.instances.len()], "{strategy:?}");
        assert_eq!(cluster.world.release.as_ref().map(|release| release.batch), Some(batch), "{strategy:?}");
    }
}

#[test]
fn a_recreate_rollout_waits_until_all_old_pods_are_gone() {
    let mut cluster = cluster(3, &["a", "b"], strategy(StrategyType::Recreate));
    cluster.stop = 4;
    cluster.patch(|_| ()).tick();
    assert_eq!(cluster.versions(), vec![Vec::<u32>::new(); 3], "they retired");
    for _ in 0..3 {
        cluster.tick();
        assert!(!cluster.containers.is_empty() && cluster.versions() == vec![Vec::<u32>::new(); 3]);
    }
    cluster.run(20);
    assert_eq!((cluster.versions(), cluster.status(), cluster.most), (all(1, 3), RolloutStatus::Complete, 3));
}

#[test]
fn a_new_group_is_created_in_batches() {
    let mut cluster = fresh(5, &["a", "b"], batches(StrategyType::Batch, 2));
    cluster.tick();
    assert_eq!(cluster.versions().len(), 2);
    cluster.run(40);
    assert_eq!((cluster.versions(), cluster.status()), (all(0, 5), RolloutStatus::Complete));
    assert_eq!(cluster.world.record.proven, Some(0));
}

#[test]
fn a_beta_updates_one_instance_of_every_unit_and_waits_for_confirmation() {
    let mut cluster = in_units(4, Strategy { need_waiting_for_confirm: true, ..batches(StrategyType::Beta, 4) });
    assert_eq!(cluster.units(), ["A", "B", "A", "B"]);
    cluster.patch(|_| ()).run(20);
    assert_eq!(cluster.status(), RolloutStatus::WaitingForConfirm { batch: 1 });
    let updated = |cluster: &TestCluster| -> Vec<String> {
        let instances = cluster.world.instances.iter().filter(|instance| instance.version == 1);
        instances.map(|instance| instance.unit.clone()).collect()
    };
    let mut beta = updated(&cluster);
    beta.sort();
    assert_eq!(beta, ["A", "B"]);
    cluster.say(Control::Confirm(1)).run(20);
    assert_eq!((cluster.versions(), cluster.status()), (all(1, 4), RolloutStatus::Complete));
    for instance in &cluster.world.instances {
        let node = instance.node.as_ref().expect("a place");
        assert_eq!(cluster.world.nodes[node].facts.labels["zone"], instance.unit);
    }
}

/// Two units of two nodes each; all instances run.
pub(super) fn in_units(instances: i64, strategy: Strategy) -> TestCluster {
    let mut cluster = fresh(instances, &["a1", "a2", "b1", "b2"], strategy);
    label(&mut cluster, &[("a1", "A"), ("a2", "A"), ("b1", "B"), ("b2", "B")]);
    cluster.world.record.spec.topology = Some(zones(&["A", "B"]));
    while cluster.world.record.proven.is_none() {
        let waiting =
            matches!(cluster.last.report.as_ref().map(|it| it.status), Some(RolloutStatus::WaitingForConfirm { .. }));
        if waiting {
            let group = cluster.world.release.as_ref().expect("a release").batch;
            cluster.say(Control::Confirm(group));
        }
        cluster.tick();
        assert!(cluster.now < 5_000, "{:?}", cluster.last);
    }
    cluster.forget();
    cluster
}

#[test]
fn a_reused_number_does_not_collide_with_its_old_pod() {
    let mut cluster = cluster(3, &["a", "b"], rolling(1, 0));
    cluster.stop = 5;
    cluster.scale(2).tick();
    cluster.world.candidate("a").facts.labels.insert("x".to_owned(), "y".to_owned());
    cluster.scale(3).run(30);
    assert_eq!((cluster.versions(), cluster.containers.len()), (all(0, 3), 3));
}
