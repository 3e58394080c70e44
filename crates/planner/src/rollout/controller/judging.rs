//! Decides whether a release goes on, is stuck or failed (section 2.8, D-4, D-5, D-18).
//!
//! Judged from what is seen, before anything is decided. The clock runs only while a group is under way and nobody paused
//! it. A failure stays until somebody answers it, with one exception: what only was too slow is forgiven when it moves again,
//! and so are a pod without a place that found one and a gate that opened.

use super::board::{Board, count, pods};
use super::decision::{Action, Verdict};
use super::facts::{FailureAction, Fetch, Pod, Slot};
use super::memory::{Cause, Excuse, Failure};
use super::replacing::limits;
use crate::rollout::failure::{is_above_threshold, is_plain};
use crate::rollout::progress::{self, Condition, Reason, Status};
use crate::rollout::release::Phase;

pub(super) fn judge(board: &mut Board<'_>) -> Verdict {
    watch(board);
    forgive_late(board);
    leave_skipped(board);
    if let Some(cause) = board.release.failure.as_ref().map(|failure| failure.cause) {
        return answer(board, cause);
    }
    // Also while it waits to be confirmed: who confirms should know.
    let is_watched = board.release.is_open() && !board.release.is_held();
    let Some(failure) = failure(board).filter(|_| is_watched) else {
        tolerate(board);
        return Verdict::Fine;
    };
    let cause = failure.cause;
    board.release.failure = Some(failure);
    answer(board, cause)
}

/// A group that is skipped is left as it is: whoever of it fails after the first does not hold what follows.
fn leave_skipped(board: &mut Board<'_>) {
    if board.release.skipped > 0 && board.release.skipped == board.release.group {
        let failing: Vec<u32> =
            board.running().filter(|slot| failing(board, slot).is_some()).map(|slot| slot.number).collect();
        board.release.excused.extend(failing.into_iter().map(|number| (number, Excuse::Skipped)));
    }
}

/// Progress as of now: what follows is measured from here.
pub(super) fn refresh(board: &mut Board<'_>) {
    let now = board.facts.now;
    let reason = Reason::NewReplicaSetCreated;
    board.release.progress = board.facts.settings.deadline.map(|_| Condition {
        status: Status::True,
        reason,
        last_update: now,
        last_transition: now,
    });
}

/// The condition, and the most that was seen. Taken again after a decision, so that what it ordered is no news to the next.
fn watch(board: &mut Board<'_>) {
    let now = board.facts.now;
    if board.release.is_paused || board.release.is_frozen {
        let is_watched = board.release.is_open() && board.facts.settings.deadline.is_some();
        board.release.progress =
            board.release.progress.take().filter(|_| is_watched).map(|it| progress::paused(Some(it), now));
        return;
    }
    board.release.progress = board.release.progress.take().map(|it| progress::resumed(it, now));
    match board.release.phase {
        Phase::Running => {}
        Phase::Completed => return complete(board),
        Phase::Idle | Phase::WaitingForConfirm | Phase::Aborted => return,
    }
    let after = board.counts();
    let facts = progress::Facts {
        deadline: board.facts.settings.deadline,
        desired: limits(board).replicas,
        before: board.release.seen,
        after,
    };
    board.release.progress = progress::condition(&facts, board.release.progress.take(), now);
    board.release.seen = after.above(board.release.seen);
    forgive(board);
}

/// What came and went by scaling is no progress; but who just came is not late.
pub(super) fn rebase(board: &mut Board<'_>) {
    if board.release.phase == Phase::Running && !board.release.is_paused {
        board.release.seen = board.counts().above(board.release.seen);
        let some_came = board.actions.iter().any(|action| matches!(action, Action::Create { .. }));
        if some_came && is_late(board) && board.release.failure.is_none() {
            refresh(board);
        }
    }
}

/// The verdict once more after a decision: what it ordered may have set the clock back.
pub(super) fn review(board: &mut Board<'_>, verdict: Verdict) -> Verdict {
    watch(board);
    match verdict {
        Verdict::Hold(_) | Verdict::Rollback(_) if board.release.failure.is_none() => Verdict::Fine,
        Verdict::Fine | Verdict::Hold(_) | Verdict::Rollback(_) | Verdict::Continue(_) => verdict,
    }
}

/// Complete is what the release says, also where pods were left behind.
fn complete(board: &mut Board<'_>) {
    let (now, reason) = (board.facts.now, Reason::NewReplicaSetAvailable);
    if let Some(it) = board.release.progress.take() {
        let is_said = it.reason == reason;
        let last_transition = if it.status == Status::True { it.last_transition } else { now };
        let said = Condition { status: Status::True, reason, last_update: now, last_transition };
        board.release.progress = Some(if is_said { it } else { said });
    }
}

fn is_late(board: &Board<'_>) -> bool {
    board.release.progress.as_ref().is_some_and(|it| it.reason == Reason::ProgressDeadlineExceeded)
}

fn forgive(board: &mut Board<'_>) {
    if !is_late(board) && board.release.failure.as_ref().is_some_and(|it| it.cause == Cause::DeadlineExceeded) {
        board.release.failure = None;
    }
}

