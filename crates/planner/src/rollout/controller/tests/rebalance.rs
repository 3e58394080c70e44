//! Moves of instances between units.

use super::*;

fn sizes(cluster: &RolloutCluster) -> Vec<usize> {
    (0..cluster.facts.units.len())
        .map(|at| cluster.facts.instances.iter().filter(|instance| instance.unit == at).count())
        .collect()
}

#[test]
fn quota_that_moves_is_made_before_it_is_broken() {
    for strategy in [rolling(1, 0), batches(4, true)] {
        let mut cluster = RolloutCluster::settled(strategy, &[5, 5]);
        cluster.facts.units[0].preference = Some(Amount::Count(8));
        let decision = cluster.decide();
        let moved = |instance| RolloutAction::Move { instance, unit: 0 };
        assert_eq!((decision.actions, sizes(&cluster)), (vec![moved(10), moved(9), moved(8)], vec![5, 5]));
        cluster.pass();
        cluster.facts.instances[9].next.as_mut().expect("it moves").pod.ready.ready = false;
        assert_eq!(cluster.decide().actions, [RolloutAction::Promote(8), RolloutAction::Promote(9)]);
        cluster.pass();
        assert_eq!((cluster.decide().actions, sizes(&cluster)), (vec![RolloutAction::Promote(10)], vec![8, 2]));
    }
}

#[test]
fn an_unavailable_instance_moves_immediately() {
    let mut cluster = RolloutCluster::settled(rolling(1, 0), &[2, 2]);
    cluster.kill(2);
    cluster.facts.units[0].preference = Some(Amount::Count(3));
    let decision = cluster.decide();
    assert_eq!(decision.actions, [RolloutAction::Move { instance: 3, unit: 0 }, RolloutAction::Promote(3)]);
}

#[test]
fn an_instance_that_exited_permanently_does_not_block_moves() {
    for strategy in [rolling(1, 0), batches(4, true)] {
        let mut cluster = RolloutCluster::settled(strategy, &[2, 2]);
        cluster.kill(0);
        cluster.facts.units[0].preference = Some(Amount::Count(3));
        assert_eq!(cluster.decide().actions, [RolloutAction::Move { instance: 4, unit: 0 }]);
        cluster.facts.instances[3].next.as_mut().expect("it moves").pod = healthy(1);
        assert_eq!(cluster.decide().actions, [], "the first may come back");
        cluster.facts.instances[0].main.as_mut().expect("a pod").phase = PodPhase::Failed;
        assert_eq!((cluster.decide().actions, sizes(&cluster)), (vec![RolloutAction::Promote(4)], vec![3, 1]));
    }
}

#[test]
fn a_move_that_is_no_longer_needed_is_reverted() {
    let mut cluster = RolloutCluster::settled(rolling(1, 0), &[3, 3]);
    cluster.facts.units[0].preference = Some(Amount::Count(5));
    cluster.decide();
    cluster.facts.units[0].preference = None;
    assert_eq!(cluster.decide().actions, [RolloutAction::Drop(5), RolloutAction::Drop(6)]);
    assert_eq!(sizes(&cluster), [3, 3]);
}

#[test]
fn instances_leave_an_undeclared_unit() {
    let mut cluster = RolloutCluster::settled(batches(4, true), &[2, 2, 2]);
    cluster.facts.units.pop();
    cluster.run(1);
    cluster.decide();
    assert_eq!(cluster.facts.instances.iter().map(|instance| instance.unit).collect::<Vec<_>>(), [0, 0, 1, 1, 1, 0]);
}

/// Ten instances in two units, updated to revision 2 together; some of the new pods are unschedulable.
fn stuck(free: [Option<i64>; 2], stuck_units: &[usize]) -> RolloutCluster {
    let mut cluster = RolloutCluster::settled(batches(10, false), &[5, 5]);
    cluster.facts.units.iter_mut().zip(free).for_each(|(unit, free_capacity)| unit.free_capacity = free_capacity);
    cluster.facts.settings.auto_reschedule =
        Some(AutoReschedule { delay: Duration::from_secs(30), fail_back: FailBack::Lazy });
    cluster.roll_out(2).decide();
    for unit in stuck_units {
        let of_unit = cluster.facts.instances.iter_mut().filter(|instance| instance.unit == *unit).take(2);
        for main in of_unit.filter_map(|instance| instance.main.as_mut()) {
            main.unschedulable_since = Some(Moment::from_secs(1_000));
        }
    }
    cluster
}

