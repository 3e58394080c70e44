//! The progress condition, by example.

use proptest::prelude::*;

use super::*;
use crate::rollout::properties::property;

const MINUTE: Option<Duration> = Some(Duration::from_secs(60));

fn at(seconds: i64) -> Moment {
    Moment::from_secs(seconds)
}

fn counts(replicas: i64, updated: i64, ready: i64, available: i64) -> Counts {
    Counts { replicas, updated, ready, available }
}

fn says(status: Status, reason: Reason, update: i64, transition: i64) -> Option<ProgressCondition> {
    Some(ProgressCondition { status, reason, last_update: at(update), last_transition: at(transition) })
}

#[test]
fn a_crash_loop_makes_progress_once() {
    let (low, high) = (counts(100, 100, 91, 91), counts(100, 100, 92, 92));
    assert!(is_progressing(low, high));
    let peak = low.above(high);
    assert!(!is_progressing(peak, high), "up again to where it was");
    assert!(is_progressing(peak, counts(100, 100, 93, 92)));
}

#[test]
fn a_pause_cannot_time_out() {
    let current = says(Status::True, Reason::ReplicaSetUpdated, 0, 0);
    let pause = paused(current, at(50));
    assert_eq!(Some(pause.clone()), says(Status::Unknown, Reason::DeploymentPaused, 50, 50));
    assert_eq!(paused(Some(pause.clone()), at(70)), pause);
    let resume = resumed(pause, at(500));
    assert_eq!(Some(resume.clone()), says(Status::Unknown, Reason::DeploymentResumed, 500, 50));
    assert!(!is_timed_out(MINUTE, Some(&resume), at(560)));
    let timed_out = says(Status::False, Reason::ProgressDeadlineExceeded, 61, 61);
    assert_eq!(Some(paused(timed_out.clone(), at(70))), timed_out);
}

#[test]
fn a_stuck_rollout_is_checked_after_its_deadline() {
    let check = |now| stuck_check(Duration::from_secs(60), at(0), at(now));
    assert_eq!([check(10), check(59), check(60), check(90)].map(|wait| wait.as_secs()), [51, 2, 0, 0]);
}

property! {
    fn counts_below_the_highest_do_not_postpone_the_deadline(
        ready in prop::collection::vec(0..6i64, 1..30), deadline in 1..10u64,
    ) {
        let deadline = Duration::from_secs(deadline);
        let start = |now| ProgressCondition {
            status: Status::True,
            reason: Reason::NewReplicaSetCreated,
            last_update: now,
            last_transition: now,
        };
        let counts = |ready| Counts { replicas: 9, updated: 6, ready, available: 0 };
        let (mut seen, mut moved) = (counts(0), Moment::from_secs(0));
        let mut condition_now = Some(start(moved));
        for (second, ready) in (1..).zip(ready) {
            let (now, after) = (Moment::from_secs(second), counts(ready));
            let facts = ProgressFacts { deadline: Some(deadline), desired: 9, before: seen, after };
            if ready > seen.ready {
                moved = now;
            }
            condition_now = condition(&facts, condition_now, now);
            seen = after.above(seen);
            let reason = condition_now.as_ref().map(|it| it.reason);
            prop_assert_eq!(reason == Some(Reason::ProgressDeadlineExceeded), moved.after(deadline) < now);
        }
    }
}
