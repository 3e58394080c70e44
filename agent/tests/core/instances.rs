//! Reconciliation of instances: restarts, refusals, missing containers, grace.

use std::time::Duration;

use contract::state::{RestartPolicy, RunState, TargetState};

use super::bench::{A, Bench, actions_in, at, order, pod, running, secs, seen, settings};
use agent::core::io::{Action, ActionFailure, Effect, Faults, Input, Ledger, Mutant, Phase, Settings};

#[test]
fn an_ordered_pod_is_created_and_reported() {
    let bench = running();
    let facts = bench.reported(A);
    assert_eq!((facts.state, facts.containers.len(), facts.containers[0].running), (RunState::Success, 1, true));
    assert!(bench.disk.memory[&pod(A)].created);
}

#[test]
fn an_exited_container_is_restarted_without_delay() {
    let mut bench = running();
    let seen = bench.end("m1", 137);
    let effects = bench.feed(Input::Inspected { id: "m1".to_owned(), seen });
    assert_eq!(actions_in(&effects), [&Action::ReadEnd { id: "m1".to_owned() }]);
    bench.settle(effects);
    assert_eq!(bench.take_actions(), [Action::Start { id: "m1".to_owned() }]);
    assert_eq!((bench.reported(A).restarts, bench.reported(A).state), (1, RunState::Success));
    assert_eq!(bench.disk.memory[&pod(A)].restarts, 1);
}

#[test]
fn a_pod_that_leaves_the_order_during_its_creation_is_reported_as_leaving_until_it_is_gone() {
    let mut bench = Bench::new().start();
    let effects = bench.feed(Input::Order { message: order(1, 1).pod(A).whole(), reply: "r".to_owned() });
    let making = bench.settle_but_actions(effects);
    let effects = bench.feed(Input::Order { message: order(1, 2).whole(), reply: "r".to_owned() });
    assert_eq!(bench.settle_but_actions(effects), [], "the instance is busy with the creation");
    assert!(bench.reported(A).leaving, "the engine may have it any moment");
    bench.settle(making);
    assert_eq!(bench.facts(A), None, "made, then removed");
    assert_eq!(bench.take_actions().len(), 2);
}

#[test]
fn a_refused_create_is_reported_and_retried_with_back_off() {
    let mut bench = Bench::new().start();
    bench.engine.failures =
        [ActionFailure::Refused("no such image".to_owned()), ActionFailure::Refused("again".to_owned())].into();
    bench.order(order(1, 1).pod(A).whole());
    assert_eq!(bench.reported(A).state, RunState::Error);
    assert_eq!(bench.reported(A).last_error, "Cannot create container, no such image");
    bench.pass(Duration::from_millis(9_999));
    assert_eq!(bench.take_actions().len(), 1);
    bench.pass(secs(1));
    assert_eq!(
        (bench.take_actions().len(), bench.reported(A).last_error.as_str()),
        (1, "Cannot create container, again")
    );
    bench.pass(Duration::from_millis(18_999));
    assert_eq!(bench.take_actions().len(), 0);
    bench.pass(secs(2));
    assert_eq!((bench.reported(A).state, bench.reported(A).last_error.as_str()), (RunState::Success, ""));
    assert_eq!(bench.disk.memory[&pod(A)].failures, 0);
}

#[test]
fn a_new_drift_does_not_wait_for_the_back_off_of_the_old_one() {
    let mut bench = Bench::new().start();
    bench.engine.failures = [ActionFailure::Refused("no such image".to_owned())].into();
    bench.order(order(1, 1).pod(A).whole());
    bench.order(order(1, 2).pod("a.v1-i1-d1").whole());
    assert_eq!(bench.reported("a.v1-i1-d1").state, RunState::Success);
}

#[test]
fn an_unreachable_engine_is_no_failure_of_the_pod() {
    let mut bench = Bench::new().start();
    bench.engine.failures = [ActionFailure::Unreachable("timed out".to_owned())].into();
    bench.order(order(1, 1).pod(A).whole());
    assert_eq!((bench.reported(A).state, bench.reported(A).last_error.as_str()), (RunState::Pending, ""));
    bench.pass(secs(1));
    assert_eq!(bench.reported(A).state, RunState::Success);
    assert_eq!(bench.take_actions().len(), 2);
}

