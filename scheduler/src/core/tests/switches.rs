//! The switches are stored, known to every node and to the next leader, and hold back what they say and nothing else.

use contract::command::{Operation, Refusal, Verdict};
use contract::switches::{Constraint, EngineRecord, Switches};

use super::*;

fn configure(readonly: Option<bool>, maintenance: Option<bool>) -> Verb {
    Verb::Configure { readonly, maintenance }
}
fn run_engine(running: bool) -> Verb {
    Verb::RunEngine { running }
}
fn guard(working: bool) -> Verb {
    Verb::Guard { working }
}
fn avoid(node: &str, soft: bool) -> Verb {
    let constraint = Constraint { kind: "node".to_owned(), equal: false, value: node.to_owned(), soft };
    Verb::SetConstraint { constraint }
}

impl Rig {
    fn engine(&mut self) -> EngineRecord {
        self.run(Input::Query { query: Query::Engine, reply: "query".to_owned() });
        match self.replies.remove("query").expect("an answer").answer {
            Answer::Engine(engine) => engine,
            other => panic!("not the engine: {other:?}"),
        }
    }
    fn switches(&self) -> Vec<Switches> {
        self.agents.values().map(|agent| agent.order.switches).collect()
    }
    fn vanish(&mut self, name: &str, pod: &str) {
        self.agents.get_mut(&node(name)).expect("an agent").states.insert(pod.to_owned(), RunState::Missing);
        self.report(name);
    }
}

#[test]
fn a_read_only_engine_refuses_every_change_but_its_own_configuration() {
    for on in [configure(Some(true), None), configure(None, Some(true))] {
        let mut rig = rig(&["a"]);
        rig.command("c1", create("web", 1));
        assert_eq!(rig.command("c2", on), "Accepted");
        let constraint = Verb::RemoveConstraint { kind: "node".to_owned() };
        let callback = Verb::AddCallback { url: "u".to_owned() };
        let changes = [replica("web", 2), remove("web"), create("api", 1), run_engine(false), guard(false)];
        for (number, verb) in changes.into_iter().chain([constraint, callback, avoid("a", true)]).enumerate() {
            let id = format!("r{number}");
            rig.command(&id, verb);
            assert_eq!(rig.outcomes[&id].verdict, Verdict::Refused(Refusal::ReadOnly), "{number}");
        }
        rig.take_over();
        rig.command("late", remove("web"));
        assert_eq!(rig.outcomes["late"].verdict, Verdict::Refused(Refusal::ReadOnly), "it survives the leader");
        assert_eq!(rig.command("c3", configure(Some(false), Some(false))), "Accepted");
        rig.pass(1);
        assert_eq!(rig.command("c4", remove("web")), "Accepted");
    }
}

#[test]
fn a_configuration_is_changed_in_parts() {
    let mut rig = rig(&["a"]);
    rig.command("c1", configure(Some(true), None));
    rig.command("c2", configure(None, Some(true)));
    assert_eq!(rig.engine(), EngineRecord { readonly: true, maintenance: true, ..EngineRecord::default() });
    rig.clear();
    rig.command("c3", configure(None, None));
    assert!(!rig.written().contains(keys::ENGINE), "what changes nothing writes nothing");
}

#[test]
fn every_node_hears_of_maintenance_and_so_does_one_that_comes_later() {
    let mut rig = rig(&["a", "b"]);
    let held = Switches { hold_restarts: true, hold_missing: false, paused: false };
    rig.command("c1", configure(None, Some(true)));
    assert_eq!(rig.switches(), [held; 2]);
    rig.agents.insert(node("c"), Agent::new());
    rig.report("c");
    assert_eq!(rig.switches(), [held; 3]);
    rig.clear();
    rig.take_over();
    rig.pass(30);
    assert_eq!(rig.switches(), [held; 3]);
    assert_eq!(rig.core.disagreements(), 0);
    rig.command("c2", configure(None, Some(false)));
    assert_eq!(rig.switches(), [Switches::default(); 3]);
}

#[test]
fn in_maintenance_a_missing_instance_is_still_made_anew() {
    let mut rig = rig(&["a"]);
    rig.command("c1", create("web", 1));
    rig.pass(1);
    rig.command("c2", configure(None, Some(true)));
    rig.vanish("a", "web.v0-i1-d0");
    assert_eq!(rig.places("web"), [("a".to_owned(), 1)]);
}

