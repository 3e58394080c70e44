//! Scaling, during a rollout and without one.

use super::*;

#[test]
fn without_a_rollout_scaling_is_immediate_and_removes_the_highest_numbers() {
    let confirmed = confirmed(1, true);
    for strategy in [rolling(1, 0), RolloutStrategy::Recreate, confirmed] {
        let mut cluster = RolloutCluster::settled(strategy, &[3]);
        cluster.facts.replicas = 5;
        let create = |instance| RolloutAction::Create { instance, unit: 0, revision: 1 };
        assert_eq!(cluster.decide().actions, [create(4), create(5)]);
        cluster.pass();
        assert_eq!(cluster.decide().report.status, RolloutStatus::Complete);
        cluster.facts.replicas = 2;
        assert_eq!(
            cluster.decide().actions,
            [RolloutAction::Remove(5), RolloutAction::Remove(4), RolloutAction::Remove(3)]
        );
    }
}

#[test]
fn scaling_a_rolling_update_keeps_the_shares_of_its_revisions() {
    let mut cluster = RolloutCluster::settled(rolling(3, 2), &[10]);
    cluster.facts.settings.replacement = Some(PodReplacement::Started);
    cluster.broken.insert(2);
    cluster.roll_out(2).run(3);
    assert_eq!(cluster.mix(), BTreeMap::from([(1, 8), (2, 5)]));
    cluster.facts.replicas = 50;
    cluster.facts.settings.strategy = rolling(6, 2);
    cluster.decide();
    assert_eq!((cluster.mix(), cluster.facts.instances.len()), (BTreeMap::from([(1, 34), (2, 22)]), 50));
}

#[test]
fn growth_under_a_smaller_surge_stops_an_unavailable_surge_pod() {
    let mut cluster = RolloutCluster::settled(rolling(1, 0), &[2]);
    cluster.broken.insert(2);
    cluster.roll_out(2).run(3);
    assert_eq!(cluster.mix(), BTreeMap::from([(1, 2), (2, 1)]));
    cluster.facts.replicas = 6;
    cluster.facts.settings.strategy = rolling(0, 1);
    cluster.decide();
    assert_eq!((cluster.pods().count(), cluster.facts.instances.len()), (6, 6));
}

#[test]
fn in_a_pause_new_instances_get_the_old_revision() {
    let mut cluster = RolloutCluster::settled(rolling(1, 0), &[3]);
    cluster.say(Control::Pause);
    cluster.roll_out(2).facts.replicas = 5;
    cluster.decide();
    assert_eq!(cluster.revisions(), [1, 1, 1, 1, 1]);
}

#[test]
fn template_and_replicas_together_grow_first_at_the_old_revision() {
    let mut cluster = RolloutCluster::settled(batches(2, false), &[2, 2]);
    cluster.facts.replicas = 6;
    let actions = cluster.roll_out(2).decide().actions;
    let create = |instance, unit| RolloutAction::Create { instance, unit, revision: 1 };
    assert_eq!(actions[..2], [create(5, 0), create(6, 1)]);
    assert_eq!(cluster.run(20).report.status, RolloutStatus::Complete);
    assert_eq!(cluster.mix(), BTreeMap::from([(2, 6)]));
}

/// Two units of five instances, two updated in each; the rollout waits for a confirmation.
fn waiting() -> RolloutCluster {
    let mut cluster = RolloutCluster::settled(confirmed(4, false), &[5, 5]);
    cluster.roll_out(2).run(3);
    assert_eq!(cluster.facts.state.committed, [2, 2]);
    cluster
}

#[test]
fn a_unit_keeps_its_ratio_when_it_grows_and_when_it_shrinks() {
    let mut cluster = waiting();
    cluster.facts.replicas = 20;
    cluster.decide();
    let split = |cluster: &RolloutCluster, unit| {
        let of = |revision| {
            let is = |instance: &&Instance| {
                instance.unit == unit && instance.main.as_ref().is_some_and(|main| main.revision == revision)
            };
            cluster.facts.instances.iter().filter(is).count()
        };
        (of(2), of(1))
    };
    assert_eq!((split(&cluster, 0), split(&cluster, 1)), ((4, 6), (4, 6)));
    assert_eq!(cluster.facts.state.committed, [4, 4]);
    assert_eq!(cluster.facts.state.batch, 1, "scaling starts no batch");
    let mut cluster = waiting();
    cluster.facts.replicas = 6;
    cluster.decide();
    assert_eq!((split(&cluster, 0), split(&cluster, 1)), ((1, 2), (1, 2)));
    assert_eq!(cluster.run(5).report.status, RolloutStatus::WaitingForConfirm { batch: 1 });
    cluster.say(Control::Confirm(1));
    assert_eq!(cluster.run(5).report.status, RolloutStatus::Complete);
}

