//! Decides the next transition of a release that goes by groups (section 4.4).
//!
//! A confirmation must refer to a finished group (D-15): one that comes while the group is still running is dropped and said
//! so, and there is none after the last group (D-14). A pause freezes the machine: pods in flight finish, but nothing starts
//! and a confirmation that comes meanwhile is kept.

use serde::{Deserialize, Serialize};

/// Where a release is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// Opened, nothing started.
    Idle,
    /// A group is under way.
    Running,
    /// A group is done, and somebody is to say whether to go on.
    WaitingForConfirm,
    /// Every pod is at the target revision.
    Completed,
    /// Given up; the mix of revisions stays.
    Aborted,
}

/// The mark people set to confirm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mark {
    /// Not there.
    Absent,
    /// `false`: waits to be changed.
    Asked,
    /// `true`, and exactly that.
    Given,
    /// Anything else, which confirms nothing.
    Unclear(String),
}

/// What the caller does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Nothing.
    Nothing,
    /// Commits the next group, all its units in one transaction.
    StartGroup,
    /// Notes the target as completed and cleans up the history.
    Finish,
    /// Says that a confirmation came too early.
    ResetConfirm,
}

/// What a transition is decided from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    /// Where it is.
    pub phase: Phase,
    /// What people set.
    pub mark: Mark,
    /// Somebody paused it.
    pub is_paused: bool,
    /// Somebody gave it up.
    pub is_aborted: bool,
    /// Groups are confirmed.
    pub needs_confirm: bool,
    /// Every unit has as many available pods at the target revision as are committed.
    pub group_done: bool,
    /// Pods are not committed yet.
    pub work_left: bool,
}

/// What a transition leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transition {
    /// Where the release is then.
    pub phase: Phase,
    /// What the mark is then.
    pub mark: Mark,
    /// What is to be done.
    pub action: Action,
}

/// Decides one transition.
pub fn step(release: &Release) -> Transition {
    let to = |phase, mark, action| Transition { phase, mark, action };
    let stay = || to(release.phase, release.mark.clone(), Action::Nothing);
    match release.phase {
        Phase::Completed | Phase::Aborted => stay(),
        Phase::Idle | Phase::Running | Phase::WaitingForConfirm if release.is_aborted => {
            to(Phase::Aborted, Mark::Absent, Action::Nothing)
        }
        Phase::Idle | Phase::Running | Phase::WaitingForConfirm if release.is_paused => stay(),
        Phase::Running if !release.group_done => match release.mark {
            Mark::Given => to(Phase::Running, Mark::Absent, Action::ResetConfirm),
            Mark::Absent | Mark::Asked | Mark::Unclear(_) => stay(),
        },
        Phase::Idle | Phase::Running | Phase::WaitingForConfirm if !release.work_left => {
            to(Phase::Completed, Mark::Absent, Action::Finish)
        }
        Phase::Running if release.needs_confirm => to(Phase::WaitingForConfirm, Mark::Asked, Action::Nothing),
        Phase::WaitingForConfirm if release.needs_confirm && release.mark != Mark::Given => {
            to(Phase::WaitingForConfirm, Mark::Asked, Action::Nothing)
        }
        Phase::Idle | Phase::Running | Phase::WaitingForConfirm => to(Phase::Running, Mark::Absent, Action::StartGroup),
    }
}

/// Why a confirmation through the API is refused (D-15).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The release does not wait for one.
    NotWaiting,
    /// It waits for that of another group.
    OtherGroup {
        /// This one.
        waiting: u64,
    },
}

/// Judges a confirmation of a group by its ordinal.
pub fn judge_confirm(phase: Phase, waiting: u64, confirmed: u64) -> Result<(), Refusal> {
    match phase {
        Phase::WaitingForConfirm if waiting == confirmed => Ok(()),
        Phase::WaitingForConfirm => Err(Refusal::OtherGroup { waiting }),
        Phase::Idle | Phase::Running | Phase::Completed | Phase::Aborted => Err(Refusal::NotWaiting),
    }
}

