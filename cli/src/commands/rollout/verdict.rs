//! Judges a release by what the API shows of it: is it over, is that good, and what can somebody do. Pure.

use contract::record::RevisionOutcome;
use contract::rollout_view::{RevisionView, RevisionsView, RolloutPhase, RolloutStatus, RolloutView};

/// Whether a release is over, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Not over.
    GoesOn,
    /// Every instance is at its revision.
    Complete,
    /// It will not get there by itself; how, and what would help.
    Failed(String),
}

/// How the current release is doing.
pub fn judge(view: &RolloutView) -> Verdict {
    let failed = || {
        let message = format!("did not complete: {}", view.message);
        Verdict::Failed([vec![message], advice(view)].concat().join("; "))
    };
    match (view.status, view.phase) {
        (RolloutStatus::Complete, _) => Verdict::Complete,
        // A frozen group is not shown as degraded.
        (RolloutStatus::Frozen, RolloutPhase::Completed) if is_available(view) => Verdict::Complete,
        (RolloutStatus::Held | RolloutStatus::Stuck | RolloutStatus::Aborted, _)
        | (RolloutStatus::Frozen, RolloutPhase::Aborted) => failed(),
        (
            RolloutStatus::Progressing
            | RolloutStatus::Degraded
            | RolloutStatus::WaitingForConfirm
            | RolloutStatus::Paused
            | RolloutStatus::Frozen,
            _,
        ) => Verdict::GoesOn,
    }
}

fn is_available(view: &RolloutView) -> bool {
    view.units.iter().all(|unit| unit.updated_available >= unit.target)
}

/// What became of a release that is not the current one any more.
pub fn judge_former(history: &RevisionsView, release: u32) -> Verdict {
    let current = history.current;
    let Some(revision) = find(history, release) else {
        return Verdict::Failed(format!("is not known any more; release {current} is the current one"));
    };
    match revision.outcome {
        RevisionOutcome::Open => Verdict::GoesOn,
        RevisionOutcome::Completed => Verdict::Complete,
        RevisionOutcome::Superseded => Verdict::Failed(format!("was superseded by release {current}")),
        RevisionOutcome::RolledBack => {
            let why = find(history, current).map(why_back).unwrap_or_default();
            Verdict::Failed(format!("failed and was rolled back by release {current}{why}"))
        }
        RevisionOutcome::Aborted => Verdict::Failed(format!("was given up; release {current} is the current one")),
    }
}

/// Judges a release that completed: it is no success when a failure asked for it and not a person, for then the change that
/// somebody wanted has failed.
pub fn judge_back(history: &RevisionsView, release: u32) -> Verdict {
    match find(history, release).filter(|revision| revision.by.is_empty()) {
        Some(revision) => Verdict::Failed(format!("only took back a change that failed{}", why_back(revision))),
        None => Verdict::Complete,
    }
}

fn find(history: &RevisionsView, number: u32) -> Option<&RevisionView> {
    history.revisions.iter().find(|revision| revision.revision == number)
}

fn why_back(back: &RevisionView) -> String {
    if back.cause.is_empty() { String::new() } else { format!(": {}", back.cause) }
}

