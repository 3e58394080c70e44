//! Rollouts by batches over units, as executed histories.

use super::*;

/// What a rollout did, batch by batch, as the table writes it: instances of each unit.
fn executed(cluster: &mut RolloutCluster) -> String {
    let unit_of = |cluster: &RolloutCluster, number: u32| {
        cluster.facts.instances.iter().find(|instance| instance.number == number).expect("it is there").unit
    };
    for _ in 0..60 {
        let decision = cluster.decide_and_confirm();
        cluster.pass();
        if decision.report.status == RolloutStatus::Complete {
            break;
        }
    }
    assert_eq!(cluster.last.as_ref().expect("asked").report.status, RolloutStatus::Complete);
    let mut groups: Vec<(u64, Vec<usize>)> = Vec::new();
    for (group, actions) in &cluster.history {
        if groups.last().is_none_or(|(last, _)| last != group) {
            groups.push((*group, vec![0; cluster.facts.units.len()]));
        }
        let counts = &mut groups.last_mut().expect("just pushed").1;
        for action in actions {
            match action {
                RolloutAction::Renew(number) | RolloutAction::Create { instance: number, .. } => {
                    counts[unit_of(cluster, *number)] += 1
                }
                other => panic!("a batch only renews and creates: {other:?}"),
            }
        }
    }
    let line = |(_, counts): &(u64, Vec<usize>)| counts.iter().map(ToString::to_string).collect::<Vec<_>>().join("/");
    groups.iter().map(line).collect::<Vec<_>>().join(" ")
}

fn release(batched: BatchStrategy, sizes: &[usize]) -> String {
    let mut cluster = RolloutCluster::settled(RolloutStrategy::Batches(batched), sizes);
    cluster.roll_out(2);
    let executed = executed(&mut cluster);
    assert!(cluster.revisions().iter().all(|revision| *revision == 2));
    executed
}

#[test]
fn the_tables_of_r_47() {
    let confirmed = BatchStrategy { needs_confirm: true, ..batched(4, true) };
    assert_eq!(release(confirmed, &[5, 5]), "1/1 2/2 2/2", "the article: 2, 4, 4");
    assert_eq!(release(batched(4, true), &[4, 6]), "1/1 1/3 2/2");
    assert_eq!(release(batched(4, true), &[2, 8]), "1/1 0/4 1/3");
    assert_eq!(release(batched(4, false), &[5, 5]), "2/2 2/2 1/1");
    assert_eq!(release(batched(3, false), &[5, 5]), "2/1 1/2 2/1 0/1");
    assert_eq!(release(batched(4, true), &[4, 1, 5]), "1/1/1 2/0/2 1/0/2");
    assert_eq!(release(BatchStrategy { spread: Spread::Sequential, ..batched(2, true) }, &[3, 3]), "1/0 2/0 0/1 0/2");
    assert_eq!(release(BatchStrategy { spread: Spread::Even, ..batched(6, false) }, &[2, 10]), "2/4 0/6");
    assert_eq!(
        release(BatchStrategy { batch_size: Amount::Percent(30), ..batched(1, false) }, &[5, 5]),
        "2/1 1/2 2/1 0/1"
    );
}

#[test]
fn a_resumed_rollout_needs_no_second_beta() {
    let resumed = |updated: [usize; 2]| {
        let mut cluster = RolloutCluster::settled(batches(4, true), &[5, 5]);
        cluster.roll_out(2);
        for instance in &mut cluster.facts.instances {
            let place = usize::try_from(instance.number).expect("small") - 1 - 5 * instance.unit;
            instance.main.as_mut().expect("one").revision = if place < updated[instance.unit] { 2 } else { 1 };
        }
        executed(&mut cluster)
    };
    assert_eq!(resumed([2, 2]), "2/2 1/1");
    assert_eq!(resumed([2, 0]), "0/1 2/2 1/2");
}

#[test]
fn creation_uses_the_same_batches() {
    let mut cluster = RolloutCluster::settled(batches(4, true), &[0, 0]);
    cluster.facts.proven = None;
    cluster.facts.replicas = 10;
    cluster.roll_out(2);
    assert_eq!(executed(&mut cluster), "1/1 2/2 2/2");
    let numbers: Vec<u32> = cluster.facts.instances.iter().map(|instance| instance.number).collect();
    assert_eq!(numbers, (1..=10).collect::<Vec<_>>());
}

