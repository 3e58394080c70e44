//! Tracks the progress of a rollout against its deadline.
//!
//! The clock runs only while a batch is in progress and the rollout is not paused.

use super::decision::RolloutAction;
use super::draft::Draft;
use super::failure;
use super::rolling::limits;
use crate::rollout::progress::{self, ProgressCondition, ProgressFacts, Reason, Status};
use crate::rollout::transition::RolloutPhase;

/// Restarts the progress deadline.
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

/// Updates the progress condition and the highest counts. Called again after the actions, so that they do not count as progress
/// in the next decision.
pub(super) fn update(draft: &mut Draft<'_>) {
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
    let facts = ProgressFacts {
        deadline: draft.facts.settings.deadline,
        desired: limits(draft).replicas,
        before: draft.state.seen,
        after,
    };
    draft.state.progress = progress::condition(&facts, draft.state.progress.take(), now);
    draft.state.seen = after.above(draft.state.seen);
    failure::clear_late(draft);
}

/// Scaling is no progress; but instances that it creates get the full deadline.
pub(super) fn rebase(draft: &mut Draft<'_>) {
    if draft.state.phase == RolloutPhase::Running && !draft.state.is_paused {
        draft.state.seen = draft.counts().above(draft.state.seen);
        let some_came = draft.actions.iter().any(|action| matches!(action, RolloutAction::Create { .. }));
        if some_came && is_late(draft) && draft.state.failure.is_none() {
            refresh(draft);
        }
    }
}

/// A completed rollout is complete even where it skipped instances.
fn complete(draft: &mut Draft<'_>) {
    let (now, reason) = (draft.facts.now, Reason::NewReplicaSetAvailable);
    if let Some(it) = draft.state.progress.take() {
        let is_said = it.reason == reason;
        let last_transition = if it.status == Status::True { it.last_transition } else { now };
        let said = ProgressCondition { status: Status::True, reason, last_update: now, last_transition };
        draft.state.progress = Some(if is_said { it } else { said });
    }
}

pub(super) fn is_late(draft: &Draft<'_>) -> bool {
    draft.state.progress.as_ref().is_some_and(|it| it.reason == Reason::ProgressDeadlineExceeded)
}
