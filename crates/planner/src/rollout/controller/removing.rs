//! Decides which instances go when fewer are wanted (sections 0, 2.6, 3.5 and 4.6).
//!
//! A group without units loses its highest numbers; in units, the pods that serve least go first. A release by groups, and each
//! unit of a rolling update, keeps its ratio of updated instances to others, so that scaling moves it neither forwards nor
//! backwards. The surprise: a rolling update gives all that up where it would take what serves below its minimum.

use std::cmp::Reverse;

use super::board::{Board, count, pods};
use super::decision::Action;
use super::facts::{Pod, Slot, Style};
use super::moving::is_surge;
use super::replacing::limits;
use super::scaling::{commit, committed};
use crate::rollout::ranking;
use crate::rollout::split::{self, Split};

/// Removes so many instances of each unit.
pub(super) fn shrink(board: &mut Board<'_>, parts: &[i64]) {
    let parts: Vec<(usize, i64)> = parts.iter().copied().enumerate().filter(|(_, part)| *part > 0).collect();
    match board.facts.settings.style {
        Style::Groups(_) => parts.into_iter().for_each(|(unit, part)| shrink_groups(board, unit, part)),
        Style::Rolling { .. } => shrink_sets(board, &parts),
        Style::Recreate => {
            for (unit, part) in parts {
                let gone = first(&order(board, unit), part);
                remove(board, gone);
            }
        }
    }
}

fn first(order: &[u32], part: i64) -> Vec<u32> {
    order.iter().copied().take(usize::try_from(part).unwrap_or(0)).collect()
}

fn remove(board: &mut Board<'_>, numbers: Vec<u32>) {
    numbers.into_iter().for_each(|number| board.perform(Action::Remove(number)));
}

/// How many updated instances and how many others a unit loses.
fn losses(board: &Board<'_>, unit: usize, part: i64) -> Split {
    let updated = board.count(unit, |slot| board.is_updated(slot));
    let now = Split { updated, old: board.count(unit, |_| true).saturating_sub(updated) };
    let then = split::scaled(now, now.updated.saturating_add(now.old).saturating_sub(part));
    Split { updated: now.updated - then.updated, old: now.old - then.old }
}

/// The instances of a unit that go so that it keeps its ratio.
fn chosen(board: &Board<'_>, order: &[u32], losses: Split) -> Vec<u32> {
    let is_updated = |number: u32| board.slot(number).is_some_and(|slot| board.is_updated(slot));
    let side = |side: bool, most: i64| {
        let of_side = order.iter().copied().filter(move |number| is_updated(*number) == side);
        of_side.take(usize::try_from(most).unwrap_or(0))
    };
    side(true, losses.updated).chain(side(false, losses.old)).collect()
}

fn shrink_groups(board: &mut Board<'_>, unit: usize, part: i64) {
    let (losses, before) = (losses(board, unit, part), committed(board, unit));
    let gone = chosen(board, &order(board, unit), losses);
    remove(board, gone);
    commit(board, unit, (before - losses.updated).max(0));
}

fn shrink_sets(board: &mut Board<'_>, parts: &[(usize, i64)]) {
    let of_unit = |&(unit, part): &(usize, i64)| {
        let order = order(board, unit);
        if has_units(board) { chosen(board, &order, losses(board, unit, part)) } else { first(&order, part) }
    };
    let mut gone: Vec<u32> = parts.iter().flat_map(of_unit).collect();
    spare(board, &mut gone);
    remove(board, gone);
}

/// Lets instances that serve nobody go in place of some that serve, until as many serve as must: of the same unit if there
/// is one, else of another, and where each unit has its share then is for the division to make good.
fn spare(board: &Board<'_>, gone: &mut [u32]) {
    let serves = |number: &u32| board.slot(*number).is_some_and(|slot| !slot.is_stopped && board.is_available(slot));
    let serving = count(board.running().filter(|slot| board.is_available(slot)));
    let least = serving.min(limits(board).min_available);
    let lost = count(gone.iter().filter(|number| serves(number)));
    let short = usize::try_from(least.saturating_sub(serving.saturating_sub(lost))).unwrap_or(0);
    let all = (0..board.units()).flat_map(|unit| order(board, unit));
    let mut idle: Vec<u32> = all.filter(|number| !gone.contains(number) && !serves(number)).collect();
    let unit_of = |number: u32| board.slot(number).map(|slot| slot.unit);
    // The last in the order are those one would rather keep.
    for number in gone.iter_mut().rev().filter(|number| serves(number)).take(short) {
        let own = idle.iter().position(|other| unit_of(*other) == unit_of(*number));
        if let Some(at) = own.or_else(|| (!idle.is_empty()).then_some(0)) {
            *number = idle.remove(at);
        }
    }
}

/// With fewer instances, or a smaller surge, fewer second pods may be there: one of two goes. Where both serve, the old one
/// does, but only while enough serve without it; the others become single as more pods do.
pub(super) fn single(board: &mut Board<'_>) {
    let limits = limits(board);
    let surplus = count(board.running().flat_map(pods)).saturating_sub(limits.max_total);
    let doubled = board.running().filter(|slot| slot.main.is_some() && is_surge(slot));
    let mut doubled: Vec<(i64, bool, u32)> = doubled.map(|slot| second(board, slot)).collect();
    doubled.sort_by_key(|&(lost, _, number)| (lost, Reverse(number)));
    let serving = |pod: &&Pod| board.facts.is_available(pod);
    let mut spare = count(board.running().flat_map(pods).filter(serving)).saturating_sub(limits.min_available);
    for (lost, serves, number) in doubled.into_iter().take(usize::try_from(surplus).unwrap_or(0)) {
        if lost <= spare.max(0) {
            spare -= lost;
            board.perform(if serves { Action::Promote(number) } else { Action::Drop(number) });
        }
    }
}

/// How many serving pods are lost when a slot becomes single, and whether its second pod stays.
fn second(board: &Board<'_>, slot: &Slot) -> (i64, bool, u32) {
    let main = slot.main.as_ref().is_some_and(|main| board.facts.is_available(main));
    let next = slot.next.as_ref().is_some_and(|next| board.facts.is_available(&next.pod));
    (i64::from(main && next), next, slot.number)
}

fn has_units(board: &Board<'_>) -> bool {
    board.facts.units.iter().any(|unit| !unit.name.is_empty())
}

/// The instances of a unit in the order they go.
fn order(board: &Board<'_>, unit: usize) -> Vec<u32> {
    let of_unit: Vec<&Slot> = board.slots.iter().filter(|slot| slot.unit == unit).rev().collect();
    if !has_units(board) {
        return of_unit.into_iter().map(|slot| slot.number).collect();
    }
    let related: Vec<ranking::Pod> =
        board.running().flat_map(|slot| pods(slot).map(|pod| board.facts.ranked(slot.number, pod))).collect();
    // Where nothing else decides, the highest number goes, as it does without units.
    let last = |slot: &Slot| u32::MAX - slot.number;
    let (with_pod, without): (Vec<&Slot>, Vec<&Slot>) = of_unit.into_iter().partition(|slot| slot.main.is_some());
    let mains: Vec<ranking::Pod> =
        with_pod.iter().filter_map(|slot| Some(board.facts.ranked(last(slot), slot.main.as_ref()?))).collect();
    let ranked = ranking::deletion_order(&mains, &related, board.facts.now).into_iter().map(|at| with_pod[at]);
    let mut order: Vec<&Slot> = without.into_iter().chain(ranked).collect();
    order.sort_by_key(|slot| !slot.is_stopped && board.is_available(slot));
    order.into_iter().map(|slot| slot.number).collect()
}
