//! Each strategy brings a group to another version, and to its first.

use super::*;
use crate::rollout::controller::{Control, RolloutStatus};

#[test]
fn a_rolling_update_starts_one_and_then_stops_one() {
    let mut cluster = cluster(3, &["a", "b"], rolling(1, 0));
    cluster.patch(|pod| pod.containers[0].image = "j".to_owned()).tick();
    assert_eq!(cluster.versions(), [vec![0, 1], vec![0], vec![0]]);
    cluster.run(40);
    assert_eq!((cluster.versions(), cluster.status()), (all(1, 3), RolloutStatus::Complete));
    assert_eq!((cluster.fewest, cluster.most), (3, 4), "nobody missed an instance");
    assert_eq!((cluster.world.record.proven, cluster.world.record.former.len()), (Some(1), 0));
    assert_eq!(cluster.containers.len(), 3);
}

#[test]
fn a_rolling_update_without_surge_stays_within_its_budget() {
    let mut cluster = cluster(4, &["a", "b"], rolling(0, 2));
    cluster.patch(|pod| pod.containers[0].image = "j".to_owned()).run(40);
    assert_eq!((cluster.versions(), cluster.fewest, cluster.most), (all(1, 4), 2, 4));
}

#[test]
fn the_budgets_are_a_quarter_each_when_nobody_says() {
    let mut cluster = cluster(8, &["a", "b", "c"], strategy(StrategyType::RollingUpdate));
    cluster.patch(|_| ()).run(60);
    assert_eq!((cluster.versions(), cluster.fewest, cluster.most), (all(1, 8), 6, 10));
}

#[test]
fn a_recreation_waits_until_everything_old_is_gone() {
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
fn batches_follow_one_another_and_each_waits_for_the_one_before() {
    let mut cluster = cluster(5, &["a", "b"], batches(StrategyType::Batch, 2));
    cluster.patch(|_| ()).run(60);
    assert_eq!((cluster.versions(), cluster.fewest, cluster.most), (all(1, 5), 3, 5));
    assert_eq!(cluster.world.release.as_ref().map(|release| release.batch), Some(3));
}

#[test]
fn a_group_is_created_by_its_groups() {
    let mut cluster = fresh(5, &["a", "b"], batches(StrategyType::Batch, 2));
    cluster.tick();
    assert_eq!(cluster.versions().len(), 2);
    cluster.run(40);
    assert_eq!((cluster.versions(), cluster.status()), (all(0, 5), RolloutStatus::Complete));
    assert_eq!(cluster.world.record.proven, Some(0));
}

#[test]
fn a_beta_is_one_of_every_unit_and_waits_to_be_confirmed() {
    let mut cluster = in_units(4, Strategy { need_waiting_for_confirm: true, ..batches(StrategyType::Beta, 4) });
    assert_eq!(cluster.units(), ["A", "B", "A", "B"]);
    cluster.patch(|_| ()).run(20);
    assert_eq!(cluster.status(), RolloutStatus::WaitingForConfirm { batch: 1 });
    let updated = |cluster: &Cluster| -> Vec<String> {
        let slots = cluster.world.slots.iter().filter(|slot| slot.version == 1);
        slots.map(|slot| slot.unit.clone()).collect()
    };
    let mut beta = updated(&cluster);
    beta.sort();
    assert_eq!(beta, ["A", "B"]);
    cluster.say(Control::Confirm(1)).run(20);
    assert_eq!((cluster.versions(), cluster.status()), (all(1, 4), RolloutStatus::Complete));
    for slot in &cluster.world.slots {
        let node = slot.node.as_ref().expect("a place");
        assert_eq!(cluster.world.hosts[node].facts.labels["zone"], slot.unit);
    }
}

/// Two units of two nodes each, with everything running.
pub(super) fn in_units(instances: i64, strategy: Strategy) -> Cluster {
    let mut cluster = fresh(instances, &["a1", "a2", "b1", "b2"], strategy);
    for (node, unit) in [("a1", "A"), ("a2", "A"), ("b1", "B"), ("b2", "B")] {
        cluster.world.host(node).facts.labels.insert("zone".to_owned(), unit.to_owned());
    }
    let values = vec!["A".to_owned(), "B".to_owned()];
    cluster.world.record.spec.topology = Some(Topology { unit_type: UnitType::Zone, values, ..Topology::default() });
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
fn scaling_goes_without_a_release_and_removes_the_highest_numbers() {
    let mut cluster = cluster(2, &["a", "b"], rolling(1, 0));
    cluster.scale(5).run(10);
    assert_eq!((cluster.versions(), cluster.status()), (all(0, 5), RolloutStatus::Complete));
    cluster.scale(3).run(10);
    assert_eq!((cluster.versions(), cluster.containers.len()), (all(0, 3), 3));
}

#[test]
fn a_number_that_comes_back_at_once_does_not_meet_its_old_pod() {
    let mut cluster = cluster(3, &["a", "b"], rolling(1, 0));
    cluster.stop = 5;
    cluster.scale(2).tick();
    cluster.world.host("a").facts.labels.insert("x".to_owned(), "y".to_owned());
    cluster.scale(3).run(30);
    assert_eq!((cluster.versions(), cluster.containers.len()), (all(0, 3), 3));
}
