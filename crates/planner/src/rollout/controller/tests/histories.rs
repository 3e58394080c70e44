//! Random histories: pods take time, some are killed, some revisions are broken, and the leader keeps nothing in memory.

use proptest::prelude::*;

use super::*;

pub(super) fn replacement() -> impl Strategy<Value = PodReplacement> {
    prop::sample::select(vec![PodReplacement::Started, PodReplacement::Complete])
}

fn limits(cluster: &RolloutCluster, surge: i64, unavailable: i64) -> RolloutLimits {
    let strategy = crate::rollout::limits::Strategy::RollingUpdate {
        surge: Some(Amount::Count(surge)),
        unavailable: Some(Amount::Count(unavailable)),
    };
    RolloutLimits::of(strategy, cluster.facts.replicas)
}

/// Pods that exist or will exist; never more than the maximum.
fn total(cluster: &RolloutCluster) -> i64 {
    let complete = cluster.facts.settings.replacement == Some(PodReplacement::Complete);
    let of = |instance: &Instance| {
        let made = |pod: &RolloutPod| pod.created.is_some();
        let pods = i64::from(instance.main.is_some()) + i64::from(instance.next.is_some());
        // A pod that waits for another to terminate does not exist yet.
        let waits = instance.leaving > 0 && !instance.main.as_ref().is_some_and(made) && instance.main.is_some();
        pods + if complete { instance.leaving - i64::from(waits) } else { 0 }
    };
    cluster.facts.instances.iter().map(of).sum()
}

/// One tick of a rolling update, with its invariants.
fn tick(cluster: &mut RolloutCluster, limits: &RolloutLimits) -> Result<Vec<RolloutAction>, TestCaseError> {
    let before = cluster.available();
    let actions = cluster.decide().actions;
    prop_assert!(total(cluster) <= limits.max_total, "{} pods after {actions:?}", total(cluster));
    let after = cluster.available();
    prop_assert!(after >= before.min(limits.min_available), "{before} serve, then {after} after {actions:?}");
    cluster.pass();
    Ok(actions)
}