/// What somebody can do so that the release goes on or ends: one command each, and what it does.
pub fn advice(view: &RolloutView) -> Vec<String> {
    let RolloutView { name, group, .. } = view;
    let says = |words: &str, what: &str| format!("`deployctl rollout {words}` {what}");
    let confirm = || says(&format!("confirm {name} --group {group}"), "goes on");
    let undo = || says(&format!("undo {name}"), "goes back");
    let resume = || says(&format!("resume {name}"), "goes on");
    let skip = || (*group > 0).then(|| says(&format!("skip {name} --group {group}"), "goes on without the group"));
    match view.status {
        RolloutStatus::Progressing | RolloutStatus::Complete => Vec::new(),
        RolloutStatus::WaitingForConfirm => vec![confirm(), undo()],
        RolloutStatus::Paused => vec![resume()],
        RolloutStatus::Frozen => vec![says(&format!("unfreeze {name}"), "goes on")],
        RolloutStatus::Held => [undo(), resume()].into_iter().chain(skip()).collect(),
        RolloutStatus::Stuck | RolloutStatus::Degraded => vec![undo()],
        RolloutStatus::Aborted => vec![undo(), "another `deployctl apply` goes forward".to_owned()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::rollout::tests::{revision, view};

    fn standing(status: RolloutStatus, phase: RolloutPhase) -> RolloutView {
        RolloutView { status, phase, message: "why".to_owned(), ..view() }
    }

    #[test]
    fn what_needs_somebody_is_not_over_and_what_failed_is() {
        use RolloutStatus::{Aborted, Complete, Degraded, Frozen, Held, Paused, Progressing, Stuck, WaitingForConfirm};
        assert_eq!(judge(&standing(Degraded, RolloutPhase::Completed)), Verdict::GoesOn, "its instances may come back");
        for status in [Progressing, WaitingForConfirm, Paused, Frozen] {
            assert_eq!(judge(&standing(status, RolloutPhase::Running)), Verdict::GoesOn, "{status:?}");
        }
        assert_eq!(judge(&standing(Complete, RolloutPhase::Completed)), Verdict::Complete);
        let mut frozen = standing(Frozen, RolloutPhase::Completed);
        assert_eq!(judge(&frozen), Verdict::GoesOn, "instances are not available");
        frozen.units.iter_mut().for_each(|unit| unit.updated_available = unit.target);
        assert_eq!(judge(&frozen), Verdict::Complete, "nothing is left to move");
        for status in [Held, Stuck, Aborted] {
            let verdict = judge(&standing(status, RolloutPhase::Running));
            let told =
                |reason: &String| reason.starts_with("did not complete: why; `deployctl rollout undo demo.web.web`");
            assert!(matches!(&verdict, Verdict::Failed(reason) if told(reason)), "{verdict:?}");
        }
    }

    /// Revision 4 with this outcome, and revision 5, which a failure asked for.
    fn history(outcome: RevisionOutcome) -> RevisionsView {
        let back = RevisionView { copies: Some(3), by: String::new(), cause: "it crashes".to_owned(), ..revision(5) };
        let revisions = vec![RevisionView { outcome, ..revision(4) }, back];
        RevisionsView { name: "demo.web.web".to_owned(), current: 5, revisions }
    }

    #[test]
    fn a_former_release_is_judged_by_what_became_of_its_revision() {
        let judged = |outcome| judge_former(&history(outcome), 4);
        assert_eq!(judged(RevisionOutcome::Completed), Verdict::Complete);
        assert_eq!(judged(RevisionOutcome::Open), Verdict::GoesOn);
        let failed = |how: &str| Verdict::Failed(how.to_owned());
        assert_eq!(judged(RevisionOutcome::RolledBack), failed("failed and was rolled back by release 5: it crashes"));
        assert_eq!(judged(RevisionOutcome::Superseded), failed("was superseded by release 5"));
        assert!(matches!(judge_former(&history(RevisionOutcome::Open), 2), Verdict::Failed(_)), "it is not kept");
    }

    #[test]
    fn what_a_failure_asked_for_is_no_success_and_what_a_person_asked_for_is() {
        let history = history(RevisionOutcome::RolledBack);
        let failed = Verdict::Failed("only took back a change that failed: it crashes".to_owned());
        assert_eq!(judge_back(&history, 5), failed);
        assert_eq!(judge_back(&history, 4), Verdict::Complete);
    }

    #[test]
    fn whoever_is_waited_for_is_told_the_command() {
        let waiting = standing(RolloutStatus::WaitingForConfirm, RolloutPhase::WaitingForConfirm);
        assert_eq!(advice(&waiting)[0], "`deployctl rollout confirm demo.web.web --group 1` goes on");
        let held = standing(RolloutStatus::Held, RolloutPhase::Running);
        assert_eq!(advice(&held)[2], "`deployctl rollout skip demo.web.web --group 1` goes on without the group");
        assert_eq!(advice(&RolloutView { group: 0, ..held }).len(), 2, "there is no group to skip");
    }
}
