//! What is said about progress, by example.

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

fn facts(before: Counts, after: Counts) -> ProgressFacts {
    ProgressFacts { deadline: MINUTE, desired: 3, before, after }
}

#[test]
fn complete_means_all_counts_are_what_is_wanted() {
    assert!(is_complete(3, counts(3, 3, 3, 3)));
    assert!(!is_complete(3, counts(4, 3, 3, 3)), "one too many");
    assert!(!is_complete(3, counts(3, 3, 3, 2)));
    assert!(is_complete(0, counts(0, 0, 0, 0)));
}

#[test]
fn any_count_that_moves_the_right_way_is_progress() {
    let before = counts(10, 4, 4, 4);
    assert!(!is_progressing(before, before));
    assert!(is_progressing(before, counts(9, 4, 4, 4)), "an old pod less");
    assert!(is_progressing(before, counts(10, 4, 5, 4)));
    assert!(!is_progressing(before, counts(10, 4, 3, 3)));
    assert!(!is_progressing(before, counts(11, 4, 4, 4)), "an old pod more");
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
fn the_deadline_is_passed_only_after_it_and_stays_passed() {
    let timed_out = |current: Option<ProgressCondition>, now| is_timed_out(MINUTE, current.as_ref(), at(now));
    let updated = says(Status::True, Reason::ReplicaSetUpdated, 0, 0);
    assert!(!timed_out(updated.clone(), 60));
    assert!(timed_out(updated.clone(), 61));
    assert!(timed_out(says(Status::False, Reason::ProgressDeadlineExceeded, 60, 60), 61));
    assert!(!timed_out(says(Status::True, Reason::NewReplicaSetAvailable, 0, 0), 999));
    assert!(!timed_out(None, 999));
    assert!(!is_timed_out(deadline(Some(i64::from(i32::MAX))), updated.as_ref(), at(999)));
}

#[test]
fn progress_refreshes_a_condition_and_keeps_its_transition() {
    let current = says(Status::True, Reason::ReplicaSetUpdated, 5, 1);
    let moved = facts(counts(3, 1, 1, 1), counts(3, 2, 1, 1));
    assert_eq!(condition(&moved, current, at(9)), says(Status::True, Reason::ReplicaSetUpdated, 9, 1));
    let timed_out = says(Status::False, Reason::ProgressDeadlineExceeded, 5, 5);
    assert_eq!(condition(&moved, timed_out, at(9)), says(Status::True, Reason::ReplicaSetUpdated, 9, 9));
    assert_eq!(condition(&moved, None, at(9)), says(Status::True, Reason::ReplicaSetUpdated, 9, 9));
}

#[test]
fn completion_is_said_once() {
    let done = facts(counts(3, 2, 3, 3), counts(3, 3, 3, 3));
    let current = says(Status::True, Reason::ReplicaSetUpdated, 5, 1);
    let complete = says(Status::True, Reason::NewReplicaSetAvailable, 9, 1);
    assert_eq!(condition(&done, current, at(9)), complete);
    assert_eq!(condition(&done, complete.clone(), at(99)), complete);
    assert_eq!(condition(&ProgressFacts { deadline: None, ..done }, complete, at(99)), None, "not watched: not said");
}

#[test]
fn a_pod_lost_after_completion_is_not_a_stuck_rollout() {
    let lost = facts(counts(3, 3, 3, 3), counts(3, 3, 2, 2));
    let complete = says(Status::True, Reason::NewReplicaSetAvailable, 0, 0);
    assert_eq!(condition(&lost, complete.clone(), at(999)), complete);
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
fn a_stuck_rollout_is_looked_at_when_its_deadline_has_passed() {
    let check = |now| stuck_check(Duration::from_secs(60), at(0), at(now));
    assert_eq!([check(10), check(59), check(60), check(90)].map(|wait| wait.as_secs()), [51, 2, 0, 0]);
}

property! {
    fn below_the_highest_seen_nothing_moves_the_deadline(
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
            let reason = condition_now.as_ref().map(|it| it.reason.clone());
            prop_assert_eq!(reason == Some(Reason::ProgressDeadlineExceeded), moved.after(deadline) < now);
        }
    }
}