#[test]
fn a_create_whose_answer_was_lost_is_found_and_not_repeated() {
    let mut bench = Bench::new().start();
    let effects = bench.feed(Input::Order { message: order(1, 1).pod(A).whole(), reply: "r".to_owned() });
    bench.engine.failures = [ActionFailure::Unreachable("timed out".to_owned())].into();
    bench.add(seen("late", A, Phase::Running));
    bench.settle(effects);
    bench.pass(secs(5));
    assert_eq!((bench.take_actions().len(), bench.engine.containers.len()), (1, 1));
    assert_eq!(bench.reported(A).state, RunState::Success);
}

#[test]
fn a_vanished_container_is_missing_and_left_to_the_scheduler_first() {
    let mut bench = running();
    bench.engine.containers.clear();
    bench.run(Input::Inspected { id: "m1".to_owned(), seen: None });
    assert_eq!(bench.reported(A).state, RunState::Missing);
    assert_eq!(bench.reported(A).last_error, "Missing container \"m1\", no such container");
    bench.pass(secs(59));
    assert_eq!(bench.take_actions(), []);
    bench.pass(secs(1));
    assert_eq!(bench.take_actions().len(), 1, "without an order the agent recreates it");
    assert_eq!(bench.reported(A).state, RunState::Success);
}

#[test]
fn an_agent_disconnected_for_long_recreates_a_missing_container() {
    let mut bench = running();
    bench.run(Input::Bus { connected: false });
    bench.pass(secs(100));
    bench.engine.containers.clear();
    bench.run(Input::Inspected { id: "m1".to_owned(), seen: None });
    assert_eq!(bench.take_actions().len(), 1);
}

#[test]
fn the_answer_of_the_scheduler_replaces_a_missing_container() {
    let mut bench = running();
    bench.engine.containers.clear();
    bench.run(Input::Inspected { id: "m1".to_owned(), seen: None });
    bench.order(order(1, 2).pod("a.v1-i1-d1").whole());
    assert_eq!(bench.engine.containers.len(), 1);
    assert!(bench.facts(A).is_none());
    assert_eq!(bench.reported("a.v1-i1-d1").state, RunState::Success);
}

#[test]
fn an_upgrade_stops_the_old_revision_with_its_own_grace() {
    let mut bench = Bench::new().start();
    bench.order(order(1, 1).pod(A).respecify(|spec| spec.kill_timeout = 42).whole());
    bench.take_actions();
    bench.order(order(1, 2).pod("a.v2-i1-d0").whole());
    let actions = bench.take_actions();
    let [Action::Replace { old, grace, .. }] = actions.as_slice() else { panic!("{actions:?}") };
    assert_eq!((old.as_str(), *grace, bench.engine.containers.len()), ("m1", secs(42), 1));
}

#[test]
fn a_leaving_pod_is_reported_until_it_is_gone() {
    let mut bench = running();
    bench.engine.failures = [ActionFailure::Refused("device busy".to_owned())].into();
    bench.order(order(1, 2).whole());
    assert_eq!((bench.reported(A).leaving, bench.reported(A).state), (true, RunState::Success));
    assert_eq!(bench.reported(A).last_error, "Fail to remove container, device busy");
    bench.pass(secs(1));
    assert!(bench.facts(A).is_none() && bench.engine.containers.is_empty());
}

#[test]
fn a_container_that_exited_before_its_refused_removal_is_reported_as_exited() {
    let mut bench = running();
    bench.engine.containers.get_mut("m1").expect("made").phase = Phase::Exited;
    bench.engine.failures = [ActionFailure::Refused("device busy".to_owned())].into();
    bench.order(order(1, 2).whole());
    assert_eq!((bench.reported(A).leaving, bench.reported(A).state), (true, RunState::Exit));
}

