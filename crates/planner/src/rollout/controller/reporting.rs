//! Says what a decision leads to: where the release stands, what it waits for, and when to look again.

use super::board::Board;
use super::decision::{Decision, Report, RolloutStatus, UnitCount, Verdict};
use super::facts::Facts;
use super::judging::missing;
use super::scaling;
use crate::rollout::availability::{self, Ready};
use crate::rollout::moment::Moment;
use crate::rollout::progress::{self, Reason};
use crate::rollout::release::Phase;

pub(super) fn decision(board: Board<'_>, verdict: Verdict, unplaced: &[i64]) -> Decision {
    let report = Report {
        status: status(&board),
        kind: board.release.kind,
        waits_for: if board.release.is_open() { missing(&board) } else { Vec::new() },
        units: counted(&board, unplaced),
        warnings: scaling::allocation(&board).warnings,
    };
    let wake_at = wake_at(&board);
    let watched = (board.release.seen, board.release.progress.clone());
    Decision { actions: board.actions, release: board.release, verdict, wake_at, report, watched }
}

fn status(board: &Board<'_>) -> RolloutStatus {
    let release = &board.release;
    let is_late = release.progress.as_ref().is_some_and(|it| it.reason == Reason::ProgressDeadlineExceeded);
    match release.phase {
        _ if release.is_frozen => RolloutStatus::Frozen,
        Phase::Completed => RolloutStatus::Complete,
        Phase::Aborted => RolloutStatus::Aborted,
        Phase::Idle | Phase::Running | Phase::WaitingForConfirm => match &release.failure {
            Some(failure) => RolloutStatus::Held(failure.cause),
            None if release.is_paused => RolloutStatus::Paused,
            None if release.phase == Phase::WaitingForConfirm => {
                RolloutStatus::WaitingForConfirm { group: release.group }
            }
            None if is_late => RolloutStatus::Stuck,
            None => RolloutStatus::Progressing,
        },
    }
}

fn counted(board: &Board<'_>, unplaced: &[i64]) -> Vec<UnitCount> {
    let updated = board.updated_by_unit();
    let updated_available = board.by_unit(|slot| !slot.is_stopped && board.is_updated_available(slot));
    let available = board.by_unit(|slot| !slot.is_stopped && board.is_available(slot));
    let count = |unit: usize| UnitCount {
        target: board.release.allotment.targets.get(unit).copied().unwrap_or(0),
        committed: board.release.committed.get(unit).copied().unwrap_or(updated[unit]),
        updated: updated[unit],
        updated_available: updated_available[unit],
        available: available[unit],
        unplaced: unplaced.get(unit).copied().unwrap_or(0),
    };
    (0..board.units()).map(count).collect()
}

/// The first moment at which time alone changes something. Taken from the same facts as the decision.
fn wake_at(board: &Board<'_>) -> Option<Moment> {
    let facts = board.facts;
    let ready: Vec<Ready> = board.slots.iter().flat_map(super::board::pods).map(|pod| pod.ready).collect();
    let available =
        availability::next_check(&ready, facts.settings.min_ready, facts.now).map(|wait| facts.now.after(wait));
    let freed = board.release.allotment.full_until.values().min().copied();
    [available, stuck(board), placed(board, facts), freed].into_iter().flatten().filter(|then| *then > facts.now).min()
}

fn stuck(board: &Board<'_>) -> Option<Moment> {
    let (deadline, progress) = (board.facts.settings.deadline?, board.release.progress.as_ref()?);
    let runs = board.release.phase == Phase::Running && !board.release.is_held();
    let is_late = progress.reason == Reason::ProgressDeadlineExceeded;
    // The deadline is passed only after it, hence the second of slack that comes with it.
    let wait =
        progress::stuck_check(deadline, progress.last_update, board.facts.now).max(std::time::Duration::from_secs(1));
    (runs && !is_late).then(|| board.facts.now.after(wait))
}

/// When patience with pods that find no place is over.
fn placed(board: &Board<'_>, facts: &Facts) -> Option<Moment> {
    let patience = [facts.settings.placement_patience, facts.settings.auto_reschedule.map(|auto| auto.delay)];
    let since = board.slots.iter().flat_map(super::board::pods).filter_map(|pod| pod.unschedulable_since);
    since
        .flat_map(|since| [since, board.release.waits_from(since)])
        .flat_map(|since| patience.into_iter().flatten().map(move |wait| since.after(wait)))
        .filter(|then| *then > facts.now)
        .min()
}
