//! What happens when the engine or the agent goes away and comes back.

use contract::report::{EngineState, ReportMessage};
use contract::state::RunState;

use super::bench::{Bench, at, order, secs, seen, settings};
use crate::core::io::{Effect, Input, Ledger, Phase, Settings};

const A: &str = "a.v1-i1-d0";

fn running() -> Bench {
    let mut bench = Bench::new().start();
    bench.order(order(1, 1).pod(A).whole());
    bench.take_actions();
    bench
}

#[test]
fn the_first_input_whatever_it_is_begins_an_inventory() {
    for input in [Input::Tick, Input::FullReportRequested, Input::Bus { connected: true }] {
        assert_eq!(Bench::new().feed(input), [Effect::TakeInventory]);
    }
}

#[test]
fn without_an_engine_no_step_begins_and_the_last_facts_stand() {
    let mut bench = running();
    let before = bench.told(A).clone();
    bench.engine_is(EngineState::Hung);
    bench.order(order(1, 2).pod(A).pod("b.v1-i1-d0").whole());
    bench.pass(secs(600));
    assert_eq!(bench.take_actions(), []);
    assert_eq!(bench.told(A), &before);
    assert_eq!(bench.told("b.v1-i1-d0").state, RunState::Pending);
    assert_eq!(bench.copy.as_ref().expect("reported").head.engine, EngineState::Hung);
    bench.engine_is(EngineState::Up);
    assert_eq!(bench.take_actions().len(), 1);
    assert_eq!(bench.told("b.v1-i1-d0").state, RunState::Success);
}

#[test]
fn an_engine_that_comes_back_is_looked_at_before_anything_is_done() {
    let mut bench = running();
    bench.engine_is(EngineState::Down);
    let effects = bench.feed(Input::Engine(EngineState::Up));
    assert_eq!(effects[0], Effect::TakeInventory);
    assert!(!effects.iter().any(|effect| matches!(effect, Effect::Perform { .. })), "{effects:?}");
}

#[test]
fn ends_that_were_the_engines_doing_are_repaired_and_not_counted() {
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
        (bench.told(A).state, bench.told(A).restarts, bench.told(A).is_crash_looping),
        (RunState::Success, 0, false)
    );
}

#[test]
fn a_look_that_comes_before_the_inventory_of_a_returned_engine_excuses_too() {
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
    assert_eq!((bench.told(A).state, bench.told(A).restarts), (RunState::Success, 0));
}

#[test]
fn a_restart_counted_while_the_engine_was_going_down_is_given_back() {
    let mut bench = running();
    bench.now = at(50);
    bench.crash("m1");
    assert_eq!(bench.told(A).restarts, 1);
    bench.now = at(52);
    bench.engine_is(EngineState::Down);
    bench.now = at(60);
    bench.end("m1", 137);
    bench.engine_is(EngineState::Up);
    assert_eq!(bench.told(A).restarts, 0);
}

#[test]
fn an_end_while_the_engine_was_well_is_counted_also_when_only_the_reread_finds_it() {
    let mut bench = running();
    bench.now = at(10);
    bench.end("m1", 1);
    bench.pass(secs(60));
    assert_eq!((bench.told(A).state, bench.told(A).restarts), (RunState::Success, 1));
}

#[test]
fn a_restarted_agent_adopts_what_runs() {
    let mut bench = running();
    bench.restart("run-2");
    bench.pass(secs(100));
    assert_eq!(bench.take_actions(), []);
    assert_eq!(bench.told(A).state, RunState::Success);
}

#[test]
fn after_a_reboot_everything_runs_again_and_nothing_is_counted() {
    let mut bench = running();
    bench.end("m1", 255);
    bench.restart("run-2");
    bench.run(Input::Tick);
    assert_eq!((bench.told(A).state, bench.told(A).restarts), (RunState::Success, 0));
}

#[test]
fn a_crash_between_create_and_memory_makes_no_second_container() {
    let mut bench = Bench::new().start();
    let effects = bench.feed(Input::Order { message: order(1, 1).pod(A).whole(), reply: "r".to_owned() });
    let Some(persisted) = effects.into_iter().find_map(|effect| bench.perform(effect)) else { panic!("a write") };
    for effect in bench.feed(persisted) {
        bench.perform(effect);
    }
    assert_eq!(bench.engine.len(), 1);
    bench.restart("run-2");
    bench.pass(secs(100));
    assert_eq!((bench.engine.len(), bench.told(A).state), (1, RunState::Success));
}

