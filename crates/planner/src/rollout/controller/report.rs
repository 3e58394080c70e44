//! Reports the result of a decision: status, instances to wait for, counts and the time of the next decision.

use super::decision::{Decision, FailureResponse, RolloutReport, RolloutStatus, UnitCount};
use super::draft::Draft;
use super::facts::RolloutFacts;
use super::failure::missing;
use super::scaling;
use crate::rollout::availability::{self, Ready};
use crate::rollout::moment::Moment;
use crate::rollout::progress::{self, Reason};
use crate::rollout::transition::RolloutPhase;

pub(super) fn decision(draft: Draft<'_>, response: FailureResponse, unplaced: &[i64]) -> Decision {
    let report = RolloutReport {
        status: status(&draft),
        kind: draft.state.kind,
        waits_for: if draft.state.is_open() { missing(&draft) } else { Vec::new() },
        units: counted(&draft, unplaced),
        warnings: scaling::allocation(&draft).warnings,
    };
    let wake_at = wake_at(&draft);
    let watched = (draft.state.seen, draft.state.progress.clone());
    Decision { actions: draft.actions, state: draft.state, response, wake_at, report, watched }
}

fn status(draft: &Draft<'_>) -> RolloutStatus {
    let state = &draft.state;
    let is_late = state.progress.as_ref().is_some_and(|it| it.reason == Reason::ProgressDeadlineExceeded);
    match state.phase {
        _ if state.is_frozen => RolloutStatus::Frozen,
        RolloutPhase::Completed => RolloutStatus::Complete,
        RolloutPhase::Aborted => RolloutStatus::Aborted,
        RolloutPhase::Idle | RolloutPhase::Running | RolloutPhase::WaitingForConfirm => match &state.failure {
            Some(failure) => RolloutStatus::Held(failure.cause),
            None if state.is_paused => RolloutStatus::Paused,
            None if state.phase == RolloutPhase::WaitingForConfirm => {
                RolloutStatus::WaitingForConfirm { batch: state.batch }
            }
            None if is_late => RolloutStatus::Stuck,
            None => RolloutStatus::Progressing,
        },
    }
}

fn counted(draft: &Draft<'_>, unplaced: &[i64]) -> Vec<UnitCount> {
    let updated = draft.updated_by_unit();
    let updated_available = draft.by_unit(|instance| !instance.is_stopped && draft.is_updated_available(instance));
    let available = draft.by_unit(|instance| !instance.is_stopped && draft.is_available(instance));
    let count = |unit: usize| UnitCount {
        target: draft.state.allotment.targets.get(unit).copied().unwrap_or(0),
        committed: draft.state.committed.get(unit).copied().unwrap_or(updated[unit]),
        updated: updated[unit],
        updated_available: updated_available[unit],
        available: available[unit],
        unplaced: unplaced.get(unit).copied().unwrap_or(0),
    };
    (0..draft.units()).map(count).collect()
}

/// The first time at which a decision on the same facts could differ.
fn wake_at(draft: &Draft<'_>) -> Option<Moment> {
    let facts = draft.facts;
    let ready: Vec<Ready> = draft.instances.iter().flat_map(super::draft::pods).map(|pod| pod.ready).collect();
    let available =
        availability::next_check(&ready, facts.settings.min_ready, facts.now).map(|wait| facts.now.after(wait));
    let freed = draft.state.allotment.full_until.values().min().copied();
    [available, stuck(draft), placed(draft, facts), freed].into_iter().flatten().filter(|then| *then > facts.now).min()
}

fn stuck(draft: &Draft<'_>) -> Option<Moment> {
    let (deadline, progress) = (draft.facts.settings.deadline?, draft.state.progress.as_ref()?);
    let runs = draft.state.phase == RolloutPhase::Running && !draft.state.is_held();
    let is_late = progress.reason == Reason::ProgressDeadlineExceeded;
    // A rollout times out after the deadline, not at it, hence the second of slack.
    let wait =
        progress::stuck_check(deadline, progress.last_update, draft.facts.now).max(std::time::Duration::from_secs(1));
    (runs && !is_late).then(|| draft.facts.now.after(wait))
}

/// The next timeout of an unschedulable pod.
fn placed(draft: &Draft<'_>, facts: &RolloutFacts) -> Option<Moment> {
    let patience = [facts.settings.placement_patience, facts.settings.auto_reschedule.map(|auto| auto.delay)];
    let since = draft.instances.iter().flat_map(super::draft::pods).filter_map(|pod| pod.unschedulable_since);
    since
        .flat_map(|since| [since, draft.state.waits_from(since)])
        .flat_map(|since| patience.into_iter().flatten().map(move |wait| since.after(wait)))
        .filter(|then| *then > facts.now)
        .min()
}
