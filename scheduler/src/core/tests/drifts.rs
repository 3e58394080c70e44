//! Instances leave a node when told to, wait for its word before they start elsewhere, and an evacuation is one command.

use super::*;
use contract::command::{Act, Drift, Operation};

use super::operations::operate;
use super::upgrades::{image, patch};

fn drift(from: &str, to: Option<&str>) -> Drift {
    Drift { from: node(from), to: to.map(node), force: false, instance: None }
}
fn of(name: &str, drift: Drift) -> Verb {
    Verb::Drift { drift, group: Some(group(name)) }
}
fn of_all(drift: Drift) -> Verb {
    Verb::Drift { drift, group: None }
}
fn evacuate(name: &str) -> Verb {
    Verb::Evacuate { node: node(name) }
}
fn nodes_of(rig: &Rig, name: &str) -> Vec<String> {
    rig.places(name).into_iter().map(|(place, _)| place).collect()
}
/// `web` on a, b and a.
fn web() -> Rig {
    let mut rig = rig(&["a", "b"]);
    rig.command("c1", create("web", 3));
    rig.pass(2);
    rig.clear();
    rig
}

#[test]
fn a_drift_is_checked_before_anything_moves() {
    let mut rig = web();
    let mut verdict = |id: &str, drift| rig.command(id, of("web", drift));
    let instance = |instance| Drift { instance: Some(instance), ..drift("a", None) };
    assert!(verdict("d1", drift("a", Some("a"))).starts_with("Refused(Malformed"));
    assert!(verdict("d2", instance(0)).starts_with("Refused(Malformed"));
    assert_eq!(verdict("d3", instance(4)), "Refused(InstanceUnknown { instance: 4, instances: 3 })");
    let record = rig.record("web");
    assert_eq!(rig.command("d4", of("nobody", drift("a", None))), "Accepted");
    assert_eq!(rig.command("d5", of("web", drift("nowhere", None))), "Accepted");
    assert_eq!(rig.command("d6", of_all(drift("nowhere", None))), "Accepted");
    assert_eq!(rig.record("web"), record, "nothing happens");
}

#[test]
fn a_drift_of_a_locked_group_waits_for_its_turn() {
    let mut rig = web();
    rig.command("c2", patch("web", image("web", "v1")));
    assert_eq!(rig.command("d1", of("web", drift("a", None))), "Accepted");
    assert_eq!(rig.record("web").operation.map(|operation| operation.kind), Some(Operation::Upgrading));
    rig.pass(240);
    assert_eq!(nodes_of(&rig, "web"), ["b", "b", "b"]);
    assert!(rig.record("web").operation.is_none() && rig.record("web").drifts.is_empty());
}

#[test]
fn a_drift_moves_what_is_there_to_where_it_is_told() {
    let mut rig = rig(&["a", "b", "c"]);
    rig.command("c1", create("web", 3));
    rig.pass(2);
    assert_eq!(rig.command("d1", of("web", drift("a", Some("b")))), "Accepted");
    rig.pass(120);
    assert_eq!(rig.places("web"), [("b".to_owned(), 1), ("b".to_owned(), 0), ("c".to_owned(), 0)]);
    let one = Drift { instance: Some(2), ..drift("b", None) };
    assert_eq!(rig.command("d2", of("web", one)), "Accepted");
    rig.pass(120);
    assert_ne!(nodes_of(&rig, "web")[1], "b");
    assert_eq!(rig.places("web")[0], ("b".to_owned(), 1), "it was not asked to move");
    let view = rig.group("web").expect("a group");
    assert_eq!((view.state, view.operation), (RunState::Success, None));
}

#[test]
fn nothing_starts_elsewhere_before_the_node_has_let_go_of_it() {
    let mut rig = web();
    rig.cling("a");
    rig.command("d1", of("web", drift("a", Some("b"))));
    for _ in 0..5 {
        rig.pass(10);
        rig.take_over();
        assert!(rig.copies("web").values().all(|copies| *copies <= 1), "{:?}", rig.copies("web"));
    }
    assert_eq!(rig.pods("b"), ["web.v0-i2-d0"]);
    rig.is_crash_looping("a");
    rig.pass(120);
    assert_eq!((nodes_of(&rig, "web"), rig.pods("a").len()), (vec!["b".to_owned(); 3], 0));
    assert!(rig.slots("web").iter().all(|slot| slot.leaves.is_none()), "{:?}", rig.slots("web"));
}

#[test]
fn a_node_that_is_silent_has_let_go_of_nothing_and_a_lost_one_of_everything() {
    let mut rig = web();
    rig.cut.insert(node("a"));
    rig.command("d1", of("web", drift("a", Some("b"))));
    rig.pass(200);
    assert_eq!(rig.pods("b"), ["web.v0-i2-d0"], "it may still run there");
    rig.pass(200);
    assert_eq!((nodes_of(&rig, "web"), rig.pods("b").len()), (vec!["b".to_owned(); 3], 3));
}

