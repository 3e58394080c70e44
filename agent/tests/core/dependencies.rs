//! Dependency pods, the switches for them, and spared groups.

use contract::state::RunState;

use super::bench::{Bench, order, secs, seen};
use agent::core::io::{Action, Effect, Input, Phase};

const A: &str = "a.v1-i1-d0";
const D: &str = "svc.portal.portal-n1-a.v1-i0-d0";

fn running() -> Bench {
    let mut bench = Bench::new().start();
    bench.order(order(1, 1).pod(A).pod(D).whole());
    bench.take_actions();
    bench
}
fn id_of(bench: &Bench, pod: &str) -> String {
    let found = bench.inventory().into_iter().find(|seen| seen.identity.pod == super::bench::pod(pod));
    found.expect("a container").id
}
fn vanish(bench: &mut Bench, pod: &str) {
    let id = id_of(bench, pod);
    bench.engine.containers.remove(&id);
    bench.run(Input::Inspected { id, seen: None });
}

#[test]
fn a_missing_dependency_pod_is_recreated_without_delay_under_its_name() {
    let mut bench = running();
    vanish(&mut bench, D);
    assert_eq!(bench.take_actions().len(), 1);
    assert_eq!((bench.reported(D).state, bench.reported(A).state), (RunState::Success, RunState::Success));
    vanish(&mut bench, A);
    assert_eq!((bench.take_actions(), bench.reported(A).state), (vec![], RunState::Missing), "an instance is not");
}

#[test]
fn a_stateful_dependency_pod_is_recreated_too() {
    let mut bench = Bench::new().start();
    bench.order(order(1, 1).pod(D).respecify(|spec| spec.stateful = true).whole());
    bench.take_actions();
    vanish(&mut bench, D);
    assert_eq!((bench.take_actions().len(), bench.reported(D).state), (1, RunState::Success));
}

#[test]
fn a_dependency_pod_is_recreated_in_maintenance_and_with_the_guard_off_but_not_with_scheduling_off() {
    let mut bench = running();
    let both = |generation| order(1, generation).pod(A).pod(D);
    bench.order(both(2).switches(|switches| (switches.hold_restarts, switches.hold_missing) = (true, true)).whole());
    let (a, d) = (id_of(&bench, A), id_of(&bench, D));
    bench.crash(&a);
    bench.crash(&d);
    assert_eq!(bench.take_actions(), [Action::Start { id: d.clone() }]);
    vanish(&mut bench, D);
    assert_eq!(bench.take_actions().len(), 1);
    bench.order(both(3).switches(|switches| switches.paused = true).whole());
    let again = id_of(&bench, D);
    bench.crash(&again);
    bench.pass(secs(120));
    assert_eq!(bench.take_actions(), []);
    vanish(&mut bench, D);
    bench.pass(secs(120));
    assert_eq!((bench.take_actions(), bench.reported(D).state), (vec![], RunState::Missing));
    bench.order(both(4).whole());
    assert_eq!(bench.take_actions().len(), 2, "what ended and what vanished comes back with the engine");
    assert_eq!((bench.reported(A).state, bench.reported(D).state), (RunState::Success, RunState::Success));
}

#[test]
fn with_scheduling_off_orders_are_still_applied() {
    let mut bench = running();
    bench.order(order(1, 2).pod(A).pod("b.v1-i1-d0").asked(0, 1).switches(|switches| switches.paused = true).whole());
    assert_eq!((bench.reported("b.v1-i1-d0").state, bench.facts(D)), (RunState::Success, None));
    assert_eq!((bench.reported(A).state, bench.reported(A).restarts_done), (RunState::Success, 1));
}

#[test]
fn pods_of_a_spared_dependency_are_left_alone() {
    let mut bench = running();
    bench.order(order(1, 2).pod(A).spare("svc.portal.portal").whole());
    let d = id_of(&bench, D);
    bench.crash(&d);
    bench.pass(secs(120));
    assert_eq!((bench.take_actions(), bench.engine.containers.len()), (vec![], 2));
    // No longer spared and not ordered: removed.
    bench.order(order(1, 3).pod(A).whole());
    assert_eq!((bench.take_actions().len(), bench.engine.containers.len()), (1, 1));
}

#[test]
fn a_spared_dependency_spares_no_instance_and_no_other_dependency() {
    let names =
        ["svc.portal.portal-n1-a.v1-i1-d0", "svc.portal.portals-n1-a.v1-i0-d0", "svc.portal.porta-n1-a.v1-i0-d0"];
    let mut bench = Bench::new();
    for (number, name) in names.iter().enumerate() {
        bench = bench.has(seen(&format!("c{number}"), name, Phase::Running));
    }
    let mut bench = bench.start();
    bench.order(order(1, 1).spare("svc.portal.portal").whole());
    assert!(bench.engine.containers.is_empty(), "{:?}", bench.engine.containers);
}

#[test]
fn a_requested_whole_report_takes_an_inventory_at_most_once_a_second() {
    let looks = |effects: &[Effect]| effects.iter().filter(|effect| **effect == Effect::TakeInventory).count();
    let mut bench = running();
    bench.pass(secs(5));
    bench.engine.containers.get_mut("m1").expect("made").address = "10.0.0.9".to_owned();
    let effects = bench.feed(Input::FullReportRequested);
    assert_eq!(looks(&effects), 1);
    bench.settle(effects);
    assert_eq!(bench.reported(A).containers[0].ip, "10.0.0.9", "the inventory finds changes without an event");
    for _ in 0..10 {
        let effects = bench.feed(Input::FullReportRequested);
        assert_eq!(looks(&effects), 0);
        bench.settle(effects);
    }
    assert_eq!(bench.core.wake_at(), Some(bench.now + secs(1)));
    bench.now = bench.now + secs(1);
    let effects = bench.feed(Input::Tick);
    assert_eq!(looks(&effects), 1);
    bench.settle(effects);
    assert_eq!(bench.core.wake_at(), Some(bench.now + secs(2)), "only the next sign of life is due");
}
