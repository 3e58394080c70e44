//! Outages and restarts of the engine and the agent.

use contract::report::{EngineState, ReportMessage};
use contract::state::RunState;

use super::bench::{A, Bench, at, order, running, secs, seen, settings};
use agent::core::io::{Effect, Input, Ledger, Phase, Settings};

#[test]
fn any_first_input_requests_an_inventory() {
    for input in [Input::Tick, Input::FullReportRequested, Input::Bus { connected: true }] {
        assert_eq!(Bench::new().feed(input), [Effect::TakeInventory]);
    }
}

#[test]
fn without_an_engine_no_action_starts_and_the_last_facts_stay() {
    let mut bench = running();
    let before = bench.reported(A).clone();
    bench.engine_is(EngineState::Hung);
    bench.order(order(1, 2).pod(A).pod("b.v1-i1-d0").whole());
    bench.pass(secs(600));
    assert_eq!(bench.take_actions(), []);
    assert_eq!(bench.reported(A), &before);
    assert_eq!(bench.reported("b.v1-i1-d0").state, RunState::Pending);
    assert_eq!(bench.copy.as_ref().expect("reported").head.engine, EngineState::Hung);
    bench.engine_is(EngineState::Up);
    assert_eq!(bench.take_actions().len(), 1);
    assert_eq!(bench.reported("b.v1-i1-d0").state, RunState::Success);
}

#[test]
fn after_an_engine_outage_an_inventory_comes_before_any_action() {
    let mut bench = running();
    bench.engine_is(EngineState::Down);
    let effects = bench.feed(Input::Engine(EngineState::Up));
    assert_eq!(effects[0], Effect::TakeInventory);
    assert!(!effects.iter().any(|effect| matches!(effect, Effect::Perform { .. })), "{effects:?}");
}

#[test]
fn exits_caused_by_the_engine_are_repaired_and_not_counted() {
    let mut bench = running();
    for round in 0..10 {
        bench.now = at(100 * (round + 1));
        bench.engine_is(EngineState::Down);
        bench.now = at(100 * (round + 1) + 10);
        bench.end("m1", 137);
        bench.engine_is(EngineState::Up);
    }
    assert_eq!(bench.take_actions().len(), 10);
    assert_eq!(
        (bench.reported(A).state, bench.reported(A).restarts, bench.reported(A).is_crash_looping),
        (RunState::Success, 0, false)
    );
}

#[test]
fn an_inspection_before_the_inventory_of_a_returned_engine_is_excused_too() {
    let mut bench = running();
    bench.now = at(100);
    bench.engine_is(EngineState::Down);
    bench.now = at(110);
    let ended = bench.end("m1", 137);
    let effects = bench.feed(Input::Engine(EngineState::Up));
    let (inventory, told): (Vec<Effect>, Vec<Effect>) =
        effects.into_iter().partition(|effect| *effect == Effect::TakeInventory);
    assert_eq!(inventory.len(), 1);
    bench.settle(told);
    bench.run(Input::Inspected { id: "m1".to_owned(), seen: ended });
    bench.settle(inventory);
    bench.pass(secs(100));
    assert_eq!((bench.reported(A).state, bench.reported(A).restarts), (RunState::Success, 0));
}

#[test]
fn a_restart_counted_while_the_engine_was_shutting_down_is_uncounted() {
    let mut bench = running();
    bench.now = at(50);
    bench.crash("m1");
    assert_eq!(bench.reported(A).restarts, 1);
    bench.now = at(52);
    bench.engine_is(EngineState::Down);
    bench.now = at(60);
    bench.end("m1", 137);
    bench.engine_is(EngineState::Up);
    assert_eq!(bench.reported(A).restarts, 0);
}

#[test]
fn an_exit_found_by_the_periodic_inventory_is_counted() {
    let mut bench = running();
    bench.now = at(10);
    bench.end("m1", 1);
    bench.pass(secs(60));
    assert_eq!((bench.reported(A).state, bench.reported(A).restarts), (RunState::Success, 1));
}

#[test]
fn a_restarted_agent_adopts_running_containers() {
    let mut bench = running();
    bench.restart("run-2");
    bench.pass(secs(100));
    assert_eq!(bench.take_actions(), []);
    assert_eq!(bench.reported(A).state, RunState::Success);
}

#[test]
fn after_a_reboot_everything_runs_again_and_nothing_is_counted() {
    let mut bench = running();
    bench.end("m1", 255);
    bench.restart("run-2");
    bench.run(Input::Tick);
    assert_eq!((bench.reported(A).state, bench.reported(A).restarts), (RunState::Success, 0));
}

