//! Decides which instances of a group are replaced next: the conductor of a release.
//!
//! Facts and time in; actions, the release to store and what is said about it out. One call does what several syncs would,
//! each in one direction, until nothing can move before a pod does. All memory is the stored release and the slots, so
//! calling it again changes nothing, and whoever leads continues. The surprise: it does not repair. A pod that died is made
//! anew at its slot's revision by whoever keeps instances; here it only counts as not available.

mod batches;
mod board;
mod control;
mod decision;
mod facts;
mod judging;
mod memory;
mod moving;
mod recreating;
mod rehearsal;
mod removing;
mod replacing;
mod reporting;
mod scaling;
mod words;

pub use self::control::{Control, Refusal, apply};
pub use self::decision::{Action, Decision, Report, RolloutStatus, UnitCount, Verdict};
pub use self::facts::{
    AutoReschedule, Facts, FailBack, FailureAction, Fetch, Grouped, Next, Pod, Settings, Slot, Style, Unit,
};
pub use self::memory::{Allotment, Cause, Excuse, Failure, Release};
pub use self::rehearsal::{GroupStep, InstanceChange, Rehearsal, perform_all, plan_placing};
pub use self::replacing::strategy;
pub use self::words::instances;

use self::board::{Board, pods};
use super::limits::PodReplacement;
use super::release::Phase;

/// Rounds of a decision: what one orders may end what held another back, as a failure or a slot with two pods does. The last
/// one finds nothing to do; more than a few would be two rules that undo each other.
const ROUNDS: usize = 8;

/// Decides what happens now.
pub fn controller(facts: &Facts) -> Decision {
    let mut board = Board::of(facts);
    open(&mut board);
    let mut verdict = judging::judge(&mut board);
    let watched = (board.release.seen, board.release.progress.clone());
    let mut unplaced = Vec::new();
    for _ in 0..ROUNDS {
        if board.release.is_frozen {
            break;
        }
        let before = (board.actions.len(), board.release.clone());
        unplaced = sync(&mut board);
        verdict = judging::review(&mut board, verdict);
        if before == (board.actions.len(), board.release.clone()) {
            break;
        }
    }
    Decision { watched, ..reporting::decision(board, verdict, &unplaced) }
}

/// Everything that may be done, in the order of section 2.2; answers how many pods of each unit find no room.
fn sync(board: &mut Board<'_>) -> Vec<i64> {
    undouble(board);
    scaling::allot(board);
    moving::recover(board);
    scaling::scale(board);
    judging::rebase(board);
    part(board);
    moving::relocate(board);
    let unplaced = moving::reschedule(board);
    advance(board);
    turn_stopped(board);
    moving::rebalance(board);
    conclude(board);
    scaling::fit(board);
    if let Style::Groups(_) = board.facts.settings.style {
        // Instances that moved took their place in the group along.
        batches::reconcile(board);
    }
    unplaced
}

/// A release toward another revision starts from nothing but what the slots say.
fn open(board: &mut Board<'_>) {
    if board.release.target != board.facts.target {
        board.release = board.release.followed_by(board.facts.target);
        board.release.seen = board.counts();
        judging::refresh(board);
    }
    if board.release.is_aborted && board.release.is_open() {
        board.release.phase = Phase::Aborted;
    }
}

fn advance(board: &mut Board<'_>) {
    let style = board.facts.settings.style;
    if let Style::Groups(grouped) = style {
        batches::advance(board, grouped);
        return;
    }
    if board.release.phase == Phase::Aborted {
        // A recreation that was given up between its halves: what is gone cannot be kept, and nothing else would follow it.
        if style == Style::Recreate && board.running().all(|slot| slot.main.is_none()) {
            recreating::recreate(board);
            scaling::scale(board);
        }
        return;
    }
    // Nobody confirms where there are no groups: the strategy was another when it began to wait.
    let is_to_run = matches!(board.release.phase, Phase::Idle | Phase::WaitingForConfirm);
    if is_to_run && !board.release.is_held() {
        board.release.phase = Phase::Running;
    }
    match style {
        Style::Rolling { .. } if board.release.is_held() => {}
        Style::Rolling { .. } => replacing::roll(board),
        Style::Recreate => {
            recreating::recreate(board);
            scaling::scale(board);
        }
        Style::Groups(_) => {}
    }
}