/// What came late all the same: pods that found no place and have one now, and gates that are true. Who is to be renewed is
/// not tried while the release is held, so of those nobody knows.
fn forgive_late(board: &mut Board<'_>) {
    let Some(failure) = board.release.failure.as_ref() else { return };
    let has_come = |slot: &Slot| match failure.cause {
        Cause::Unschedulable => board.is_updated(slot) && pods(slot).all(|pod| pod.unschedulable_since.is_none()),
        Cause::GateOverdue => board.is_updated_available(slot),
        Cause::HookOverdue | Cause::Crashing | Cause::ImageHopeless | Cause::DeadlineExceeded => false,
    };
    let mut slots = failure.slots.iter().filter_map(|number| board.slot(*number));
    if failure.cause.is_overdue() && failure.cause != Cause::HookOverdue && slots.all(has_come) {
        board.release.failure = None;
    }
}

fn failure(board: &Board<'_>) -> Option<Failure> {
    let found = |cause: Cause, slots: Vec<u32>| {
        let (group, since) = (board.release.group, board.facts.now);
        Failure { cause, group, slots, since, why: String::new() }
    };
    let failing: Vec<(u32, Cause)> =
        board.running().filter_map(|slot| Some((slot.number, failing(board, slot)?))).collect();
    if let Some((_, cause)) = failing.first() {
        return Some(found(*cause, failing.iter().map(|(number, _)| *number).collect()));
    }
    let missing = missing(board);
    let updated = count(board.running().filter(|slot| is_turned_to(board, slot)));
    let pods = i64::try_from(missing.len()).unwrap_or(i64::MAX);
    let is_above = is_above_threshold(pods, updated, board.facts.settings.failure_threshold);
    (board.release.phase == Phase::Running && is_late(board) && is_above)
        .then(|| found(Cause::DeadlineExceeded, missing))
}

/// It is at the target revision, or its node gets what that is made of.
fn is_turned_to(board: &Board<'_>, slot: &Slot) -> bool {
    board.is_updated(slot) || pods(slot).any(|pod| pod.fetch != Fetch::Unasked)
}

/// Instances the release turned to and waits for.
pub(super) fn missing(board: &Board<'_>) -> Vec<u32> {
    let is_missing =
        |slot: &&Slot| is_turned_to(board, slot) && !board.is_skipped(slot) && !board.is_updated_available(slot);
    board.running().filter(is_missing).map(|slot| slot.number).collect()
}

fn failing(board: &Board<'_>, slot: &Slot) -> Option<Cause> {
    if board.release.excused.contains_key(&slot.number) {
        return None;
    }
    // Not those of an equal revision: what restarted in a long life is no failure of the release that goes back to it.
    let own = pods(slot).filter(|pod| pod.revision == board.facts.target).find_map(|pod| cause(board, pod));
    // Who is waited for before it may go is of another revision, and so is who finds no place for its successor.
    let stays = |pod: &&Pod| board.is_old(pod) && pod.created.is_some();
    let is_stuck = || pods(slot).filter(stays).any(|pod| is_unschedulable(board, pod));
    own.or_else(|| pods(slot).any(|pod| pod.fetch == Fetch::Hopeless).then_some(Cause::ImageHopeless))
        .or_else(|| pods(slot).any(|pod| pod.is_hook_overdue).then_some(Cause::HookOverdue))
        .or_else(|| is_stuck().then_some(Cause::Unschedulable))
}

/// Patience with a pod that finds no place is over.
fn is_unschedulable(board: &Board<'_>, pod: &Pod) -> bool {
    let waited = board.facts.settings.placement_patience.zip(pod.unschedulable_since);
    waited.is_some_and(|(patience, since)| board.release.waits_from(since).after(patience) <= board.facts.now)
}

fn cause(board: &Board<'_>, pod: &Pod) -> Option<Cause> {
    let found = [
        (Cause::ImageHopeless, pod.signs.image_is_hopeless),
        (Cause::Crashing, is_plain(pod.signs, board.facts.settings.fail_fast_restarts)),
        (Cause::HookOverdue, pod.is_hook_overdue),
        (Cause::GateOverdue, pod.is_gate_overdue),
        (Cause::Unschedulable, is_unschedulable(board, pod)),
    ];
    found.into_iter().find_map(|(cause, is_so)| is_so.then_some(cause))
}

fn answer(board: &mut Board<'_>, cause: Cause) -> Verdict {
    let can_roll_back = board.facts.can_roll_back && !board.facts.is_rollback;
    match board.facts.settings.failure_action {
        FailureAction::Rollback if can_roll_back => Verdict::Rollback(cause),
        FailureAction::Rollback | FailureAction::Hold => Verdict::Hold(cause),
        FailureAction::Continue => {
            board.release.excuse(Excuse::Skipped);
            Verdict::Continue(cause)
        }
    }
}

/// Within the threshold: at the deadline the release goes on without the pods that are missing.
fn tolerate(board: &mut Board<'_>) {
    if is_late(board) && board.release.phase == Phase::Running && !board.release.is_held() {
        let missing = missing(board);
        board.release.excused.extend(missing.into_iter().map(|number| (number, Excuse::Skipped)));
    }
}
