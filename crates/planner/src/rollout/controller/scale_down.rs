//! Decides which instances a scale-down removes.
//!
//! A group without units loses its highest numbers; in units, the ranking decides. A rollout by batches, and each unit of a
//! rolling update, keeps its ratio of updated to old instances, so scaling neither advances nor reverts the rollout. A rolling
//! update ignores these rules where they would take the available instances below the minimum.

use std::cmp::Reverse;

use super::decision::RolloutAction;
use super::draft::{Draft, count, pods};
use super::facts::{Instance, RolloutPod, RolloutStrategy};
use super::rebalance::is_surge;
use super::rolling::limits;
use super::scaling::{commit, committed};
use crate::rollout::ranking;
use crate::rollout::split::{self, Split};

/// Removes `parts[unit]` instances of each unit.
pub(super) fn shrink(draft: &mut Draft<'_>, parts: &[i64]) {
    let parts: Vec<(usize, i64)> = parts.iter().copied().enumerate().filter(|(_, part)| *part > 0).collect();
    match draft.facts.settings.strategy {
        RolloutStrategy::Batches(_) => parts.into_iter().for_each(|(unit, part)| shrink_batched(draft, unit, part)),
        RolloutStrategy::Rolling { .. } => shrink_sets(draft, &parts),
        RolloutStrategy::Recreate => {
            for (unit, part) in parts {
                let gone = first(&order(draft, unit), part);
                remove(draft, gone);
            }
        }
    }
}

fn first(order: &[u32], part: i64) -> Vec<u32> {
    order.iter().copied().take(usize::try_from(part).unwrap_or(0)).collect()
}

fn remove(draft: &mut Draft<'_>, numbers: Vec<u32>) {
    numbers.into_iter().for_each(|number| draft.perform(RolloutAction::Remove(number)));
}

/// Updated and old instances that a unit loses.
fn losses(draft: &Draft<'_>, unit: usize, part: i64) -> Split {
    let updated = draft.count(unit, |instance| draft.is_updated(instance));
    let now = Split { updated, old: draft.count(unit, |_| true).saturating_sub(updated) };
    let then = split::scaled(now, now.updated.saturating_add(now.old).saturating_sub(part));
    Split { updated: now.updated - then.updated, old: now.old - then.old }
}

/// The instances that a unit loses to keep its ratio.
fn chosen(draft: &Draft<'_>, order: &[u32], losses: Split) -> Vec<u32> {
    let is_updated = |number: u32| draft.instance(number).is_some_and(|instance| draft.is_updated(instance));
    let side = |side: bool, most: i64| {
        let of_side = order.iter().copied().filter(move |number| is_updated(*number) == side);
        of_side.take(usize::try_from(most).unwrap_or(0))
    };
    side(true, losses.updated).chain(side(false, losses.old)).collect()
}

fn shrink_batched(draft: &mut Draft<'_>, unit: usize, part: i64) {
    let (losses, before) = (losses(draft, unit, part), committed(draft, unit));
    let gone = chosen(draft, &order(draft, unit), losses);
    remove(draft, gone);
    commit(draft, unit, (before - losses.updated).max(0));
}

fn shrink_sets(draft: &mut Draft<'_>, parts: &[(usize, i64)]) {
    let of_unit = |&(unit, part): &(usize, i64)| {
        let order = order(draft, unit);
        if has_units(draft) { chosen(draft, &order, losses(draft, unit, part)) } else { first(&order, part) }
    };
    let mut gone: Vec<u32> = parts.iter().flat_map(of_unit).collect();
    spare(draft, &mut gone);
    remove(draft, gone);
}

