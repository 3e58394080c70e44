//! Decides which instances a rolling update turns to: budgets on counts, ranking for the choice (sections 2.3, 2.4, 3.5).
//!
//! The arithmetic says how many pods of which revision go or come; here they get numbers. A slot holds one pod of the target
//! revision at most, so where the new set grows, first the slots that just lost their pod are filled, then a pod comes
//! beside another, the lowest number first. Pods that serve nobody go first, then those whose successor already serves.

use std::collections::{BTreeMap, BTreeSet};

use super::board::{Board, count, pods};
use super::decision::Action;
use super::facts::{Slot, Style};
use crate::rollout::limits::{Limits, PodReplacement, Strategy, default_replacement};
use crate::rollout::ranking;
use crate::rollout::rolling::{self, Sets, Size, Step};

/// The strategy as limits know it; groups keep to none, and what they take is the group.
pub fn strategy(style: Style) -> Strategy {
    match style {
        Style::Rolling { surge, unavailable } => Strategy::RollingUpdate { surge, unavailable },
        Style::Recreate | Style::Groups(_) => Strategy::Recreate,
    }
}

/// The limits among the instances that are to run: a stopped one could never be available.
pub(super) fn limits(board: &Board<'_>) -> Limits {
    let stopped = count(board.slots.iter().filter(|slot| slot.is_stopped));
    Limits::of(strategy(board.facts.settings.style), board.facts.replicas.saturating_sub(stopped).max(0))
}

/// Syncs until nothing moves: each step takes old pods or adds new ones, so there are only so many.
pub(super) fn roll(board: &mut Board<'_>) {
    let limits = limits(board);
    let settings = &board.facts.settings;
    // What is changed in place comes where the old pod goes, never beside it: pods that still go are not in its way, and
    // waiting for them would take it down without a successor, and with that its address.
    let replacement = match (settings.keeps_addresses, settings.replacement) {
        (true, _) => PodReplacement::Started,
        (false, Some(replacement)) => replacement,
        (false, None) => default_replacement(strategy(settings.style), &limits, false),
    };
    if board.facts.is_blind && replacement.counted(1) > 0 {
        // Whoever was taken now could not be followed before it is known what else still goes.
        return;
    }
    for _ in 0..=board.slots.len().saturating_mul(4) {
        let order = shrink_order(board);
        let mut sets = sets(board, &order, replacement).clamped();
        if open(board).is_empty() && single(board).is_empty() {
            // A slot holds two pods at most: where each has two old ones, one of them must go before a new one comes.
            sets.terminating = limits.max_total;
        }
        match rolling::step(&limits, &sets) {
            Step::Nothing => break,
            Step::ScaleNew(size) => grow(board, size.saturating_sub(sets.new.spec)),
            Step::ScaleOld { sizes, .. } => {
                let lost = sets.old.iter().zip(sizes).map(|(set, size)| set.spec - size);
                let lost: BTreeMap<u32, i64> = order.into_iter().zip(lost).collect();
                lost.into_iter().for_each(|(revision, pods)| shrink(board, revision, pods));
            }
        }
    }
    board.settle();
}

/// Slots without a pod.
fn open(board: &Board<'_>) -> Vec<u32> {
    board.running().filter(|slot| slot.main.is_none()).map(|slot| slot.number).collect()
}

/// Slots with one pod, which is old.
fn single(board: &Board<'_>) -> Vec<u32> {
    let is_single = |slot: &&Slot| slot.main.is_some() && slot.next.is_none() && !board.is_updated(slot);
    board.running().filter(is_single).map(|slot| slot.number).collect()
}

/// Old revisions that pods are ordered at, the oldest first.
pub(super) fn revisions(board: &Board<'_>) -> Vec<u32> {
    let old: BTreeSet<u32> =
        board.running().flat_map(pods).filter(|pod| board.is_old(pod)).map(|pod| pod.revision).collect();
    old.into_iter().collect()
}