#[test]
fn the_containers_of_a_pod_are_created_one_after_the_other() {
    let mut bench = Bench::new().start();
    bench.order(order(1, 1).pod_with(A, 3, TargetState::Run, RestartPolicy::Always).whole());
    let made: Vec<usize> = bench
        .take_actions()
        .iter()
        .map(|action| if let Action::Create { index, .. } = action { *index } else { panic!("{action:?}") })
        .collect();
    assert_eq!(made, [0, 1, 2]);
    assert_eq!(bench.reported(A).containers.len(), 3);
}

#[test]
fn instances_do_not_wait_for_each_other() {
    let mut bench = Bench::new().start();
    let effects = bench.feed(Input::Order {
        message: order(1, 1).pod(A).pod("b.v1-i1-d0").pod("b.v1-i2-d0").whole(),
        reply: "r".to_owned(),
    });
    let mut inputs: Vec<Input> = effects.into_iter().filter_map(|effect| bench.perform(effect)).collect();
    let effects = bench.feed(inputs.remove(0));
    assert_eq!(actions_in(&effects).len(), 3);
}

#[test]
fn an_exit_with_target_stop_is_not_restarted() {
    let mut bench = running();
    bench.order(order(1, 2).pod_with(A, 1, TargetState::Stop, RestartPolicy::Always).whole());
    assert_eq!(bench.reported(A).state, RunState::Exit);
    bench.take_actions();
    bench.pass(secs(300));
    assert_eq!(bench.take_actions(), []);
}

#[test]
fn an_inspection_older_than_the_last_action_restarts_nothing() {
    let mut bench = running();
    bench.now = at(10);
    let ended = bench.end("m1", 1);
    bench.now = at(11);
    bench.run(Input::Inspected { id: "m1".to_owned(), seen: ended.clone() });
    assert_eq!(bench.take_actions().len(), 1);
    bench.run(Input::Inspected { id: "m1".to_owned(), seen: ended });
    assert_eq!(bench.take_actions(), []);
    assert_eq!((bench.reported(A).restarts, bench.reported(A).state), (1, RunState::Success));
}

#[test]
fn a_clock_set_back_hides_an_exit_only_until_the_next_inventory() {
    let mut bench = running();
    let mut ended = bench.end("m1", 1).expect("it is there");
    ended.finished_at = at(-3600);
    ended.started_at = at(-7200);
    bench.add(ended.clone());
    bench.run(Input::Inspected { id: "m1".to_owned(), seen: Some(ended) });
    assert_eq!(bench.take_actions().len(), 1);
}

#[test]
fn an_inventory_is_ignored_for_instances_that_changed_meanwhile() {
    let mut bench = Bench::new().start();
    bench.pass(secs(29));
    bench.now = at(30);
    let effects = bench.feed(Input::Tick);
    assert!(effects.contains(&Effect::TakeInventory));
    bench.order(order(1, 1).pod(A).whole());
    bench.take_actions();
    bench.run(Input::Inventory(Vec::new()));
    assert_eq!(bench.reported(A).state, RunState::Success, "the inventory began before the container was made");
    assert_eq!(bench.take_actions(), []);
}

#[test]
fn a_pod_that_may_have_been_created_is_reported_until_the_next_inventory() {
    let mut bench = Bench::new().start();
    let effects = bench.feed(Input::Order { message: order(1, 1).pod(A).whole(), reply: "r".to_owned() });
    let actions = bench.settle_but_actions(effects);
    let [Effect::Perform { instance, action }] = actions.as_slice() else { panic!("{actions:?}") };
    bench.order(order(1, 2).whole());
    let result = Err(ActionFailure::Unreachable("no answer in time".to_owned()));
    let effects = bench.feed(Input::ActionDone { instance: instance.clone(), action: action.clone(), result });
    let (looks, told): (Vec<Effect>, Vec<Effect>) =
        effects.into_iter().partition(|effect| *effect == Effect::TakeInventory);
    bench.settle(told);
    assert!(bench.facts(A).is_some(), "it may not be reported as gone");
    bench.add(seen("late", A, Phase::Created));
    bench.settle(looks);
    bench.pass(secs(2));
    assert_eq!(
        (bench.facts(A).is_some(), bench.engine.containers.len()),
        (false, 0),
        "it is found, removed, and then gone"
    );
}

