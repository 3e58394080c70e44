//! The plan is the truth: what a dry_run says is what happens.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::cluster::{RolloutCluster, batched, plan, rolling, units};
use crate::rollout::batches::{BatchKind, Spread};
use crate::rollout::controller::{Action, BatchStrategy, Control, InstanceChange, RolloutStatus, RolloutStrategy};
use crate::rollout::limits::PodReplacement;
use crate::rollout::numbers::Amount;
use crate::rollout::properties::property;

#[test]
fn the_plan_of_a_finished_group_is_empty() {
    for strategy in [rolling(1, 0), RolloutStrategy::Recreate, RolloutStrategy::Batches(batched(4, true))] {
        let plan = plan(&RolloutCluster::settled(strategy, &[3, 3]).facts);
        assert_eq!((plan.steps, plan.completes), (vec![], true));
    }
}

#[test]
fn a_plan_names_every_group_its_instances_and_what_serves_meanwhile() {
    let confirmed = RolloutStrategy::Batches(BatchStrategy { needs_confirm: true, ..batched(4, true) });
    let mut cluster = RolloutCluster::settled(confirmed, &[5, 5]);
    cluster.roll_out(2).say(Control::Pause);
    let plan = plan(&cluster.facts);
    let groups: Vec<_> = plan.steps.iter().map(|step| (step.batch, step.kind, step.changes.len())).collect();
    assert_eq!(groups, [(1, Some(BatchKind::Beta), 2), (2, Some(BatchKind::Batch), 4), (3, Some(BatchKind::Batch), 4)]);
    assert_eq!((plan.peak_extra, plan.min_available, plan.completes), (0, vec![3, 3], true));
    assert_eq!(plan.steps[0].changes, BTreeMap::from([(1, InstanceChange::Renewed), (6, InstanceChange::Renewed)]));
}

#[test]
fn a_plan_says_how_many_pods_are_there_at_most() {
    let mut cluster = RolloutCluster::settled(rolling(2, 0), &[4]);
    let plan = plan(&cluster.roll_out(2).facts);
    assert_eq!((plan.peak_extra, plan.min_available, plan.steps.len()), (2, vec![4], 3));
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

/// What a cluster does in which nothing goes wrong, with everybody confirming at once.
fn executed(cluster: &mut RolloutCluster) -> Vec<(u64, Vec<Action>)> {
    cluster.history.clear();
    let mut quiet = 0;
    // A pod takes one tick: two quiet ones in a row are the end.
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
    fn what_is_executed_is_what_was_planned(
        before in any_strategy(), after in any_strategy(), sizes in prop::collection::vec(0..5usize, 1..4),
        replicas in 0..14i64, wishes in prop::collection::vec(prop::option::of(0..6i64), 1..4),
        template: bool, started: bool,
    ) {
        let mut cluster = RolloutCluster::settled(before, &sizes);
        cluster.facts.settings.strategy = after;
        cluster.facts.settings.replacement = started.then_some(PodReplacement::Started);
        cluster.facts.replicas = replicas;
        cluster.facts.units = units(wishes.iter().map(|wish| wish.map(Amount::Count)));
        cluster.facts.target = if template { 2 } else { 1 };
        let plan = plan(&cluster.facts);
        let planned: Vec<_> = plan.steps.into_iter().map(|step| (step.batch, step.actions)).collect();
        prop_assert_eq!(executed(&mut cluster), planned);
        let is_held = wishes.iter().all(|wish| *wish == Some(0));
        if !is_held {
            prop_assert!(plan.completes);
            prop_assert_eq!(i64::try_from(cluster.facts.slots.len()).expect("few"), replicas);
            let target = cluster.facts.target;
            prop_assert!(cluster.pods().all(|pod| pod.revision == target), "{:?}", cluster.facts.slots);
            prop_assert!(cluster.facts.slots.iter().all(|slot| slot.next.is_none()));
        }
    }

    fn the_plan_of_what_a_plan_leads_to_is_empty(
        strategy in any_strategy(), sizes in prop::collection::vec(0..5usize, 1..4), replicas in 0..14i64,
        wishes in prop::collection::vec(prop::option::of(1..6i64), 1..4), stopped in prop::option::of(0..6usize),
    ) {
        let mut cluster = RolloutCluster::settled(strategy, &sizes);
        cluster.facts.replicas = replicas;
        cluster.facts.units = units(wishes.iter().map(|wish| wish.map(Amount::Count)));
        cluster.facts.slots.iter_mut().skip(stopped.unwrap_or(9)).take(1).for_each(|slot| slot.is_stopped = true);
        cluster.roll_out(2);
        executed(&mut cluster);
        let finished = plan(&cluster.facts);
        prop_assert!(finished.completes);
        prop_assert_eq!(finished.steps, []);
    }
}

/// Not a bound in seconds, which a busy machine would break, but work that would take minutes if a decision were more than
/// a few milliseconds: thousands of them, each twice.
#[test]
fn a_release_of_a_thousand_instances_is_decided_step_by_step() {
    let thousand = [334, 333, 333];
    let grouped_by_tens = RolloutStrategy::Batches(batched(10, true));
    for strategy in [rolling(10, 10), rolling(250, 0), RolloutStrategy::Recreate, grouped_by_tens] {
        let mut cluster = RolloutCluster::settled(strategy, &thousand);
        cluster.facts.units.iter_mut().for_each(|unit| unit.wish = None);
        assert_eq!(cluster.roll_out(2).run(250).report.status, RolloutStatus::Complete, "{strategy:?}");
        assert_eq!(cluster.mix(), BTreeMap::from([(2, 1_000)]));
    }
}
