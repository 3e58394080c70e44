//! Start, stop and restart: taken when the group is free, carried out by its nodes, kept over a change of leader.

use super::*;
use contract::command::{Act, Operation};
use contract::record::{GroupRecord, OperationRecord};

pub(super) fn operate(name: &str, act: Act, instance: u32) -> Verb {
    Verb::Operate { name: group(name), act, instance }
}
/// Three instances that run, on two nodes.
fn web() -> Rig {
    let mut rig = rig(&["a", "b"]);
    rig.command("c1", create("web", 3));
    rig.pass(2);
    rig.clear();
    rig
}
fn targets(rig: &Rig) -> Vec<TargetState> {
    rig.slots("web").iter().map(|slot| slot.target).collect()
}

#[test]
fn an_operation_needs_a_group_that_is_there_and_free() {
    let mut rig = rig(&["a"]);
    assert_eq!(rig.command("c1", operate("web", Act::Stop, 0)), "Refused(GroupUnknown)");
    rig.command("c2", create("web", 1));
    for (number, act) in [Act::Start, Act::Stop, Act::Restart, Act::Nothing].into_iter().enumerate() {
        let verdict = rig.command(&format!("l{number}"), operate("web", act, 0));
        assert_eq!(verdict, "Refused(Locked { operation: Deploying })");
    }
    rig.pass(2);
    rig.command("c3", remove("web"));
    assert_eq!(rig.command("c4", operate("web", Act::Stop, 0)), "Refused(GroupUnknown)");
}

#[test]
fn what_names_no_instance_or_no_act_is_accepted_and_does_nothing() {
    let mut rig = web();
    rig.command("c2", create("none", 0));
    rig.pass(2);
    let (record, none) = (rig.record("web"), rig.record("none"));
    let cases = [(Act::Nothing, 0), (Act::Stop, 4), (Act::Restart, u32::MAX)];
    for (number, (act, instance)) in cases.into_iter().enumerate() {
        assert_eq!(rig.command(&format!("n{number}"), operate("web", act, instance)), "Accepted");
    }
    assert_eq!(rig.command("c3", operate("none", Act::Stop, 0)), "Accepted");
    assert_eq!((rig.record("web"), rig.record("none")), (record, none));
}

#[test]
fn an_accepted_operation_holds_the_lock_over_its_range_and_clears_the_last_error() {
    for (act, kind) in
        [(Act::Start, Operation::Starting), (Act::Stop, Operation::Stopping), (Act::Restart, Operation::Restarting)]
    {
        for (instance, next, last) in [(0, 1, 3), (2, 2, 2)] {
            let mut rig = web();
            let mut record = rig.record("web");
            record.last_error = "old".to_owned();
            let (key, value) = contract::layout::put_group(&group("web"), &record);
            rig.store.insert(key, value);
            rig.take_over();
            // A stopped engine keeps what was accepted as it was accepted.
            rig.command("c2", Verb::RunEngine { running: false });
            rig.now += 5_000;
            assert_eq!(rig.command("c3", operate("web", act, instance)), "Accepted");
            let operation = Some(OperationRecord { kind, since: rig.time(), next, last });
            let expected = GroupRecord { operation, updated_at: rig.time(), last_error: String::new(), ..record };
            assert_eq!(rig.record("web"), expected);
        }
    }
}

#[test]
fn a_stop_of_one_instance_stops_it_and_no_other_and_survives_the_leader() {
    let mut rig = web();
    assert_eq!(rig.command("c2", operate("web", Act::Stop, 2)), "Accepted");
    rig.pass(5);
    let expected = vec![TargetState::Run, TargetState::Stop, TargetState::Run];
    assert_eq!((targets(&rig), rig.group("web").expect("a group").operation), (expected.clone(), None));
    rig.clear();
    rig.take_over();
    rig.pass(60);
    assert_eq!((targets(&rig), rig.written()), (expected, BTreeSet::new()));
    let order = &rig.agents[&node("b")].order.pods;
    assert_eq!(order.values().map(|assignment| assignment.target).collect::<Vec<_>>(), [TargetState::Stop]);
    let view = rig.group("web").expect("a group");
    assert_eq!(view.pods[1].facts.state, RunState::Exit);
}