/// Without groups, a release is complete when every instance wanted has one pod, at the target revision, and it counts.
fn conclude(board: &mut Board<'_>) {
    let is_led = board.release.phase == Phase::Running && !board.release.is_held();
    let by_groups = matches!(board.facts.settings.style, Style::Groups(_));
    if is_led && !by_groups && is_complete(board) {
        board.release.phase = Phase::Completed;
    }
}

fn is_complete(board: &Board<'_>) -> bool {
    let is_fine = |slot: &Slot| {
        let main = slot.main.as_ref().is_some_and(|main| !board.is_old(main) && board.facts.is_available(main));
        main && slot.next.is_none()
    };
    // Under Recreate nothing new may come before the old pods are gone, also after a scale-in to 0.
    let is_clear = board.facts.settings.style != Style::Recreate || board.terminating(PodReplacement::Complete) == 0;
    is_clear && board::count(board.slots.iter()) == board.facts.replicas && board.running().all(is_fine)
}

/// Only a rolling update has slots with two pods: a release that was given up or goes by groups leaves one in each, the
/// new one if it serves.
fn part(board: &mut Board<'_>) {
    let by_groups = matches!(board.facts.settings.style, Style::Groups(_));
    if board.release.phase != Phase::Aborted && (!by_groups || board.release.is_held()) {
        return;
    }
    let surged: Vec<Slot> = board.running().filter(|slot| moving::is_surge(slot)).cloned().collect();
    for slot in surged {
        let is_back = |next: &Pod| board.is_old(next) && slot.main.as_ref().is_some_and(|main| !board.is_old(main));
        let serves = slot.next.as_ref().is_some_and(|it| board.facts.is_available(&it.pod) && !is_back(&it.pod));
        board.perform(if serves { Action::Promote(slot.number) } else { Action::Drop(slot.number) });
    }
}

/// What does not run needs no second pod, nor does what is at the target revision need another of it in the same unit.
fn undouble(board: &mut Board<'_>) {
    let is_same = |slot: &Slot, next: &Next| {
        let are_new = pods(slot).all(|pod| !board.is_old(pod));
        are_new && slot.main.is_some() && next.unit == slot.unit
    };
    let is_double = |slot: &&Slot| slot.next.as_ref().is_some_and(|next| slot.is_stopped || is_same(slot, next));
    let serves = |pod: Option<&Pod>| pod.is_some_and(|pod| board.facts.is_available(pod));
    let is_better = |slot: &Slot| {
        serves(slot.next.as_ref().map(|next| &next.pod)) && !serves(slot.main.as_ref()) && !slot.is_stopped
    };
    let doubled: Vec<(u32, bool)> =
        board.slots.iter().filter(is_double).map(|slot| (slot.number, is_better(slot))).collect();
    for (number, is_better) in doubled {
        board.perform(if is_better { Action::Promote(number) } else { Action::Drop(number) });
    }
}

/// Stopped instances change their revision last: until then a start brings back what ran before.
fn turn_stopped(board: &mut Board<'_>) {
    let is_led = match board.release.phase {
        Phase::Running | Phase::Completed => !board.release.is_held(),
        Phase::Idle | Phase::WaitingForConfirm | Phase::Aborted => false,
    };
    let is_behind = |slot: &Slot| slot.main.is_none() || pods(slot).any(|pod| board.is_old(pod));
    if !is_led || board.running().any(is_behind) {
        return;
    }
    let behind = board.slots.iter().filter(|slot| slot.is_stopped && is_behind(slot));
    let stopped: Vec<(u32, bool)> = behind.map(|slot| (slot.number, slot.main.is_some())).collect();
    for (number, has_pod) in stopped {
        if has_pod { board.perform(Action::Renew(number)) } else { board.fill(number) }
    }
}

#[cfg(test)]
mod tests;
