//! The switches (read-only, maintenance, guard, engine on/off) and constraints reach every node and survive a takeover.

use contract::command::{Decision, Operation, Refusal};
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
        match self.query(Query::Engine) {
            Answer::Engine(engine) => engine,
            other => panic!("not the engine: {other:?}"),
        }
    }
    fn switches(&self) -> Vec<Switches> {
        self.agents.values().map(|agent| agent.order.switches).collect()
    }
    /// Reports a pod as missing.
    fn lose_pod(&mut self, name: &str, pod: &str) {
        self.agent(name).states.insert(pod.to_owned(), RunState::Missing);
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
            assert_eq!(rig.outcomes[&id].decision, Decision::Refused(Refusal::ReadOnly), "{number}");
        }
        rig.take_over();
        rig.command("late", remove("web"));
        assert_eq!(
            rig.outcomes["late"].decision,
            Decision::Refused(Refusal::ReadOnly),
            "read-only survives a takeover"
        );
        assert_eq!(rig.command("c3", configure(Some(false), Some(false))), "Accepted");
        rig.advance(1);
        assert_eq!(rig.command("c4", remove("web")), "Accepted");
    }
}

#[test]
fn read_only_and_maintenance_are_set_separately() {
    let mut rig = rig(&["a"]);
    rig.command("c1", configure(Some(true), None));
    rig.command("c2", configure(None, Some(true)));
    assert_eq!(rig.engine(), EngineRecord { readonly: true, maintenance: true, ..EngineRecord::default() });
    rig.clear();
    rig.command("c3", configure(None, None));
    assert!(!rig.written().contains(keys::ENGINE), "a command without a change writes nothing");
}

#[test]
fn maintenance_reaches_every_node_also_one_that_joins_later() {
    let mut rig = rig(&["a", "b"]);
    let held = Switches { hold_restarts: true, hold_missing: false, paused: false };
    rig.command("c1", configure(None, Some(true)));
    assert_eq!(rig.switches(), [held; 2]);
    rig.agents.insert(node("c"), FakeNode::default());
    rig.report("c");
    assert_eq!(rig.switches(), [held; 3]);
    rig.clear();
    rig.take_over();
    rig.advance(30);
    assert_eq!(rig.switches(), [held; 3]);
    assert_eq!(rig.core.disagreements(), 0);
    rig.command("c2", configure(None, Some(false)));
    assert_eq!(rig.switches(), [Switches::default(); 3]);
}

#[test]
fn a_missing_instance_is_replaced_during_maintenance() {
    let mut rig = rig(&["a"]);
    rig.command("c1", create("web", 1));
    rig.advance(1);
    rig.command("c2", configure(None, Some(true)));
    rig.lose_pod("a", "web.v0-i1-d0");
    assert_eq!(rig.places("web"), [("a".to_owned(), 1)]);
}

#[test]
fn a_switch_is_sent_to_nodes_only_after_its_commit() {
    let mut rig = rig(&["a"]);
    let delivery = rig.delivery("c1", configure(None, Some(true)));
    let effects = rig.input(Input::Command(delivery));
    let id = only_commit(&effects).id;
    let effects = without_events(rig.input(Input::Committed { id, result: CommitResult::Stored }));
    assert!(matches!(&effects[..], [Effect::Resolve { .. }, Effect::SendOrder { .. }]), "{effects:?}");
}

#[test]
fn a_stopped_engine_accepts_commands_and_reconciles_nothing_until_it_starts() {
    let mut rig = rig(&["a", "b"]);
    rig.command("c1", create("web", 2));
    rig.command("c2", create("old", 1));
    rig.advance(1);
    assert_eq!(rig.command("c3", run_engine(false)), "Accepted");
    let before: Vec<_> = ["a", "b"].map(|name| rig.pods(name)).into();
    assert_eq!(rig.command("c4", create("api", 1)), "Accepted");
    assert_eq!(rig.command("c5", replica("web", 4)), "Accepted");
    assert_eq!(rig.command("c6", remove("old")), "Accepted");
    assert_eq!(rig.command("c7", replica("web", 5)), "Refused(Locked { operation: Scheduling })");
    rig.lose_pod("a", "web.v0-i1-d0");
    rig.clear();
    rig.advance(30);
    rig.take_over();
    rig.advance(30);
    assert_eq!(["a", "b"].map(|name| rig.pods(name)).to_vec(), before, "nothing is placed, moved, retried or removed");
    assert_eq!(rig.written(), BTreeSet::new());
    assert!(!rig.engine().running, "the switch survives a takeover");
    let view = rig.group("api").expect("a group");
    assert_eq!((view.pods.len(), view.operation), (1, Some(Operation::Deploying)));
    assert!(rig.group("old").is_none(), "users do not see it");
    assert_eq!(rig.command("c8", run_engine(true)), "Accepted");
    rig.advance(2);
    assert_eq!(rig.group("web").expect("a group").state, RunState::Success);
    assert_eq!((rig.places("web").len(), rig.places("api").len()), (4, 1));
    assert_eq!(rig.places("web")[0].1, 1, "the missing instance was replaced");
    assert!(!rig.store.contains_key(&keys::group(&group("old"))), "the removal was carried out");
}

#[test]
fn a_stopped_engine_with_pending_work_asks_for_no_immediate_tick() {
    let mut rig = rig(&["a"]);
    rig.command("c1", run_engine(false));
    rig.command("c2", create("web", 1));
    assert!(rig.core.wake_at().is_some_and(|at| at > rig.time()), "{:?}", rig.core.wake_at());
}

