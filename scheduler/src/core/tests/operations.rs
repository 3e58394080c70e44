//! Start, stop and restart: accepted when the group is not locked, carried out by its nodes, kept across a takeover.

use super::*;
use contract::command::{Act, Operation};
use contract::record::{GroupRecord, OperationRecord};

pub(super) fn operate(name: &str, act: Act, instance: u32) -> Verb {
    Verb::Operate { name: group(name), act, instance }
}
/// Three instances of `web` on nodes a, b and a.
pub(super) fn web() -> Rig {
    let mut rig = rig(&["a", "b"]);
    rig.command("c1", create("web", 3));
    rig.advance(2);
    rig.clear();
    rig
}
fn targets(rig: &Rig) -> Vec<TargetState> {
    rig.instances("web").iter().map(|instance| instance.target).collect()
}

#[test]
fn an_operation_on_an_unknown_or_locked_group_is_refused() {
    let mut rig = rig(&["a"]);
    assert_eq!(rig.command("c1", operate("web", Act::Stop, 0)), "Refused(GroupUnknown)");
    rig.command("c2", create("web", 1));
    for (number, act) in [Act::Start, Act::Stop, Act::Restart, Act::Nothing].into_iter().enumerate() {
        let decision = rig.command(&format!("l{number}"), operate("web", act, 0));
        assert_eq!(decision, "Refused(Locked { operation: Deploying })");
    }
    rig.advance(2);
    rig.command("c3", remove("web"));
    assert_eq!(rig.command("c4", operate("web", Act::Stop, 0)), "Refused(GroupUnknown)");
}

#[test]
fn an_operation_without_an_act_or_an_existing_instance_is_accepted_and_does_nothing() {
    let mut rig = web();
    rig.command("c2", create("none", 0));
    rig.advance(2);
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
            // A stopped engine does not start the accepted operation.
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
fn stopping_one_instance_affects_no_other_and_survives_a_takeover() {
    let mut rig = web();
    assert_eq!(rig.command("c2", operate("web", Act::Stop, 2)), "Accepted");
    rig.advance(5);
    let expected = vec![TargetState::Run, TargetState::Stop, TargetState::Run];
    assert_eq!((targets(&rig), rig.group("web").expect("a group").operation), (expected.clone(), None));
    rig.clear();
    rig.take_over();
    rig.advance(60);
    assert_eq!((targets(&rig), rig.written()), (expected, BTreeSet::new()));
    let order = &rig.agents[&node("b")].order.pods;
    assert_eq!(order.values().map(|assignment| assignment.target).collect::<Vec<_>>(), [TargetState::Stop]);
    let view = rig.group("web").expect("a group");
    assert_eq!(view.pods[1].facts.state, RunState::Exit);
}

#[test]
fn a_stopped_group_starts_again_and_counts_the_requested_starts() {
    let mut rig = web();
    rig.command("c2", operate("web", Act::Stop, 0));
    rig.advance(60);
    assert_eq!(targets(&rig), [TargetState::Stop; 3]);
    assert_eq!(rig.command("c3", operate("web", Act::Start, 0)), "Accepted");
    rig.advance(60);
    assert_eq!(targets(&rig), [TargetState::Run; 3]);
    assert!(rig.instances("web").iter().all(|instance| instance.starts_requested == 1), "{:?}", rig.instances("web"));
    let view = rig.group("web").expect("a group");
    assert_eq!((view.state, view.operation), (RunState::Success, None));
}

#[test]
fn a_restart_continues_under_the_next_leader_and_restarts_every_instance_once() {
    let mut rig = web();
    assert_eq!(rig.command("c2", operate("web", Act::Restart, 0)), "Accepted");
    for _ in 0..40 {
        rig.take_over();
        rig.advance(5);
    }
    let view = rig.group("web").expect("a group");
    assert_eq!((view.state, view.operation), (RunState::Success, None));
    assert!(rig.instances("web").iter().all(|instance| instance.restarts_requested == 1), "{:?}", rig.instances("web"));
}

#[test]
fn a_stopped_engine_keeps_an_operation_until_it_starts() {
    let mut rig = web();
    rig.command("c2", Verb::RunEngine { running: false });
    assert_eq!(rig.command("c3", operate("web", Act::Stop, 0)), "Accepted");
    assert_eq!(rig.command("c4", operate("web", Act::Start, 0)), "Refused(Locked { operation: Stopping })");
    rig.advance(30);
    rig.take_over();
    rig.advance(30);
    assert_eq!(targets(&rig), [TargetState::Run; 3]);
    rig.command("c5", Verb::RunEngine { running: true });
    rig.advance(5);
    assert_eq!((targets(&rig), rig.record("web").operation), (vec![TargetState::Stop; 3], None));
}

/// Three instances whose nodes have received their orders and not reported yet.
fn starting() -> Rig {
    let mut rig = rig(&["a", "b"]);
    rig.command("c1", create("web", 3));
    rig
}
fn addresses(rig: &Rig) -> usize {
    rig.core.state.groups[&group("web")].instances().iter().filter(|instance| !instance.addresses.is_empty()).count()
}

#[test]
fn a_starting_group_is_reconciled_when_its_last_instance_runs() {
    let mut rig = starting();
    for name in ["a", "b"] {
        for pod in rig.pods(name) {
            let facts = ContainerFacts { running: true, ip: "10.0.0.1".to_owned(), ..Default::default() };
            rig.agent(name).containers.insert(pod, vec![facts]);
        }
    }
    rig.report("a");
    assert_eq!((addresses(&rig), rig.record("web").operation.is_some()), (0, true), "the first report changes nothing");
    rig.report("b");
    assert_eq!((addresses(&rig), rig.record("web").operation), (3, None));
}

#[test]
fn a_starting_group_without_progress_is_reconciled_after_a_while() {
    let mut rig = starting();
    // The sweep reconciles one group every two seconds, so it does not reach this group within the test.
    for number in 0..60 {
        rig.command(&format!("other-{number}"), create(&format!("other{number:02}"), 0));
    }
    let (running, missing) = (rig.pods("a"), rig.pods("b"));
    for pod in running {
        let facts = ContainerFacts { running: true, ip: "10.0.0.1".to_owned(), ..Default::default() };
        rig.agent("a").containers.insert(pod, vec![facts]);
    }
    for pod in &missing {
        rig.agent("b").states.insert(pod.clone(), RunState::Pending);
    }
    rig.report_all();
    rig.advance(25);
    assert_eq!(addresses(&rig), 0, "the check after 20 s found progress");
    rig.advance(20);
    assert_eq!((addresses(&rig), rig.record("web").operation.is_some()), (3 - missing.len(), true));
}

#[test]
fn a_failed_instance_of_a_starting_group_is_reconciled_immediately() {
    let mut rig = starting();
    let pod = rig.pods("b")[0].clone();
    rig.agent("b").states.insert(pod, RunState::Error);
    rig.report("b");
    assert_eq!(rig.instances("web").iter().map(|instance| instance.failures).sum::<u32>(), 1);
}