#[test]
fn a_unit_that_joins_starts_at_the_target_revision() {
    let mut cluster = waiting();
    cluster.facts.units = units([None; 3]);
    cluster.facts.replicas = 15;
    cluster.decide();
    let joined: Vec<u32> = cluster
        .facts
        .instances
        .iter()
        .filter(|instance| instance.unit == 2)
        .filter_map(|instance| Some(instance.main.as_ref()?.revision))
        .collect();
    assert_eq!(joined, [2, 2, 2, 2, 2]);
}

#[test]
fn a_creation_ends_when_the_replicas_shrink() {
    let mut cluster = RolloutCluster::settled(confirmed(4, true), &[0, 0]);
    cluster.facts.proven = None;
    cluster.facts.replicas = 10;
    cluster.roll_out(2).run(3);
    assert_eq!((cluster.facts.instances.len(), cluster.facts.state.kind), (2, Some(BatchKind::Beta)));
    cluster.facts.replicas = 2;
    assert_eq!(cluster.run(3).report.status, RolloutStatus::Complete);
}

#[test]
fn nothing_happens_when_every_unit_is_pinned_to_zero() {
    let mut cluster = RolloutCluster::settled(batches(4, true), &[2, 2]);
    cluster.facts.units.iter_mut().for_each(|unit| unit.preference = Some(Amount::Count(0)));
    let decision = cluster.decide();
    assert_eq!((decision.actions, decision.report.warnings.len()), (vec![], 1));
}

#[test]
fn a_group_with_stopped_instances_grows_to_its_replicas() {
    let mut cluster = RolloutCluster::settled(batches(4, false), &[5]);
    cluster.roll_out(2).decide();
    assert_eq!(cluster.facts.state.committed, [4]);
    cluster.facts.instances.iter_mut().take(4).for_each(|instance| instance.is_stopped = true);
    cluster.facts.replicas = 6;
    cluster.decide();
    assert_eq!(cluster.facts.instances.len(), 6);
}

#[test]
fn the_lowest_free_numbers_are_taken() {
    let mut cluster = RolloutCluster::settled(batches(4, true), &[2, 2]);
    cluster.facts.units[1].preference = Some(Amount::Count(2));
    cluster.facts.replicas = 3;
    assert_eq!(cluster.decide().actions, [RolloutAction::Remove(2)], "the highest of the unit that has too many");
    cluster.facts.replicas = 4;
    assert_eq!(cluster.decide().actions, [RolloutAction::Create { instance: 2, unit: 0, revision: 1 }]);
}

#[test]
fn without_units_the_highest_numbers_go_during_a_rollout_too() {
    let mut cluster = RolloutCluster::settled(rolling(1, 0), &[6]);
    cluster.facts.units[0].name.clear();
    cluster.roll_out(2).run(4);
    assert_eq!(cluster.revisions(), [2, 2, 2, 1, 1, 1]);
    cluster.facts.replicas = 4;
    let actions = cluster.decide().actions;
    let removed: Vec<&RolloutAction> =
        actions.iter().filter(|action| matches!(action, RolloutAction::Remove(_))).collect();
    assert_eq!(removed, [&RolloutAction::Remove(6), &RolloutAction::Remove(5)]);
}

#[test]
fn in_units_unavailable_instances_are_removed_first() {
    let mut cluster = RolloutCluster::settled(batches(4, true), &[3, 3]);
    cluster.kill(1);
    cluster.facts.replicas = 4;
    assert_eq!(cluster.decide().actions, [RolloutAction::Remove(2), RolloutAction::Remove(6)]);
}

