//! Decides whether a release goes on, is stuck or failed (section 2.8, R-4, R-5, R-18).
//!
//! Judged from what is seen, before anything is decided. The clock runs only while a group is under way and nobody paused
//! it. A failure stays until somebody answers it, with one exception: what only was too slow is forgiven when it moves again,
//! and so are a pod without a place that found one and a gate that opened.

use super::decision::{Action, FailureResponse};
use super::draft::{Draft, count, pods};
use super::facts::{FailureAction, Fetch, RolloutPod, Slot};
use super::rolling::limits;
use super::state::{Cause, Excuse, Failure};
use crate::rollout::failure::{is_above_threshold, is_plain};
use crate::rollout::progress::{self, ProgressCondition, Reason, Status};
use crate::rollout::transition::RolloutPhase;

pub(super) fn judge(draft: &mut Draft<'_>) -> FailureResponse {
    watch(draft);
    forgive_late(draft);
    leave_skipped(draft);
    if let Some(cause) = draft.state.failure.as_ref().map(|failure| failure.cause) {
        return answer(draft, cause);
    }
    // Also while it waits to be confirmed: who confirms should know.
    let is_watched = draft.state.is_open() && !draft.state.is_held();
    let Some(failure) = failure(draft).filter(|_| is_watched) else {
        tolerate(draft);
        return FailureResponse::Fine;
    };
    let cause = failure.cause;
    draft.state.failure = Some(failure);
    answer(draft, cause)
}

/// A group that is skipped is left as it is: whoever of it fails after the first does not hold what follows.
fn leave_skipped(draft: &mut Draft<'_>) {
    if draft.state.skipped > 0 && draft.state.skipped == draft.state.batch {
        let failing: Vec<u32> =
            draft.running().filter(|slot| failing(draft, slot).is_some()).map(|slot| slot.number).collect();
        draft.state.excused.extend(failing.into_iter().map(|number| (number, Excuse::Skipped)));
    }
}

/// Progress as of now: what follows is measured from here.
pub(super) fn refresh(draft: &mut Draft<'_>) {
    let now = draft.facts.now;
    let reason = Reason::NewReplicaSetCreated;
    draft.state.progress = draft.facts.settings.deadline.map(|_| ProgressCondition {
        status: Status::True,
        reason,
        last_update: now,
        last_transition: now,
    });
}

/// The condition, and the most that was seen. Taken again after a decision, so that what it ordered is no news to the next.
fn watch(draft: &mut Draft<'_>) {
    let now = draft.facts.now;
    if draft.state.is_paused || draft.state.is_frozen {
        let is_watched = draft.state.is_open() && draft.facts.settings.deadline.is_some();
        draft.state.progress =
            draft.state.progress.take().filter(|_| is_watched).map(|it| progress::paused(Some(it), now));
        return;
    }
    draft.state.progress = draft.state.progress.take().map(|it| progress::resumed(it, now));
    match draft.state.phase {
        RolloutPhase::Running => {}
        RolloutPhase::Completed => return complete(draft),
        RolloutPhase::Idle | RolloutPhase::WaitingForConfirm | RolloutPhase::Aborted => return,
    }
    let after = draft.counts();
    let facts = progress::ProgressFacts {
        deadline: draft.facts.settings.deadline,
        desired: limits(draft).replicas,
        before: draft.state.seen,
        after,
    };
    draft.state.progress = progress::condition(&facts, draft.state.progress.take(), now);
    draft.state.seen = after.above(draft.state.seen);
    forgive(draft);
}

/// What came and went by scaling is no progress; but who just came is not late.
pub(super) fn rebase(draft: &mut Draft<'_>) {
    if draft.state.phase == RolloutPhase::Running && !draft.state.is_paused {
        draft.state.seen = draft.counts().above(draft.state.seen);
        let some_came = draft.actions.iter().any(|action| matches!(action, Action::Create { .. }));
        if some_came && is_late(draft) && draft.state.failure.is_none() {
            refresh(draft);
        }
    }
}

/// The verdict once more after a decision: what it ordered may have set the clock back.
pub(super) fn review(draft: &mut Draft<'_>, response: FailureResponse) -> FailureResponse {
    watch(draft);
    match response {
        FailureResponse::Hold(_) | FailureResponse::Rollback(_) if draft.state.failure.is_none() => {
            FailureResponse::Fine
        }
        FailureResponse::Fine
        | FailureResponse::Hold(_)
        | FailureResponse::Rollback(_)
        | FailureResponse::Continue(_) => response,
    }
}

/// Complete is what the release says, also where pods were left behind.
fn complete(draft: &mut Draft<'_>) {
    let (now, reason) = (draft.facts.now, Reason::NewReplicaSetAvailable);
    if let Some(it) = draft.state.progress.take() {
        let is_said = it.reason == reason;
        let last_transition = if it.status == Status::True { it.last_transition } else { now };
        let said = ProgressCondition { status: Status::True, reason, last_update: now, last_transition };
        draft.state.progress = Some(if is_said { it } else { said });
    }
}

fn is_late(draft: &Draft<'_>) -> bool {
    draft.state.progress.as_ref().is_some_and(|it| it.reason == Reason::ProgressDeadlineExceeded)
}

fn forgive(draft: &mut Draft<'_>) {
    if !is_late(draft) && draft.state.failure.as_ref().is_some_and(|it| it.cause == Cause::DeadlineExceeded) {
        draft.state.failure = None;
    }
}