#[test]
fn unschedulable_pods_move_to_units_with_room_after_the_delay() {
    let mut cluster = stuck([None, None], &[0]);
    assert_eq!(cluster.decide().actions, []);
    cluster.facts.now = Moment::from_secs(1_030);
    let moved = |instance| RolloutAction::Reassign { instance, unit: 1 };
    assert_eq!((cluster.decide().actions, sizes(&cluster)), (vec![moved(1), moved(2)], vec![3, 7]));
    assert_eq!(
        (cluster.facts.state.allotment.targets.clone(), cluster.facts.state.committed.clone()),
        (vec![3, 7], vec![3, 7])
    );
    assert_eq!(cluster.run(10).report.status, RolloutStatus::Complete);
    assert_eq!(sizes(&cluster), [3, 7], "it does not come back by itself");
}

#[test]
fn nothing_moves_when_all_units_are_full() {
    let mut cluster = stuck([None, None], &[0, 1]);
    cluster.facts.now = Moment::from_secs(1_030);
    let decision = cluster.decide();
    assert_eq!(decision.actions, []);
    assert_eq!(decision.report.units.iter().map(|unit| unit.unplaced).collect::<Vec<_>>(), [2, 2]);
}

#[test]
fn quota_returns_with_the_next_scaling_or_eagerly_with_time() {
    let mut cluster = stuck([None, None], &[0]);
    cluster.facts.now = Moment::from_secs(1_030);
    cluster.run(10);
    cluster.facts.replicas = 12;
    cluster.run(10);
    assert_eq!(sizes(&cluster), [6, 6]);
    let mut cluster = stuck([None, None], &[0]);
    cluster.facts.settings.auto_reschedule =
        Some(AutoReschedule { delay: Duration::from_secs(30), fail_back: FailBack::Eager });
    cluster.facts.now = Moment::from_secs(1_030);
    cluster.run(10);
    cluster.facts.now = Moment::from_secs(2_000);
    (0..3).for_each(|_| {
        cluster.decide();
        cluster.pass();
    });
    assert_eq!(sizes(&cluster), [5, 5]);
}

#[test]
fn a_batch_updates_an_instance_that_is_about_to_move() {
    let mut cluster = RolloutCluster::settled(
        RolloutStrategy::Batches(BatchStrategy { window: None, ..batched(10, false) }),
        &[3, 3],
    );
    cluster.facts.units[0].preference = Some(Amount::Count(5));
    cluster.decide();
    assert_eq!(cluster.roll_out(2).run(30).report.status, RolloutStatus::Complete);
    cluster.decide();
    cluster.pass();
    cluster.decide();
    assert_eq!((sizes(&cluster), cluster.revisions()), (vec![5, 1], vec![2; 6]));
}

/// Three instances of one unit and one of another, updated to revision 2; the first unit has no room for new pods.
fn crowded(strategy: RolloutStrategy, sizes: &[usize]) -> RolloutCluster {
    let mut cluster = RolloutCluster::settled(strategy, sizes);
    cluster.facts.units.iter_mut().for_each(|unit| unit.preference = None);
    cluster.facts.settings.auto_reschedule =
        Some(AutoReschedule { delay: Duration::from_secs(2), fail_back: FailBack::Lazy });
    cluster.room = vec![Some(0)];
    cluster.roll_out(2);
    cluster
}

