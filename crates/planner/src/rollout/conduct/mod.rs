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
mod replacing;
mod reporting;
mod scaling;

pub use self::control::{Control, Refusal, apply};
pub use self::decision::{Action, Decision, Report, Stand, UnitCount, Verdict};
pub use self::facts::{
    AutoReschedule, Facts, FailBack, FailureAction, Grouped, Next, Pod, Settings, Slot, Style, Unit,
};
pub use self::memory::{Allotment, Cause, Excuse, Failure, Release};
pub use self::rehearsal::{Fate, GroupStep, Rehearsal, perform_all, plan};

use self::board::{Board, pods};
use super::release::Phase;

/// Decides what happens now.
pub fn conduct(facts: &Facts) -> Decision {
    let mut board = Board::of(facts);
    open(&mut board);
    let mut verdict = judging::judge(&mut board);
    let mut unplaced = Vec::new();
    // Again when what was ordered ended a failure, for that held the rest back; it does so once.
    for _ in 0..2 {
        if board.release.is_frozen {
            break;
        }
        let had_failed = board.release.failure.is_some();
        unplaced = sync(&mut board);
        verdict = judging::review(&mut board, verdict);
        if !had_failed || board.release.failure.is_some() {
            break;
        }
    }
    reporting::decision(board, verdict, &unplaced)
}

/// Everything that may be done, in the order of section 2.2; answers how many pods of each unit find no room.
fn sync(board: &mut Board<'_>) -> Vec<i64> {
    single_stopped(board);
    scaling::allot(board);
    moving::recover(board);
    scaling::scale(board);
    judging::rebase(board);
    part(board);
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
        return;
    }
    if board.release.phase == Phase::Idle && !board.release.is_held() {
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
    board::count(board.slots.iter()) == board.facts.replicas && board.running().all(is_fine)
}

/// A release that was given up leaves no slot with two pods: the new one stays if it serves.
fn part(board: &mut Board<'_>) {
    if board.release.phase != Phase::Aborted {
        return;
    }
    let is_surge = |slot: &&Slot| slot.next.as_ref().is_some_and(|next| next.unit == slot.unit);
    let surged: Vec<Slot> = board.running().filter(is_surge).cloned().collect();
    for slot in surged {
        let serves = slot.next.as_ref().is_some_and(|next| board.facts.is_available(&next.pod));
        board.perform(if serves { Action::Promote(slot.number) } else { Action::Drop(slot.number) });
    }
}

/// What does not run needs no second pod.
fn single_stopped(board: &mut Board<'_>) {
    let is_double = |slot: &&Slot| slot.is_stopped && slot.next.is_some();
    let doubled: Vec<u32> = board.slots.iter().filter(is_double).map(|slot| slot.number).collect();
    doubled.into_iter().for_each(|number| board.perform(Action::Drop(number)));
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
