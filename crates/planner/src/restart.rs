//! Decides when the agent restarts a container that exited.
//!
//! The first `most` restarts are immediate, as in the original. After that the pod is crash-looping: restarts continue
//! without a limit, with a back-off of 1 s that doubles up to 5 min, so a service recovers by itself when its dependencies
//! return. A run of more than 10 min ends the crash loop. An exit that the engine caused (`excused`) leads to a restart that
//! is not counted. Runs and waits are measured by the agent's clock: the engine's clock may jump, and after a jump of one
//! hour every run would look long.

use std::time::Duration;

use contract::digest::Digest;
use contract::pod_id::PodId;
use contract::state::{RestartPolicy, TargetState};
use contract::time::Timestamp;

/// First wait of a crash loop; each further one is twice as long. After an outage of 20 s the next attempt follows within 16
/// s.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(300);
/// A pod that was not restarted for longer than this is not crash-looping.
const STABLE_RUN: Duration = Duration::from_secs(600);

/// How many immediate restarts a pod gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RestartLimits {
    /// Restarts without a wait.
    pub most: u32,
    /// After this time without a restart the count starts again.
    pub window: Duration,
}

impl RestartLimits {
    /// How long a crash-looping pod must run until the crash loop is over. A short window shortens it.
    pub fn stable_run(&self) -> Duration {
        STABLE_RUN.min(self.window.saturating_mul(2))
    }
}

/// The restarts of a pod.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RestartCount {
    /// Restarts in the present window, or since the crash loop began.
    pub restarts: u32,
    pub restarted_at: Timestamp,
}

/// How a container exited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContainerExit {
    pub exit_code: i64,
    /// The engine reported an error.
    pub engine_error: bool,
    /// By the engine's clock.
    pub finished_at: Timestamp,
    /// When the agent observed the exit, by the agent's clock.
    pub seen_at: Timestamp,
    /// The engine or the machine caused the exit.
    pub excused: bool,
}

/// What the order says about restarts of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RestartRule<'a> {
    /// Attempts of different pods are spread over time.
    pub pod: &'a PodId,
    pub target: TargetState,
    pub policy: RestartPolicy,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestartDecision {
    /// The policy does not restart it.
    LeaveStopped,
    /// Restart now.
    Restart(RestartCount),
    /// The pod is crash-looping: restart at `until`, or now if that is over.
    BackOff {
        until: Timestamp,
        /// The restarts of the pod including this one.
        history: RestartCount,
    },
}

/// Decides about one exit.
pub fn decide(
    rule: RestartRule<'_>,
    end: ContainerExit,
    history: RestartCount,
    limits: RestartLimits,
    now: Timestamp,
) -> RestartDecision {
    if rule.target == TargetState::Stop || !is_wanted(rule.policy, end.exit_code, end.engine_error) {
        return RestartDecision::LeaveStopped;
    }
    if end.excused {
        return RestartDecision::Restart(history);
    }
    if end.seen_at.since(history.restarted_at) > limits.stable_run() {
        return RestartDecision::Restart(counted(RestartCount::default(), limits, now));
    }
    if history.restarts < limits.most {
        return RestartDecision::Restart(counted(history, limits, now));
    }
    let until = end.seen_at + wait(rule.pod, history.restarts, limits);
    // Only an agent that restarted after its clock was set back finds a longer wait.
    let until = if until > now + LONGEST_WAIT * 2 { now } else { until };
    RestartDecision::BackOff {
        until,
        history: RestartCount { restarts: history.restarts.saturating_add(1), restarted_at: now },
    }
}

/// The back-off of a crash-looping pod after `restarts` restarts: 1, 2, 4 … 256, 300 s, each up to a quarter shorter.
fn wait(pod: &PodId, restarts: u32, limits: RestartLimits) -> Duration {
    let longest = back_off(FIRST_WAIT, restarts.saturating_sub(limits.most), LONGEST_WAIT);
    // Jitter spreads pods that one outage stopped together. It only shortens: 5 min is the maximum.
    let thousandths = Digest::of(&(pod, restarts)).number() % 251;
    longest - longest / 1000 * u32::try_from(thousandths).unwrap_or(0)
}

/// `first`, doubled `doublings` times, at most `longest`.
pub(crate) fn back_off(first: Duration, doublings: u32, longest: Duration) -> Duration {
    first.saturating_mul(1 << doublings.min(16)).min(longest)
}

/// The count after one more start.
pub fn counted(history: RestartCount, limits: RestartLimits, now: Timestamp) -> RestartCount {
    let fresh = history.restarts == 0 || now.since(history.restarted_at) > limits.window;
    RestartCount { restarts: if fresh { 1 } else { history.restarts.saturating_add(1) }, restarted_at: now }
}

