//! The commands of a user to a rollout, and when they are refused.
//!
//! A command changes only the stored state; the next decision acts on it. Commands are idempotent, so a client may repeat one
//! whose answer it did not receive. Undo is not here: it is a new rollout to an earlier revision.

use super::state::{Excuse, RolloutState};
use crate::rollout::moment::Moment;
use crate::rollout::progress;
use crate::rollout::transition::RolloutPhase;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Control {
    /// No further instance is updated.
    Pause,
    /// Continues; after a failure the rollout waits for the failed pods again.
    Resume,
    /// Confirms the batch with this number.
    Confirm(u64),
    /// Continues without the failed instances of the batch with this number.
    Skip(u64),
    /// Ends the rollout; the mix of revisions stays.
    Abort,
    /// Nothing changes, not even by scaling.
    Freeze,
    Unfreeze,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The rollout does not wait for a confirmation.
    NotWaiting,
    /// Another batch is the current one.
    OtherBatch { current: u64 },
    /// The rollout has ended.
    Over,
}

/// The state after the command.
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
        // Restart the progress deadline; otherwise the rollout would time out again immediately.
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
