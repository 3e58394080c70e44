//! Decides the next phase of a rollout by batches.
//!
//! The API refuses an early confirmation with 409; here a batch is confirmed or not. The last batch needs no
//! confirmation. During a pause pods in flight finish, but no batch starts and a confirmation is kept.

pub use contract::rollout_view::RolloutPhase;

/// Whether a user has confirmed the finished batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Confirmation {
    Absent,
    /// The batch is finished and waits for the user.
    Asked,
    Given,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransitionAction {
    Nothing,
    /// Commits the next batch, all units in one transaction.
    StartBatch,
    /// Records the revision as completed and cleans up the history.
    Finish,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransitionInput {
    pub phase: RolloutPhase,
    pub mark: Confirmation,
    pub is_paused: bool,
    pub is_aborted: bool,
    /// A user confirms each batch but the last.
    pub needs_confirm: bool,
    /// Each unit has as many available pods at the target revision as are committed.
    pub batch_done: bool,
    /// Some pods are not committed yet.
    pub work_left: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transition {
    pub phase: RolloutPhase,
    pub mark: Confirmation,
    pub action: TransitionAction,
}

pub fn step(input: &TransitionInput) -> Transition {
    let to = |phase, mark, action| Transition { phase, mark, action };
    let stay = || to(input.phase, input.mark, TransitionAction::Nothing);
    match input.phase {
        RolloutPhase::Completed | RolloutPhase::Aborted => stay(),
        RolloutPhase::Idle | RolloutPhase::Running | RolloutPhase::WaitingForConfirm if input.is_aborted => {
            to(RolloutPhase::Aborted, Confirmation::Absent, TransitionAction::Nothing)
        }
        RolloutPhase::Idle | RolloutPhase::Running | RolloutPhase::WaitingForConfirm if input.is_paused => stay(),
        RolloutPhase::Running if !input.batch_done => stay(),
        RolloutPhase::Idle | RolloutPhase::Running | RolloutPhase::WaitingForConfirm if !input.work_left => {
            to(RolloutPhase::Completed, Confirmation::Absent, TransitionAction::Finish)
        }
        RolloutPhase::Running if input.needs_confirm => {
            to(RolloutPhase::WaitingForConfirm, Confirmation::Asked, TransitionAction::Nothing)
        }
        RolloutPhase::WaitingForConfirm if input.needs_confirm && input.mark != Confirmation::Given => {
            to(RolloutPhase::WaitingForConfirm, Confirmation::Asked, TransitionAction::Nothing)
        }
        RolloutPhase::Idle | RolloutPhase::Running | RolloutPhase::WaitingForConfirm => {
            to(RolloutPhase::Running, Confirmation::Absent, TransitionAction::StartBatch)
        }
    }
}

/// The pods of a unit that may be at the target revision now, when at most `window` of them may be unavailable: 6 committed, 3
/// available, window 2: 5.
pub fn windowed(group_target: i64, updated_available: i64, window: i64) -> i64 {
    group_target.min(updated_available.saturating_add(window))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::rollout::properties::property;

    fn at(phase: RolloutPhase, mark: Confirmation) -> TransitionInput {
        TransitionInput {
            phase,
            mark,
            is_paused: false,
            is_aborted: false,
            needs_confirm: true,
            batch_done: true,
            work_left: true,
        }
    }

    #[test]
    fn a_window_opens_as_pods_become_available() {
        assert_eq!([windowed(6, 0, 2), windowed(6, 3, 2), windowed(6, 5, 2)], [2, 5, 6]);
    }

    fn any_mark() -> impl Strategy<Value = Option<Confirmation>> {
        let said = [Confirmation::Asked, Confirmation::Given, Confirmation::Absent];
        prop::option::weighted(0.5, prop::sample::select(said.to_vec()))
    }

    property! {
        fn a_batch_starts_only_when_the_one_before_is_done_and_confirmed(
            batches in 1..6u32, needs_confirm: bool,
            said in prop::collection::vec((any_mark(), any::<bool>(), any::<bool>()), 0..40),
        ) {
            let (mut now, mut started) = (TransitionInput { needs_confirm, ..at(RolloutPhase::Idle, Confirmation::Absent) }, 0);
            for (mark, is_paused, batch_done) in said {
                now.mark = mark.unwrap_or(now.mark);
                (now.is_paused, now.batch_done, now.work_left) = (is_paused, batch_done, started < batches);
                let Transition { phase, mark, action } = step(&now);
                if action == TransitionAction::StartBatch {
                    prop_assert!(!is_paused && started < batches, "there is one to start");
                    prop_assert!(now.phase != RolloutPhase::Running || (batch_done && !needs_confirm));
                    prop_assert!(now.phase != RolloutPhase::WaitingForConfirm || !needs_confirm || now.mark == Confirmation::Given);
                    started += 1;
                }
                if phase == RolloutPhase::Completed {
                    prop_assert_eq!(started, batches);
                    break;
                }
                (now.phase, now.mark) = (phase, mark);
            }
        }
    }
}