/// What an earlier run asked for comes when nobody wants it any more.
fn comes_late_and_is_removed(bench: &mut Bench) {
    assert!(bench.told(A).leaving, "it may still come");
    bench.engine.insert("late".to_owned(), seen("late", A, Phase::Running));
    bench.pass(secs(10));
    assert_eq!((bench.facts(A), bench.engine.len()), (None, 0), "it came, and was removed");
}

#[test]
fn what_an_earlier_run_may_have_asked_for_is_told_of_until_it_cannot_come_any_more() {
    let mut bench = Bench::new().start();
    let effects = bench.feed(Input::Order { message: order(1, 1).pod(A).whole(), reply: "r".to_owned() });
    let Some(persisted) = effects.into_iter().find_map(|effect| bench.perform(effect)) else { panic!("a write") };
    bench.feed(persisted);
    // It ended before the engine had made the container, and is told at once that nobody wants it.
    bench.restart("run-2");
    let listing = bench.feed(Input::Order { message: order(1, 2).whole(), reply: "r".to_owned() });
    bench.settle(listing);
    bench.pass(secs(5));
    comes_late_and_is_removed(&mut bench);
}

#[test]
fn what_was_withdrawn_while_it_was_being_made_is_told_of_by_the_next_run_too() {
    let mut bench = Bench::new().start();
    for order in [order(1, 1).pod(A), order(1, 2)] {
        let effects = bench.feed(Input::Order { message: order.whole(), reply: "r".to_owned() });
        let Some(persisted) = effects.into_iter().find_map(|effect| bench.perform(effect)) else { panic!("a write") };
        // The step that follows from the first is with the engine and does not come back.
        bench.feed(persisted);
    }
    bench.restart("run-2");
    bench.pass(secs(5));
    comes_late_and_is_removed(&mut bench);
}

#[test]
fn what_did_not_come_from_an_earlier_run_in_time_is_gone() {
    let mut bench = running();
    bench.engine.clear();
    bench.restart("run-2");
    bench.order(order(1, 2).whole());
    bench.pass(secs(5));
    assert!(bench.told(A).leaving);
    bench.pass(secs(10));
    assert_eq!(bench.facts(A), None);
}

#[test]
fn before_the_first_inventory_nothing_is_called_missing() {
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
    assert_eq!(bench.told(A).state, RunState::Success);
}

#[test]
fn an_inventory_that_comes_while_the_engine_is_away_does_not_replace_the_look_after_its_return() {
    let mut bench = running();
    bench.now = at(30);
    assert_eq!(bench.feed(Input::Tick)[0], Effect::TakeInventory);
    bench.engine_is(EngineState::Down);
    bench.order(order(1, 2).whole());
    bench.run(Input::Inventory(bench.engine.values().cloned().collect()));
    bench.engine_is(EngineState::Up);
    assert!(bench.engine.is_empty(), "what the order dropped meanwhile is removed");
}

#[test]
fn an_inventory_that_never_comes_is_asked_for_again() {
    let mut bench = Bench::new();
    assert_eq!(bench.feed(Input::Tick), [Effect::TakeInventory]);
    bench.now = at(29);
    assert_eq!(bench.feed(Input::Tick), []);
    bench.now = at(30);
    assert_eq!(bench.feed(Input::Tick), [Effect::TakeInventory]);
}

#[test]
fn a_ledger_that_was_lost_is_made_anew_from_what_stands_there() {
    let mut bench = Bench::with(Settings { ..settings() }, Ledger::default()).has(seen("x", A, Phase::Running)).start();
    bench.order(order(1, 1).pod(A).whole());
    assert_eq!(bench.take_actions(), []);
    bench.engine.clear();
    bench.run(Input::Inspected { id: "x".to_owned(), seen: None });
    assert_eq!(bench.told(A).state, RunState::Missing, "it was there once, so it is missing and not new");
}
