//! Arbitrary states, also unreachable ones: stored by another version, or repaired by hand.

use proptest::prelude::*;

use super::dry_run::any_strategy;
use super::*;

fn any_pod() -> impl Strategy<Value = RolloutPod> {
    (1..4u32, any::<[bool; 4]>()).prop_map(|(revision, [is_made, is_ready, is_placed, is_preparing])| {
        let mut pod = RolloutPod::ordered(revision);
        let then = RolloutCluster::settled(RolloutStrategy::Recreate, &[]).facts.now;
        if is_made {
            (pod.created, pod.phase, pod.node) = (Some(then), PodPhase::Running, "n".to_owned());
            pod.ready = Ready { ready: is_ready, since: is_ready.then_some(then) };
            pod.is_preparing = is_preparing;
        } else if !is_placed {
            pod.unschedulable_since = Some(then);
        }
        pod
    })
}

fn any_instance() -> impl Strategy<Value = Instance> {
    let next = prop::option::weighted(0.3, (0..3usize, any_pod()));
    let main = prop::option::weighted(0.9, any_pod());
    let marks = (prop::bool::weighted(0.1), prop::bool::weighted(0.1));
    (0..3usize, main, next, marks, 0..2i64).prop_map(|(unit, main, next, (is_stopped, is_bound), leaving)| {
        // A single pod is the main pod.
        let next = next.filter(|_| main.is_some()).map(|(unit, pod)| SurgePod { unit, pod });
        Instance { number: 0, unit, is_stopped, is_bound, main, next, leaving }
    })
}

fn any_phase() -> impl Strategy<Value = RolloutPhase> {
    let all = [
        RolloutPhase::Idle,
        RolloutPhase::Running,
        RolloutPhase::WaitingForConfirm,
        RolloutPhase::Completed,
        RolloutPhase::Aborted,
    ];
    prop::sample::select(all.to_vec())
}

fn any_facts() -> impl Strategy<Value = RolloutFacts> {
    let instances = prop::collection::vec((any_instance(), prop::bool::weighted(0.9)), 0..9);
    let preferences = prop::collection::vec(prop::option::of(0..5i64), 1..4);
    let state = (any_phase(), 0..4u64, prop::collection::vec(0..5i64, 0..4), 0..4u64, 1..4u32);
    (any_strategy(), instances, preferences, 0..10i64, state, any::<[bool; 2]>()).prop_map(
        |(
            strategy,
            instances,
            preferences,
            replicas,
            (phase, group, committed, confirmed, target),
            [is_paused, is_rollback],
        )| {
            let mut facts = RolloutCluster::settled(strategy, &[]).facts;
            let numbered = (1..).zip(instances).filter(|(_, (_, is_there))| *is_there);
            facts.instances = numbered.map(|(number, (instance, _))| Instance { number, ..instance }).collect();
            facts.units = units(preferences.into_iter().map(|preference| preference.map(Amount::Count)));
            (facts.replicas, facts.target) = (replicas, 3);
            facts.is_rollback = is_rollback;
            facts.equals.extend(is_rollback.then_some(1));
            let state = &mut facts.state;
            (state.phase, state.batch, state.committed) = (phase, group, committed);
            (state.confirmed, state.target, state.is_paused) = (confirmed, target, is_paused);
            state.is_aborted = phase == RolloutPhase::Aborted;
            facts
        },
    )
}

property! {
    fn from_any_state_a_second_decision_changes_nothing_and_the_plan_ends(facts in any_facts(), turn in 0..9usize) {
        let decision = controller(&facts);
        let mut turned = facts.clone();
        let by = turn.min(turned.instances.len());
        turned.instances.rotate_left(by);
        prop_assert_eq!(&controller(&turned), &decision, "in whatever order the instances come");
        let mut cluster = RolloutCluster::settled(RolloutStrategy::Recreate, &[]);
        cluster.facts = facts.clone();
        cluster.decide();
        let is_held = facts.units.iter().all(|unit| unit.preference == Some(Amount::Count(0)));
        let is_over = decision.state.phase == RolloutPhase::Aborted;
        prop_assert!(plan(&facts).1 || is_held || is_over, "{:?}", plan(&facts));
    }

    fn a_rollout_completes_after_a_change_of_strategy(
        before in any_strategy(), after in any_strategy(), sizes in prop::collection::vec(0..5usize, 1..4), ticks in 0..10usize,
        (start, end) in (0..3i64, 0..3i64), undo: bool,
    ) {
        let mut cluster = RolloutCluster::settled(before, &sizes);
        (cluster.start, cluster.end) = (start, end);
        cluster.roll_out(2).run(ticks);
        if undo && cluster.facts.state.is_open() {
            cluster.undo(3);
        }
        cluster.facts.settings.strategy = after;
        let mut quiet = 0;
        for _ in 0..300 {
            let decision = cluster.decide_and_confirm();
            cluster.pass();
            let is_over = decision.actions.is_empty() && !decision.state.is_open();
            quiet = if is_over { quiet + 1 } else { 0 };
            if quiet > 4 {
                break;
            }
        }
        prop_assert_eq!(cluster.decide().report.status, RolloutStatus::Complete);
        prop_assert!(cluster.facts.instances.iter().all(|instance| instance.next.is_none()), "{:?}", cluster.facts.instances);
        let facts = &cluster.facts;
        prop_assert!(cluster.pods().all(|pod| facts.is_target(pod.revision)), "{:?}", cluster.facts.instances);
    }

    fn a_freeze_stops_everything_and_a_pause_everything_but_scaling(facts in any_facts()) {
        let mut frozen = facts.clone();
        frozen.state.is_frozen = true;
        prop_assert_eq!(controller(&frozen).actions, []);
        let mut paused = facts;
        paused.state.is_paused = true;
        (paused.settings.auto_reschedule, paused.state.is_aborted) = (None, false);
        let there = i64::try_from(paused.instances.len()).expect("few");
        let is_recreating = matches!(paused.settings.strategy, RolloutStrategy::Recreate);
        let decision = controller(&paused);
        for action in decision.actions {
            let is_allowed = match action {
                // A Recreate rollout that stopped all pods starts new ones.
                RolloutAction::Create { .. } => there < paused.replicas || is_recreating,
                RolloutAction::Remove(_) => there > paused.replicas,
                // Stopped instances need no second pod, and a scale-down may remove some.
                RolloutAction::Drop(_) | RolloutAction::Promote(_) => true,
                RolloutAction::Surge(_) | RolloutAction::Renew(_) | RolloutAction::Retire(_) | RolloutAction::Move { .. } => false,
                RolloutAction::Reassign { .. } | RolloutAction::Divert { .. } => false,
            };
            prop_assert!(is_allowed, "{action:?}");
        }
    }
}

