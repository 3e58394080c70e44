//! What people may say to a release, and when it is refused (section 4.4, D-15, D-17, D-18).
//!
//! Only the stored release changes; the next decision acts on it. Saying a thing twice is saying it once, so a caller whose
//! answer got lost may ask again. Undo is not here: it is a new release toward an earlier revision.

use super::memory::{Excuse, Release};
use crate::rollout::moment::Moment;
use crate::rollout::progress;
use crate::rollout::release::{self, Phase};

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
    OtherGroup {
        /// This one.
        current: u64,
    },
    /// The release is over.
    Over,
}

/// The release after it was said.
pub fn apply(release: &Release, control: Control, now: Moment) -> Result<Release, Refusal> {
    let mut after = release.clone();
    match control {
        Control::Pause => after.is_paused = true,
        Control::Resume => resume(&mut after, now),
        Control::Confirm(group) => confirm(&mut after, group)?,
        Control::Skip(group) => skip(&mut after, group)?,
        Control::Abort => abort(&mut after)?,
        Control::Freeze => after.is_frozen = true,
        Control::Unfreeze => after.is_frozen = false,
    }
    Ok(after)
}

fn resume(release: &mut Release, now: Moment) {
    if let Some(failure) = &release.failure {
        if failure.cause.is_overdue() {
            release.failure = None;
        } else {
            release.excuse(Excuse::Retried);
        }
        release.resumed_at = Some(now);
        // Otherwise it would be too late again at once.
        let paused =
            release.progress.take().map(|it| progress::Condition { reason: progress::Reason::DeploymentPaused, ..it });
        release.progress = paused.map(|it| progress::resumed(it, now));
    }
    release.is_paused = false;
}

fn confirm(release: &mut Release, group: u64) -> Result<(), Refusal> {
    if release.confirmed == group && group > 0 {
        return Ok(());
    }
    release::judge_confirm(release.phase, release.group, group).map_err(|refusal| match refusal {
        release::Refusal::NotWaiting => Refusal::NotWaiting,
        release::Refusal::OtherGroup { waiting } => Refusal::OtherGroup { current: waiting },
    })?;
    release.confirmed = group;
    Ok(())
}

fn skip(release: &mut Release, group: u64) -> Result<(), Refusal> {
    if release.skipped == group && group > 0 {
        return Ok(());
    }
    if !release.is_open() {
        return Err(Refusal::Over);
    }
    if release.group != group {
        return Err(Refusal::OtherGroup { current: release.group });
    }
    release.skipped = group;
    release.excuse(Excuse::Skipped);
    Ok(())
}

fn abort(release: &mut Release) -> Result<(), Refusal> {
    match release.phase {
        Phase::Completed => Err(Refusal::Over),
        Phase::Idle | Phase::Running | Phase::WaitingForConfirm | Phase::Aborted => {
            release.is_aborted = true;
            release.failure = None;
            Ok(())
        }
    }
}
