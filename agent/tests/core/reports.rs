//! Content and timing of reports.

use contract::report::ReportMessage;
use contract::state::HealthState;

use super::bench::{Bench, at, order, secs, seen};
use agent::core::io::{Effect, Input, Phase};

const A: &str = "a.v1-i1-d0";

fn kinds(bench: &mut Bench) -> String {
    let letter = |message: &ReportMessage| match message {
        ReportMessage::Whole(_) => 'W',
        ReportMessage::Delta(_) => 'D',
        ReportMessage::Heartbeat(_) => 'h',
    };
    std::mem::take(&mut bench.published).iter().map(letter).collect()
}

#[test]
fn the_first_report_is_whole_and_further_ones_are_deltas() {
    let mut bench = Bench::new().has(seen("x", A, Phase::Running)).start();
    assert_eq!(kinds(&mut bench), "W");
    bench.order(order(1, 1).pod(A).whole());
    assert_eq!(kinds(&mut bench), "D", "the new fence is a change");
    bench.pass(secs(9));
    assert_eq!(kinds(&mut bench), "hhh");
}

#[test]
fn all_changes_of_one_input_are_one_delta() {
    let mut bench = Bench::new().start();
    kinds(&mut bench);
    bench.run(Input::Inventory(
        (1..=20).map(|n| seen(&format!("c{n}"), &format!("a.v1-i{n}-d0"), Phase::Running)).collect(),
    ));
    assert_eq!(kinds(&mut bench), "D");
    assert_eq!(bench.copy.as_ref().expect("reported").pods.len(), 20);
}

#[test]
fn a_scheduler_that_requests_it_gets_a_whole_report() {
    let mut bench = Bench::new().start();
    kinds(&mut bench);
    bench.run(Input::FullReportRequested);
    bench.run(Input::FullReportRequested);
    assert_eq!(kinds(&mut bench), "WW");
}

#[test]
fn a_disconnected_agent_publishes_nothing_and_a_whole_report_after_the_reconnect() {
    let mut bench = Bench::new().has(seen("x", A, Phase::Running)).start();
    kinds(&mut bench);
    bench.run(Input::Bus { connected: false });
    bench.run(Input::Inspected { id: "x".to_owned(), seen: Some(seen("x", A, Phase::Exited)) });
    bench.pass(secs(60));
    assert_eq!(kinds(&mut bench), "");
    let sequence = bench.copy.as_ref().expect("reported").head.stamp.sequence;
    bench.run(Input::Bus { connected: true });
    assert_eq!(kinds(&mut bench), "W");
    assert!(bench.copy.as_ref().expect("reported").head.stamp.sequence > sequence);
}

#[test]
fn facts_keep_their_time_until_they_change() {
    let mut bench = Bench::new().has(seen("x", A, Phase::Running)).start();
    assert_eq!(bench.reported(A).updated_at, at(0));
    bench.pass(secs(300));
    bench.run(Input::FullReportRequested);
    assert_eq!(bench.reported(A).updated_at, at(0));
    let mut healthy = seen("x", A, Phase::Running);
    healthy.health = HealthState::Healthy;
    bench.run(Input::Inspected { id: "x".to_owned(), seen: Some(healthy) });
    assert_eq!((bench.reported(A).updated_at, bench.reported(A).health), (at(300), HealthState::Healthy));
}

#[test]
fn an_idle_core_wakes_for_the_next_heartbeat() {
    let mut bench = Bench::new().start();
    bench.order(order(1, 1).whole());
    assert_eq!(bench.core.wake_at(), Some(at(3)));
}

#[test]
fn heartbeats_are_fast_until_a_scheduler_answers() {
    let mut bench = Bench::new().start();
    let mut pauses = Vec::new();
    for _ in 0..7 {
        let next = bench.core.wake_at().expect("a next sign of life");
        let pause = next.since(bench.now);
        pauses.push(pause.as_millis());
        bench.pass(pause);
    }
    assert_eq!(pauses, [250, 500, 1000, 2000, 3000, 3000, 3000]);
    bench.order(order(1, 1).whole());
    assert_eq!(bench.core.wake_at(), Some(bench.now + secs(3)));
}

#[test]
fn an_unchanged_inspection_is_not_reported() {
    let mut bench = Bench::new().has(seen("x", A, Phase::Running)).start();
    let effects = bench.feed(Input::Inspected { id: "x".to_owned(), seen: Some(seen("x", A, Phase::Running)) });
    assert_eq!(effects, Vec::<Effect>::new());
}

#[test]
fn pending_facts_of_many_new_pods_are_deferred_and_of_few_are_not() {
    let told_of = |count: u32| {
        let mut bench = Bench::new().start();
        kinds(&mut bench);
        let wanted = (1..=count).fold(order(1, 1), |order, n| order.pod(&format!("a.v1-i{n}-d0")));
        let effects = bench.feed(Input::Order { message: wanted.whole(), reply: "inbox".to_owned() });
        bench.settle_but_actions(effects);
        let at_once = kinds(&mut bench);
        bench.pass(secs(1));
        (at_once, kinds(&mut bench), bench.copy.as_ref().expect("reported").pods.len())
    };
    assert_eq!(told_of(8), ("D".to_owned(), String::new(), 8));
    assert_eq!(told_of(20), (String::new(), "D".to_owned(), 20));
}

#[test]
fn results_of_many_pods_are_reported_without_delay() {
    let mut bench = Bench::new().start();
    kinds(&mut bench);
    bench.order((1..=20).fold(order(1, 1), |order, n| order.pod(&format!("a.v1-i{n}-d0"))).whole());
    assert_eq!(bench.copy.as_ref().expect("reported").pods.len(), 20);
    assert!(bench.copy.as_ref().expect("reported").pods.values().all(|facts| !facts.containers.is_empty()));
}
