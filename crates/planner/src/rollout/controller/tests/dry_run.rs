//! A rollout does what its dry run predicts.

use proptest::prelude::*;

use super::*;

#[test]
fn the_plan_of_a_settled_group_is_empty() {
    for strategy in [rolling(1, 0), RolloutStrategy::Recreate, batches(4, true)] {
        assert_eq!(plan(&RolloutCluster::settled(strategy, &[3, 3]).facts), (vec![], true));
    }
}

#[test]
fn a_plan_lists_each_batch_its_instances_and_the_available_ones() {
    let confirmed = confirmed(4, true);
    let mut cluster = RolloutCluster::settled(confirmed, &[5, 5]);
    cluster.roll_out(2).say(Control::Pause);
    let (steps, completes) = plan(&cluster.facts);
    let beta = [RolloutAction::Renew(1), RolloutAction::Renew(6)];
    let batches: Vec<_> = steps.iter().map(|step| (step.batch, step.kind, step.actions.len())).collect();
    assert_eq!(
        batches,
        [(1, Some(BatchKind::Beta), 2), (2, Some(BatchKind::Batch), 4), (3, Some(BatchKind::Batch), 4)]
    );
    assert_eq!((&steps[0].actions[..], completes), (&beta[..], true));
    assert_eq!(steps.iter().map(|step| step.available.clone()).collect::<Vec<_>>(), [[4, 4], [3, 3], [3, 3]]);
}

pub(super) fn any_strategy() -> impl Strategy<Value = RolloutStrategy> {
    let spreads = prop::sample::select(vec![Spread::Proportional, Spread::Even, Spread::Sequential]);
    let is_batched = (1..6i64, any::<bool>(), spreads, any::<bool>(), prop::option::of(1..3i64)).prop_map(
        |(size, beta, spread, needs_confirm, window)| {
            RolloutStrategy::Batches(BatchStrategy {
                batch_size: Amount::Count(size),
                beta,
                spread,
                needs_confirm,
                window,
            })
        },
    );
    prop_oneof![
        (0..4i64, 0..4i64).prop_map(|(surge, missing)| rolling(surge, missing)),
        Just(RolloutStrategy::Recreate),
        is_batched
    ]
}

/// The actions in a cluster without faults, where each batch is confirmed immediately.
fn executed(cluster: &mut RolloutCluster) -> Vec<(u64, Vec<RolloutAction>)> {
    cluster.history.clear();
    let mut quiet = 0;
    // A pod takes one tick, so two ticks without a change are the end.
    while quiet < 3 {
        let decision = cluster.decide();
        quiet = if decision.actions.is_empty() { quiet + 1 } else { 0 };
        if let RolloutStatus::WaitingForConfirm { batch } = decision.report.status {
            cluster.say(Control::Confirm(batch));
        }
        cluster.pass();
    }
    std::mem::take(&mut cluster.history)
}

property! {
    fn a_rollout_executes_its_plan(
        before in any_strategy(), after in any_strategy(), sizes in prop::collection::vec(0..5usize, 1..4),
        replicas in 0..14i64, preferences in prop::collection::vec(prop::option::of(0..6i64), 1..4),
        template: bool, started: bool,
    ) {
        let mut cluster = RolloutCluster::settled(before, &sizes);
        cluster.facts.settings.strategy = after;
        cluster.facts.settings.replacement = started.then_some(PodReplacement::Started);
        cluster.facts.replicas = replicas;
        cluster.facts.units = units(preferences.iter().map(|preference| preference.map(Amount::Count)));
        cluster.facts.target = if template { 2 } else { 1 };
        let (steps, completes) = plan(&cluster.facts);
        let planned: Vec<_> = steps.into_iter().map(|step| (step.batch, step.actions)).collect();
        prop_assert_eq!(executed(&mut cluster), planned);
        let is_held = preferences.iter().all(|preference| *preference == Some(0));
        if !is_held {
            prop_assert!(completes);
            prop_assert_eq!(i64::try_from(cluster.facts.instances.len()).expect("few"), replicas);
            let target = cluster.facts.target;
            prop_assert!(cluster.pods().all(|pod| pod.revision == target), "{:?}", cluster.facts.instances);
            prop_assert!(cluster.facts.instances.iter().all(|instance| instance.next.is_none()));
        }
    }

    fn after_a_planned_rollout_the_next_plan_is_empty(
        strategy in any_strategy(), sizes in prop::collection::vec(0..5usize, 1..4), replicas in 0..14i64,
        preferences in prop::collection::vec(prop::option::of(1..6i64), 1..4), stopped in prop::option::of(0..6usize),
    ) {
        let mut cluster = RolloutCluster::settled(strategy, &sizes);
        cluster.facts.replicas = replicas;
        cluster.facts.units = units(preferences.iter().map(|preference| preference.map(Amount::Count)));
        cluster.facts.instances.iter_mut().skip(stopped.unwrap_or(9)).take(1).for_each(|instance| instance.is_stopped = true);
        cluster.roll_out(2);
        executed(&mut cluster);
        prop_assert_eq!(plan(&cluster.facts), (vec![], true));
    }
}

/// No bound in seconds, which a busy machine would break, but thousands of decisions, each twice: they would take minutes if one
/// took more than a few milliseconds.
#[test]
fn a_rollout_of_a_thousand_instances_is_decided_step_by_step() {
    let thousand = [334, 333, 333];
    let grouped_by_tens = batches(10, true);
    for strategy in [rolling(10, 10), rolling(250, 0), RolloutStrategy::Recreate, grouped_by_tens] {
        let mut cluster = RolloutCluster::settled(strategy, &thousand);
        cluster.facts.units.iter_mut().for_each(|unit| unit.preference = None);
        assert_eq!(cluster.roll_out(2).run(250).report.status, RolloutStatus::Complete, "{strategy:?}");
        assert_eq!(cluster.mix(), BTreeMap::from([(2, 1_000)]));
    }
}