#[test]
fn a_scale_down_of_a_broken_update_keeps_available_instances() {
    // The second time with a third revision, of which no instance is updated yet.
    for target in [2, 3] {
        let half = Some(Amount::Percent(50));
        let mut cluster = RolloutCluster::settled(RolloutStrategy::Rolling { surge: None, unavailable: half }, &[10]);
        cluster.facts.units[0].name.clear();
        cluster.broken.insert(2);
        cluster.roll_out(2).run(3);
        assert_eq!((cluster.mix(), cluster.available()), (BTreeMap::from([(1, 5), (2, 5)]), 5));
        cluster.roll_out(target).facts.replicas = 5;
        cluster.decide();
        assert_eq!((cluster.facts.instances.len(), cluster.available()), (5, 3), "three of five must serve");
    }
}

#[test]
fn a_scale_down_keeps_available_instances_rather_than_unavailable_ones_of_other_units() {
    let mut cluster =
        RolloutCluster::settled(RolloutStrategy::Rolling { surge: None, unavailable: Some(Amount::Count(2)) }, &[2, 2]);
    cluster.roll_out(2).kill(0);
    cluster.kill(1);
    cluster.broken.insert(2);
    cluster.run(2);
    assert_eq!((cluster.revisions(), cluster.available()), (vec![2, 2, 1, 1], 2));
    cluster.facts.settings.strategy = rolling(0, 1);
    cluster.facts.replicas = 3;
    let actions = cluster.decide().actions;
    assert!(
        actions.contains(&RolloutAction::Remove(2)),
        "the second unit has one too many, and both serve: {actions:?}"
    );
    assert_eq!((cluster.facts.instances.len(), cluster.available()), (3, 2), "two of three must serve");
}

#[test]
fn a_scale_down_reduces_surge_pods() {
    let mut cluster = RolloutCluster::settled(
        RolloutStrategy::Rolling { surge: Some(Amount::Percent(30)), unavailable: None },
        &[10],
    );
    cluster.facts.units[0].name.clear();
    cluster.broken.insert(2);
    cluster.roll_out(2).run(2);
    assert_eq!(cluster.pods().count(), 13);
    cluster.facts.replicas = 4;
    cluster.decide();
    assert_eq!((cluster.facts.instances.len(), cluster.pods().count(), cluster.available()), (4, 6, 4));
}

#[test]
fn recreate_waits_for_terminating_pods_of_removed_instances() {
    let mut cluster = RolloutCluster::settled(RolloutStrategy::Recreate, &[4]);
    cluster.end = 3;
    assert_eq!(cluster.roll_out(2).decide().actions, [1, 2, 3, 4].map(RolloutAction::Retire));
    cluster.pass();
    cluster.facts.instances.iter_mut().take(2).for_each(|instance| instance.leaving = 0);
    cluster.facts.replicas = 2;
    assert_eq!(
        cluster.decide().actions,
        [RolloutAction::Remove(4), RolloutAction::Remove(3)],
        "the pods of both still go"
    );
    cluster.pass();
    assert_eq!(cluster.decide().actions, []);
    cluster.pass();
    cluster.pass();
    let create = |instance| RolloutAction::Create { instance, unit: 0, revision: 2 };
    assert_eq!(cluster.decide().actions, [create(1), create(2)]);
}

#[test]
fn units_are_matched_by_name_when_their_order_changes() {
    let mut cluster = RolloutCluster::settled(confirmed(4, true), &[2, 6]);
    cluster.roll_out(2).run(3);
    cluster.say(Control::Confirm(1));
    cluster.run(3);
    assert_eq!(cluster.facts.state.committed, [2, 4]);
    cluster.rotate_units(1);
    assert_eq!((cluster.decide().actions, cluster.facts.state.committed.clone()), (vec![], vec![4, 2]));
    cluster
        .facts
        .units
        .insert(0, UnitFacts { name: "new".to_owned(), preference: Some(Amount::Count(0)), free_capacity: None });
    for instance in &mut cluster.facts.instances {
        instance.unit += 1;
    }
    assert_eq!((cluster.decide().actions, cluster.facts.state.committed.clone()), (vec![], vec![0, 4, 2]));
}