#[test]
fn the_next_batch_waits_for_a_confirmation_and_the_last_needs_none() {
    let mut cluster = RolloutCluster::settled(confirmed(2, false), &[2, 2]);
    cluster.roll_out(2).run(5);
    assert_eq!(cluster.last.as_ref().expect("asked").report.status, RolloutStatus::WaitingForConfirm { batch: 1 });
    assert_eq!(cluster.revisions().iter().filter(|revision| **revision == 2).count(), 2);
    cluster.say(Control::Confirm(1));
    assert_eq!(cluster.run(5).report.status, RolloutStatus::Complete);
}

#[test]
fn switching_confirmation_off_continues_a_waiting_rollout() {
    let mut cluster = RolloutCluster::settled(confirmed(2, false), &[2, 2]);
    cluster.roll_out(2).run(5);
    cluster.facts.settings.strategy = batches(2, false);
    assert_eq!(cluster.run(5).report.status, RolloutStatus::Complete);
}

#[test]
fn a_confirmation_in_a_pause_is_kept() {
    let mut cluster = RolloutCluster::settled(confirmed(2, false), &[2, 2]);
    cluster.roll_out(2).run(5);
    cluster.say(Control::Pause);
    cluster.say(Control::Confirm(1));
    assert_eq!((cluster.decide().actions, cluster.run(3).report.status), (vec![], RolloutStatus::Paused));
    cluster.say(Control::Resume);
    assert_eq!(cluster.decide().actions.len(), 2);
}

#[test]
fn the_beta_is_an_available_pod_with_the_lowest_cost() {
    let mut cluster = RolloutCluster::settled(batches(2, true), &[3]);
    cluster.facts.instances[0].main.as_mut().expect("one").ready.ready = false;
    cluster.facts.instances[2].main.as_mut().expect("one").cost = -1;
    assert_eq!(cluster.roll_out(2).decide().actions, [RolloutAction::Renew(3)]);
    cluster.pass();
    assert_eq!(
        cluster.decide().actions,
        [RolloutAction::Renew(1), RolloutAction::Renew(2)],
        "then the one that costs nothing"
    );
}

#[test]
fn a_rollback_goes_through_the_units_in_reverse_and_spares_healthy_pods() {
    let mut cluster = RolloutCluster::settled(confirmed(4, true), &[5, 5]);
    cluster.broken.insert(2);
    cluster.roll_out(2).run(3);
    let bad: Vec<u32> = cluster
        .facts
        .instances
        .iter()
        .filter(|instance| instance.main.as_ref().is_some_and(|main| main.revision == 2))
        .map(|instance| instance.number)
        .collect();
    assert_eq!(bad.len(), 2);
    cluster.facts.settings.strategy = RolloutStrategy::Batches(BatchStrategy {
        batch_size: Amount::Count(1),
        needs_confirm: true,
        ..batched(4, true)
    });
    cluster.history.clear();
    assert_eq!(cluster.undo(3).run(20).report.status, RolloutStatus::Complete, "no confirmation is needed");
    let actions: Vec<RolloutAction> = cluster.history.iter().flat_map(|(_, actions)| actions.clone()).collect();
    assert_eq!(actions, [RolloutAction::Renew(bad[1]), RolloutAction::Renew(bad[0])]);
}

#[test]
fn a_window_limits_the_unavailable_pods_of_a_unit() {
    let mut cluster =
        RolloutCluster::settled(RolloutStrategy::Batches(BatchStrategy { window: Some(2), ..batched(6, false) }), &[6]);
    cluster.roll_out(2);
    let mut taken = Vec::new();
    for _ in 0..8 {
        taken.push(cluster.decide().actions.len());
        cluster.pass();
    }
    assert_eq!(taken, [2, 2, 2, 0, 0, 0, 0, 0]);
    assert_eq!(cluster.last.expect("asked").report.status, RolloutStatus::Complete);
}

#[test]
fn a_ready_pod_is_available_only_after_min_ready() {
    let mut cluster = RolloutCluster::settled(batches(1, false), &[2]);
    cluster.facts.settings.min_ready = Duration::from_secs(5);
    cluster.roll_out(2).decide();
    cluster.pass();
    let decision = cluster.decide();
    assert_eq!((decision.actions, decision.report.waits_for), (vec![], vec![1]));
    assert_eq!(decision.wake_at, Some(cluster.facts.now.after(Duration::from_secs(5))));
    (0..5).for_each(|_| cluster.pass());
    assert_eq!(cluster.decide().actions, [RolloutAction::Renew(2)]);
}
