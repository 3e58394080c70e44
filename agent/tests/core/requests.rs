//! Requested starts and restarts: done once, always reported as done, counted correctly.

use contract::order::OrderMessage;
use contract::report::EngineState;
use contract::state::{RestartPolicy, RunState, TargetState};

use super::bench::{self, A, Bench, OrderBuilder, actions_in, at, order, pod, secs, seen};
use agent::core::io::{Action, ActionFailure, Effect, Input, Phase};

/// The pod started ten seconds ago.
fn running() -> Bench {
    let mut bench = bench::running();
    bench.pass(secs(10));
    bench
}
fn never(generation: u64, target: TargetState) -> OrderBuilder {
    order(1, generation).pod_with(A, 1, target, RestartPolicy::Never)
}
fn stop(id: &str) -> Action {
    Action::Stop { id: id.to_owned(), grace: secs(10) }
}
fn start(id: &str) -> Action {
    Action::Start { id: id.to_owned() }
}
fn answers(bench: &Bench) -> (u32, u32) {
    (bench.reported(A).starts_done, bench.reported(A).restarts_done)
}
/// Receives reports and returns the other effects.
fn receive(bench: &mut Bench, effects: Vec<Effect>) -> Vec<Effect> {
    let (told, rest): (Vec<Effect>, Vec<Effect>) =
        effects.into_iter().partition(|effect| matches!(effect, Effect::Publish(_)));
    bench.settle(told);
    rest
}
fn refused(text: &str) -> ActionFailure {
    ActionFailure::Refused(text.to_owned())
}

#[test]
fn a_start_of_a_crash_looping_pod_starts_it_with_new_immediate_restarts() {
    let mut bench = running();
    for _ in 0..4 {
        bench.pass(secs(1));
        bench.crash("m1");
    }
    assert_eq!((bench.reported(A).is_crash_looping, bench.reported(A).restarts), (true, 3));
    bench.take_actions();
    bench.order(order(1, 2).pod(A).asked(1, 0).whole());
    assert_eq!(bench.take_actions(), [start("m1")]);
    let facts = bench.reported(A);
    assert_eq!((facts.state, facts.is_crash_looping, facts.restarts), (RunState::Success, false, 1));
    assert_eq!(answers(&bench), (1, 0));
    bench.crash("m1");
    assert_eq!(
        (bench.reported(A).state, bench.reported(A).restarts),
        (RunState::Success, 2),
        "the budget is there again"
    );
}

#[test]
fn a_start_of_a_running_pod_resets_its_restarts_and_starts_nothing() {
    let mut bench = running();
    bench.crash("m1");
    bench.take_actions();
    bench.pass(secs(1));
    bench.order(order(1, 2).pod(A).asked(1, 0).whole());
    assert_eq!(bench.take_actions(), []);
    assert_eq!((bench.reported(A).restarts, answers(&bench)), (0, (1, 0)));
}

#[test]
fn a_start_ignores_the_restart_policy_and_maintenance() {
    let mut bench = Bench::new().start();
    bench.order(never(1, TargetState::Run).whole());
    bench.crash("m1");
    bench.take_actions();
    bench.order(never(2, TargetState::Run).asked(1, 0).switches(|switches| switches.hold_restarts = true).whole());
    assert_eq!(bench.take_actions(), [start("m1")]);
    assert_eq!((bench.reported(A).state, bench.reported(A).restarts), (RunState::Success, 1));
    bench.crash("m1");
    assert_eq!(bench.take_actions(), [], "and its next end is an end again");
}

#[test]
fn a_refused_start_counts_as_done_and_is_retried() {
    let mut bench = Bench::new().start();
    bench.order(never(1, TargetState::Run).whole());
    bench.crash("m1");
    bench.engine.failures = [refused("no"), refused("still not")].into();
    bench.order(never(2, TargetState::Run).asked(1, 0).whole());
    assert_eq!(
        (bench.reported(A).state, bench.reported(A).last_error.as_str()),
        (RunState::Error, "Cannot start container, no")
    );
    assert_eq!(answers(&bench), (1, 0));
    // A second request does not wait for the back-off of the first.
    bench.order(never(3, TargetState::Run).asked(2, 0).whole());
    assert_eq!((bench.reported(A).last_error.as_str(), answers(&bench)), ("Cannot start container, still not", (2, 0)));
    bench.pass(secs(10));
    assert_eq!(bench.reported(A).state, RunState::Success, "the requested start is still retried");
}