#[test]
fn a_crash_between_create_and_ledger_write_creates_no_second_container() {
    let mut bench = Bench::new().start();
    let effects = bench.feed(Input::Order { message: order(1, 1).pod(A).whole(), reply: "r".to_owned() });
    let Some(persisted) = effects.into_iter().find_map(|effect| bench.perform(effect)) else { panic!("a write") };
    for effect in bench.feed(persisted) {
        bench.perform(effect);
    }
    assert_eq!(bench.engine.containers.len(), 1);
    bench.restart("run-2");
    bench.pass(secs(100));
    assert_eq!((bench.engine.containers.len(), bench.reported(A).state), (1, RunState::Success));
}

/// A creation of an earlier process completes after the pod left the order.
fn comes_late_and_is_removed(bench: &mut Bench) {
    assert!(bench.reported(A).leaving, "it may still come");
    bench.add(seen("late", A, Phase::Running));
    bench.pass(secs(10));
    assert_eq!((bench.facts(A), bench.engine.containers.len()), (None, 0), "it came, and was removed");
}

#[test]
fn creations_that_may_be_in_flight_after_a_restart_are_reported_for_11_s() {
    let mut bench = Bench::new().start();
    let effects = bench.feed(Input::Order { message: order(1, 1).pod(A).whole(), reply: "r".to_owned() });
    let Some(persisted) = effects.into_iter().find_map(|effect| bench.perform(effect)) else { panic!("a write") };
    bench.feed(persisted);
    // The agent died before Docker created the container; the next order is without the pod.
    bench.restart("run-2");
    let listing = bench.feed(Input::Order { message: order(1, 2).whole(), reply: "r".to_owned() });
    bench.settle(listing);
    bench.pass(secs(5));
    comes_late_and_is_removed(&mut bench);
}

#[test]
fn a_pod_withdrawn_during_its_creation_is_reported_after_a_restart_too() {
    let mut bench = Bench::new().start();
    for order in [order(1, 1).pod(A), order(1, 2)] {
        let effects = bench.feed(Input::Order { message: order.whole(), reply: "r".to_owned() });
        let Some(persisted) = effects.into_iter().find_map(|effect| bench.perform(effect)) else { panic!("a write") };
        // The result of the first action is lost.
        bench.feed(persisted);
    }
    bench.restart("run-2");
    bench.pass(secs(5));
    comes_late_and_is_removed(&mut bench);
}

#[test]
fn a_creation_of_an_earlier_process_that_does_not_appear_within_11_s_is_gone() {
    let mut bench = running();
    bench.engine.containers.clear();
    bench.restart("run-2");
    bench.order(order(1, 2).whole());
    bench.pass(secs(5));
    assert!(bench.reported(A).leaving);
    bench.pass(secs(10));
    assert_eq!(bench.facts(A), None);
}

#[test]
fn no_pod_is_missing_before_the_first_inventory() {
    let mut bench = running();
    bench.restart("run-2");
    bench.published.clear();
    bench.copy = None;
    let effects = bench.feed(Input::FullReportRequested);
    assert_eq!(effects, [Effect::TakeInventory]);
    let effects = bench.feed(Input::Engine(EngineState::Down));
    assert!(matches!(&effects[..], [Effect::Publish(ReportMessage::Whole(report))]
        if report.pods.values().all(|facts| facts.state == RunState::Pending) && report.pods.len() == 1));
    bench.settle(effects);
    bench.engine_is(EngineState::Up);
    assert_eq!(bench.reported(A).state, RunState::Success);
}

#[test]
fn an_inventory_received_during_an_engine_outage_is_ignored() {
    let mut bench = running();
    bench.now = at(30);
    assert_eq!(bench.feed(Input::Tick)[0], Effect::TakeInventory);
    bench.engine_is(EngineState::Down);
    bench.order(order(1, 2).whole());
    bench.run(Input::Inventory(bench.inventory()));
    bench.engine_is(EngineState::Up);
    assert!(bench.engine.containers.is_empty(), "what the order dropped meanwhile is removed");
}

#[test]
fn a_lost_inventory_is_requested_again() {
    let mut bench = Bench::new();
    assert_eq!(bench.feed(Input::Tick), [Effect::TakeInventory]);
    bench.now = at(29);
    assert_eq!(bench.feed(Input::Tick), []);
    bench.now = at(30);
    assert_eq!(bench.feed(Input::Tick), [Effect::TakeInventory]);
}

#[test]
fn a_lost_ledger_is_rebuilt_from_the_containers() {
    let mut bench = Bench::with(Settings { ..settings() }, Ledger::default()).has(seen("x", A, Phase::Running)).start();
    bench.order(order(1, 1).pod(A).whole());
    assert_eq!(bench.take_actions(), []);
    bench.engine.containers.clear();
    bench.run(Input::Inspected { id: "x".to_owned(), seen: None });
    assert_eq!(bench.reported(A).state, RunState::Missing, "it was there once, so it is missing and not new");
}
