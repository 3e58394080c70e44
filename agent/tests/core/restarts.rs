//! Crash loops: three immediate restarts, then back-off without a limit.

use std::time::Duration;

use contract::state::{RestartPolicy, RunState, TargetState};
use contract::time::Timestamp;

use super::bench::{A, Bench, at, order, pod, running, secs};
use agent::core::io::{Action, Input, Phase};

/// How long a container of these tests runs before it fails.
const RUN: Duration = Duration::from_millis(200);

fn is_up(bench: &Bench) -> bool {
    bench.engine.containers["m1"].phase == Phase::Running
}

/// The container fails shortly after each start until `end`; returns when it was started.
fn fail_until(bench: &mut Bench, end: Timestamp) -> Vec<Timestamp> {
    let mut starts = Vec::new();
    while bench.now < end {
        if is_up(bench) {
            starts.push(bench.engine.containers["m1"].started_at);
            bench.pass(RUN);
            bench.crash("m1");
        } else {
            bench.pass(RUN);
        }
    }
    starts
}

#[test]
fn a_service_is_up_within_30_s_after_a_database_outage_of_20_s() {
    for run in [200, 900, 3_000, 7_000] {
        let mut bench = running();
        while bench.now < at(20) || !is_up(&bench) {
            let span = if is_up(&bench) { Duration::from_millis(run) } else { RUN };
            bench.pass(span);
            if bench.now < at(20) && is_up(&bench) {
                bench.crash("m1");
            }
            assert!(bench.now < at(50), "down since the outage ended; runs of {run} ms");
        }
    }
}

#[test]
fn a_crash_loop_gets_three_immediate_restarts_and_then_back_off_up_to_5_min() {
    let mut bench = running();
    let starts = fail_until(&mut bench, at(24 * 3600));
    let gaps: Vec<u64> = starts.windows(2).map(|pair| pair[1].since(pair[0]).as_secs()).collect();
    assert!(gaps[..3].iter().all(|gap| *gap < 1), "three restarts at once: {gaps:?}");
    assert!((1..=10).contains(&gaps[3..6].iter().sum::<u64>()), "then soon: {gaps:?}");
    assert!(gaps[3..].windows(2).all(|pair| pair[0] <= pair[1] + 75), "growing: {gaps:?}");
    assert!(gaps.len() > 280, "an attempt every 5 min for a day: {}", gaps.len());
    let late = &gaps[20..];
    assert!(late.iter().all(|gap| (224..=301).contains(gap)), "5 min at most: {late:?}");
    assert!(late.iter().any(|gap| *gap != late[0]), "jitter: {late:?}");
    assert!(bench.reported(A).is_crash_looping, "the condition that callbacks are notified of");
}

#[test]
fn a_crash_loop_is_detected_when_the_engines_clock_differs() {
    // The wall clock was changed by an hour after the agent started; Docker's times follow it, the agent's do not.
    for (hour, is_ahead) in [(secs(3600), true), (secs(3600), false)] {
        let mut bench = running();
        let mut starts = 0;
        while bench.now < at(120) {
            bench.pass(RUN);
            if is_up(&bench) {
                starts += 1;
                bench.end("m1", 1);
                let container = bench.engine.containers.get_mut("m1").expect("made");
                container.finished_at = if is_ahead { bench.now + hour } else { bench.now - hour };
                let seen = bench.look("m1");
                bench.run(Input::Inspected { id: "m1".to_owned(), seen });
            }
        }
        // The first start, three immediate restarts, and attempts after 1, 2, 4, 8, 16 and 32 s; jitter may add one.
        assert!((10..=11).contains(&starts), "{starts} starts in two minutes");
        assert!(bench.reported(A).is_crash_looping, "the condition that callbacks are notified of");
    }
}

#[test]
fn a_restarted_agent_keeps_the_back_off_and_continues_with_it() {
    let mut bench = running();
    fail_until(&mut bench, at(3600));
    let restarts = bench.disk.memory[&pod(A)].restarts;
    assert!((10..30).contains(&restarts), "{restarts}");
    if is_up(&bench) {
        bench.crash("m1");
    }
    bench.take_actions();
    bench.restart("run-2");
    bench.pass(secs(10));
    assert!(!bench.actions.contains(&Action::Start { id: "m1".to_owned() }), "no attempt at once: {:?}", bench.actions);
    bench.pass(secs(300));
    assert!(is_up(&bench), "the next attempt");
    assert_eq!(bench.reported(A).restarts, restarts + 1);
}

#[test]
fn a_run_of_more_than_10_min_ends_the_crash_loop() {
    let mut bench = running();
    fail_until(&mut bench, at(600));
    bench.pass(secs(300));
    assert!(is_up(&bench));
    bench.pass(secs(290));
    assert!(bench.reported(A).is_crash_looping, "not for 10 min yet");
    bench.pass(secs(311));
    assert_eq!((bench.reported(A).is_crash_looping, bench.reported(A).state), (false, RunState::Success));
    bench.take_actions();
    bench.crash("m1");
    assert!(is_up(&bench), "the first restart of a new count comes at once");
    assert_eq!(bench.reported(A).restarts, 1);
}

#[test]
fn an_in_place_update_ends_the_crash_loop() {
    let mut bench = running();
    fail_until(&mut bench, at(60));
    assert!(bench.reported(A).is_crash_looping);
    bench.order(order(1, 2).pod(A).updated_to(A, 2, |spec| spec.containers[0].memory_limit = 1 << 30).whole());
    bench.pass(secs(1));
    assert!(is_up(&bench), "more memory is a reason to try at once");
    assert!(!bench.reported(A).is_crash_looping);
}

#[test]
fn an_exit_is_reported_with_the_last_log_line_and_the_next_attempt() {
    let mut bench = running();
    bench.engine.last_line = "cannot open /etc/app.conf".to_owned();
    for _ in 0..9 {
        bench.pass(secs(40));
        bench.crash("m1");
    }
    let facts = bench.reported(A);
    let exit = facts.present_exit().expect("it is down");
    assert_eq!((exit.code, exit.restarts, exit.last_line.as_str()), (1, 8, "cannot open /etc/app.conf"));
    assert!(exit.next_attempt > bench.now + secs(23) && exit.next_attempt <= bench.now + secs(33), "{exit:?}");
    let text = exit.describe(bench.now);
    assert!(text.starts_with("exited (1) 0 s ago, 8 restarts, next attempt in "), "{text}");
    assert!(text.ends_with(" s: cannot open /etc/app.conf"), "{text}");
    bench.pass(secs(33));
    let facts = bench.reported(A);
    assert_eq!((facts.present_exit(), facts.next_attempt), (None, Timestamp::NEVER), "it runs");
    assert_eq!(facts.last_exit().map(|exit| exit.code), Some(1), "its last end is still known");
}

#[test]
fn an_ordered_stop_is_not_reported_as_an_exit() {
    let mut bench = running();
    bench.order(order(1, 2).pod_with(A, 1, TargetState::Stop, RestartPolicy::Always).whole());
    assert_eq!((bench.reported(A).state, bench.reported(A).last_exit()), (RunState::Exit, None));
}