/// Whether the policy restarts a container that exited like this.
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

    const LIMITS: RestartLimits = RestartLimits { most: 3, window: Duration::from_secs(1800) };

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(1_700_000_000_000 + seconds * 1000)
    }
    fn end(exit_code: i64, seen_at: Timestamp) -> ContainerExit {
        ContainerExit { exit_code, engine_error: false, finished_at: seen_at, seen_at, excused: false }
    }
    fn pod(number: u32) -> PodId {
        format!("a.v1-i{number}-d0").parse().expect("a pod")
    }
    fn history(restarts: u32, restarted_at: Timestamp) -> RestartCount {
        RestartCount { restarts, restarted_at }
    }
    fn after(policy: RestartPolicy, end: ContainerExit, past: RestartCount, now: Timestamp) -> RestartDecision {
        decide(RestartRule { pod: &pod(1), target: TargetState::Run, policy }, end, past, LIMITS, now)
    }

    #[test]
    fn never_and_an_ordered_stop_are_not_restarted() {
        let ended = end(1, at(0));
        assert_eq!(after(RestartPolicy::Never, ended, RestartCount::default(), at(0)), RestartDecision::LeaveStopped);
        for policy in [RestartPolicy::Never, RestartPolicy::Always, RestartPolicy::OnFail] {
            let rule = RestartRule { pod: &pod(1), target: TargetState::Stop, policy };
            let excused = ContainerExit { excused: true, ..ended };
            assert_eq!(decide(rule, ended, RestartCount::default(), LIMITS, at(0)), RestartDecision::LeaveStopped);
            assert_eq!(decide(rule, excused, RestartCount::default(), LIMITS, at(0)), RestartDecision::LeaveStopped);
        }
    }

    #[test]
    fn on_fail_restarts_a_non_zero_exit_and_an_engine_error_only() {
        let decision = |ended| after(RestartPolicy::OnFail, ended, RestartCount::default(), at(1));
        assert_eq!(decision(end(0, at(0))), RestartDecision::LeaveStopped);
        assert_eq!(decision(end(2, at(0))), RestartDecision::Restart(history(1, at(1))));
        assert_eq!(
            decision(ContainerExit { engine_error: true, ..end(0, at(0)) }),
            RestartDecision::Restart(history(1, at(1)))
        );
    }

    #[test]
    fn three_restarts_are_immediate_and_the_fourth_follows_after_about_a_second() {
        let mut past = RestartCount::default();
        for second in 0..3 {
            match after(RestartPolicy::Always, end(0, at(second)), past, at(second)) {
                RestartDecision::Restart(next) => past = next,
                other => panic!("restart {second}: {other:?}"),
            }
        }
        assert_eq!(past, history(3, at(2)));
        let RestartDecision::BackOff { until, history } = after(RestartPolicy::Always, end(0, at(3)), past, at(3))
        else {
            panic!("a fourth immediate restart")
        };
        assert!(until > at(3) && until <= at(4), "{until}");
        assert_eq!(history.restarts, 4);
    }

    #[test]
    fn each_wait_is_twice_the_one_before_up_to_five_minutes_and_at_most_a_quarter_shorter() {
        let longest = [1u64, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300];
        for (restarts, seconds) in (3..).zip(longest) {
            for number in 1..50 {
                let waited = wait(&pod(number), restarts, LIMITS);
                let most = Duration::from_secs(seconds);
                assert!(waited <= most && waited >= most * 3 / 4, "{restarts} restarts: {waited:?}");
                assert_eq!(waited, wait(&pod(number), restarts, LIMITS), "the same for the same pod");
            }
        }
        assert_eq!(wait(&pod(1), u32::MAX, LIMITS).as_secs() / 76, 3, "however many there were");
        let waits: std::collections::BTreeSet<_> = (1..50).map(|number| wait(&pod(number), 12, LIMITS)).collect();
        assert!(waits.len() > 30, "spread over time: {}", waits.len());
    }

    #[test]
    fn an_old_restart_starts_a_new_count() {
        let decision = after(RestartPolicy::Always, end(0, at(1801)), history(2, at(0)), at(1801));
        assert_eq!(decision, RestartDecision::Restart(history(1, at(1801))));
    }

    #[test]
    fn a_run_of_more_than_ten_minutes_ends_the_crash_loop_and_a_shorter_one_does_not() {
        let decision = |seconds| after(RestartPolicy::Always, end(0, at(seconds)), history(7, at(0)), at(seconds));
        assert!(matches!(decision(600), RestartDecision::BackOff { .. }));
        assert_eq!(decision(601), RestartDecision::Restart(history(1, at(601))));
        let short = RestartLimits { window: Duration::from_secs(60), ..LIMITS };
        assert_eq!(short.stable_run(), Duration::from_secs(120));
    }

    #[test]
    fn a_clock_that_was_set_back_does_not_prolong_the_wait() {
        let decision = after(RestartPolicy::Always, end(1, at(7200)), history(7, at(7100)), at(0));
        assert_eq!(decision, RestartDecision::BackOff { until: at(0), history: history(8, at(0)) });
    }

    #[test]
    fn the_engines_clock_makes_no_run_longer_and_no_wait_shorter() {
        for finished_at in [at(-7200), at(7200)] {
            let ended = ContainerExit { finished_at, ..end(1, at(10)) };
            let decision = after(RestartPolicy::Always, ended, history(7, at(0)), at(10));
            assert_eq!(decision, after(RestartPolicy::Always, end(1, at(10)), history(7, at(0)), at(10)));
            assert!(matches!(decision, RestartDecision::BackOff { until, .. } if until > at(20)), "{decision:?}");
        }
    }

    #[test]
    fn an_excused_exit_is_repaired_without_being_counted() {
        let ended = ContainerExit { excused: true, ..end(137, at(5)) };
        let past = history(3, at(0));
        assert_eq!(after(RestartPolicy::Always, ended, past, at(5)), RestartDecision::Restart(past));
    }
}