/// The old revisions in the order in which they give up pods: oldest first, but revisions whose pods are all ready after the
/// others. With the pod of revision 1 ready for less than `MinReadySeconds` and that of revision 4 not started, revision 4
/// goes first.
fn shrink_order(board: &Board<'_>) -> Vec<u32> {
    let unready: BTreeSet<u32> =
        board.running().flat_map(pods).filter(|pod| !pod.ready.ready).map(|pod| pod.revision).collect();
    let mut order = revisions(board);
    order.sort_by_key(|revision| !unready.contains(revision));
    order
}

/// Pods by revision, in the order of `old`. An instance that moves has two pods of the target revision and counts once.
fn sets(board: &Board<'_>, old: &[u32], replacement: PodReplacement) -> Sets {
    let mut sizes: BTreeMap<u32, Size> = BTreeMap::new();
    for pod in board.running().flat_map(pods).filter(|pod| board.is_old(pod)) {
        let size = sizes.entry(pod.revision).or_default();
        size.spec += 1;
        size.available += i64::from(board.facts.is_available(pod));
    }
    let old = old.iter().filter_map(|revision| sizes.get(revision).copied()).collect();
    let new = Size {
        spec: count(board.running().filter(|slot| board.is_updated(slot))),
        available: count(board.running().filter(|slot| board.is_updated_available(slot))),
    };
    Sets { new, old, terminating: board.terminating(replacement) }
}

fn grow(board: &mut Board<'_>, pods: i64) {
    let most = usize::try_from(pods).unwrap_or(0);
    let (open, beside) = (open(board), single(board));
    let filled = open.len().min(most);
    open.into_iter().take(most).for_each(|number| board.fill(number));
    beside.into_iter().take(most - filled).for_each(|number| board.perform(Action::Surge(number)));
}

/// One pod that may go.
struct Victim {
    number: u32,
    is_next: bool,
    pod: ranking::Pod,
    is_available: bool,
    class: u8,
    /// It is being taken out of service: who is asked to drain it must not find another one chosen.
    is_preparing: bool,
    /// The release goes on without it: all the others come first.
    is_skipped: bool,
}

fn shrink(board: &mut Board<'_>, revision: u32, pods: i64) {
    let victims = victims(board, revision);
    for (number, is_next) in victims.into_iter().take(usize::try_from(pods).unwrap_or(0)) {
        let has_next = board.slot(number).is_some_and(|slot| slot.next.is_some());
        match (is_next, has_next) {
            (true, true) => board.perform(Action::Drop(number)),
            // Its main pod went a moment ago, so it is the main one now.
            (true, false) | (false, false) => board.vacate(number),
            (false, true) => board.perform(Action::Promote(number)),
        }
    }
}

/// The pods of a revision in the order they go.
fn victims(board: &Board<'_>, revision: u32) -> Vec<(u32, bool)> {
    let related: Vec<ranking::Pod> =
        board.running().flat_map(|slot| pods(slot).map(|pod| board.facts.ranked(slot.number, pod))).collect();
    let mut victims: Vec<Victim> = Vec::new();
    for slot in board.running() {
        for (at, pod) in pods(slot).enumerate().filter(|(_, pod)| pod.revision == revision) {
            let is_next = at > 0 || slot.main.is_none();
            victims.push(Victim {
                number: slot.number,
                is_next,
                pod: board.facts.ranked(slot.number, pod),
                is_available: board.facts.is_available(pod),
                class: class(board, slot, is_next),
                is_preparing: pod.is_preparing,
                is_skipped: board.is_skipped(slot),
            });
        }
    }
    let pods: Vec<ranking::Pod> = victims.iter().map(|victim| victim.pod.clone()).collect();
    let mut order = ranking::deletion_order(&pods, &related, board.facts.now);
    let skipped_last = |victim: &Victim| victim.is_skipped && victim.is_available;
    order.sort_by_key(|&at| {
        let victim = &victims[at];
        (skipped_last(victim), victim.is_available, victim.class, !victim.is_preparing)
    });
    order.into_iter().map(|at| (victims[at].number, victims[at].is_next)).collect()
}

/// What losing the pod means to its slot: nothing, one pod for another, or that nobody serves.
fn class(board: &Board<'_>, slot: &Slot, is_next: bool) -> u8 {
    match &slot.next {
        Some(_) if is_next => 0,
        Some(next) if board.facts.is_available(&next.pod) => 0,
        Some(_) => 2,
        None => 1,
    }
}