property! {
    fn a_rolling_update_keeps_its_bounds_and_ends_whatever_is_killed(
        replicas in 1..12usize, surge in 0..5i64, unavailable in 0..5i64, replacement in replacement(),
        (start, end) in (0..4i64, 0..4i64), kills in prop::collection::vec((0..40usize, 0..12usize), 0..12),
    ) {
        let mut cluster = RolloutCluster::settled(rolling(surge, unavailable), &[replicas]);
        cluster.facts.settings.replacement = Some(replacement);
        (cluster.start, cluster.end) = (start, end);
        let limits = limits(&cluster, surge, unavailable);
        cluster.roll_out(2);
        for time in 0..400 {
            kills.iter().filter(|(when, _)| *when == time).for_each(|(_, at)| cluster.kill(*at));
            let actions = tick(&mut cluster, &limits)?;
            if time > 40 && actions.is_empty() && cluster.is_over() {
                break;
            }
        }
        prop_assert_eq!(cluster.decide().report.status, RolloutStatus::Complete);
        prop_assert_eq!(cluster.revisions(), vec![2; replicas]);
        prop_assert!(cluster.facts.instances.iter().all(|instance| instance.next.is_none()));
    }

    fn revisions_pushed_at_any_time_keep_the_bounds_and_the_last_one_wins(
        replicas in 1..10usize, surge in 0..4i64, unavailable in 0..4i64, replacement in replacement(),
        pushes in prop::collection::vec((1..8usize, any::<bool>()), 1..5),
    ) {
        let mut cluster = RolloutCluster::settled(rolling(surge, unavailable), &[replicas]);
        cluster.facts.settings.replacement = Some(replacement);
        (cluster.start, cluster.end) = (1, 2);
        let limits = limits(&cluster, surge, unavailable);
        let last = u32::try_from(pushes.len()).expect("few") + 2;
        for (target, (ticks, is_broken)) in (2..).zip(pushes) {
            if is_broken {
                cluster.broken.insert(target);
            }
            cluster.roll_out(target);
            for _ in 0..ticks {
                tick(&mut cluster, &limits)?;
            }
        }
        cluster.roll_out(last);
        for _ in 0..400 {
            if tick(&mut cluster, &limits)?.is_empty() && cluster.is_over() {
                break;
            }
        }
        prop_assert_eq!(cluster.decide().report.status, RolloutStatus::Complete);
        prop_assert_eq!(cluster.revisions(), vec![last; replicas]);
    }

    fn a_broken_revision_stalls_and_an_undo_leaves_healthy_old_pods_alone(
        replicas in 1..12usize, surge in 0..5i64, unavailable in 0..5i64, replacement in replacement(), is_batched: bool,
    ) {
        let strategy = if is_batched { batches(surge.max(1), true) } else { rolling(surge, unavailable) };
        let mut cluster = RolloutCluster::settled(strategy, &[replicas]);
        cluster.facts.settings.replacement = Some(replacement);
        (cluster.start, cluster.end) = (1, 1);
        cluster.broken.insert(2);
        cluster.roll_out(2).run(30);
        let least = if is_batched { i64::try_from(replicas).expect("few") - 1 } else { limits(&cluster, surge, unavailable).min_available };
        prop_assert!(cluster.available() >= least);
        let good: Vec<u32> = cluster.facts.instances.iter().filter(|instance| instance.main.as_ref().is_some_and(|main| main.revision == 1)).map(|instance| instance.number).collect();
        cluster.history.clear();
        prop_assert_eq!(cluster.undo(3).run(300).report.status, RolloutStatus::Complete);
        let touched = cluster.history.iter().flat_map(|(_, actions)| actions).any(|action| match action {
            RolloutAction::Renew(number) | RolloutAction::Promote(number) | RolloutAction::Retire(number) => good.contains(number),
            _ => false,
        });
        prop_assert!(!touched, "{:?}", cluster.history);
        prop_assert!(!cluster.mix().contains_key(&2));
    }

    fn batches_complete_within_their_size_and_share(
        sizes in prop::collection::vec(1..7usize, 1..4), size in 1..7i64, beta: bool, needs_confirm: bool,
        spread in prop::sample::select(vec![Spread::Proportional, Spread::Even, Spread::Sequential]),
        kills in prop::collection::vec((0..60usize, 0..18usize), 0..10),
    ) {
        let strategy = RolloutStrategy::Batches(BatchStrategy { spread, needs_confirm, ..batched(size, beta) });
        let mut cluster = RolloutCluster::settled(strategy, &sizes);
        (cluster.start, cluster.end) = (2, 1);
        cluster.roll_out(2);
        for time in 0..400 {
            kills.iter().filter(|(when, _)| *when == time).for_each(|(_, at)| cluster.kill(*at));
            let decision = cluster.decide();
            if let RolloutStatus::WaitingForConfirm { batch } = decision.report.status {
                prop_assert!(needs_confirm);
                cluster.say(Control::Confirm(batch));
            }
            let most = usize::try_from(size).expect("small").max(if beta { sizes.len() } else { 0 });
            prop_assert!(decision.actions.len() <= most, "{:?}", decision.actions);
            let is_committed = |(at, unit): (usize, &UnitCount)| {
                unit.updated == decision.state.committed[at] && unit.updated <= unit.target
            };
            prop_assert!(decision.report.units.iter().enumerate().all(is_committed));
            cluster.pass();
            if time > 60 && decision.actions.is_empty() && cluster.is_over() {
                break;
            }
        }
        prop_assert_eq!(cluster.decide().report.status, RolloutStatus::Complete);
        prop_assert_eq!(cluster.revisions(), vec![2; sizes.iter().sum::<usize>()]);
    }

    fn each_batch_but_the_last_is_confirmed_before_the_next(
        sizes in prop::collection::vec(0..5usize, 1..4), size in 1..5i64, beta: bool,
        spread in prop::sample::select(vec![Spread::Proportional, Spread::Even, Spread::Sequential]),
        said in prop::collection::vec(prop::option::weighted(0.3, 0..6u64), 0..60),
    ) {
        let mut cluster = RolloutCluster::settled(RolloutStrategy::Batches(BatchStrategy { spread, needs_confirm: true, ..batched(size, beta) }), &sizes);
        cluster.start = 1;
        cluster.roll_out(2);
        for batch in said {
            let (before, state) = (cluster.facts.state.clone(), cluster.decide().state);
            prop_assert!(state.batch <= before.batch + 1 || state.target != before.target);
            if state.batch > before.batch.max(1) && before.target == 2 {
                prop_assert_eq!(before.phase, transition::RolloutPhase::WaitingForConfirm);
                prop_assert_eq!(before.confirmed, before.batch, "only what was confirmed is followed");
            }
            if let Some(confirmed) = batch.and_then(|batch| apply(&cluster.facts.state, Control::Confirm(batch), cluster.facts.now).ok()) {
                let waits = cluster.facts.state.phase == transition::RolloutPhase::WaitingForConfirm;
                prop_assert!(waits || confirmed == cluster.facts.state, "a confirmation out of turn changes nothing");
                cluster.facts.state = confirmed;
            }
            cluster.pass();
        }
    }
}
