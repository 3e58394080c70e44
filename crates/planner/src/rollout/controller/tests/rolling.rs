//! Rolling updates and Recreate, as executed histories.

use super::*;

/// The states `old,new` in which nothing can happen until a pod becomes available.
fn states(strategy: RolloutStrategy, replicas: usize) -> Vec<(usize, usize)> {
    let mut cluster = RolloutCluster::settled(strategy, &[replicas]);
    cluster.facts.settings.replacement = Some(PodReplacement::Started);
    cluster.roll_out(2);
    let mut states = Vec::new();
    for _ in 0..40 {
        let decision = cluster.decide();
        if !decision.actions.is_empty() {
            let mix = cluster.mix();
            states.push((mix.get(&1).copied().unwrap_or(0), mix.get(&2).copied().unwrap_or(0)));
        }
        cluster.pass();
    }
    assert_eq!(cluster.last.expect("asked").report.status, RolloutStatus::Complete);
    states
}

#[test]
fn the_traces_of_r_35() {
    assert_eq!(states(rolling(3, 2), 10), [(8, 5), (3, 10), (0, 10)]);
    assert_eq!(states(rolling(1, 0), 3), [(3, 1), (2, 2), (1, 3), (0, 3)]);
    assert_eq!(states(rolling(0, 1), 3), [(2, 1), (1, 2), (0, 3)]);
    assert_eq!(states(rolling(4, 0), 4), [(4, 4), (0, 4)]);
    assert_eq!(states(rolling(0, 4), 4), [(0, 4)]);
    let percent = |surge, unavailable| RolloutStrategy::Rolling {
        surge: Some(Amount::Percent(surge)),
        unavailable: Some(Amount::Percent(unavailable)),
    };
    assert_eq!(states(percent(0, 1), 2), [(1, 1), (0, 2)], "both zero after rounding: one may be missing");
}

#[test]
fn the_lowest_number_gets_the_surge_pod_which_is_promoted() {
    let mut cluster = RolloutCluster::settled(rolling(1, 0), &[3]);
    cluster.roll_out(2).run(20);
    let actions: Vec<Vec<RolloutAction>> = cluster.history.into_iter().map(|(_, actions)| actions).collect();
    let expected = [
        vec![RolloutAction::Surge(1)],
        vec![RolloutAction::Promote(1), RolloutAction::Surge(2)],
        vec![RolloutAction::Promote(2), RolloutAction::Surge(3)],
        vec![RolloutAction::Promote(3)],
    ];
    assert_eq!(actions, expected);
}

/// 10 instances, maxSurge 3, maxUnavailable 2, a new revision that never becomes ready, one old pod dead: 8 old, 5 new.
fn crashing() -> RolloutCluster {
    let mut cluster = RolloutCluster::settled(rolling(3, 2), &[10]);
    cluster.broken.insert(2);
    cluster.roll_out(2).run(5);
    assert_eq!(cluster.mix(), BTreeMap::from([(1, 8), (2, 5)]));
    let sick = cluster
        .facts
        .instances
        .iter()
        .position(|instance| instance.next.is_none() && instance.main.as_ref().is_some_and(|m| m.revision == 1));
    cluster.kill(sick.expect("some have no second pod"));
    cluster
}

#[test]
fn a_broken_revision_stalls_with_the_minimum_available() {
    let mut cluster = crashing();
    let before = cluster.facts.instances.clone();
    assert_eq!(cluster.decide().actions, []);
    assert_eq!((before == cluster.facts.instances, cluster.available()), (true, 7), "eight, but for the one that died");
}