#[test]
fn a_start_does_not_wait_for_the_back_off_of_a_refused_create() {
    let mut bench = Bench::new().start();
    bench.engine.failures = [refused("no such image"), refused("no such image")].into();
    bench.order(order(1, 1).pod(A).whole());
    bench.order(order(1, 2).pod(A).asked(1, 0).whole());
    assert_eq!((bench.reported(A).state, answers(&bench)), (RunState::Error, (1, 0)));
    bench.order(order(1, 3).pod(A).asked(2, 0).whole());
    assert_eq!((bench.reported(A).state, bench.reported(A).restarts, answers(&bench)), (RunState::Success, 0, (2, 0)));
}

#[test]
fn the_engines_error_of_a_failed_start_is_reported_unchanged() {
    let mut bench = running();
    bench.engine.failures = [refused("500: 500 Internal Server Error, no such program")].into();
    let mut ended = bench.end("m1", 127).expect("it is there");
    bench.engine.containers.get_mut("m1").expect("it is there").error = "no such program".to_owned();
    ended.error.clear();
    bench.run(Input::Inspected { id: "m1".to_owned(), seen: Some(ended) });
    assert_eq!((bench.reported(A).state, bench.reported(A).last_error.as_str()), (RunState::Fail, "no such program"));
}

#[test]
fn a_restart_stops_and_starts_the_container_once() {
    let mut bench = running();
    bench.order(order(1, 2).pod(A).respecify(|spec| spec.kill_timeout = 42).asked(0, 1).whole());
    assert_eq!(bench.take_actions(), [Action::Stop { id: "m1".to_owned(), grace: secs(42) }, start("m1")]);
    assert_eq!((bench.reported(A).state, bench.reported(A).restarts, answers(&bench)), (RunState::Success, 1, (0, 1)));
    // A repeated order, further orders and a restart of the agent change nothing.
    bench.order(order(1, 3).pod(A).asked(0, 1).whole());
    bench.restart("run-2");
    bench.pass(secs(100));
    assert_eq!((bench.take_actions(), answers(&bench)), (vec![], (0, 1)));
    bench.order(order(1, 4).pod(A).asked(0, 2).whole());
    assert_eq!((bench.take_actions().len(), bench.reported(A).restarts, answers(&bench)), (2, 2, (0, 2)));
}

#[test]
fn restart_count_and_completion_are_reported_together_also_for_several_containers() {
    let mut bench = Bench::new().start();
    let two = |generation| order(1, generation).pod_with(A, 2, TargetState::Run, RestartPolicy::Always);
    bench.order(two(1).whole());
    bench.pass(secs(10));
    bench.take_actions();
    bench.published.clear();
    bench.order(two(2).asked(0, 1).whole());
    assert_eq!(bench.take_actions(), [stop("m1"), start("m1"), stop("m2"), start("m2")]);
    let told: Vec<(u32, u32)> = bench
        .published
        .iter()
        .filter_map(|message| match message {
            contract::report::ReportMessage::Delta(delta) => delta.pods.put.get(&pod(A)),
            contract::report::ReportMessage::Whole(report) => report.pods.get(&pod(A)),
            contract::report::ReportMessage::Heartbeat(_) => None,
        })
        .map(|facts| (facts.restarts, facts.restarts_done))
        .collect();
    assert!(told.len() > 1 && told.iter().all(|pair| pair.0 == pair.1), "{told:?}");
    assert_eq!(told.last(), Some(&(1, 1)));
}

#[test]
fn a_restart_of_an_exited_pod_only_starts_it() {
    let mut bench = Bench::new().start();
    bench.order(never(1, TargetState::Run).whole());
    bench.crash("m1");
    bench.take_actions();
    bench.pass(secs(1));
    bench.order(never(2, TargetState::Run).asked(0, 1).whole());
    assert_eq!(bench.take_actions(), [start("m1")]);
    assert_eq!((bench.reported(A).state, bench.reported(A).restarts, answers(&bench)), (RunState::Success, 1, (0, 1)));
}

