//! The plan is the truth: what a rehearsal says is what happens.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::world::{World, grouped, plan, rolling, units};
use crate::rollout::controller::{Action, Control, Grouped, InstanceChange, RolloutStatus, Style};
use crate::rollout::groups::{Kind, Spread};
use crate::rollout::limits::PodReplacement;
use crate::rollout::numbers::Amount;
use crate::rollout::properties::property;

#[test]
fn the_plan_of_a_finished_group_is_empty() {
    for style in [rolling(1, 0), Style::Recreate, Style::Groups(grouped(4, true))] {
        let plan = plan(&World::settled(style, &[3, 3]).facts);
        assert_eq!((plan.steps, plan.completes), (vec![], true));
    }
}

#[test]
fn a_plan_names_every_group_its_instances_and_what_serves_meanwhile() {
    let confirmed = Style::Groups(Grouped { needs_confirm: true, ..grouped(4, true) });
    let mut world = World::settled(confirmed, &[5, 5]);
    world.release(2).say(Control::Pause);
    let plan = plan(&world.facts);
    let groups: Vec<_> = plan.steps.iter().map(|step| (step.group, step.kind, step.changes.len())).collect();
    assert_eq!(groups, [(1, Some(Kind::Beta), 2), (2, Some(Kind::Batch), 4), (3, Some(Kind::Batch), 4)]);
    assert_eq!((plan.peak_extra, plan.min_available, plan.completes), (0, vec![3, 3], true));
    assert_eq!(plan.steps[0].changes, BTreeMap::from([(1, InstanceChange::Renewed), (6, InstanceChange::Renewed)]));
}

#[test]
fn a_plan_says_how_many_pods_are_there_at_most() {
    let mut world = World::settled(rolling(2, 0), &[4]);
    let plan = plan(&world.release(2).facts);
    assert_eq!((plan.peak_extra, plan.min_available, plan.steps.len()), (2, vec![4], 3));
}

pub(super) fn any_style() -> impl Strategy<Value = Style> {
    let spreads = prop::sample::select(vec![Spread::Proportional, Spread::Even, Spread::Sequential]);
    let by_groups = (1..6i64, any::<bool>(), spreads, any::<bool>(), prop::option::of(1..3i64)).prop_map(
        |(size, beta, spread, needs_confirm, window)| {
            Style::Groups(Grouped { batch_size: Amount::Count(size), beta, spread, needs_confirm, window })
        },
    );
    prop_oneof![
        (0..4i64, 0..4i64).prop_map(|(surge, missing)| rolling(surge, missing)),
        Just(Style::Recreate),
        by_groups
    ]
}

/// What a world does in which nothing goes wrong, with everybody confirming at once.
fn executed(world: &mut World) -> Vec<(u64, Vec<Action>)> {
    world.history.clear();
    let mut quiet = 0;
    // A pod takes one tick: two quiet ones in a row are the end.
    while quiet < 3 {
        let decision = world.decide();
        quiet = if decision.actions.is_empty() { quiet + 1 } else { 0 };
        if let RolloutStatus::WaitingForConfirm { group } = decision.report.status {
            world.say(Control::Confirm(group));
        }
        world.pass();
    }
    std::mem::take(&mut world.history)
}

property! {
    fn what_is_executed_is_what_was_planned(
        before in any_style(), after in any_style(), sizes in prop::collection::vec(0..5usize, 1..4),
        replicas in 0..14i64, wishes in prop::collection::vec(prop::option::of(0..6i64), 1..4),
        template: bool, started: bool,
    ) {
        let mut world = World::settled(before, &sizes);
        world.facts.settings.style = after;
        world.facts.settings.replacement = started.then_some(PodReplacement::Started);
        world.facts.replicas = replicas;
        world.facts.units = units(wishes.iter().map(|wish| wish.map(Amount::Count)));
        world.facts.target = if template { 2 } else { 1 };
        let plan = plan(&world.facts);
        let planned: Vec<_> = plan.steps.into_iter().map(|step| (step.group, step.actions)).collect();
        prop_assert_eq!(executed(&mut world), planned);
        let is_held = wishes.iter().all(|wish| *wish == Some(0));
        if !is_held {
            prop_assert!(plan.completes);
            prop_assert_eq!(i64::try_from(world.facts.slots.len()).expect("few"), replicas);
            let target = world.facts.target;
            prop_assert!(world.pods().all(|pod| pod.revision == target), "{:?}", world.facts.slots);
            prop_assert!(world.facts.slots.iter().all(|slot| slot.next.is_none()));
        }
    }

    fn the_plan_of_what_a_plan_leads_to_is_empty(
        style in any_style(), sizes in prop::collection::vec(0..5usize, 1..4), replicas in 0..14i64,
        wishes in prop::collection::vec(prop::option::of(1..6i64), 1..4), stopped in prop::option::of(0..6usize),
    ) {
        let mut world = World::settled(style, &sizes);
        world.facts.replicas = replicas;
        world.facts.units = units(wishes.iter().map(|wish| wish.map(Amount::Count)));
        world.facts.slots.iter_mut().skip(stopped.unwrap_or(9)).take(1).for_each(|slot| slot.is_stopped = true);
        world.release(2);
        executed(&mut world);
        let finished = plan(&world.facts);
        prop_assert!(finished.completes);
        prop_assert_eq!(finished.steps, []);
    }
}

/// Not a bound in seconds, which a busy machine would break, but work that would take minutes if a decision were more than
/// a few milliseconds: thousands of them, each twice.
#[test]
fn a_release_of_a_thousand_instances_is_decided_step_by_step() {
    let thousand = [334, 333, 333];
    let grouped_by_tens = Style::Groups(grouped(10, true));
    for style in [rolling(10, 10), rolling(250, 0), Style::Recreate, grouped_by_tens] {
        let mut world = World::settled(style, &thousand);
        world.facts.units.iter_mut().for_each(|unit| unit.wish = None);
        assert_eq!(world.release(2).run(250).report.status, RolloutStatus::Complete, "{style:?}");
        assert_eq!(world.mix(), BTreeMap::from([(2, 1_000)]));
    }
}
