//! Decides whether a container that ended is started again.
//!
//! There is no delay before a restart; what protects the node is the budget: after `most` restarts the pod is let
//! go. Two things are forgiven: an old history (nothing for twice the window), and an end that was the engine's
//! doing (`excused`), which is repaired without being counted.

use std::time::Duration;

use contract::state::{RestartPolicy, TargetState};
use contract::time::Timestamp;

/// How many restarts a pod gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Restarts after which it is let go.
    pub most: u32,
    /// A restart longer ago than this starts a new count; twice this forgives a spent budget.
    pub window: Duration,
}

/// Restarts so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct History {
    /// Counted in the present window.
    pub restarts: u32,
    /// The last one.
    pub restarted_at: Timestamp,
}

/// How a container ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    /// Its exit code.
    pub exit_code: i64,
    /// The engine reported an error of its own.
    pub engine_error: bool,
    /// When.
    pub finished_at: Timestamp,
    /// The engine or the machine went down with it: not the pod's fault.
    pub excused: bool,
}

/// What is wanted of the pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wish {
    /// Run or stay stopped.
    pub target: TargetState,
    /// When to start again.
    pub policy: RestartPolicy,
}

/// What to do about an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Leave it down: nobody wants it up.
    Stay,
    /// Start it now and keep this history.
    Restart(History),
    /// Leave it down: its budget is spent.
    LetGo,
}

/// Decides about one end.
pub fn judge(wish: Wish, end: End, history: History, limits: Limits, now: Timestamp) -> Verdict {
    if wish.target == TargetState::Stop || !is_wanted(wish.policy, end.exit_code, end.engine_error) {
        return Verdict::Stay;
    }
    if end.excused {
        return Verdict::Restart(history);
    }
    let forgiven = end.finished_at.since(history.restarted_at) > limits.window * 2;
    if history.restarts >= limits.most && !forgiven {
        return Verdict::LetGo;
    }
    Verdict::Restart(counted(history, limits, now))
}

/// The history after one more start.
pub fn counted(history: History, limits: Limits, now: Timestamp) -> History {
    let fresh = history.restarts == 0 || now.since(history.restarted_at) > limits.window;
    History { restarts: if fresh { 1 } else { history.restarts.saturating_add(1) }, restarted_at: now }
}

/// Whether who shall run is to be started again after it ended like this.
pub fn is_wanted(policy: RestartPolicy, exit_code: i64, engine_error: bool) -> bool {
    match policy {
        RestartPolicy::Never => false,
        RestartPolicy::Always => true,
        RestartPolicy::OnFail => exit_code != 0 || engine_error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { most: 3, window: Duration::from_secs(1800) };

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(1_700_000_000_000 + seconds * 1000)
    }
    fn end(exit_code: i64, finished_at: Timestamp) -> End {
        End { exit_code, engine_error: false, finished_at, excused: false }
    }
    fn run(policy: RestartPolicy) -> Wish {
        Wish { target: TargetState::Run, policy }
    }
    fn history(restarts: u32, restarted_at: Timestamp) -> History {
        History { restarts, restarted_at }
    }

    #[test]
    fn never_and_a_wanted_stop_stay_down() {
        let ended = end(1, at(0));
        assert_eq!(judge(run(RestartPolicy::Never), ended, History::default(), LIMITS, at(0)), Verdict::Stay);
        for policy in [RestartPolicy::Never, RestartPolicy::Always, RestartPolicy::OnFail] {
            let wish = Wish { target: TargetState::Stop, policy };
            let excused = End { excused: true, ..ended };
            assert_eq!(judge(wish, ended, History::default(), LIMITS, at(0)), Verdict::Stay);
            assert_eq!(judge(wish, excused, History::default(), LIMITS, at(0)), Verdict::Stay);
        }
    }

    #[test]
    fn on_fail_restarts_a_non_zero_exit_and_an_engine_error_only() {
        let verdict = |ended| judge(run(RestartPolicy::OnFail), ended, History::default(), LIMITS, at(1));
        assert_eq!(verdict(end(0, at(0))), Verdict::Stay);
        assert_eq!(verdict(end(2, at(0))), Verdict::Restart(history(1, at(1))));
        assert_eq!(verdict(End { engine_error: true, ..end(0, at(0)) }), Verdict::Restart(history(1, at(1))));
    }

    #[test]
    fn three_quick_restarts_spend_the_budget() {
        let mut past = History::default();
        for second in 0..3 {
            match judge(run(RestartPolicy::Always), end(0, at(second)), past, LIMITS, at(second)) {
                Verdict::Restart(next) => past = next,
                other => panic!("restart {second}: {other:?}"),
            }
        }
        assert_eq!(past, history(3, at(2)));
        assert_eq!(judge(run(RestartPolicy::Always), end(0, at(3)), past, LIMITS, at(3)), Verdict::LetGo);
    }

    #[test]
    fn an_old_restart_starts_a_new_count() {
        let verdict = judge(run(RestartPolicy::Always), end(0, at(1801)), history(2, at(0)), LIMITS, at(1801));
        assert_eq!(verdict, Verdict::Restart(history(1, at(1801))));
    }

    #[test]
    fn a_spent_budget_is_forgiven_after_twice_the_window_and_not_before() {
        let verdict =
            |seconds| judge(run(RestartPolicy::Always), end(0, at(seconds)), history(3, at(0)), LIMITS, at(seconds));
        assert_eq!(verdict(3600), Verdict::LetGo);
        assert_eq!(verdict(3601), Verdict::Restart(history(1, at(3601))));
    }

    #[test]
    fn an_excused_end_is_repaired_without_being_counted() {
        let ended = End { excused: true, ..end(137, at(5)) };
        let past = history(3, at(0));
        assert_eq!(judge(run(RestartPolicy::Always), ended, past, LIMITS, at(5)), Verdict::Restart(past));
    }
}