#[test]
fn a_refused_pod_that_was_created_after_all_recovers_once_it_is_found() {
    let mut bench = Bench::new();
    bench.engine.failures = [
        ActionFailure::Refused("no space left on device".to_owned()),
        ActionFailure::Unreachable("no answer in time".to_owned()),
    ]
    .into();
    let mut bench = bench.start();
    bench.order(order(1, 1).pod(A).whole());
    assert_eq!(bench.reported(A).state, RunState::Error, "it is refused");
    bench.add(seen("late", A, Phase::Running));
    bench.pass(secs(60));
    assert_eq!((bench.reported(A).state, bench.reported(A).last_error.as_str()), (RunState::Success, ""));
    assert_eq!((bench.disk.memory[&pod(A)].failures, bench.engine.containers.len()), (0, 1));
}

#[test]
fn of_two_containers_of_one_pod_one_is_removed() {
    let mut bench = Bench::new().has(seen("x", A, Phase::Running)).has(seen("y", A, Phase::Running)).start();
    bench.order(order(1, 1).pod(A).whole());
    assert_eq!(bench.engine.containers.keys().collect::<Vec<_>>(), ["x"]);
}

#[test]
fn containers_of_a_spared_group_are_left_alone() {
    let mut bench = running();
    let mut next = order(1, 2);
    next.0.spared.insert(pod(A).group);
    bench.order(next.whole());
    bench.crash("m1");
    bench.pass(secs(120));
    assert_eq!(bench.take_actions(), [], "neither removed nor started again");
    // Once the leader can read its record again, the group is reconciled as before.
    bench.order(order(2, 1).pod(A).whole());
    assert_eq!(bench.reported(A).state, RunState::Success);
}

#[test]
fn a_panic_on_one_instance_does_not_stop_the_others() {
    let settings = Settings { faults: Faults::of(Mutant::PanicsOnPurpose), ..settings() };
    let mut bench = Bench::with(settings, Ledger::default()).start();
    bench.order(order(1, 1).pod("panic.v1-i1-d0").pod(A).whole());
    bench.pass(secs(120));
    assert_eq!(bench.reported(A).state, RunState::Success);
    let groups: Vec<String> = bench.inventory().iter().map(|seen| seen.identity.pod.group.to_string()).collect();
    assert_eq!(groups, ["a"]);
}

#[test]
fn in_maintenance_an_exited_container_is_not_restarted_until_it_ends() {
    let mut bench = running();
    let mut next = order(1, 2).pod(A);
    next.0.switches.hold_restarts = true;
    bench.order(next.whole());
    bench.crash("m1");
    bench.pass(secs(120));
    assert_eq!(bench.take_actions(), []);
    assert_eq!((bench.reported(A).state, bench.reported(A).is_crash_looping), (RunState::Exit, false));
    // The switches are on disk with the order.
    bench.restart("run-2");
    bench.pass(secs(120));
    assert_eq!(bench.take_actions(), []);
    bench.order(order(1, 3).pod(A).whole());
    assert_eq!(bench.take_actions(), [Action::Start { id: "m1".to_owned() }]);
    assert_eq!(bench.reported(A).state, RunState::Success);
}

#[test]
fn with_the_guard_off_an_agent_without_contact_recreates_nothing() {
    let mut bench = running();
    let mut next = order(1, 2).pod(A);
    next.0.switches.hold_missing = true;
    bench.order(next.whole());
    bench.engine.containers.clear();
    bench.pass(secs(600));
    assert_eq!(bench.take_actions(), []);
    assert_eq!(bench.reported(A).state, RunState::Missing);
    bench.order(order(1, 3).pod(A).whole());
    bench.pass(secs(600));
    assert_eq!(bench.reported(A).state, RunState::Success, "with the guard on the agent recreates it");
}