#[test]
fn a_restart_of_a_crash_looping_pod_begins_a_new_count() {
    let mut bench = running();
    for _ in 0..4 {
        bench.pass(secs(1));
        bench.crash("m1");
    }
    bench.order(order(1, 2).pod(A).asked(0, 1).whole());
    assert_eq!(
        (bench.reported(A).state, bench.reported(A).restarts, bench.reported(A).is_crash_looping),
        (RunState::Success, 1, false)
    );
}

/// Performs effects until Docker has done an action of this kind, and drops its result.
fn perform_until(bench: &mut Bench, first: Vec<Effect>, wanted: impl Fn(&Action) -> bool) {
    let mut queue: std::collections::VecDeque<Effect> = first.into();
    while let Some(effect) = queue.pop_front() {
        let last = matches!(&effect, Effect::Perform { action, .. } if wanted(action));
        let input = bench.perform(effect);
        if last {
            return;
        }
        if let Some(input) = input {
            queue.extend(bench.feed(input));
        }
    }
    panic!("no such action");
}

#[test]
fn a_restarted_agent_completes_an_interrupted_restart() {
    type Kind = fn(&Action) -> bool;
    let kinds: [(Kind, &[Action]); 2] = [
        (|action| matches!(action, Action::Stop { .. }), &[start("m1")]),
        (|action| matches!(action, Action::Start { .. }), &[]),
    ];
    for (kind, left) in kinds {
        let mut bench = running();
        let message = order(1, 2).pod(A).asked(0, 1).whole();
        let effects = bench.feed(Input::Order { message, reply: "r".to_owned() });
        bench.now = at(11);
        perform_until(&mut bench, effects, kind);
        bench.take_actions();
        bench.restart("run-2");
        bench.pass(secs(100));
        assert_eq!(bench.take_actions(), left);
        assert_eq!(
            (bench.reported(A).state, bench.reported(A).restarts, answers(&bench)),
            (RunState::Success, 1, (0, 1))
        );
    }
}

#[test]
fn a_restart_is_not_skipped_when_the_engines_clock_is_ahead() {
    let mut bench = Bench::new().start();
    bench.order(order(1, 1).pod(A).whole());
    bench.engine.containers.get_mut("m1").expect("made").started_at = at(3600);
    bench.pass(secs(60));
    bench.take_actions();
    bench.order(order(1, 2).pod(A).asked(0, 1).whole());
    assert_eq!(bench.take_actions(), [stop("m1"), start("m1")]);
    assert_eq!(answers(&bench), (0, 1));
}

#[test]
fn a_restart_waits_for_an_unreachable_engine() {
    let mut bench = running();
    bench.engine.failures = [ActionFailure::Unreachable("timed out".to_owned())].into();
    bench.order(order(1, 2).pod(A).asked(0, 1).whole());
    assert_eq!(answers(&bench), (0, 0));
    bench.pass(secs(1));
    assert_eq!(bench.take_actions(), [stop("m1"), stop("m1"), start("m1")]);
    assert_eq!((bench.reported(A).state, answers(&bench)), (RunState::Success, (0, 1)));
    bench.engine_is(EngineState::Down);
    bench.order(order(1, 3).pod(A).asked(0, 2).whole());
    bench.pass(secs(60));
    assert_eq!(answers(&bench), (0, 1));
    bench.engine_is(EngineState::Up);
    assert_eq!(answers(&bench), (0, 2));
}

#[test]
fn a_refused_restart_reports_the_engines_error() {
    let mut bench = running();
    bench.engine.failures = [refused("device busy")].into();
    bench.order(order(1, 2).pod(A).asked(0, 1).whole());
    assert_eq!(bench.take_actions(), [stop("m1")]);
    let facts = bench.reported(A);
    assert_eq!((facts.state, facts.last_error.as_str()), (RunState::Success, "Cannot restart container, device busy"));
    assert_eq!((facts.restarts, answers(&bench)), (0, (0, 1)));
}