#[test]
fn an_unschedulable_surge_pod_moves_to_another_unit_and_so_does_the_instance() {
    let mut cluster = crowded(rolling(1, 0), &[1, 1]);
    assert_eq!(cluster.decide().actions, [RolloutAction::Surge(1)]);
    (0..3).for_each(|_| cluster.pass());
    assert_eq!(cluster.decide().actions, [RolloutAction::Divert { instance: 1, unit: 1 }]);
    assert_eq!(cluster.facts.state.allotment.targets, [0, 2]);
    cluster.pass();
    assert_eq!(cluster.decide().actions, [RolloutAction::Promote(1), RolloutAction::Surge(2)]);
    assert_eq!(cluster.run(10).report.status, RolloutStatus::Complete);
    assert_eq!((sizes(&cluster), cluster.revisions()), (vec![0, 2], vec![2, 2]));
}

#[test]
fn an_instance_with_local_data_stays_in_a_full_unit() {
    let mut cluster = crowded(rolling(1, 0), &[1, 1]);
    cluster.facts.instances[0].is_bound = true;
    cluster.facts.settings.placement_patience = Some(Duration::from_secs(5));
    cluster.run(20);
    assert_eq!((sizes(&cluster), cluster.available()), (vec![1, 1], 2));
    assert_eq!(cluster.decide().report.status, RolloutStatus::Held(Cause::Unschedulable));
}

#[test]
fn an_unschedulable_surge_pod_fails_the_rollout() {
    let mut cluster = RolloutCluster::settled(rolling(1, 0), &[2]);
    cluster.facts.settings.placement_patience = Some(Duration::from_secs(5));
    cluster.room = vec![Some(0)];
    cluster.roll_out(2).run(10);
    let decision = cluster.decide();
    assert_eq!(decision.report.status, RolloutStatus::Held(Cause::Unschedulable));
    assert_eq!((decision.state.failure.expect("it failed").instances, cluster.available()), (vec![1], 2));
}

#[test]
fn quota_follows_pods_that_get_stuck_one_after_the_other() {
    let mut cluster = crowded(batches(1, false), &[3, 3]);
    assert_eq!(cluster.run(60).report.status, RolloutStatus::Complete);
    assert_eq!((sizes(&cluster), cluster.facts.state.allotment.sent.clone()), (vec![0, 6], vec![(0, 1)]));
}

#[test]
fn a_stuck_surplus_pod_moves_to_a_unit_below_its_target() {
    for strategy in [rolling(1, 0), rolling(0, 1), batches(1, true)] {
        let mut cluster = crowded(strategy, &[3, 1]);
        cluster.facts.settings.auto_reschedule = None;
        cluster.facts.units[0].preference = Some(Amount::Count(0));
        assert_eq!(cluster.run(60).report.status, RolloutStatus::Complete, "{strategy:?}");
        assert_eq!((sizes(&cluster), cluster.revisions()), (vec![0, 4], vec![2; 4]));
    }
}

#[test]
fn an_abort_stops_a_diverted_surge_pod() {
    let mut cluster = crowded(rolling(1, 0), &[1, 1]);
    cluster.decide();
    (0..3).for_each(|_| cluster.pass());
    cluster.decide();
    cluster.say(Control::Abort);
    let decision = cluster.decide();
    assert_eq!(decision.actions[0], RolloutAction::Drop(1));
    (0..5).for_each(|_| {
        cluster.decide();
        cluster.pass();
    });
    assert_eq!(cluster.revisions(), [1, 1], "the mix stays");
}

#[test]
fn an_undeclared_unit_does_not_return_quota_when_its_last_instance_goes() {
    let mut cluster = stuck([None, None], &[0]);
    cluster.facts.now = Moment::from_secs(1_030);
    cluster.run(10);
    assert_eq!(cluster.facts.state.allotment.targets, [3, 7]);
    let declared = cluster.facts.units.clone();
    let gone = UnitFacts { name: "gone".to_owned(), preference: Some(Amount::Count(0)), free_capacity: None };
    cluster.facts.units.push(gone);
    assert_eq!((cluster.decide().actions, sizes(&cluster)), (vec![], vec![3, 7, 0]));
    cluster.facts.units = declared;
    assert_eq!((cluster.decide().actions, sizes(&cluster)), (vec![], vec![3, 7]));
}
