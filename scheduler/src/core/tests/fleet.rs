//! Node commands of operators: cordon, drain, label, remove.

use super::*;
use contract::node::{NodeChange, NodeIntent, NodePage};

fn change(name: &str, change: NodeChange) -> Verb {
    Verb::Node { node: node(name), change }
}
fn cordon(name: &str, why: &str) -> Verb {
    change(name, NodeChange::Cordon { why: why.to_owned() })
}
fn drain(name: &str, force: bool) -> Verb {
    change(name, NodeChange::Drain { why: String::new(), force })
}
fn remove_node(name: &str, force: bool) -> Verb {
    change(name, NodeChange::Remove { force })
}
fn label(name: &str, labels: &[(&str, Option<&str>)]) -> Verb {
    let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), value.map(str::to_owned))).collect();
    change(name, NodeChange::Label { labels })
}
fn create_stateful(name: &str, instances: i64) -> Verb {
    let mut spec = spec(name, instances);
    spec.pod.stateful = true;
    Verb::CreateGroup { spec: Box::new(spec) }
}
fn page(rig: &mut Rig, name: &str) -> Option<NodePage> {
    let Answer::Node(page) = rig.query(Query::Node { name: node(name) }) else { panic!("not a node") };
    page.map(|page| *page)
}
fn nodes_of(rig: &Rig, name: &str) -> Vec<String> {
    rig.places(name).into_iter().map(|(node, _)| node).collect()
}
fn has_event(rig: &Rig, name: &str, text: &str) -> bool {
    rig.events.iter().any(|event| event.node == Some(node(name)) && event.message.contains(text))
}

#[test]
fn a_cordoned_node_keeps_its_instances_and_receives_no_new_ones() {
    let mut rig = rig(&["a", "b"]);
    rig.command("c1", create("web", 2));
    rig.advance(1);
    assert_eq!(rig.command("c2", cordon("a", "disk swap")), "Accepted");
    assert!(has_event(&rig, "a", "cordoned (disk swap)"), "{:?}", rig.events);
    rig.command("c3", replica("web", 4));
    rig.advance(1);
    assert_eq!(nodes_of(&rig, "web"), ["a", "b", "b", "b"]);
    rig.elect();
    rig.advance(1);
    rig.command("c4", replica("web", 5));
    rig.advance(1);
    assert_eq!(nodes_of(&rig, "web"), ["a", "b", "b", "b", "b"], "the cordon survives a takeover");
    let view = rig.nodes().into_iter().find(|view| view.name == node("a")).expect("the node");
    assert_eq!(
        view.cordon.as_ref().map(|cordon| (cordon.why.as_str(), cordon.by.as_str())),
        Some(("disk swap", "tests"))
    );
    assert_eq!((view.instances, view.liveness), (1, contract::query::Liveness::Alive));
    assert_eq!(rig.command("c5", change("a", NodeChange::Uncordon)), "Accepted");
    rig.command("c6", replica("web", 6));
    rig.advance(1);
    assert_eq!(nodes_of(&rig, "web")[5], "a");
}

#[test]
fn repeating_a_cordon_or_an_uncordon_is_accepted_and_changes_nothing() {
    let mut rig = rig(&["a"]);
    assert_eq!(rig.command("c1", cordon("a", "one")), "Accepted");
    let before = rig.store[&keys::node_intent(&node("a"))].clone();
    assert_eq!(rig.command("c2", cordon("a", "one")), "Accepted");
    assert_eq!(rig.command("c3", cordon("a", "")), "Accepted");
    assert_eq!(rig.store[&keys::node_intent(&node("a"))], before);
    assert_eq!(rig.command("c4", cordon("a", "two")), "Accepted");
    assert_ne!(rig.store[&keys::node_intent(&node("a"))], before);
    for id in ["c5", "c6"] {
        assert_eq!(rig.command(id, change("a", NodeChange::Uncordon)), "Accepted");
    }
    assert!(!rig.store.contains_key(&keys::node_intent(&node("a"))), "the record is deleted");
    let refused = rig.command("c7", cordon("z", ""));
    assert!(refused.contains("NodeUnknown"), "{refused}");
}

#[test]
fn an_instance_that_fits_only_on_a_cordoned_node_waits_for_the_uncordon() {
    let mut rig = rig(&["a"]);
    rig.command("c1", cordon("a", "disk swap"));
    rig.command("c2", create("web", 1));
    assert_eq!(rig.group("web").expect("a group").last_error, "no node fits: a: cordoned (disk swap)");
    rig.command("c3", change("a", NodeChange::Uncordon));
    rig.advance(2);
    assert_eq!(rig.group("web").expect("a group").state, RunState::Success);
}