#[test]
fn a_stopped_group_starts_again_and_counts_what_was_asked() {
    let mut rig = web();
    rig.command("c2", operate("web", Act::Stop, 0));
    rig.pass(60);
    assert_eq!(targets(&rig), [TargetState::Stop; 3]);
    assert_eq!(rig.command("c3", operate("web", Act::Start, 0)), "Accepted");
    rig.pass(60);
    assert_eq!(targets(&rig), [TargetState::Run; 3]);
    assert!(rig.slots("web").iter().all(|slot| slot.starts_requested == 1), "{:?}", rig.slots("web"));
    let view = rig.group("web").expect("a group");
    assert_eq!((view.state, view.operation), (RunState::Success, None));
}

#[test]
fn a_restart_goes_on_under_the_next_leader_and_touches_every_instance_once() {
    let mut rig = web();
    assert_eq!(rig.command("c2", operate("web", Act::Restart, 0)), "Accepted");
    for _ in 0..40 {
        rig.take_over();
        rig.pass(5);
    }
    let view = rig.group("web").expect("a group");
    assert_eq!((view.state, view.operation), (RunState::Success, None));
    assert!(rig.slots("web").iter().all(|slot| slot.restarts_requested == 1), "{:?}", rig.slots("web"));
}

#[test]
fn a_stopped_engine_keeps_an_operation_until_it_starts() {
    let mut rig = web();
    rig.command("c2", Verb::RunEngine { running: false });
    assert_eq!(rig.command("c3", operate("web", Act::Stop, 0)), "Accepted");
    assert_eq!(rig.command("c4", operate("web", Act::Start, 0)), "Refused(Locked { operation: Stopping })");
    rig.pass(30);
    rig.take_over();
    rig.pass(30);
    assert_eq!(targets(&rig), [TargetState::Run; 3]);
    rig.command("c5", Verb::RunEngine { running: true });
    rig.pass(5);
    assert_eq!((targets(&rig), rig.record("web").operation), (vec![TargetState::Stop; 3], None));
}

/// Three instances on two nodes that were told to make them and have not said anything since.
fn coming_up() -> Rig {
    let mut rig = rig(&["a", "b"]);
    rig.command("c1", create("web", 3));
    rig
}
fn addresses(rig: &Rig) -> usize {
    rig.core.state.groups[&group("web")].slots().iter().filter(|slot| !slot.addresses.is_empty()).count()
}

#[test]
fn a_group_that_comes_up_is_looked_at_when_the_last_instance_is_there() {
    let mut rig = coming_up();
    for name in ["a", "b"] {
        for pod in rig.pods(name) {
            let facts = ContainerFacts { running: true, ip: "10.0.0.1".to_owned(), ..Default::default() };
            rig.agents.get_mut(&node(name)).expect("an agent").containers.insert(pod, vec![facts]);
        }
    }
    rig.report("a");
    assert_eq!((addresses(&rig), rig.record("web").operation.is_some()), (0, true), "nothing follows from the first");
    rig.report("b");
    assert_eq!((addresses(&rig), rig.record("web").operation), (3, None));
}

#[test]
fn a_group_that_comes_up_is_looked_at_when_it_does_not_get_on_whoever_is_missing() {
    let mut rig = coming_up();
    // The slow sweep looks at one group every two seconds: this one's turn is far off.
    for number in 0..60 {
        rig.command(&format!("other-{number}"), create(&format!("other{number:02}"), 0));
    }
    let (there, missing) = (rig.pods("a"), rig.pods("b"));
    for pod in there {
        let facts = ContainerFacts { running: true, ip: "10.0.0.1".to_owned(), ..Default::default() };
        rig.agents.get_mut(&node("a")).expect("an agent").containers.insert(pod, vec![facts]);
    }
    for pod in &missing {
        rig.agents.get_mut(&node("b")).expect("an agent").states.insert(pod.clone(), RunState::Pending);
    }
    rig.report_all();
    rig.pass(25);
    assert_eq!(addresses(&rig), 0, "it got on since it was made");
    rig.pass(20);
    assert_eq!((addresses(&rig), rig.record("web").operation.is_some()), (3 - missing.len(), true));
}

#[test]
fn an_instance_that_fails_while_its_group_comes_up_is_answered_at_once() {
    let mut rig = coming_up();
    let pod = rig.pods("b")[0].clone();
    rig.agents.get_mut(&node("b")).expect("an agent").states.insert(pod, RunState::Error);
    rig.report("b");
    assert_eq!(rig.slots("web").iter().map(|slot| slot.failures).sum::<u32>(), 1);
}