#[test]
fn an_undo_removes_crash_looping_pods_and_spares_healthy_ones() {
    let mut cluster = crashing();
    let good: Vec<u32> = cluster
        .facts
        .instances
        .iter()
        .filter(|instance| instance.main.as_ref().is_some_and(|main| main.revision == 1))
        .map(|instance| instance.number)
        .collect();
    cluster.undo(3);
    let decision = cluster.decide();
    let dropped = decision.actions.iter().filter(|action| matches!(action, RolloutAction::Drop(_))).count();
    assert_eq!((dropped, cluster.mix()), (3, BTreeMap::from([(1, 8), (2, 1), (3, 2)])), "{:?}", decision.actions);
    assert_eq!(cluster.run(20).report.status, RolloutStatus::Complete);
    assert_eq!(cluster.mix(), BTreeMap::from([(1, 8), (3, 2)]));
    let touched = |action: &RolloutAction| {
        good.iter()
            .any(|instance| matches!(action, RolloutAction::Renew(n) | RolloutAction::Promote(n) if n == instance))
    };
    assert!(!cluster.history[1..].iter().flat_map(|(_, actions)| actions).any(touched));
}

#[test]
fn a_third_revision_takes_the_unhealthy_of_both_others_first() {
    let mut cluster = crashing();
    cluster.roll_out(3).decide();
    assert_eq!(cluster.mix(), BTreeMap::from([(1, 7), (2, 1), (3, 5)]));
    assert_eq!(cluster.run(20).report.status, RolloutStatus::Complete);
    assert_eq!(cluster.mix(), BTreeMap::from([(3, 10)]));
}

#[test]
fn terminating_pods_count_under_complete_replacement() {
    let total = |replacement| {
        let mut cluster = RolloutCluster::settled(rolling(1, 1), &[4]);
        cluster.facts.settings.replacement = Some(replacement);
        cluster.end = 5;
        cluster.roll_out(2);
        let mut most = 0;
        for _ in 0..80 {
            cluster.decide();
            let exist = cluster.pods().filter(|pod| pod.created.is_some()).count();
            let leaving: i64 = cluster.facts.instances.iter().map(|instance| instance.leaving).sum();
            most = most.max(exist + usize::try_from(leaving).expect("some"));
            cluster.pass();
        }
        assert_eq!(cluster.mix(), BTreeMap::from([(2, 4)]));
        most
    };
    assert_eq!(total(PodReplacement::Complete), 5);
    assert!(total(PodReplacement::Started) > 5);
}

#[test]
fn recreate_stops_all_old_pods_before_it_starts_new_ones() {
    let mut cluster = RolloutCluster::settled(RolloutStrategy::Recreate, &[3]);
    cluster.end = 3;
    cluster.roll_out(2).run(20);
    let create = |instance| RolloutAction::Create { instance, unit: 0, revision: 2 };
    let actions: Vec<Vec<RolloutAction>> = cluster.history.iter().map(|(_, actions)| actions.clone()).collect();
    let expected = [
        vec![RolloutAction::Retire(1), RolloutAction::Retire(2), RolloutAction::Retire(3)],
        vec![create(1), create(2), create(3)],
    ];
    assert_eq!(actions, expected);
    assert_eq!(cluster.last.expect("asked").report.status, RolloutStatus::Complete);
}

#[test]
fn a_paused_rollout_changes_nothing_and_continues_where_it_stopped() {
    let mut cluster = RolloutCluster::settled(rolling(1, 0), &[3]);
    cluster.roll_out(2).decide();
    cluster.say(Control::Pause);
    cluster.pass();
    assert_eq!((cluster.decide().actions, cluster.run(1).report.status), (vec![], RolloutStatus::Paused));
    cluster.say(Control::Resume);
    assert_eq!(cluster.decide().actions, [RolloutAction::Promote(1), RolloutAction::Surge(2)]);
}

#[test]
fn an_abort_keeps_the_mix_and_leaves_no_instance_with_two_pods() {
    let mut cluster = RolloutCluster::settled(rolling(2, 0), &[4]);
    cluster.roll_out(2).decide();
    cluster.pass();
    let second = cluster.facts.instances[1].next.as_mut().expect("it is doubled");
    second.pod.ready.ready = false;
    cluster.say(Control::Abort);
    assert_eq!(cluster.decide().actions, [RolloutAction::Promote(1), RolloutAction::Drop(2)]);
    assert_eq!((cluster.run(5).report.status, cluster.revisions()), (RolloutStatus::Aborted, vec![2, 1, 1, 1]));
}