#[test]
fn a_drain_moves_all_instances_except_stateful_ones_unless_it_is_forced() {
    let mut rig = rig(&["a", "b"]);
    rig.command("c1", create("web", 4));
    rig.command("c2", create_stateful("db", 2));
    rig.advance(2);
    assert_eq!((nodes_of(&rig, "web").concat(), nodes_of(&rig, "db").concat()), ("abab".to_owned(), "ab".to_owned()));
    assert_eq!(rig.command("c3", drain("a", false)), "Accepted");
    rig.advance(30);
    assert_eq!((nodes_of(&rig, "web").concat(), nodes_of(&rig, "db").concat()), ("bbbb".to_owned(), "ab".to_owned()));
    let remaining = page(&mut rig, "a").expect("the node").pods;
    assert_eq!(
        remaining.iter().map(|it| (it.pod.to_string(), it.bound, it.leaving)).collect::<Vec<_>>(),
        [("db.v0-i1-d0".to_owned(), true, false)]
    );
    assert_eq!(rig.command("c4", drain("a", true)), "Accepted");
    rig.advance(30);
    assert_eq!(nodes_of(&rig, "db").concat(), "bb");
    assert!(page(&mut rig, "a").expect("the node").pods.is_empty());
    assert!(rig.nodes()[0].cordon.is_some(), "the node stays cordoned");
}

#[test]
fn a_refused_drain_does_not_cordon_the_node() {
    let mut rig = rig(&["a", "b"]);
    rig.command("c1", create("web", 1));
    rig.advance(1);
    rig.command("c2", Verb::RunEngine { running: false });
    for number in 0..16 {
        let to = Some(node(&format!("n{number}")));
        let drift = contract::command::Drift { from: node("a"), to, force: false, instance: None };
        assert_eq!(rig.command(&format!("d{number}"), Verb::Drift { drift, group: None }), "Accepted");
    }
    let refused = rig.command("c3", drain("a", false));
    assert!(refused.contains("Limit"), "{refused}");
    assert_eq!(rig.nodes()[0].cordon, None);
}

#[test]
fn labels_set_by_an_operator_override_the_labels_of_the_agent() {
    let mut rig = rig(&["a", "b"]);
    assert_eq!(rig.command("c1", label("b", &[("rack", Some("3")), ("group", None)])), "Accepted");
    let mut racked = spec("web", 2);
    racked.pod.filters = vec!["constraint:rack==3".to_owned(), "constraint:group!=default".to_owned()];
    rig.command("c2", Verb::CreateGroup { spec: Box::new(racked) });
    rig.advance(2);
    assert_eq!(nodes_of(&rig, "web"), ["b", "b"]);
    rig.elect();
    rig.advance(2);
    let labels = |rig: &mut Rig| rig.nodes().remove(1).facts.labels;
    assert_eq!((labels(&mut rig).get("rack").cloned(), labels(&mut rig).get("group")), (Some("3".to_owned()), None));
    assert_eq!(page(&mut rig, "b").expect("the node").said.len(), 2);
    let written = rig.written();
    rig.clear();
    rig.advance(5);
    assert!(
        rig.written().is_empty(),
        "reports of the agent's own labels write nothing: {:?} {written:?}",
        rig.written()
    );
    assert_eq!(rig.command("c3", label("b", &[("rack", None), ("group", Some("default"))])), "Accepted");
    assert!(!rig.store.contains_key(&keys::node_intent(&node("b"))), "labels equal to the agent's are not stored");
    let refused = rig.command("c4", label("b", &[("node", Some("x"))]));
    assert!(refused.contains("Malformed"), "{refused}");
}

#[test]
fn only_a_suspect_and_empty_node_is_removed_and_it_can_join_again() {
    let mut rig = rig(&["a", "b"]);
    rig.command("c1", create("web", 2));
    rig.command("c2", cordon("a", "old"));
    rig.advance(1);
    let refused = rig.command("c3", remove_node("a", false));
    assert!(refused.contains("a reported ") && refused.contains("stop its agent, then retry"), "{refused}");
    assert!(rig.command("c4", remove_node("a", true)).contains("a reported "), "not even with force");
    rig.unreachable.insert(node("a"));
    rig.advance(20);
    let refused = rig.command("c5", remove_node("a", false));
    assert!(refused.contains("instances of 1 PodGroups are placed on a or may still run there (web)"), "{refused}");
    rig.advance(300);
    assert_eq!(nodes_of(&rig, "web"), ["b", "b"]);
    assert_eq!(rig.command("c6", remove_node("a", false)), "Accepted");
    assert_eq!(rig.nodes().len(), 1);
    assert!(page(&mut rig, "a").is_none());
    assert!(
        !rig.store.contains_key(&keys::node(&node("a"))) && !rig.store.contains_key(&keys::node_intent(&node("a")))
    );
    assert!(rig.command("c7", remove_node("a", false)).contains("NodeUnknown"));
    rig.elect();
    rig.advance(1);
    assert_eq!(rig.nodes().len(), 1, "the next leader does not know it either");
    rig.clear();
    rig.unreachable.clear();
    rig.advance(2);
    assert!(has_event(&rig, "a", "joined"), "{:?}", rig.events);
    let view = rig.nodes().remove(0);
    assert_eq!((view.cordon, view.liveness), (None, contract::query::Liveness::Alive));
    assert_eq!(rig.pods("a"), [""; 0], "its instances have moved");
    rig.command("c8", replica("web", 3));
    rig.advance(2);
    assert_eq!(nodes_of(&rig, "web"), ["b", "b", "a"]);
    assert_eq!(rig.core.disagreements(), 0, "no fence is used twice");
}

