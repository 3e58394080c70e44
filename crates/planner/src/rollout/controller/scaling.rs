//! Decides how many instances each unit is to have, and which come when more are wanted, at which revision (2.6, 4.6).
//!
//! Scaling must not move a release along: a rolling update keeps the parts of its sets, a unit its ratio. Instances that
//! come get the lowest free numbers. Creation by groups is not scaling: the groups create.

use super::board::{Board, count, pods};
use super::decision::Action;
use super::facts::{Slot, Style};
use super::memory::Allotment;
use super::removing;
use super::replacing::{limits, revisions, strategy};
use crate::rollout::numbers::{Amount, sum};
use crate::rollout::proportional::{self, ScaledSet, Wanted};
use crate::rollout::release::Phase;
use crate::rollout::split::{self, Split};
use crate::rollout::units::{self, Allocation};

/// Divides the replicas over units. An instance that moves counts where it goes.
pub(super) fn allocation(board: &Board<'_>) -> Allocation {
    let place = |slot: &Slot| slot.next.as_ref().map_or(slot.unit, |next| next.unit);
    let mut current = vec![0; board.units()];
    board.slots.iter().for_each(|slot| current[place(slot)] += 1);
    let unit = |(unit, current): (&super::facts::Unit, i64)| units::Unit { wish: unit.wish, current };
    let units: Vec<units::Unit> = board.facts.units.iter().zip(current).map(unit).collect();
    let alone = [units::Unit::default()];
    units::allocate(board.facts.replicas, if units.is_empty() { &alone } else { &units })
}

/// Makes the division anew when what it was made for changed. Quota that was moved comes back with that (D-23).
pub(super) fn allot(board: &mut Board<'_>) {
    recognise(board);
    let replicas = board.facts.replicas;
    let kept = &board.release.allotment;
    if kept.replicas != replicas || kept.targets.is_empty() {
        let (units, wishes, targets) = (kept.units.clone(), kept.wishes.clone(), allocation(board).sizes);
        board.release.allotment = Allotment { replicas, units, wishes, targets, ..Allotment::default() };
    }
    fit(board);
}

/// Knows units again by their names, in whatever order they are declared now: what is committed follows them.
fn recognise(board: &mut Board<'_>) {
    let names: Vec<String> = board.facts.units.iter().map(|unit| unit.name.clone()).collect();
    let wishes: Vec<Option<Amount>> = board.facts.units.iter().map(|unit| unit.wish).collect();
    let kept = &board.release.allotment;
    let divided = divided(&wishes);
    let is_same = divided == self::divided(&kept.wishes)
        && kept.units.get(..divided) == names.get(..divided)
        && kept.wishes.get(..divided) == wishes.get(..divided);
    if kept.units != names {
        let former = |(at, name): (usize, &String)| {
            let is_there = kept.units.get(at).is_none_or(|known| known == name);
            if is_there { Some(at) } else { kept.units.iter().position(|known| known == name) }
        };
        let committed = |at: usize| board.release.committed.get(at).copied();
        board.release.committed =
            names.iter().enumerate().map(|unit| former(unit).and_then(committed).unwrap_or(0)).collect();
    }
    let allotment = &mut board.release.allotment;
    if !is_same {
        *allotment = Allotment::default();
    }
    (allotment.units, allotment.wishes) = (names, wishes);
}

/// How many units take part. Those pinned to zero at the end do not: the ones nobody declares any more are among them, and
/// they go with the last slot in them.
fn divided(wishes: &[Option<Amount>]) -> usize {
    wishes.iter().rposition(|wish| *wish != Some(Amount::Count(0))).map_or(0, |last| last + 1)
}

/// A unit that is no longer declared is to have none; while slots are in it, it still counts.
pub(super) fn fit(board: &mut Board<'_>) {
    let units = board.units();
    board.release.allotment.targets.resize(units, 0);
    board.release.committed.truncate(units);
}

/// Brings the number of instances to what is wanted.
pub(super) fn scale(board: &mut Board<'_>) {
    let targets = board.release.allotment.targets.clone();
    if sum(targets.iter().copied()) != board.facts.replicas {
        // Every unit is pinned to zero: nothing is to be done.
        return;
    }
    let lacks = lacks(board);
    let difference = board.facts.replicas.saturating_sub(count(board.slots.iter()));
    if difference > 0 {
        grow(board, &shares(difference, &lacks));
    } else if difference < 0 {
        let surplus: Vec<i64> = lacks.iter().map(|lack| -lack).collect();
        removing::shrink(board, &shares(-difference, &surplus));
    }
    if difference != 0 && matches!(board.facts.settings.style, Style::Rolling { .. }) {
        removing::single(board);
    }
    board.release.sized = proportional::stored(&limits(board));
}

fn lacks(board: &Board<'_>) -> Vec<i64> {
    let present = board.by_unit(|_| true).into_iter().chain(std::iter::repeat(0));
    board.release.allotment.targets.iter().zip(present).map(|(target, present)| target - present).collect()
}

/// Instances that are still to be created, by unit.
pub(super) fn missing(board: &Board<'_>) -> Vec<i64> {
    shares(board.facts.replicas.saturating_sub(count(board.slots.iter())), &lacks(board))
}