#[test]
fn a_node_whose_engine_does_not_answer_has_let_go_of_nothing() {
    let mut rig = web();
    rig.command("d1", Verb::RunEngine { running: false });
    rig.command("d2", of("web", drift("a", Some("b"))));
    rig.agents.get_mut(&node("a")).expect("an agent").engine = EngineState::Hung;
    rig.pass(2);
    rig.command("d3", Verb::RunEngine { running: true });
    rig.pass(60);
    assert_eq!(rig.pods("b"), ["web.v0-i2-d0"]);
    rig.agents.get_mut(&node("a")).expect("an agent").engine = EngineState::Up;
    rig.pass(120);
    assert_eq!(rig.pods("b").len(), 3);
}

#[test]
fn a_drift_of_every_group_waits_for_those_that_are_busy() {
    let mut rig = web();
    rig.command("c2", create("api", 2));
    rig.pass(2);
    rig.command("c3", patch("web", image("web", "v1")));
    assert_eq!(rig.command("d1", of_all(drift("a", None))), "Accepted");
    assert_eq!(rig.command("d2", of_all(drift("a", None))), "Accepted", "the same again changes nothing");
    assert_eq!(rig.record("web").drifts, [drift("a", None)]);
    rig.take_over();
    rig.pass(400);
    for name in ["web", "api"] {
        assert!(nodes_of(&rig, name).iter().all(|place| place == "b"), "{name}: {:?}", rig.places(name));
        let record = rig.record(name);
        assert_eq!((record.operation, record.drifts), (None, vec![]));
    }
    assert_eq!(rig.slots("web").iter().map(|slot| slot.version).collect::<Vec<_>>(), [1, 1, 1]);
}

#[test]
fn drifts_that_wait_are_bounded() {
    let mut rig = web();
    rig.command("c2", Verb::RunEngine { running: false });
    for number in 0..16 {
        let to = format!("n{number}");
        assert_eq!(rig.command(&format!("d{number}"), of_all(drift("a", Some(&to)))), "Accepted");
    }
    let record = rig.record("web");
    assert_eq!(record.drifts.len(), 16);
    let full = "Refused(Limit { what: \"drifts of a PodGroup\", limit: 16 })";
    assert_eq!(rig.command("d16", of_all(drift("a", None))), full);
    assert_eq!(rig.command("e1", evacuate("a")), full);
    assert_eq!((rig.record("web"), rig.store.contains_key(keys::CONSTRAINTS)), (record, false), "all of it or nothing");
}

#[test]
fn an_evacuation_moves_all_instances_and_keeps_new_ones_away() {
    let mut rig = web();
    let mut stateful = spec("db", 2);
    stateful.pod.stateful = true;
    rig.command("c2", Verb::CreateGroup { spec: Box::new(stateful) });
    rig.pass(2);
    assert_eq!(rig.command("e1", evacuate("a")), "Accepted");
    rig.take_over();
    rig.pass(200);
    assert_eq!((nodes_of(&rig, "web"), nodes_of(&rig, "db")), (vec!["b".to_owned(); 3], vec!["b".to_owned(); 2]));
    assert_eq!(rig.pods("a"), [""; 0]);
    rig.command("c3", create("new", 2));
    assert_eq!(nodes_of(&rig, "new"), ["b", "b"]);
    assert_eq!(rig.command("e2", evacuate("nowhere")), "Accepted", "whoever it is");
}

#[test]
fn a_group_removed_while_it_leaves_a_node_is_forgotten_only_when_that_node_has_nothing_of_it() {
    let mut rig = web();
    rig.cling("a");
    rig.command("d1", of("web", drift("a", Some("b"))));
    // The lock is given back after a while; what leaves still does.
    rig.pass(700);
    assert_eq!(rig.command("c2", remove("web")), "Accepted", "{:?}", rig.record("web").operation);
    rig.pass(30);
    assert_eq!(rig.command("c3", create("web", 1)), "Refused(GroupRemoving)");
    rig.take_over();
    rig.pass(30);
    assert_eq!(rig.command("c4", create("web", 1)), "Refused(GroupRemoving)");
    rig.is_crash_looping("a");
    rig.pass(5);
    assert!(!rig.store.keys().any(|key| key.ends_with("/web")), "{:?}", rig.store.keys());
    assert_eq!(rig.command("c5", create("web", 1)), "Accepted");
}

#[test]
fn an_instance_that_was_stopped_stays_so_where_it_goes() {
    let mut rig = web();
    rig.command("c2", operate("web", Act::Stop, 1));
    rig.pass(5);
    rig.command("d1", of("web", Drift { force: true, ..drift("a", Some("b")) }));
    rig.pass(200);
    assert_eq!(nodes_of(&rig, "web"), ["b", "b", "b"]);
    assert_eq!(rig.slots("web")[0].target, TargetState::Stop);
}

/// An engine that does not run, and a node with more groups than one transaction holds.
fn crowded() -> Rig {
    let mut rig = rig(&["a"]);
    let agent = rig.agents.get_mut(&node("a")).expect("an agent");
    (agent.memory, agent.cpu_millis) = (1 << 40, 1 << 30);
    rig.report("a");
    for number in 0..250 {
        assert_eq!(rig.command(&format!("c{number}"), create(&format!("g{number}"), 1)), "Accepted");
    }
    rig.pass(2);
    rig.command("stop", Verb::RunEngine { running: false });
    rig.clear();
    rig
}
fn drifting(rig: &Rig) -> usize {
    (0..250).filter(|number| !rig.record(&format!("g{number}")).drifts.is_empty()).count()
}