#[test]
fn a_container_that_stopped_before_the_refusal_is_started() {
    let mut bench = Bench::new().start();
    bench.order(never(1, TargetState::Run).whole());
    bench.pass(secs(10));
    bench.take_actions();
    let message = never(2, TargetState::Run).asked(0, 1).whole();
    let effects = bench.feed(Input::Order { message, reply: "r".to_owned() });
    bench.end("m1", 0);
    bench.engine.failures = [refused("no")].into();
    bench.settle(effects);
    assert_eq!((bench.reported(A).state, answers(&bench)), (RunState::Exit, (0, 1)));
    bench.pass(secs(1));
    assert_eq!(bench.take_actions(), [stop("m1"), start("m1")]);
    assert_eq!((bench.reported(A).state, bench.reported(A).last_error.as_str()), (RunState::Success, ""));
}

#[test]
fn a_stop_wins_over_a_restart_and_completes_it() {
    let mut bench = running();
    let message = order(1, 2).pod(A).asked(0, 1).whole();
    let effects = bench.feed(Input::Order { message, reply: "r".to_owned() });
    let persisted = effects.into_iter().find_map(|effect| bench.perform(effect)).expect("a write");
    let in_flight = bench.feed(persisted);
    let in_flight = receive(&mut bench, in_flight);
    assert_eq!(actions_in(&in_flight), [&stop("m1")]);
    bench.order(order(1, 3).pod_with(A, 1, TargetState::Stop, RestartPolicy::Always).asked(0, 1).whole());
    bench.settle(in_flight);
    assert_eq!(bench.take_actions(), [stop("m1")]);
    assert_eq!((bench.reported(A).state, answers(&bench)), (RunState::Exit, (0, 1)));
    bench.pass(secs(300));
    assert_eq!(bench.take_actions(), []);
}

#[test]
fn a_stop_and_a_start_by_order_begin_a_new_count_of_one() {
    let mut bench = running();
    bench.crash("m1");
    bench.order(order(1, 2).pod_with(A, 1, TargetState::Stop, RestartPolicy::Always).whole());
    bench.pass(secs(1));
    bench.take_actions();
    bench.order(order(1, 3).pod(A).asked(1, 0).whole());
    assert_eq!(bench.take_actions(), [start("m1")]);
    assert_eq!((bench.reported(A).restarts, answers(&bench)), (1, (1, 0)));
}

#[test]
fn a_new_pod_completes_the_requests_of_its_predecessor_once_created() {
    let mut bench = Bench::new().start();
    let message = order(1, 1).pod(A).asked(2, 3).whole();
    let effects = bench.feed(Input::Order { message, reply: "r".to_owned() });
    let persisted = effects.into_iter().find_map(|effect| bench.perform(effect)).expect("a write");
    let making = bench.feed(persisted);
    let making = receive(&mut bench, making);
    assert_eq!((bench.reported(A).state, answers(&bench)), (RunState::Pending, (0, 0)));
    bench.settle(making);
    assert_eq!((bench.reported(A).state, answers(&bench), bench.reported(A).restarts), (RunState::Success, (2, 3), 0));
    assert_eq!(bench.take_actions().len(), 1);
}

#[test]
fn an_agent_without_its_ledger_does_not_repeat_old_restarts() {
    let mut bench = Bench::new().has(seen("x", A, Phase::Running)).start();
    bench.order(order(1, 1).pod(A).asked(2, 3).whole());
    assert_eq!((bench.take_actions(), answers(&bench), bench.reported(A).restarts), (vec![], (2, 3), 0));
}

#[test]
fn a_request_survives_a_failed_ledger_write() {
    let mut bench = running();
    let wanted = order(1, 2).pod(A).asked(0, 1).0;
    let effects = bench.feed(Input::Order { message: OrderMessage::Whole(wanted.clone()), reply: "r".to_owned() });
    let Some(Effect::Persist { id, .. }) = effects.first() else { panic!("a write: {effects:?}") };
    let effects = bench.feed(Input::Persisted { id: *id, result: Err("disk full".to_owned()) });
    bench.settle(effects);
    assert_eq!((bench.take_actions(), answers(&bench)), (vec![], (0, 0)));
    bench.order(OrderMessage::Whole(wanted));
    assert_eq!((bench.take_actions().len(), answers(&bench)), (2, (0, 1)));
}
