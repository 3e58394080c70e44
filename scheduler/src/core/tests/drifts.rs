//! Moves (`drift`) and evacuations: an instance starts on its new node only when the old node does not run it any more.

use super::*;
use contract::command::{Act, Drift, Operation};

use super::operations::{operate, web};
use super::upgrades::{image, patch};

fn drift(from: &str, to: Option<&str>) -> Drift {
    Drift { from: node(from), to: to.map(node), force: false, instance: None }
}
fn drift_group(name: &str, drift: Drift) -> Verb {
    Verb::Drift { drift, group: Some(group(name)) }
}
fn drift_all(drift: Drift) -> Verb {
    Verb::Drift { drift, group: None }
}
fn evacuate(name: &str) -> Verb {
    Verb::Evacuate { node: node(name) }
}
fn nodes_of(rig: &Rig, name: &str) -> Vec<String> {
    rig.places(name).into_iter().map(|(place, _)| place).collect()
}

#[test]
fn an_invalid_drift_is_refused_and_one_without_effect_is_accepted() {
    let mut rig = web();
    let mut decision = |id: &str, drift| rig.command(id, drift_group("web", drift));
    let instance = |instance| Drift { instance: Some(instance), ..drift("a", None) };
    assert!(decision("d1", drift("a", Some("a"))).starts_with("Refused(Malformed"));
    assert!(decision("d2", instance(0)).starts_with("Refused(Malformed"));
    assert_eq!(decision("d3", instance(4)), "Refused(InstanceUnknown { instance: 4, instances: 3 })");
    let record = rig.record("web");
    assert_eq!(rig.command("d4", drift_group("unknown", drift("a", None))), "Accepted");
    assert_eq!(rig.command("d5", drift_group("web", drift("nowhere", None))), "Accepted");
    assert_eq!(rig.command("d6", drift_all(drift("nowhere", None))), "Accepted");
    assert_eq!(rig.record("web"), record, "no instance moves");
}

#[test]
fn a_drift_of_a_locked_group_waits_for_the_lock() {
    let mut rig = web();
    rig.command("c2", patch("web", image("web", "v1")));
    assert_eq!(rig.command("d1", drift_group("web", drift("a", None))), "Accepted");
    assert_eq!(rig.record("web").operation.map(|operation| operation.kind), Some(Operation::Upgrading));
    rig.advance(240);
    assert_eq!(nodes_of(&rig, "web"), ["b", "b", "b"]);
    assert!(rig.record("web").operation.is_none() && rig.record("web").drifts.is_empty());
}

#[test]
fn a_drift_moves_the_instances_of_a_node_to_the_given_node() {
    let mut rig = rig(&["a", "b", "c"]);
    rig.command("c1", create("web", 3));
    rig.advance(2);
    assert_eq!(rig.command("d1", drift_group("web", drift("a", Some("b")))), "Accepted");
    rig.advance(120);
    assert_eq!(rig.places("web"), [("b".to_owned(), 1), ("b".to_owned(), 0), ("c".to_owned(), 0)]);
    let one = Drift { instance: Some(2), ..drift("b", None) };
    assert_eq!(rig.command("d2", drift_group("web", one)), "Accepted");
    rig.advance(120);
    assert_ne!(nodes_of(&rig, "web")[1], "b");
    assert_eq!(rig.places("web")[0], ("b".to_owned(), 1), "the drift names another instance");
    let view = rig.group("web").expect("a group");
    assert_eq!((view.state, view.operation), (RunState::Success, None));
}

#[test]
fn an_instance_starts_on_its_new_node_only_when_the_old_node_has_removed_it() {
    let mut rig = web();
    rig.keep_pods("a");
    rig.command("d1", drift_group("web", drift("a", Some("b"))));
    for _ in 0..5 {
        rig.advance(10);
        rig.take_over();
        assert!(rig.copies("web").values().all(|copies| *copies <= 1), "{:?}", rig.copies("web"));
    }
    assert_eq!(rig.pods("b"), ["web.v0-i2-d0"]);
    rig.release_pods("a");
    rig.advance(120);
    assert_eq!((nodes_of(&rig, "web"), rig.pods("a").len()), (vec!["b".to_owned(); 3], 0));
    assert!(rig.instances("web").iter().all(|instance| instance.leaves.is_none()), "{:?}", rig.instances("web"));
}