/// Takes `pods`, one after the other, each from the unit that has most left; of equals from the first declared.
///
/// So units come down to one level: of 5, 3 and 1, six pods leave 1, 1 and 1; four leave 2, 2 and 1; five leave 1, 2 and 1.
fn shares(pods: i64, most: &[i64]) -> Vec<i64> {
    let above = |level: i64| sum(most.iter().map(|most| most.saturating_sub(level).max(0)));
    let (pods, highest) = (pods.max(0), most.iter().copied().max().unwrap_or(0));
    // The lowest level that no more than these pods reach, by bisection.
    let (mut low, mut level) = (highest.saturating_sub(pods).saturating_sub(1), highest);
    while level - low > 1 {
        let middle = low + (level - low) / 2;
        if above(middle) <= pods { level = middle } else { low = middle }
    }
    let mut rest = pods - above(level);
    let mut part = |most: &i64| {
        let one_more = i64::from(*most >= level && rest > 0);
        rest -= one_more;
        (most - level).max(0) + one_more
    };
    most.iter().map(&mut part).collect()
}

fn grow(board: &mut Board<'_>, adds: &[i64]) {
    match board.facts.settings.style {
        Style::Rolling { .. } => {
            let revisions = parts_of_sets(board, sum(adds.iter().copied()));
            create_all(board, adds, &revisions);
        }
        Style::Recreate => {
            let old = revisions(board).pop();
            let is_empty = board.running().any(|slot| slot.main.is_none());
            match old {
                None if !is_empty => create_all(board, adds, &[]),
                // Nothing will be retired for now, so the new instances are like the others.
                Some(old) if board.release.is_held() || !board.release.is_open() => {
                    let all = usize::try_from(sum(adds.iter().copied())).unwrap_or(0);
                    create_all(board, adds, &vec![old; all]);
                }
                None | Some(_) => {}
            }
        }
        Style::Groups(_) if board.facts.proven.is_none() && board.release.is_open() => {}
        Style::Groups(_) => {
            (0..adds.len()).filter(|&unit| adds[unit] > 0).for_each(|unit| grow_unit(board, unit, adds[unit]))
        }
    }
}

/// The old revisions that new instances get so that every set keeps its part; what is beyond them is the target's.
fn parts_of_sets(board: &Board<'_>, most: i64) -> Vec<u32> {
    let wanted = Wanted { limits: limits(board), seen: count(board.running().flat_map(pods)) };
    let of = |revision: Option<u32>| {
        let mine = |pod: &&super::facts::Pod| match revision {
            Some(revision) => pod.revision == revision,
            None => !board.is_old(pod),
        };
        ScaledSet {
            is_new: revision.is_none(),
            spec: count(board.running().flat_map(pods).filter(mine)),
            available: count(board.running().flat_map(pods).filter(mine).filter(|pod| board.facts.is_available(pod))),
            stored: board.release.sized,
        }
    };
    let old = revisions(board);
    let sets: Vec<ScaledSet> = old.iter().copied().map(Some).chain([None]).map(of).collect();
    let sizes = proportional::scale(strategy(board.facts.settings.style), &wanted, &sets);
    let gains = old.iter().zip(&sets).zip(&sizes).flat_map(|((revision, set), size)| {
        std::iter::repeat_n(*revision, usize::try_from(size - set.spec).unwrap_or(0))
    });
    gains.take(usize::try_from(most).unwrap_or(0)).collect()
}

/// New instances, unit by unit; the first get the revisions given, the others that of the target.
fn create_all(board: &mut Board<'_>, adds: &[i64], revisions: &[u32]) {
    let mut revisions = revisions.iter().copied();
    for (unit, add) in adds.iter().enumerate() {
        for _ in 0..*add {
            let (slot, revision) = (board.free_number(), revisions.next().unwrap_or(board.facts.target));
            board.perform(Action::Create { slot, unit, revision });
        }
    }
}

pub(super) fn committed(board: &Board<'_>, unit: usize) -> i64 {
    let updated = board.updated(unit);
    match board.release.phase {
        Phase::Running => board.release.committed.get(unit).map_or(updated, |pods| (*pods).max(updated)),
        Phase::Idle | Phase::WaitingForConfirm | Phase::Completed | Phase::Aborted => updated,
    }
}

pub(super) fn commit(board: &mut Board<'_>, unit: usize, pods: i64) {
    let units = board.release.committed.len().max(unit + 1);
    board.release.committed.resize(units, 0);
    board.release.committed[unit] = pods;
}

fn grow_unit(board: &mut Board<'_>, unit: usize, add: i64) {
    let running = board.count(unit, |slot| !slot.is_stopped);
    // More may be committed than run: those that were stopped meanwhile.
    let updated = committed(board, unit).min(running);
    let now = Split { updated, old: running - updated };
    let then = split::scaled(now, running.saturating_add(add));
    let old = board.facts.proven.filter(|proven| !board.facts.is_target(*proven)).or_else(|| revisions(board).pop());
    for _ in now.updated..then.updated {
        let slot = board.free_number();
        board.perform(Action::Create { slot, unit, revision: board.facts.target });
    }
    for _ in now.old..then.old {
        let (slot, revision) = (board.free_number(), old.unwrap_or(board.facts.target));
        board.perform(Action::Create { slot, unit, revision });
    }
    commit(board, unit, then.updated);
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;

    use proptest::prelude::*;

    use super::*;
    use crate::rollout::properties::property;

    /// The rule, one pod at a time.
    fn one_by_one(pods: i64, most: &[i64]) -> Vec<i64> {
        let mut parts = vec![0; most.len()];
        for _ in 0..pods {
            let Some(at) = (0..most.len()).max_by_key(|&at| (most[at] - parts[at], Reverse(at))) else { break };
            parts[at] += 1;
        }
        parts
    }

    property! {
        fn shares_are_as_if_taken_one_by_one(pods in -3..40i64, most in prop::collection::vec(-5..12i64, 0..6)) {
            prop_assert_eq!(shares(pods, &most), one_by_one(pods, &most));
        }
    }
}