#[test]
fn a_stopped_instance_is_not_counted_and_is_updated_last() {
    let mut cluster = RolloutCluster::settled(rolling(0, 1), &[3]);
    let stopped = &mut cluster.facts.instances[0];
    stopped.is_stopped = true;
    stopped.main.as_mut().expect("it has one").ready.ready = false;
    cluster.roll_out(2).run(20);
    let actions: Vec<RolloutAction> = cluster.history.iter().flat_map(|(_, actions)| actions.clone()).collect();
    assert_eq!(actions, [RolloutAction::Renew(2), RolloutAction::Renew(3), RolloutAction::Renew(1)]);
    assert_eq!(cluster.last.expect("asked").report.status, RolloutStatus::Complete);
}

#[test]
fn unavailable_pods_go_first_then_by_rank() {
    let mut cluster = RolloutCluster::settled(rolling(0, 1), &[4]);
    cluster.facts.instances[2].main.as_mut().expect("one").ready.ready = false;
    assert_eq!(cluster.roll_out(2).decide().actions, [RolloutAction::Renew(3)]);
    let mut cluster = RolloutCluster::settled(rolling(0, 1), &[4]);
    cluster.facts.instances[3].main.as_mut().expect("one").cost = -5;
    assert_eq!(cluster.roll_out(2).decide().actions, [RolloutAction::Renew(4)]);
}

#[test]
fn recreate_keeps_a_surge_pod_of_the_target_revision() {
    let mut cluster = RolloutCluster::settled(rolling(1, 0), &[2]);
    cluster.roll_out(2);
    cluster.facts.instances[0].next = Some(SurgePod { unit: 0, pod: healthy(2) });
    cluster.facts.settings = settings(RolloutStrategy::Recreate);
    assert_eq!(controller(&cluster.facts).actions, [RolloutAction::Promote(1), RolloutAction::Retire(2)]);
}

#[test]
fn an_in_place_update_does_not_stop_a_pod_without_a_replacement_while_others_terminate() {
    let mut cluster = RolloutCluster::settled(rolling(0, 2), &[4]);
    cluster.facts.settings.keeps_addresses = true;
    cluster.roll_out(2).decide();
    // One of two runs again, and the old pod of the other still terminates.
    cluster.facts.instances[0].main = Some(healthy(2));
    cluster.facts.instances[0].leaving = 0;
    cluster.facts.instances[1].leaving = 1;
    assert_eq!(controller(&cluster.facts).actions, [RolloutAction::Renew(3)]);
}

#[test]
fn a_pause_or_an_abort_in_the_middle_of_recreate_does_not_keep_the_group_down() {
    for (control, status) in [(Control::Pause, RolloutStatus::Paused), (Control::Abort, RolloutStatus::Aborted)] {
        let mut cluster = RolloutCluster::settled(RolloutStrategy::Recreate, &[2]);
        cluster.end = 2;
        cluster.roll_out(2).decide();
        cluster.say(control);
        for _ in 0..5 {
            cluster.pass();
            cluster.decide();
        }
        assert_eq!((cluster.revisions(), cluster.last.expect("asked").report.status), (vec![2, 2], status));
    }
}

#[test]
fn a_pod_promoted_before_its_creation_does_not_wait_and_both_count() {
    let mut cluster = RolloutCluster::settled(rolling(2, 2), &[4]);
    cluster.facts.settings.replacement = Some(PodReplacement::Complete);
    cluster.kill(0);
    cluster.roll_out(2);
    cluster.decide();
    // A pod that waits for another to terminate counts as one with it.
    let comes = |main: &RolloutPod| !main.follows;
    let pods = |instance: &Instance| {
        i64::from(instance.main.as_ref().is_some_and(comes)) + i64::from(instance.next.is_some()) + instance.leaving
    };
    let there: i64 = cluster.facts.instances.iter().map(pods).sum();
    assert!(there <= 6, "{there} pods are ordered or still go: {:?}", cluster.facts.instances);
}