/// Removes unavailable instead of available instances until the minimum is kept: of the same unit if it has one, else of another;
/// the rebalance corrects the units afterwards.
fn spare(draft: &Draft<'_>, gone: &mut [u32]) {
    let serves = |number: &u32| {
        draft.instance(*number).is_some_and(|instance| !instance.is_stopped && draft.is_available(instance))
    };
    let serving = count(draft.running().filter(|instance| draft.is_available(instance)));
    let least = serving.min(limits(draft).min_available);
    let lost = count(gone.iter().filter(|number| serves(number)));
    let short = usize::try_from(least.saturating_sub(serving.saturating_sub(lost))).unwrap_or(0);
    let all = (0..draft.units()).flat_map(|unit| order(draft, unit));
    let mut idle: Vec<u32> = all.filter(|number| !gone.contains(number) && !serves(number)).collect();
    let unit_of = |number: u32| draft.instance(number).map(|instance| instance.unit);
    // The last ones in the order are the best to keep.
    for number in gone.iter_mut().rev().filter(|number| serves(number)).take(short) {
        let own = idle.iter().position(|other| unit_of(*other) == unit_of(*number));
        if let Some(at) = own.or_else(|| (!idle.is_empty()).then_some(0)) {
            *number = idle.remove(at);
        }
    }
}

/// Stops second pods above the limits, which shrink with the replicas and the surge. Where both pods are available the old one
/// goes, but only while enough pods stay available.
pub(super) fn single(draft: &mut Draft<'_>) {
    let limits = limits(draft);
    let surplus = count(draft.running().flat_map(pods)).saturating_sub(limits.max_total);
    let doubled = draft.running().filter(|instance| instance.main.is_some() && is_surge(instance));
    let mut doubled: Vec<(i64, bool, u32)> = doubled.map(|instance| second(draft, instance)).collect();
    doubled.sort_by_key(|&(lost, _, number)| (lost, Reverse(number)));
    let serving = |pod: &&RolloutPod| draft.facts.is_available(pod);
    let mut spare = count(draft.running().flat_map(pods).filter(serving)).saturating_sub(limits.min_available);
    for (lost, serves, number) in doubled.into_iter().take(usize::try_from(surplus).unwrap_or(0)) {
        if lost <= spare.max(0) {
            spare -= lost;
            draft.perform(if serves { RolloutAction::Promote(number) } else { RolloutAction::Drop(number) });
        }
    }
}

/// Available pods lost when one of two goes, whether the second pod stays, and the instance.
fn second(draft: &Draft<'_>, instance: &Instance) -> (i64, bool, u32) {
    let main = instance.main.as_ref().is_some_and(|main| draft.facts.is_available(main));
    let next = instance.next.as_ref().is_some_and(|next| draft.facts.is_available(&next.pod));
    (i64::from(main && next), next, instance.number)
}

fn has_units(draft: &Draft<'_>) -> bool {
    draft.facts.units.iter().any(|unit| !unit.name.is_empty())
}

/// The instances of a unit in the order of removal.
fn order(draft: &Draft<'_>, unit: usize) -> Vec<u32> {
    let of_unit: Vec<&Instance> = draft.instances.iter().filter(|instance| instance.unit == unit).rev().collect();
    if !has_units(draft) {
        return of_unit.into_iter().map(|instance| instance.number).collect();
    }
    let related: Vec<ranking::RankedPod> = draft
        .running()
        .flat_map(|instance| pods(instance).map(|pod| draft.facts.ranked(instance.number, pod)))
        .collect();
    // The last criterion is the highest number, as without units.
    let last = |instance: &Instance| u32::MAX - instance.number;
    let (with_pod, without): (Vec<&Instance>, Vec<&Instance>) =
        of_unit.into_iter().partition(|instance| instance.main.is_some());
    let mains: Vec<ranking::RankedPod> = with_pod
        .iter()
        .filter_map(|instance| Some(draft.facts.ranked(last(instance), instance.main.as_ref()?)))
        .collect();
    let ranked = ranking::deletion_order(&mains, &related, draft.facts.now).into_iter().map(|at| with_pod[at]);
    let mut order: Vec<&Instance> = without.into_iter().chain(ranked).collect();
    order.sort_by_key(|instance| !instance.is_stopped && draft.is_available(instance));
    order.into_iter().map(|instance| instance.number).collect()
}