#[test]
fn no_node_hears_of_a_switch_before_it_is_stored() {
    let mut rig = rig(&["a"]);
    let delivery = rig.delivery("c1", configure(None, Some(true)));
    let effects = rig.input(Input::Command(delivery));
    let [Effect::Commit(commit)] = &effects[..] else { panic!("not a commit alone: {effects:?}") };
    let effects = without_events(rig.input(Input::Committed { id: commit.id, result: CommitResult::Stored }));
    assert!(matches!(&effects[..], [Effect::Resolve { .. }, Effect::SendOrder { .. }]), "{effects:?}");
}

#[test]
fn a_stopped_engine_keeps_commands_and_makes_no_plan_until_it_starts() {
    let mut rig = rig(&["a", "b"]);
    rig.command("c1", create("web", 2));
    rig.command("c2", create("old", 1));
    rig.pass(1);
    assert_eq!(rig.command("c3", run_engine(false)), "Accepted");
    let before: Vec<_> = ["a", "b"].map(|name| rig.pods(name)).into();
    assert_eq!(rig.command("c4", create("api", 1)), "Accepted");
    assert_eq!(rig.command("c5", replica("web", 4)), "Accepted");
    assert_eq!(rig.command("c6", remove("old")), "Accepted");
    assert_eq!(rig.command("c7", replica("web", 5)), "Refused(Locked { operation: Scheduling })");
    rig.vanish("a", "web.v0-i1-d0");
    rig.clear();
    rig.pass(30);
    rig.take_over();
    rig.pass(30);
    assert_eq!(["a", "b"].map(|name| rig.pods(name)).to_vec(), before, "nothing is placed, moved, retried or removed");
    assert_eq!(rig.written(), BTreeSet::new());
    assert!(!rig.engine().running, "it survives the leader");
    let view = rig.group("api").expect("the group is there");
    assert_eq!((view.pods.len(), view.operation), (1, Some(Operation::Deploying)));
    assert!(rig.group("old").is_none(), "to users it is gone");
    assert_eq!(rig.command("c8", run_engine(true)), "Accepted");
    rig.pass(2);
    assert_eq!(rig.group("web").expect("a group").state, RunState::Success);
    assert_eq!((rig.places("web").len(), rig.places("api").len()), (4, 1));
    assert_eq!(rig.places("web")[0].1, 1, "the missing one was made anew");
    assert!(!rig.store.contains_key(&keys::group(&group("old"))), "the removal was carried out");
}

#[test]
fn a_stopped_engine_with_work_to_do_does_not_ask_to_be_woken_at_once() {
    let mut rig = rig(&["a"]);
    rig.command("c1", run_engine(false));
    rig.command("c2", create("web", 1));
    assert!(rig.core.wake_at().is_some_and(|at| at > rig.time()), "{:?}", rig.core.wake_at());
}

#[test]
fn a_lost_node_is_given_up_only_when_the_engine_runs() {
    let mut rig = rig(&["a", "b"]);
    rig.command("c1", create("web", 2));
    rig.pass(1);
    rig.command("c2", run_engine(false));
    rig.cut.insert(node("b"));
    rig.pass(400);
    assert_eq!(rig.places("web"), [("a".to_owned(), 0), ("b".to_owned(), 0)]);
    rig.command("c3", run_engine(true));
    rig.pass(1);
    assert_eq!(rig.places("web"), [("a".to_owned(), 0), ("a".to_owned(), 1)]);
}

#[test]
fn while_the_guard_sleeps_missing_instances_wait_and_are_made_anew_when_it_wakes() {
    let mut rig = rig(&["a"]);
    rig.command("c1", create("web", 1));
    rig.pass(1);
    assert_eq!(rig.command("c2", guard(false)), "Accepted");
    assert_eq!(rig.switches(), [Switches { hold_restarts: false, hold_missing: true, paused: false }]);
    rig.vanish("a", "web.v0-i1-d0");
    rig.pass(60);
    rig.take_over();
    rig.pass(60);
    assert_eq!(rig.places("web"), [("a".to_owned(), 0)]);
    let view = rig.group("web").expect("a group");
    assert_eq!(view.last_error, "its container on node a is missing and the guard sleeps");
    // It does not keep anything else from being planned.
    assert_eq!(rig.command("c3", create("api", 1)), "Accepted");
    assert_eq!(rig.places("api"), [("a".to_owned(), 0)]);
    assert_eq!(rig.command("c4", guard(true)), "Accepted");
    assert_eq!(rig.places("web"), [("a".to_owned(), 1)]);
    assert_eq!(rig.switches(), [Switches::default()]);
}