#[test]
fn an_instance_does_not_leave_a_suspect_node_until_the_node_is_lost() {
    let mut rig = web();
    rig.unreachable.insert(node("a"));
    rig.command("d1", drift_group("web", drift("a", Some("b"))));
    rig.advance(200);
    assert_eq!(rig.pods("b"), ["web.v0-i2-d0"], "it may still run there");
    rig.advance(200);
    assert_eq!((nodes_of(&rig, "web"), rig.pods("b").len()), (vec!["b".to_owned(); 3], 3));
}

#[test]
fn an_instance_does_not_leave_a_node_whose_engine_does_not_answer() {
    let mut rig = web();
    rig.command("d1", Verb::RunEngine { running: false });
    rig.command("d2", drift_group("web", drift("a", Some("b"))));
    rig.agent("a").engine = EngineState::Hung;
    rig.advance(2);
    rig.command("d3", Verb::RunEngine { running: true });
    rig.advance(60);
    assert_eq!(rig.pods("b"), ["web.v0-i2-d0"]);
    rig.agent("a").engine = EngineState::Up;
    rig.advance(120);
    assert_eq!(rig.pods("b").len(), 3);
}

#[test]
fn a_drift_of_all_groups_waits_for_locked_groups() {
    let mut rig = web();
    rig.command("c2", create("api", 2));
    rig.advance(2);
    rig.command("c3", patch("web", image("web", "v1")));
    assert_eq!(rig.command("d1", drift_all(drift("a", None))), "Accepted");
    assert_eq!(rig.command("d2", drift_all(drift("a", None))), "Accepted", "the same again changes nothing");
    assert_eq!(rig.record("web").drifts, [drift("a", None)]);
    rig.take_over();
    rig.advance(400);
    for name in ["web", "api"] {
        assert!(nodes_of(&rig, name).iter().all(|place| place == "b"), "{name}: {:?}", rig.places(name));
        let record = rig.record(name);
        assert_eq!((record.operation, record.drifts), (None, vec![]));
    }
    assert_eq!(rig.instances("web").iter().map(|instance| instance.version).collect::<Vec<_>>(), [1, 1, 1]);
}

#[test]
fn the_number_of_waiting_drifts_is_bounded() {
    let mut rig = web();
    rig.command("c2", Verb::RunEngine { running: false });
    for number in 0..16 {
        let to = format!("n{number}");
        assert_eq!(rig.command(&format!("d{number}"), drift_all(drift("a", Some(&to)))), "Accepted");
    }
    let record = rig.record("web");
    assert_eq!(record.drifts.len(), 16);
    let full = "Refused(Limit { what: \"drifts of a PodGroup\", limit: 16 })";
    assert_eq!(rig.command("d16", drift_all(drift("a", None))), full);
    assert_eq!(rig.command("e1", evacuate("a")), full);
    assert_eq!(
        (rig.record("web"), rig.store.contains_key(keys::CONSTRAINTS)),
        (record, false),
        "a refused command changes nothing"
    );
}

#[test]
fn an_evacuation_moves_all_instances_and_places_no_new_ones() {
    let mut rig = web();
    let mut stateful = spec("db", 2);
    stateful.pod.stateful = true;
    rig.command("c2", Verb::CreateGroup { spec: Box::new(stateful) });
    rig.advance(2);
    assert_eq!(rig.command("e1", evacuate("a")), "Accepted");
    rig.take_over();
    rig.advance(200);
    assert_eq!((nodes_of(&rig, "web"), nodes_of(&rig, "db")), (vec!["b".to_owned(); 3], vec!["b".to_owned(); 2]));
    assert_eq!(rig.pods("a"), [""; 0]);
    rig.command("c3", create("new", 2));
    assert_eq!(nodes_of(&rig, "new"), ["b", "b"]);
    assert_eq!(rig.command("e2", evacuate("nowhere")), "Accepted", "an unknown node is accepted");
}

