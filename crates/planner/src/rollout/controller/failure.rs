//! Decides whether a rollout failed, and what follows.
//!
//! A failure stays until a user or the failure action answers it, with one exception: it is cleared when a rollout that was too
//! slow progresses, an unschedulable pod gets a node, or a readiness gate becomes true.

use super::decision::FailureResponse;
use super::draft::{Draft, count, pods};
use super::facts::{FailureAction, Fetch, Instance, RolloutPod};
use super::progress;
use super::state::{Cause, Excuse, Failure};
use crate::rollout::failure::{is_above_threshold, is_plain};
use crate::rollout::transition::RolloutPhase;

pub(super) fn check(draft: &mut Draft<'_>) -> FailureResponse {
    progress::update(draft);
    clear_resolved(draft);
    excuse_skipped_batch(draft);
    if let Some(cause) = draft.state.failure.as_ref().map(|failure| failure.cause) {
        return respond(draft, cause);
    }
    // Also while the rollout waits for a confirmation: the user should know before confirming.
    let is_watched = draft.state.is_open() && !draft.state.is_held();
    let Some(failure) = failure(draft).filter(|_| is_watched) else {
        skip_missing(draft);
        return FailureResponse::Fine;
    };
    let cause = failure.cause;
    draft.state.failure = Some(failure);
    respond(draft, cause)
}

/// Ignores later failures in a skipped batch.
fn excuse_skipped_batch(draft: &mut Draft<'_>) {
    if draft.state.skipped > 0 && draft.state.skipped == draft.state.batch {
        let failing: Vec<u32> = draft
            .running()
            .filter(|instance| failing(draft, instance).is_some())
            .map(|instance| instance.number)
            .collect();
        draft.state.excused.extend(failing.into_iter().map(|number| (number, Excuse::Skipped)));
    }
}

/// Checks the response again after the actions, which may have restarted the deadline.
pub(super) fn recheck(draft: &mut Draft<'_>, response: FailureResponse) -> FailureResponse {
    progress::update(draft);
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

pub(super) fn clear_late(draft: &mut Draft<'_>) {
    if !progress::is_late(draft) && draft.state.failure.as_ref().is_some_and(|it| it.cause == Cause::DeadlineExceeded) {
        draft.state.failure = None;
    }
}

/// Clears a failure whose reason is gone: all pods have a node now, or all gates are true. Instances that are not updated yet are
/// not tried while the rollout is held, so they count as failed.
fn clear_resolved(draft: &mut Draft<'_>) {
    let Some(failure) = draft.state.failure.as_ref() else { return };
    let has_come = |instance: &Instance| match failure.cause {
        Cause::Unschedulable => {
            draft.is_updated(instance) && pods(instance).all(|pod| pod.unschedulable_since.is_none())
        }
        Cause::GateOverdue => draft.is_updated_available(instance),
        Cause::HookOverdue | Cause::Crashing | Cause::ImageHopeless | Cause::DeadlineExceeded => false,
    };
    let mut instances = failure.instances.iter().filter_map(|number| draft.instance(*number));
    if failure.cause.is_overdue() && failure.cause != Cause::HookOverdue && instances.all(has_come) {
        draft.state.failure = None;
    }
}

fn failure(draft: &Draft<'_>) -> Option<Failure> {
    let found = |cause: Cause, instances: Vec<u32>| {
        let (batch, since) = (draft.state.batch, draft.facts.now);
        Failure { cause, batch, instances, since, why: String::new() }
    };
    let failing: Vec<(u32, Cause)> =
        draft.running().filter_map(|instance| Some((instance.number, failing(draft, instance)?))).collect();
    if let Some((_, cause)) = failing.first() {
        return Some(found(*cause, failing.iter().map(|(number, _)| *number).collect()));
    }
    let missing = missing(draft);
    let updated = count(draft.running().filter(|instance| is_started(draft, instance)));
    let pods = i64::try_from(missing.len()).unwrap_or(i64::MAX);
    let is_above = is_above_threshold(pods, updated, draft.facts.settings.failure_threshold);
    (draft.state.phase == RolloutPhase::Running && progress::is_late(draft) && is_above)
        .then(|| found(Cause::DeadlineExceeded, missing))
}

/// It is at the target revision, or its node pulls the new image.
fn is_started(draft: &Draft<'_>, instance: &Instance) -> bool {
    draft.is_updated(instance) || pods(instance).any(|pod| pod.fetch != Fetch::Unasked)
}

/// Instances that the rollout has started to update and waits for.
pub(super) fn missing(draft: &Draft<'_>) -> Vec<u32> {
    let is_missing = |instance: &&Instance| {
        is_started(draft, instance) && !draft.is_skipped(instance) && !draft.is_updated_available(instance)
    };
    draft.running().filter(is_missing).map(|instance| instance.number).collect()
}

fn failing(draft: &Draft<'_>, instance: &Instance) -> Option<Cause> {
    if draft.state.excused.contains_key(&instance.number) {
        return None;
    }
    // Only pods of the target revision itself: restarts of an older pod of an equal revision are no failure of the rollback.
    let own = pods(instance).filter(|pod| pod.revision == draft.facts.target).find_map(|pod| cause(draft, pod));
    // A pod whose drain is overdue or whose replacement is unschedulable has an old revision.
    let stays = |pod: &&RolloutPod| draft.is_old(pod) && pod.created.is_some();
    let is_stuck = || pods(instance).filter(stays).any(|pod| is_unschedulable(draft, pod));
    own.or_else(|| pods(instance).any(|pod| pod.fetch == Fetch::Hopeless).then_some(Cause::ImageHopeless))
        .or_else(|| pods(instance).any(|pod| pod.is_hook_overdue).then_some(Cause::HookOverdue))
        .or_else(|| is_stuck().then_some(Cause::Unschedulable))
}

/// The pod is unschedulable for longer than `placement_patience`.
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

fn respond(draft: &mut Draft<'_>, cause: Cause) -> FailureResponse {
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

/// At the deadline the rollout continues without the missing pods, which are within the failure threshold.
fn skip_missing(draft: &mut Draft<'_>) {
    if progress::is_late(draft) && draft.state.phase == RolloutPhase::Running && !draft.state.is_held() {
        let missing = missing(draft);
        draft.state.excused.extend(missing.into_iter().map(|number| (number, Excuse::Skipped)));
    }
}