#[test]
fn an_in_place_update_takes_one_instance_at_a_time_and_waits_for_terminating_pods() {
    let mut cluster = RolloutCluster::settled(rolling(0, 0), &[3]);
    (cluster.start, cluster.end) = (1, 2);
    cluster.roll_out(2);
    let mut least = 3;
    for _ in 0..40 {
        let actions = cluster.decide().actions;
        assert!(
            actions.len() <= 1 && actions.iter().all(|action| matches!(action, RolloutAction::Renew(_))),
            "{actions:?}"
        );
        least = least.min(cluster.available());
        let double =
            cluster.facts.instances.iter().any(|instance| {
                instance.leaving > 0 && instance.main.as_ref().is_some_and(|main| main.created.is_some())
            });
        assert!(!double, "an address belongs to one at a time");
        cluster.pass();
    }
    assert_eq!((least, cluster.revisions()), (2, vec![2, 2, 2]));
}

#[test]
fn a_stopped_instance_neither_blocks_a_rollout_nor_starts() {
    for strategy in [rolling(1, 0), RolloutStrategy::Recreate, batches(2, true)] {
        let mut cluster = RolloutCluster::settled(strategy, &[4]);
        let stopped = &mut cluster.facts.instances[1];
        stopped.is_stopped = true;
        stopped.main.as_mut().expect("it has one").ready.ready = false;
        cluster.facts.settings.deadline = Some(Duration::from_secs(10));
        assert_eq!(cluster.roll_out(2).run(60).report.status, RolloutStatus::Complete, "{strategy:?}");
        assert_eq!(cluster.revisions(), [2, 2, 2, 2]);
        assert!(
            cluster.facts.instances[1].is_stopped
                && !cluster.facts.instances[1].main.as_ref().expect("one").ready.ready
        );
    }
}

#[test]
fn a_rollout_waiting_for_confirmation_continues_when_its_strategy_has_no_batches() {
    let mut cluster = RolloutCluster::settled(confirmed(2, true), &[3]);
    assert_eq!(cluster.roll_out(2).run(3).report.status, RolloutStatus::WaitingForConfirm { batch: 1 });
    cluster.facts.settings.strategy = rolling(1, 0);
    assert_eq!(cluster.run(10).report.status, RolloutStatus::Complete);
}

#[test]
fn a_rolling_update_that_becomes_one_by_batches_leaves_no_instance_with_two_pods() {
    let mut cluster = RolloutCluster::settled(rolling(2, 0), &[4]);
    cluster.roll_out(2).decide();
    cluster.facts.settings.strategy = batches(1, false);
    assert_eq!(cluster.decide().actions[..2], [RolloutAction::Drop(1), RolloutAction::Drop(2)]);
    assert_eq!(cluster.run(20).report.status, RolloutStatus::Complete);
    assert_eq!(cluster.revisions(), [2, 2, 2, 2]);
}

#[test]
fn of_two_pods_of_the_target_revision_the_available_one_stays() {
    let mut cluster = RolloutCluster::settled(rolling(1, 0), &[2]);
    for instance in &mut cluster.facts.instances {
        instance.next = instance.main.clone().map(|pod| SurgePod { unit: 0, pod });
    }
    cluster.facts.instances[1].main.as_mut().expect("one").ready.ready = false;
    assert_eq!(cluster.decide().actions, [RolloutAction::Drop(1), RolloutAction::Promote(2)]);
}