#[test]
fn a_group_removed_while_it_leaves_a_node_is_deleted_only_when_that_node_does_not_run_it() {
    let mut rig = web();
    rig.keep_pods("a");
    rig.command("d1", drift_group("web", drift("a", Some("b"))));
    // The drift releases the lock after ten minutes; its instance is still leaving.
    rig.advance(700);
    assert_eq!(rig.command("c2", remove("web")), "Accepted", "{:?}", rig.record("web").operation);
    rig.advance(30);
    assert_eq!(rig.command("c3", create("web", 1)), "Refused(GroupRemoving)");
    rig.take_over();
    rig.advance(30);
    assert_eq!(rig.command("c4", create("web", 1)), "Refused(GroupRemoving)");
    rig.release_pods("a");
    rig.advance(5);
    assert!(!rig.store.keys().any(|key| key.ends_with("/web")), "{:?}", rig.store.keys());
    assert_eq!(rig.command("c5", create("web", 1)), "Accepted");
}

#[test]
fn a_stopped_instance_stays_stopped_on_its_new_node() {
    let mut rig = web();
    rig.command("c2", operate("web", Act::Stop, 1));
    rig.advance(5);
    rig.command("d1", drift_group("web", Drift { force: true, ..drift("a", Some("b")) }));
    rig.advance(200);
    assert_eq!(nodes_of(&rig, "web"), ["b", "b", "b"]);
    assert_eq!(rig.instances("web")[0].target, TargetState::Stop);
}

/// A stopped engine and a node with more groups than fit into one transaction.
fn crowded() -> Rig {
    let mut rig = rig(&["a"]);
    let agent = rig.agent("a");
    (agent.memory, agent.cpu_millis) = (1 << 40, 1 << 30);
    rig.report("a");
    for number in 0..250 {
        assert_eq!(rig.command(&format!("c{number}"), create(&format!("g{number}"), 1)), "Accepted");
    }
    rig.advance(2);
    rig.command("stop", Verb::RunEngine { running: false });
    rig.clear();
    rig
}
fn drifting(rig: &Rig) -> usize {
    (0..250).filter(|number| !rig.record(&format!("g{number}")).drifts.is_empty()).count()
}

#[test]
fn an_evacuation_of_many_groups_is_one_command_in_several_transactions() {
    let mut rig = crowded();
    assert_eq!(rig.command("e1", evacuate("a")), "Accepted");
    assert_eq!(drifting(&rig), 250);
    assert!(rig.commits.iter().all(|commit| commit.writes.len() < Commit::MOST_WRITES));
    let outcome = keys::outcome(&"e1".parse().expect("an id"));
    let has = |commit: &Commit, expected: &str| {
        commit.writes.iter().any(|write| matches!(write, Write::Put { key, .. } if key == expected))
    };
    let with: Vec<bool> = rig.commits.iter().map(|commit| has(commit, &outcome)).collect();
    assert_eq!(with, [false, false, true], "the last transaction contains the outcome");
    assert!(rig.commits.iter().all(|commit| has(commit, keys::CURSOR) == has(commit, &outcome)));
    rig.clear();
    rig.command("e1", evacuate("a"));
    assert_eq!(rig.written(), BTreeSet::from([keys::CURSOR.to_owned()]), "the command runs once");
}

#[test]
fn the_next_leader_completes_an_evacuation_whose_leader_died() {
    let mut rig = crowded();
    let delivery = rig.delivery("e1", evacuate("a"));
    let commit = only_commit(&rig.input(Input::Command(delivery.clone()))).clone();
    rig.store(commit);
    assert!((1..250).contains(&drifting(&rig)), "{}", drifting(&rig));
    rig.take_over();
    assert_eq!(rig.outcomes.get("e1"), None, "the command has no outcome yet");
    rig.run(Input::Command(delivery));
    assert_eq!(format!("{:?}", rig.outcomes["e1"].decision), "Accepted");
    assert_eq!(drifting(&rig), 250);
    assert!((0..250).all(|number| rig.record(&format!("g{number}")).drifts.len() == 1));
}