#[test]
fn instances_of_a_lost_node_move_only_when_the_engine_runs() {
    let mut rig = rig(&["a", "b"]);
    rig.command("c1", create("web", 2));
    rig.advance(1);
    rig.command("c2", run_engine(false));
    rig.unreachable.insert(node("b"));
    rig.advance(400);
    assert_eq!(rig.places("web"), [("a".to_owned(), 0), ("b".to_owned(), 0)]);
    rig.command("c3", run_engine(true));
    rig.advance(1);
    assert_eq!(rig.places("web"), [("a".to_owned(), 0), ("a".to_owned(), 1)]);
}

#[test]
fn missing_instances_are_replaced_only_while_the_guard_works() {
    let mut rig = rig(&["a"]);
    rig.command("c1", create("web", 1));
    rig.advance(1);
    assert_eq!(rig.command("c2", guard(false)), "Accepted");
    assert_eq!(rig.switches(), [Switches { hold_restarts: false, hold_missing: true, paused: false }]);
    rig.lose_pod("a", "web.v0-i1-d0");
    rig.advance(60);
    rig.take_over();
    rig.advance(60);
    assert_eq!(rig.places("web"), [("a".to_owned(), 0)]);
    let view = rig.group("web").expect("a group");
    assert_eq!(view.last_error, "its container on node a is missing and the guard sleeps");
    // Other groups are placed meanwhile.
    assert_eq!(rig.command("c3", create("api", 1)), "Accepted");
    assert_eq!(rig.places("api"), [("a".to_owned(), 0)]);
    assert_eq!(rig.command("c4", guard(true)), "Accepted");
    assert_eq!(rig.places("web"), [("a".to_owned(), 1)]);
    assert_eq!(rig.switches(), [Switches::default()]);
}

#[test]
fn a_constraint_keeps_new_instances_off_a_node_and_survives_a_takeover() {
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
fn an_unschedulable_instance_is_placed_when_the_constraint_is_removed() {
    let mut rig = rig(&["a"]);
    rig.command("c1", avoid("a", false));
    rig.command("c2", create("web", 1));
    assert_eq!(rig.places("web"), [("nowhere".to_owned(), 0)]);
    assert_eq!(rig.group("web").expect("a group").last_error, "no node fits: a: constraint:node!=a not met");
    rig.command("c3", Verb::RemoveConstraint { kind: "node".to_owned() });
    rig.advance(2);
    assert_eq!(rig.places("web"), [("a".to_owned(), 0)]);
}

#[test]
fn a_malformed_constraint_is_refused() {
    let mut rig = rig(&["a"]);
    for (number, (kind, value)) in [("no de", "a"), ("", "a"), ("node", "/(/")].into_iter().enumerate() {
        let constraint = Constraint { kind: kind.to_owned(), equal: false, value: value.to_owned(), soft: true };
        let decision = rig.command(&format!("c{number}"), Verb::SetConstraint { constraint });
        assert!(decision.starts_with("Refused(Malformed"), "{kind:?} {value:?}: {decision}");
    }
    let long = Constraint { kind: "node".to_owned(), value: "x".repeat(513), ..Constraint::default() };
    assert!(rig.command("long", Verb::SetConstraint { constraint: long }).starts_with("Refused(Limit"));
}

#[test]
fn with_unreadable_switches_the_engine_stops_until_a_user_starts_it() {
    let mut rig = rig(&["a"]);
    rig.command("c1", create("web", 1));
    rig.advance(1);
    rig.store.insert(keys::ENGINE.to_owned(), b"?".to_vec());
    rig.take_over();
    assert_eq!((rig.dead_letters.len(), rig.engine().running), (1, false));
    rig.lose_pod("a", "web.v0-i1-d0");
    rig.advance(5);
    assert_eq!(rig.places("web"), [("a".to_owned(), 0)]);
    // A command without a change is written too, so that the record becomes readable.
    rig.command("c2", run_engine(false));
    let stored: EngineRecord = serde_json::from_slice(&rig.store[keys::ENGINE]).expect("a record");
    assert!(!stored.running);
    rig.command("c3", run_engine(true));
    assert_eq!(rig.places("web"), [("a".to_owned(), 1)]);
}

#[test]
fn unreadable_constraints_stop_placement_until_a_user_sets_a_constraint() {
    let mut rig = rig(&["a"]);
    rig.command("c1", create("web", 1));
    rig.advance(10);
    rig.store.insert(keys::CONSTRAINTS.to_owned(), b"{\"constraints\":7}".to_vec());
    rig.store.insert(keys::CALLBACKS.to_owned(), b"7".to_vec());
    rig.take_over();
    rig.command("c2", create("more", 1));
    rig.advance(10);
    assert_eq!(rig.pods("a").len(), 1, "the leader does not know which nodes are excluded");
    let warnings = rig.cluster_view().warnings;
    assert!(warnings.iter().any(|it| it.contains("constraints cannot be read")), "{warnings:?}");
    assert!(warnings.iter().any(|it| it.contains("callbacks cannot be read")), "{warnings:?}");
    let constraint =
        contract::switches::Constraint { kind: "node".to_owned(), value: "b".to_owned(), ..Default::default() };
    assert_eq!(rig.command("c3", Verb::SetConstraint { constraint }), "Accepted");
    assert_eq!(rig.command("c4", Verb::AddCallback { url: "http://127.0.0.1/x".to_owned() }), "Accepted");
    rig.advance(10);
    assert_eq!(rig.pods("a").len(), 2);
    assert_eq!(rig.cluster_view().warnings, [""; 0]);
}
