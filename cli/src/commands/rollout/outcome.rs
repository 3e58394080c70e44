//! Decides from the API's view whether a rollout has ended and how, and which commands help. Pure.

use contract::record::RevisionOutcome;
use contract::rollout_view::{RevisionView, RevisionsView, RolloutPhase, RolloutStatus, RolloutView};

/// Whether a rollout has ended, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RolloutOutcome {
    InProgress,
    /// Every instance is available at the new revision.
    Complete,
    /// It does not complete by itself; the reason and the remedy.
    Failed(String),
}

/// The outcome of the current rollout.
pub fn judge(view: &RolloutView) -> RolloutOutcome {
    let failed = || {
        let message = format!("did not complete: {}", view.message);
        RolloutOutcome::Failed([vec![message], advice(view)].concat().join("; "))
    };
    match (view.status, view.phase) {
        (RolloutStatus::Complete, _) => RolloutOutcome::Complete,
        // A frozen group is not shown as degraded.
        (RolloutStatus::Frozen, RolloutPhase::Completed) if is_available(view) => RolloutOutcome::Complete,
        (RolloutStatus::Held | RolloutStatus::Stuck | RolloutStatus::Aborted, _)
        | (RolloutStatus::Frozen, RolloutPhase::Aborted) => failed(),
        (
            RolloutStatus::Progressing
            | RolloutStatus::Degraded
            | RolloutStatus::WaitingForConfirm
            | RolloutStatus::Paused
            | RolloutStatus::Frozen,
            _,
        ) => RolloutOutcome::InProgress,
    }
}

fn is_available(view: &RolloutView) -> bool {
    view.units.iter().all(|unit| unit.updated_available >= unit.target)
}

/// The outcome of an earlier rollout.
pub fn judge_former(history: &RevisionsView, release: u32) -> RolloutOutcome {
    let current = history.current;
    let Some(revision) = find(history, release) else {
        return RolloutOutcome::Failed(format!("is not in the history any more; the current revision is {current}"));
    };
    match revision.outcome {
        RevisionOutcome::Open => RolloutOutcome::InProgress,
        RevisionOutcome::Completed => RolloutOutcome::Complete,
        RevisionOutcome::Superseded => RolloutOutcome::Failed(format!("was superseded by revision {current}")),
        RevisionOutcome::RolledBack => {
            let why = find(history, current).map(why_back).unwrap_or_default();
            RolloutOutcome::Failed(format!("failed and was rolled back by revision {current}{why}"))
        }
        RevisionOutcome::Aborted => RolloutOutcome::Failed(format!("was aborted; the current revision is {current}")),
    }
}

/// The outcome of a completed rollback: a success if a user requested it, else the failure of the change it rolled back.
pub fn judge_back(history: &RevisionsView, release: u32) -> RolloutOutcome {
    match find(history, release).filter(|revision| revision.by.is_empty()) {
        Some(revision) => RolloutOutcome::Failed(format!("rolled back a change that failed{}", why_back(revision))),
        None => RolloutOutcome::Complete,
    }
}

fn find(history: &RevisionsView, number: u32) -> Option<&RevisionView> {
    history.revisions.iter().find(|revision| revision.revision == number)
}

fn why_back(back: &RevisionView) -> String {
    if back.cause.is_empty() { String::new() } else { format!(": {}", back.cause) }
}