#[test]
fn a_drift_leaves_a_node_also_when_the_placement_there_is_not_committed_yet() {
    let mut rig = rig(&["a", "b"]);
    rig.command("c1", create("web", 1));
    rig.advance(2);
    // The instance is missing on node a, which a constraint excludes; the leader decides to place it on b.
    let constraint =
        contract::switches::Constraint { kind: "node".to_owned(), equal: false, value: "a".to_owned(), soft: true };
    rig.command("c2", Verb::SetConstraint { constraint });
    let agent = rig.agent("a");
    agent.states.insert("web.v0-i1-d0".to_owned(), RunState::Missing);
    agent.sequence += 1;
    let report = ReportMessage::Whole(agent.whole(&node("a")));
    let effects = rig.input(Input::Report(report));
    assert!(matches!(&effects[..], [Effect::Commit(_)]), "{effects:?}");
    // A drift from b to a arrives before that decision is committed.
    let delivery = rig.delivery("d1", drift_group("web", drift("b", Some("a"))));
    assert_eq!(rig.input(Input::Command(delivery)), []);
    rig.perform(effects);
    let instance = rig.instances("web").remove(0);
    assert_eq!(
        (instance.node, instance.leaves),
        (Some(node("a")), Some(node("b"))),
        "the instance waits until b reports that it does not run it"
    );
    assert_eq!(rig.copies("web"), BTreeMap::new());
    rig.advance(60);
    assert_eq!((nodes_of(&rig, "web"), rig.copies("web")), (vec!["a".to_owned()], BTreeMap::from([(1, 1)])));
}

#[test]
fn an_evacuation_moves_the_surge_pod_of_an_instance_too() {
    let mut rig = rig(&["a", "b", "c"]);
    rig.command(
        "c1",
        super::rollouts::create_spec(super::rollouts::with_strategy("web", 1, super::rollouts::rolling(1, 0))),
    );
    assert!(rig.completes("web", 30), "{:?}", rig.release("web"));
    let gates = serde_json::Map::from_iter([("ReadinessGates".to_owned(), serde_json::json!(["lb"]))]);
    rig.command("c2", Verb::PatchStrategy { name: group("web"), fields: gates });
    rig.command("c3", super::upgrades::patch("web", super::upgrades::image("web", "v1")));
    rig.advance(10);
    let next = |rig: &Rig| rig.instances("web")[0].next.as_ref().and_then(|next| next.node.clone());
    let (current, surge) = (rig.instances("web")[0].node.clone(), next(&rig).expect("a surge pod"));
    assert_ne!(current.as_ref(), Some(&surge));
    assert_eq!(rig.command("e1", evacuate(surge.as_str())), "Accepted");
    rig.advance(30);
    assert_eq!(rig.instances("web")[0].node, current, "the current pod is on another node");
    assert!(next(&rig).is_some_and(|node| node != surge), "{:?}", rig.instances("web"));
    assert_eq!(rig.pods(surge.as_str()), [""; 0]);
}

#[test]
fn a_stateful_instance_leaves_a_lost_node_only_by_a_forced_drift_after_the_loss() {
    let mut rig = rig(&["a", "b"]);
    let mut stateful = spec("web", 1);
    stateful.pod.stateful = true;
    rig.command("c1", Verb::CreateGroup { spec: Box::new(stateful) });
    rig.advance(2);
    let (from, to) = if rig.pods("a").is_empty() { ("b", "a") } else { ("a", "b") };
    let forced = || drift_group("web", Drift { force: true, ..drift(from, Some(to)) });
    rig.unreachable.insert(node(from));
    assert_eq!(rig.command("d1", forced()), "Accepted");
    // Longer than a node takes to be lost (300 s) and a drift to release its lock (600 s).
    rig.advance(700);
    assert_eq!((rig.pods(from).len(), rig.pods(to).len()), (1, 0), "it may still run there");
    assert_eq!(rig.instances("web")[0].leaves, Some(node(from)));
    assert_eq!(rig.command("d2", forced()), "Accepted");
    rig.advance(2);
    assert_eq!(rig.pods(to).len(), 1, "a forced drift from a lost node does not wait");
}