#[test]
fn decommissioning_a_node_moves_its_stateful_instances_too() {
    let mut rig = rig(&["a", "b"]);
    rig.command("c1", create("web", 2));
    rig.command("c2", create_stateful("db", 2));
    rig.advance(2);
    rig.unreachable.insert(node("a"));
    rig.advance(20);
    assert_eq!(rig.command("c3", remove_node("a", true)), "Accepted");
    rig.advance(5);
    assert_eq!((nodes_of(&rig, "web").concat(), nodes_of(&rig, "db").concat()), ("bb".to_owned(), "bb".to_owned()));
    assert_eq!(rig.group("db").expect("a group").state, RunState::Success);
    assert_eq!(rig.nodes().len(), 1);
    rig.unreachable.clear();
    rig.advance(3);
    assert_eq!(rig.pods("a"), [""; 0], "a node that returns nevertheless removes its pods");
}

#[test]
fn a_node_that_reports_before_its_removal_has_finished_stays() {
    let mut rig = rig(&["a", "b"]);
    rig.agent("b").memory = 64 << 20;
    rig.report("b");
    rig.command("c1", create_stateful("db", 3));
    rig.advance(2);
    rig.unreachable.insert(node("a"));
    rig.advance(20);
    assert_eq!(rig.command("c2", remove_node("a", true)), "Accepted");
    rig.advance(5);
    assert!(page(&mut rig, "a").expect("its instances fit on no other node").removing);
    rig.elect();
    rig.advance(1);
    assert!(page(&mut rig, "a").expect("the removal survives a takeover").removing);
    rig.clear();
    rig.unreachable.clear();
    rig.advance(3);
    assert!(!page(&mut rig, "a").expect("the node").removing);
    assert!(has_event(&rig, "a", "the removal is cancelled"), "{:?}", rig.events);
    assert_eq!(rig.group("db").expect("a group").state, RunState::Success);
}

#[test]
fn a_standby_forgets_a_removed_node() {
    let mut rig = rig(&["a", "b"]);
    let mut standby = Core::new(Settings::default());
    let now = rig.time();
    for name in ["a", "b"] {
        let report = ReportMessage::Whole(rig.agents[&node(name)].whole(&node(name)));
        standby.on(Input::Report(report), now);
    }
    rig.command("c1", cordon("b", "seen by standbys"));
    let pairs = rig.store.loaded();
    standby.on(Input::Mirror(super::super::io::Mirror::Reset(pairs)), now);
    let ask = |standby: &mut Core, at: Timestamp| {
        let effects = standby.on(Input::Query { query: Query::Nodes, reply: "q".to_owned() }, at);
        let [Effect::Answer { reply, .. }] = &effects[..] else { panic!("{effects:?}") };
        let Answer::Nodes(nodes) = &reply.answer else { panic!("{reply:?}") };
        nodes.iter().map(|view| (view.name.to_string(), view.cordon.is_some())).collect::<Vec<_>>()
    };
    assert_eq!(ask(&mut standby, now), [("a".to_owned(), false), ("b".to_owned(), true)]);
    let gone = super::super::io::Mirror::Delete(keys::node(&node("a")));
    standby.on(Input::Mirror(gone), now);
    let intent = serde_json::to_vec(&NodeIntent::default()).expect("serialises");
    standby.on(Input::Mirror(super::super::io::Mirror::Put(keys::node_intent(&node("b")), intent)), now);
    assert_eq!(ask(&mut standby, now), [("b".to_owned(), false)]);
}

#[test]
fn a_drain_that_waits_for_a_suspect_node_is_explained_by_the_view_and_one_event() {
    let mut rig = rig(&["a", "c"]);
    rig.command("c1", create("web", 3));
    rig.advance(5);
    assert_eq!(nodes_of(&rig, "web"), ["a", "c", "a"]);
    // The first instance moves to node c, which is unreachable; the third waits for it.
    rig.unreachable.insert(node("c"));
    assert_eq!(rig.command("c2", drain("a", false)), "Accepted");
    rig.advance(20);
    assert_eq!(page(&mut rig, "c").map(|page| page.node.liveness), Some(contract::query::Liveness::Suspect));
    assert_eq!(nodes_of(&rig, "web"), ["c", "c", "a"]);
    let pods = page(&mut rig, "a").expect("a page").pods;
    let text = "waits for instance 1 on c, which is suspect";
    assert!(pods.iter().any(|pod| pod.pod.instance == 3 && pod.why.contains(text)), "{pods:?}");
    let count = |rig: &Rig| rig.events.iter().filter(|event| event.message.contains(text)).count();
    assert_eq!(count(&rig), 1, "{:?}", rig.events);
    rig.command("c3", drain("a", false));
    rig.advance(5);
    assert_eq!(count(&rig), 1, "{:?}", rig.events);
}