/// What came late all the same: pods that found no place and have one now, and gates that are true. Who is to be renewed is
/// not tried while the release is held, so of those nobody knows.
fn forgive_late(draft: &mut Draft<'_>) {
    let Some(failure) = draft.state.failure.as_ref() else { return };
    let has_come = |slot: &Slot| match failure.cause {
        Cause::Unschedulable => draft.is_updated(slot) && pods(slot).all(|pod| pod.unschedulable_since.is_none()),
        Cause::GateOverdue => draft.is_updated_available(slot),
        Cause::HookOverdue | Cause::Crashing | Cause::ImageHopeless | Cause::DeadlineExceeded => false,
    };
    let mut slots = failure.slots.iter().filter_map(|number| draft.slot(*number));
    if failure.cause.is_overdue() && failure.cause != Cause::HookOverdue && slots.all(has_come) {
        draft.state.failure = None;
    }
}

fn failure(draft: &Draft<'_>) -> Option<Failure> {
    let found = |cause: Cause, slots: Vec<u32>| {
        let (batch, since) = (draft.state.batch, draft.facts.now);
        Failure { cause, batch, slots, since, why: String::new() }
    };
    let failing: Vec<(u32, Cause)> =
        draft.running().filter_map(|slot| Some((slot.number, failing(draft, slot)?))).collect();
    if let Some((_, cause)) = failing.first() {
        return Some(found(*cause, failing.iter().map(|(number, _)| *number).collect()));
    }
    let missing = missing(draft);
    let updated = count(draft.running().filter(|slot| is_turned_to(draft, slot)));
    let pods = i64::try_from(missing.len()).unwrap_or(i64::MAX);
    let is_above = is_above_threshold(pods, updated, draft.facts.settings.failure_threshold);
    (draft.state.phase == RolloutPhase::Running && is_late(draft) && is_above)
        .then(|| found(Cause::DeadlineExceeded, missing))
}

/// It is at the target revision, or its node gets what that is made of.
fn is_turned_to(draft: &Draft<'_>, slot: &Slot) -> bool {
    draft.is_updated(slot) || pods(slot).any(|pod| pod.fetch != Fetch::Unasked)
}

/// Instances the release turned to and waits for.
pub(super) fn missing(draft: &Draft<'_>) -> Vec<u32> {
    let is_missing =
        |slot: &&Slot| is_turned_to(draft, slot) && !draft.is_skipped(slot) && !draft.is_updated_available(slot);
    draft.running().filter(is_missing).map(|slot| slot.number).collect()
}

fn failing(draft: &Draft<'_>, slot: &Slot) -> Option<Cause> {
    if draft.state.excused.contains_key(&slot.number) {
        return None;
    }
    // Not those of an equal revision: what restarted in a long life is no failure of the release that goes back to it.
    let own = pods(slot).filter(|pod| pod.revision == draft.facts.target).find_map(|pod| cause(draft, pod));
    // Who is waited for before it may go is of another revision, and so is who finds no place for its successor.
    let stays = |pod: &&RolloutPod| draft.is_old(pod) && pod.created.is_some();
    let is_stuck = || pods(slot).filter(stays).any(|pod| is_unschedulable(draft, pod));
    own.or_else(|| pods(slot).any(|pod| pod.fetch == Fetch::Hopeless).then_some(Cause::ImageHopeless))
        .or_else(|| pods(slot).any(|pod| pod.is_hook_overdue).then_some(Cause::HookOverdue))
        .or_else(|| is_stuck().then_some(Cause::Unschedulable))
}

/// Patience with a pod that finds no place is over.
fn is_unschedulable(draft: &Draft<'_>, pod: &RolloutPod) -> bool {
    let waited = draft.facts.settings.placement_patience.zip(pod.unschedulable_since);
    waited.is_some_and(|(patience, since)| draft.state.waits_from(since).after(patience) <= draft.facts.now)
}

fn cause(draft: &Draft<'_>, pod: &RolloutPod) -> Option<Cause> {
    let found = [
        (Cause::ImageHopeless, pod.signs.image_is_hopeless),
        (Cause::Crashing, is_plain(pod.signs, draft.facts.settings.fail_fast_restarts)),
        (Cause::HookOverdue, pod.is_hook_overdue),
        (Cause::GateOverdue, pod.is_gate_overdue),
        (Cause::Unschedulable, is_unschedulable(draft, pod)),
    ];
    found.into_iter().find_map(|(cause, is_so)| is_so.then_some(cause))
}

fn answer(draft: &mut Draft<'_>, cause: Cause) -> FailureResponse {
    let can_roll_back = draft.facts.can_roll_back && !draft.facts.is_rollback;
    match draft.facts.settings.failure_action {
        FailureAction::Rollback if can_roll_back => FailureResponse::Rollback(cause),
        FailureAction::Rollback | FailureAction::Hold => FailureResponse::Hold(cause),
        FailureAction::Continue => {
            draft.state.excuse(Excuse::Skipped);
            FailureResponse::Continue(cause)
        }
    }
}

/// Within the threshold: at the deadline the release goes on without the pods that are missing.
fn tolerate(draft: &mut Draft<'_>) {
    if is_late(draft) && draft.state.phase == RolloutPhase::Running && !draft.state.is_held() {
        let missing = missing(draft);
        draft.state.excused.extend(missing.into_iter().map(|number| (number, Excuse::Skipped)));
    }
}