#[test]
fn an_evacuation_of_many_groups_is_one_command_in_transactions_that_fit() {
    let mut rig = crowded();
    assert_eq!(rig.command("e1", evacuate("a")), "Accepted");
    assert_eq!(drifting(&rig), 250);
    assert!(rig.commits.iter().all(|commit| commit.writes.len() < Commit::MOST_WRITES));
    let outcome = keys::outcome(&"e1".parse().expect("an id"));
    let has = |commit: &Commit, wanted: &str| {
        commit.writes.iter().any(|write| matches!(write, Write::Put { key, .. } if key == wanted))
    };
    let with: Vec<bool> = rig.commits.iter().map(|commit| has(commit, &outcome)).collect();
    assert_eq!(with, [false, false, true], "the outcome with the last of them");
    assert!(rig.commits.iter().all(|commit| has(commit, keys::CURSOR) == has(commit, &outcome)));
    rig.clear();
    rig.command("e1", evacuate("a"));
    assert_eq!(rig.written(), BTreeSet::from([keys::CURSOR.to_owned()]), "once and not again");
}

#[test]
fn a_leader_that_dies_in_the_middle_of_an_evacuation_leaves_it_to_the_next() {
    let mut rig = crowded();
    let delivery = rig.delivery("e1", evacuate("a"));
    let effects = rig.input(Input::Command(delivery.clone()));
    let Some(Effect::Commit(commit)) = effects.into_iter().next() else { panic!("no commit") };
    rig.store(commit);
    assert!((1..250).contains(&drifting(&rig)), "{}", drifting(&rig));
    rig.take_over();
    assert_eq!(rig.outcomes.get("e1"), None, "nobody was told");
    rig.run(Input::Command(delivery));
    assert_eq!(format!("{:?}", rig.outcomes["e1"].verdict), "Accepted");
    assert_eq!(drifting(&rig), 250);
    assert!((0..250).all(|number| rig.record(&format!("g{number}")).drifts.len() == 1));
}

#[test]
fn a_place_that_is_decided_and_not_stored_yet_is_left_like_any_other() {
    let mut rig = rig(&["a", "b"]);
    rig.command("c1", create("web", 1));
    rig.pass(2);
    // It vanished from a, which is to be avoided, and is about to run on b.
    let constraint =
        contract::switches::Constraint { kind: "node".to_owned(), equal: false, value: "a".to_owned(), soft: true };
    rig.command("c2", Verb::SetConstraint { constraint });
    let agent = rig.agents.get_mut(&node("a")).expect("an agent");
    agent.states.insert("web.v0-i1-d0".to_owned(), RunState::Missing);
    agent.sequence += 1;
    let report = ReportMessage::Whole(agent.whole(&node("a")));
    let effects = rig.input(Input::Report(report));
    assert!(matches!(&effects[..], [Effect::Commit(_)]), "{effects:?}");
    // Before that is stored it shall leave b.
    let delivery = rig.delivery("d1", of("web", drift("b", Some("a"))));
    assert_eq!(rig.input(Input::Command(delivery)), []);
    rig.perform(effects);
    let slot = rig.slots("web").remove(0);
    assert_eq!((slot.node, slot.leaves), (Some(node("a")), Some(node("b"))), "b must say that it runs nothing of it");
    assert_eq!(rig.copies("web"), BTreeMap::new());
    rig.pass(60);
    assert_eq!((nodes_of(&rig, "web"), rig.copies("web")), (vec!["a".to_owned()], BTreeMap::from([(1, 1)])));
}

#[test]
fn an_evacuation_moves_the_pod_beside_another_too() {
    let mut rig = rig(&["a", "b", "c"]);
    rig.command(
        "c1",
        super::releases::create_spec(super::releases::conducted("web", 1, super::releases::rolling(1, 0))),
    );
    assert!(rig.completes("web", 30), "{:?}", rig.release("web"));
    let gates = serde_json::Map::from_iter([("ReadinessGates".to_owned(), serde_json::json!(["lb"]))]);
    rig.command("c2", Verb::PatchStrategy { name: group("web"), fields: gates });
    rig.command("c3", super::upgrades::patch("web", super::upgrades::image("web", "v1")));
    rig.pass(10);
    let next = |rig: &Rig| rig.slots("web")[0].next.as_ref().and_then(|next| next.node.clone());
    let (own, beside) = (rig.slots("web")[0].node.clone(), next(&rig).expect("a second pod"));
    assert_ne!(own.as_ref(), Some(&beside));
    assert_eq!(rig.command("e1", evacuate(beside.as_str())), "Accepted");
    rig.pass(30);
    assert_eq!(rig.slots("web")[0].node, own, "it was not there");
    assert!(next(&rig).is_some_and(|node| node != beside), "{:?}", rig.slots("web"));
    assert_eq!(rig.pods(beside.as_str()), [""; 0]);
}
