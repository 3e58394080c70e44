//! What people may say to a release, and when it is refused (section 4.4, R-15, R-17, R-18).
//!
//! Only the stored release changes; the next decision acts on it. Saying a thing twice is saying it once, so a caller whose
//! answer got lost may ask again. Undo is not here: it is a new release toward an earlier revision.

use super::state::{Excuse, RolloutState};
use crate::rollout::moment::Moment;
use crate::rollout::progress;
use crate::rollout::transition::RolloutPhase;

/// What somebody says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Control {
    /// Nothing new starts.
    Pause,
    /// It goes on; a failure is looked past, and the release waits for the pods that failed.
    Resume,
    /// The group with this ordinal is fine.
    Confirm(u64),
    /// The group with this ordinal is left as it is.
    Skip(u64),
    /// The mix of revisions stays.
    Abort,
    /// Nothing moves at all.
    Freeze,
    /// Things move again.
    Unfreeze,
}

/// Why it is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The release does not wait to be confirmed.
    NotWaiting,
    /// Another group is the current one.
    OtherBatch {
        /// This one.
        current: u64,
    },
    /// The release is over.
    Over,
}

/// The release after it was said.
pub fn apply(state: &RolloutState, control: Control, now: Moment) -> Result<RolloutState, Refusal> {
    let mut after = state.clone();
    match control {
        Control::Pause => after.is_paused = true,
        Control::Resume => resume(&mut after, now),
        Control::Confirm(batch) => confirm(&mut after, batch)?,
        Control::Skip(batch) => skip(&mut after, batch)?,
        Control::Abort => abort(&mut after)?,
        Control::Freeze => after.is_frozen = true,
        Control::Unfreeze => after.is_frozen = false,
    }
    Ok(after)
}

fn resume(state: &mut RolloutState, now: Moment) {
    if let Some(failure) = &state.failure {
        if failure.cause.is_overdue() {
            state.failure = None;
        } else {
            state.excuse(Excuse::Retried);
        }
        state.resumed_at = Some(now);
        // Otherwise it would be too late again at once.
        let paused = state
            .progress
            .take()
            .map(|it| progress::ProgressCondition { reason: progress::Reason::DeploymentPaused, ..it });
        state.progress = paused.map(|it| progress::resumed(it, now));
    }
    state.is_paused = false;
}

fn confirm(state: &mut RolloutState, batch: u64) -> Result<(), Refusal> {
    if state.confirmed == batch && batch > 0 {
        return Ok(());
    }
    match state.phase {
        RolloutPhase::WaitingForConfirm if state.batch == batch => {}
        RolloutPhase::WaitingForConfirm => return Err(Refusal::OtherBatch { current: state.batch }),
        RolloutPhase::Idle | RolloutPhase::Running | RolloutPhase::Completed | RolloutPhase::Aborted => {
            return Err(Refusal::NotWaiting);
        }
    }
    state.confirmed = batch;
    Ok(())
}

fn skip(state: &mut RolloutState, batch: u64) -> Result<(), Refusal> {
    if state.skipped == batch && batch > 0 {
        return Ok(());
    }
    if !state.is_open() {
        return Err(Refusal::Over);
    }
    if state.batch != batch {
        return Err(Refusal::OtherBatch { current: state.batch });
    }
    state.skipped = batch;
    state.excuse(Excuse::Skipped);
    Ok(())
}

fn abort(state: &mut RolloutState) -> Result<(), Refusal> {
    match state.phase {
        RolloutPhase::Completed => Err(Refusal::Over),
        RolloutPhase::Idle | RolloutPhase::Running | RolloutPhase::WaitingForConfirm | RolloutPhase::Aborted => {
            state.is_aborted = true;
            state.failure = None;
            Ok(())
        }
    }
}