/// How many pods of a unit may be at the target revision now, when at most `window` of them may be not yet available.
pub fn windowed(group_target: i64, updated_available: i64, window: i64) -> i64 {
    group_target.min(updated_available.saturating_add(window))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::rollout::properties::property;

    fn release(phase: Phase, mark: Mark) -> Release {
        Release {
            phase,
            mark,
            is_paused: false,
            is_aborted: false,
            needs_confirm: true,
            group_done: true,
            work_left: true,
        }
    }

    #[track_caller]
    fn leads_to(release: &Release, phase: Phase, mark: Mark, action: Action) {
        assert_eq!(step(release), Transition { phase, mark, action });
    }

    #[test]
    fn a_release_goes_from_group_to_group() {
        let idle = Release { group_done: false, ..release(Phase::Idle, Mark::Absent) };
        leads_to(&idle, Phase::Running, Mark::Absent, Action::StartGroup);
        let running = Release { group_done: false, ..release(Phase::Running, Mark::Absent) };
        leads_to(&running, Phase::Running, Mark::Absent, Action::Nothing);
        leads_to(&release(Phase::Running, Mark::Absent), Phase::WaitingForConfirm, Mark::Asked, Action::Nothing);
        let given = release(Phase::WaitingForConfirm, Mark::Given);
        leads_to(&given, Phase::Running, Mark::Absent, Action::StartGroup);
        let last = Release { work_left: false, ..release(Phase::Running, Mark::Absent) };
        leads_to(&last, Phase::Completed, Mark::Absent, Action::Finish);
        leads_to(&release(Phase::Completed, Mark::Absent), Phase::Completed, Mark::Absent, Action::Nothing);
    }

    #[test]
    fn only_an_exact_true_confirms() {
        for mark in [Mark::Absent, Mark::Asked, Mark::Unclear("yes".to_owned())] {
            let waiting = release(Phase::WaitingForConfirm, mark);
            leads_to(&waiting, Phase::WaitingForConfirm, Mark::Asked, Action::Nothing);
        }
    }

    #[test]
    fn a_confirmation_before_the_group_is_done_is_dropped() {
        let early = Release { group_done: false, ..release(Phase::Running, Mark::Given) };
        leads_to(&early, Phase::Running, Mark::Absent, Action::ResetConfirm);
        leads_to(&release(Phase::Running, Mark::Given), Phase::WaitingForConfirm, Mark::Asked, Action::Nothing);
    }

    #[test]
    fn without_confirmation_the_next_group_follows_at_once() {
        let free = |phase, mark| Release { needs_confirm: false, ..release(phase, mark) };
        leads_to(&free(Phase::Running, Mark::Absent), Phase::Running, Mark::Absent, Action::StartGroup);
        leads_to(&free(Phase::WaitingForConfirm, Mark::Asked), Phase::Running, Mark::Absent, Action::StartGroup);
    }

    #[test]
    fn a_pause_freezes_and_an_abort_ends() {
        for phase in [Phase::Idle, Phase::Running, Phase::WaitingForConfirm] {
            let paused = Release { is_paused: true, ..release(phase, Mark::Given) };
            leads_to(&paused, phase, Mark::Given, Action::Nothing);
            leads_to(&Release { is_aborted: true, ..paused }, Phase::Aborted, Mark::Absent, Action::Nothing);
        }
    }

    #[test]
    fn a_confirmation_names_the_group_it_means() {
        assert_eq!(judge_confirm(Phase::WaitingForConfirm, 2, 2), Ok(()));
        assert_eq!(judge_confirm(Phase::WaitingForConfirm, 2, 1), Err(Refusal::OtherGroup { waiting: 2 }));
        assert_eq!(judge_confirm(Phase::Running, 2, 2), Err(Refusal::NotWaiting));
    }

    #[test]
    fn a_window_opens_as_pods_become_available() {
        assert_eq!([windowed(6, 0, 2), windowed(6, 3, 2), windowed(6, 5, 2)], [2, 5, 6]);
    }

    fn any_mark() -> impl Strategy<Value = Option<Mark>> {
        let said = [Mark::Asked, Mark::Given, Mark::Absent, Mark::Unclear("yes".to_owned())];
        prop::option::weighted(0.5, prop::sample::select(said.to_vec()))
    }

    property! {
        fn a_group_starts_only_when_the_one_before_was_done_and_confirmed(
            groups in 1..6u32, needs_confirm: bool,
            said in prop::collection::vec((any_mark(), any::<bool>(), any::<bool>()), 0..40),
        ) {
            let (mut now, mut started) = (Release { needs_confirm, ..release(Phase::Idle, Mark::Absent) }, 0);
            for (mark, is_paused, group_done) in said {
                now.mark = mark.unwrap_or(now.mark);
                (now.is_paused, now.group_done, now.work_left) = (is_paused, group_done, started < groups);
                let Transition { phase, mark, action } = step(&now);
                if action == Action::StartGroup {
                    prop_assert!(!is_paused && started < groups, "there is one to start");
                    prop_assert!(now.phase != Phase::Running || (group_done && !needs_confirm));
                    prop_assert!(now.phase != Phase::WaitingForConfirm || !needs_confirm || now.mark == Mark::Given);
                    started += 1;
                }
                if phase == Phase::Completed {
                    prop_assert_eq!(started, groups);
                    break;
                }
                prop_assert!(action != Action::ResetConfirm || (now.mark == Mark::Given && !group_done));
                (now.phase, now.mark) = (phase, mark);
            }
        }
    }
}
