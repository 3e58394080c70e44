//! Containers that exit by themselves: reading the exit, back-off, recovery.

use super::*;

const A: &str = "a.v1-i1-d0";

fn ended(restarts: u32) -> InputBuilder {
    let past = RestartCount { restarts, restarted_at: at(40) };
    facts().want(A, 1).remember(|m| m.history = past).see("x", A, 0, Activity::Exited)
}

fn looping(restarts: u32) -> InputBuilder {
    ended(restarts).remember(|m| m.is_crash_looping = true)
}

#[test]
fn an_exit_is_read_before_the_container_is_restarted_or_left() {
    let read = InstanceAction::ReadExit { id: "x".to_owned() };
    let unread = |facts: InputBuilder| facts.remember(|m| m.exits_read.clear());
    assert_eq!(unread(ended(0)).next(), read);
    assert_eq!(unread(ended(0).policy(RestartPolicy::Never)).next(), read);
    assert_eq!(unread(ended(3)).next(), read);
    let older = ended(0).remember(|m| m.exits_read = [(0, at(30))].into());
    assert_eq!(older.next(), read, "an earlier end was read");
    let stopped_by_order = unread(ended(0)).remember(|m| m.stopped_by_order = BTreeSet::from([0]));
    assert_eq!(stopped_by_order.next(), start("x", A, 1, at(100)), "this one was ordered");
    assert_eq!(unread(ended(0).stopped()).next(), InstanceAction::Nothing);
}

#[test]
fn a_pod_without_immediate_restarts_is_remembered_once_and_started_again_with_back_off() {
    assert_eq!(ended(3).next(), InstanceAction::CrashLooping(pod(A)));
    assert_eq!(looping(3).next(), start("x", A, 4, at(100)), "the first wait is over");
    let InstanceAction::WaitUntil(until) = looping(10).next() else { panic!("128 s are not over") };
    assert!(until > at(140) && until <= at(50 + 128), "{until}");
    assert_eq!(looping(10).next_at(until), start("x", A, 11, until));
    let held = looping(10).switch(|b| b.hold_restarts = true);
    assert_eq!(held.next_at(at(1_000)), InstanceAction::Nothing, "maintenance holds attempts of a crash loop too");
}

#[test]
fn a_crash_loop_is_over_when_all_containers_ran_for_ten_minutes() {
    let up = || looping(7).statuses(Activity::Running);
    assert_eq!(up().next(), InstanceAction::WaitUntil(at(640)));
    assert_eq!(up().next_at(at(640)), InstanceAction::Recovered(pod(A)));
    let two = facts().want(A, 2).remember(|m| {
        (m.is_crash_looping, m.history) = (true, RestartCount { restarts: 10, restarted_at: at(40) });
    });
    let two = two.see("x", A, 0, Activity::Running).see("y", A, 1, Activity::Exited);
    assert!(matches!(two.next(), InstanceAction::WaitUntil(_)), "one of them still crash-loops");
}

#[test]
fn a_crash_loop_is_over_when_the_container_exited_as_its_policy_expects() {
    let done = looping(7).policy(RestartPolicy::OnFail).exit_code(0);
    assert_eq!(done.next(), InstanceAction::Recovered(pod(A)));
    assert_eq!(looping(7).policy(RestartPolicy::Never).next(), InstanceAction::Recovered(pod(A)));
}