/// The commands that resume or end the rollout, each with its effect.
pub fn advice(view: &RolloutView) -> Vec<String> {
    let RolloutView { name, group, .. } = view;
    let command = |words: &str, effect: &str| format!("`deployctl rollout {words}` {effect}");
    let confirm = || command(&format!("confirm {name} --batch {group}"), "approves the batch");
    let undo = || command(&format!("undo {name}"), "rolls back");
    let resume = || command(&format!("resume {name}"), "resumes");
    let skip = || (*group > 0).then(|| command(&format!("skip {name} --batch {group}"), "skips the batch"));
    match view.status {
        RolloutStatus::Progressing | RolloutStatus::Complete => Vec::new(),
        RolloutStatus::WaitingForConfirm => vec![confirm(), undo()],
        RolloutStatus::Paused => vec![resume()],
        RolloutStatus::Frozen => vec![command(&format!("unfreeze {name}"), "unfreezes")],
        RolloutStatus::Held => [undo(), resume()].into_iter().chain(skip()).collect(),
        RolloutStatus::Stuck | RolloutStatus::Degraded => vec![undo()],
        RolloutStatus::Aborted => vec![undo(), "`deployctl apply` starts another rollout".to_owned()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::rollout::tests::{revision, view};

    fn at(status: RolloutStatus, phase: RolloutPhase) -> RolloutView {
        RolloutView { status, phase, message: "why".to_owned(), ..view() }
    }

    #[test]
    fn a_rollout_that_waits_for_a_user_is_in_progress_and_a_failed_one_has_ended() {
        use RolloutStatus::{Aborted, Complete, Degraded, Frozen, Held, Paused, Progressing, Stuck, WaitingForConfirm};
        assert_eq!(
            judge(&at(Degraded, RolloutPhase::Completed)),
            RolloutOutcome::InProgress,
            "its instances may come back"
        );
        for status in [Progressing, WaitingForConfirm, Paused, Frozen] {
            assert_eq!(judge(&at(status, RolloutPhase::Running)), RolloutOutcome::InProgress, "{status:?}");
        }
        assert_eq!(judge(&at(Complete, RolloutPhase::Completed)), RolloutOutcome::Complete);
        let mut frozen = at(Frozen, RolloutPhase::Completed);
        assert_eq!(judge(&frozen), RolloutOutcome::InProgress, "instances are not available");
        frozen.units.iter_mut().for_each(|unit| unit.updated_available = unit.target);
        assert_eq!(judge(&frozen), RolloutOutcome::Complete, "nothing is left to move");
        for status in [Held, Stuck, Aborted] {
            let outcome = judge(&at(status, RolloutPhase::Running));
            let starts =
                |reason: &String| reason.starts_with("did not complete: why; `deployctl rollout undo demo.web.web`");
            assert!(matches!(&outcome, RolloutOutcome::Failed(reason) if starts(reason)), "{outcome:?}");
        }
    }

    /// Revision 4 with this outcome, and revision 5, an automatic rollback.
    fn history(outcome: RevisionOutcome) -> RevisionsView {
        let back = RevisionView { copies: Some(3), by: String::new(), cause: "it crashes".to_owned(), ..revision(5) };
        let revisions = vec![RevisionView { outcome, ..revision(4) }, back];
        RevisionsView { name: "demo.web.web".to_owned(), current: 5, revisions }
    }

    #[test]
    fn the_outcome_of_an_earlier_rollout_is_that_of_its_revision() {
        let judged = |outcome| judge_former(&history(outcome), 4);
        assert_eq!(judged(RevisionOutcome::Completed), RolloutOutcome::Complete);
        assert_eq!(judged(RevisionOutcome::Open), RolloutOutcome::InProgress);
        let failed = |how: &str| RolloutOutcome::Failed(how.to_owned());
        assert_eq!(judged(RevisionOutcome::RolledBack), failed("failed and was rolled back by revision 5: it crashes"));
        assert_eq!(judged(RevisionOutcome::Superseded), failed("was superseded by revision 5"));
        assert!(
            matches!(judge_former(&history(RevisionOutcome::Open), 2), RolloutOutcome::Failed(_)),
            "it is not kept"
        );
    }

    #[test]
    fn an_automatic_rollback_is_a_failure_and_a_requested_one_a_success() {
        let history = history(RevisionOutcome::RolledBack);
        let failed = RolloutOutcome::Failed("rolled back a change that failed: it crashes".to_owned());
        assert_eq!(judge_back(&history, 5), failed);
        assert_eq!(judge_back(&history, 4), RolloutOutcome::Complete);
    }

    #[test]
    fn a_rollout_that_waits_shows_the_command_that_helps() {
        let waiting = at(RolloutStatus::WaitingForConfirm, RolloutPhase::WaitingForConfirm);
        assert_eq!(advice(&waiting)[0], "`deployctl rollout confirm demo.web.web --batch 1` approves the batch");
        let held = at(RolloutStatus::Held, RolloutPhase::Running);
        assert_eq!(advice(&held)[2], "`deployctl rollout skip demo.web.web --batch 1` skips the batch");
        assert_eq!(advice(&RolloutView { group: 0, ..held }).len(), 2, "there is no batch to skip");
    }
}