#[test]
fn a_constraint_keeps_new_instances_off_a_node_and_survives_the_leader() {
    let mut rig = rig(&["a", "b"]);
    assert_eq!(rig.command("c1", avoid("a", true)), "Accepted");
    rig.take_over();
    rig.command("c2", create("web", 3));
    assert_eq!(rig.places("web"), [("b".to_owned(), 0), ("b".to_owned(), 0), ("b".to_owned(), 0)]);
    assert_eq!(rig.command("c3", Verb::RemoveConstraint { kind: "node".to_owned() }), "Accepted");
    assert_eq!(rig.command("c4", Verb::RemoveConstraint { kind: "node".to_owned() }), "Refused(ConstraintUnknown)");
    rig.command("c5", create("api", 1));
    assert_eq!(rig.places("api"), [("a".to_owned(), 0)]);
}

#[test]
fn who_waits_for_a_place_gets_one_when_the_constraint_goes() {
    let mut rig = rig(&["a"]);
    rig.command("c1", avoid("a", false));
    rig.command("c2", create("web", 1));
    assert_eq!(rig.places("web"), [("nowhere".to_owned(), 0)]);
    assert_eq!(rig.group("web").expect("a group").last_error, "no node fits: a: constraint:node!=a not met");
    rig.command("c3", Verb::RemoveConstraint { kind: "node".to_owned() });
    rig.pass(2);
    assert_eq!(rig.places("web"), [("a".to_owned(), 0)]);
}

#[test]
fn a_constraint_nobody_could_meet_by_mistake_is_refused() {
    let mut rig = rig(&["a"]);
    for (number, (kind, value)) in [("no de", "a"), ("", "a"), ("node", "/(/")].into_iter().enumerate() {
        let constraint = Constraint { kind: kind.to_owned(), equal: false, value: value.to_owned(), soft: true };
        let verdict = rig.command(&format!("c{number}"), Verb::SetConstraint { constraint });
        assert!(verdict.starts_with("Refused(Malformed"), "{kind:?} {value:?}: {verdict}");
    }
    let long = Constraint { kind: "node".to_owned(), value: "x".repeat(513), ..Constraint::default() };
    assert!(rig.command("long", Verb::SetConstraint { constraint: long }).starts_with("Refused(Limit"));
}

#[test]
fn over_switches_that_cannot_be_read_nothing_is_planned_until_somebody_says_so() {
    let mut rig = rig(&["a"]);
    rig.command("c1", create("web", 1));
    rig.pass(1);
    rig.store.insert(keys::ENGINE.to_owned(), b"?".to_vec());
    rig.take_over();
    assert_eq!((rig.buried.len(), rig.engine().running), (1, false));
    rig.vanish("a", "web.v0-i1-d0");
    rig.pass(5);
    assert_eq!(rig.places("web"), [("a".to_owned(), 0)]);
    // Even what changes nothing is written: the record must be readable again.
    rig.command("c2", run_engine(false));
    let stored: EngineRecord = serde_json::from_slice(&rig.store[keys::ENGINE]).expect("a record");
    assert!(!stored.running);
    rig.command("c3", run_engine(true));
    assert_eq!(rig.places("web"), [("a".to_owned(), 1)]);
}

#[test]
fn constraints_that_cannot_be_read_hold_placement_back_until_one_is_set_anew() {
    let mut rig = rig(&["a"]);
    rig.command("c1", create("web", 1));
    rig.pass(10);
    rig.store.insert(keys::CONSTRAINTS.to_owned(), b"{\"constraints\":7}".to_vec());
    rig.store.insert(keys::CALLBACKS.to_owned(), b"7".to_vec());
    rig.take_over();
    rig.command("c2", create("more", 1));
    rig.pass(10);
    assert_eq!(rig.pods("a").len(), 1, "which nodes are kept out of placement is not known");
    let warnings = super::foreign_store::cluster(&mut rig).warnings;
    assert!(warnings.iter().any(|it| it.contains("constraints cannot be read")), "{warnings:?}");
    assert!(warnings.iter().any(|it| it.contains("callbacks cannot be read")), "{warnings:?}");
    let constraint =
        contract::switches::Constraint { kind: "node".to_owned(), value: "b".to_owned(), ..Default::default() };
    assert_eq!(rig.command("c3", Verb::SetConstraint { constraint }), "Accepted");
    assert_eq!(rig.command("c4", Verb::AddCallback { url: "http://127.0.0.1/x".to_owned() }), "Accepted");
    rig.pass(10);
    assert_eq!(rig.pods("a").len(), 2);
    assert_eq!(super::foreign_store::cluster(&mut rig).warnings, [""; 0]);
}
