//! What operators may ask about nodes, and what it changes.

use contract::node::{NodeChange, NodeIntent, NodePage};
use contract::query::NodeView;

use super::*;

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
fn bound(name: &str, instances: i64) -> Verb {
    let mut spec = spec(name, instances);
    spec.pod.stateful = true;
    Verb::CreateGroup { spec: Box::new(spec) }
}
fn nodes(rig: &mut Rig) -> Vec<NodeView> {
    rig.run(Input::Query { query: Query::Nodes, reply: "nodes".to_owned() });
    let Answer::Nodes(nodes) = rig.replies.remove("nodes").expect("an answer").answer else { panic!("not nodes") };
    nodes
}
fn page(rig: &mut Rig, name: &str) -> Option<NodePage> {
    rig.run(Input::Query { query: Query::Node { name: node(name) }, reply: "node".to_owned() });
    let Answer::Node(page) = rig.replies.remove("node").expect("an answer").answer else { panic!("not a node") };
    page.map(|page| *page)
}
fn at(rig: &Rig, name: &str) -> Vec<String> {
    rig.places(name).into_iter().map(|(node, _)| node).collect()
}
fn told(rig: &Rig, name: &str, text: &str) -> bool {
    rig.events.iter().any(|event| event.node == Some(node(name)) && event.message.contains(text))
}

#[test]
fn a_cordoned_node_gets_nothing_new_and_keeps_what_it_has() {
    let mut rig = rig(&["a", "b"]);
    rig.command("c1", create("web", 2));
    rig.pass(1);
    assert_eq!(rig.command("c2", cordon("a", "disk swap")), "Accepted");
    assert!(told(&rig, "a", "cordoned (disk swap)"), "{:?}", rig.events);
    rig.command("c3", replica("web", 4));
    rig.pass(1);
    assert_eq!(at(&rig, "web"), ["a", "b", "b", "b"]);
    rig.elect();
    rig.pass(1);
    rig.command("c4", replica("web", 5));
    rig.pass(1);
    assert_eq!(at(&rig, "web"), ["a", "b", "b", "b", "b"], "a new leader keeps to it");
    let view = nodes(&mut rig).into_iter().find(|view| view.name == node("a")).expect("the node");
    assert_eq!(
        view.cordon.as_ref().map(|cordon| (cordon.why.as_str(), cordon.by.as_str())),
        Some(("disk swap", "tests"))
    );
    assert_eq!((view.instances, view.liveness), (1, contract::query::Liveness::Alive));
    assert_eq!(rig.command("c5", change("a", NodeChange::Uncordon)), "Accepted");
    rig.command("c6", replica("web", 6));
    rig.pass(1);
    assert_eq!(at(&rig, "web")[5], "a");
}

#[test]
fn saying_it_again_is_accepted_and_changes_nothing() {
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
    assert!(!rig.store.contains_key(&keys::node_intent(&node("a"))), "nothing is said of it");
    let refused = rig.command("c7", cordon("z", ""));
    assert!(refused.contains("NodeUnknown"), "{refused}");
}

#[test]
fn who_fits_only_on_a_cordoned_node_says_so_and_comes_when_it_may() {
    let mut rig = rig(&["a"]);
    rig.command("c1", cordon("a", "disk swap"));
    rig.command("c2", create("web", 1));
    assert_eq!(rig.group("web").expect("a group").last_error, "no node fits: a: cordoned (disk swap)");
    rig.command("c3", change("a", NodeChange::Uncordon));
    rig.pass(2);
    assert_eq!(rig.group("web").expect("a group").state, RunState::Success);
}

#[test]
fn a_drained_node_is_left_by_all_but_who_is_bound_to_its_data() {
    let mut rig = rig(&["a", "b"]);
    rig.command("c1", create("web", 4));
    rig.command("c2", bound("db", 2));
    rig.pass(2);
    assert_eq!((at(&rig, "web").concat(), at(&rig, "db").concat()), ("abab".to_owned(), "ab".to_owned()));
    assert_eq!(rig.command("c3", drain("a", false)), "Accepted");
    rig.pass(30);
    assert_eq!((at(&rig, "web").concat(), at(&rig, "db").concat()), ("bbbb".to_owned(), "ab".to_owned()));
    let stays = page(&mut rig, "a").expect("the node").pods;
    assert_eq!(
        stays.iter().map(|it| (it.pod.to_string(), it.bound, it.leaving)).collect::<Vec<_>>(),
        [("db.v0-i1-d0".to_owned(), true, false)]
    );
    assert_eq!(rig.command("c4", drain("a", true)), "Accepted");
    rig.pass(30);
    assert_eq!(at(&rig, "db").concat(), "bb");
    assert!(page(&mut rig, "a").expect("the node").pods.is_empty());
    assert!(nodes(&mut rig)[0].cordon.is_some(), "it stays cordoned");
}

#[test]
fn a_drain_that_is_refused_leaves_no_cordon_behind() {
    let mut rig = rig(&["a", "b"]);
    rig.command("c1", create("web", 1));
    rig.pass(1);
    rig.command("c2", Verb::RunEngine { running: false });
    for number in 0..16 {
        let to = Some(node(&format!("n{number}")));
        let drift = contract::command::Drift { from: node("a"), to, force: false, instance: None };
        assert_eq!(rig.command(&format!("d{number}"), Verb::Drift { drift, group: None }), "Accepted");
    }
    let refused = rig.command("c3", drain("a", false));
    assert!(refused.contains("Limit"), "{refused}");
    assert_eq!(nodes(&mut rig)[0].cordon, None);
}

#[test]
fn labels_change_at_run_time_and_lie_over_the_agents_own() {
    let mut rig = rig(&["a", "b"]);
    assert_eq!(rig.command("c1", label("b", &[("rack", Some("3")), ("group", None)])), "Accepted");
    let mut racked = spec("web", 2);
    racked.pod.filters = vec!["constraint:rack==3".to_owned(), "constraint:group!=default".to_owned()];
    rig.command("c2", Verb::CreateGroup { spec: Box::new(racked) });
    rig.pass(2);
    assert_eq!(at(&rig, "web"), ["b", "b"]);
    rig.elect();
    rig.pass(2);
    let labels = |rig: &mut Rig| nodes(rig).remove(1).facts.labels;
    assert_eq!((labels(&mut rig).get("rack").cloned(), labels(&mut rig).get("group")), (Some("3".to_owned()), None));
    assert_eq!(page(&mut rig, "b").expect("the node").said.len(), 2);
    let written = rig.written();
    rig.clear();
    rig.pass(5);
    assert!(
        rig.written().is_empty(),
        "reports of the agent's own labels write nothing: {:?} {written:?}",
        rig.written()
    );
    assert_eq!(rig.command("c3", label("b", &[("rack", None), ("group", Some("default"))])), "Accepted");
    assert!(!rig.store.contains_key(&keys::node_intent(&node("b"))), "what the agent says is not remembered");
    let refused = rig.command("c4", label("b", &[("node", Some("x"))]));
    assert!(refused.contains("Malformed"), "{refused}");
}

#[test]
fn only_a_silent_and_empty_node_is_removed_and_it_may_come_back_as_a_new_one() {
    let mut rig = rig(&["a", "b"]);
    rig.command("c1", create("web", 2));
    rig.command("c2", cordon("a", "old"));
    rig.pass(1);
    let refused = rig.command("c3", remove_node("a", false));
    assert!(refused.contains("was heard") && refused.contains("stop its agent first"), "{refused}");
    assert!(rig.command("c4", remove_node("a", true)).contains("was heard"), "not even by force");
    rig.cut.insert(node("a"));
    rig.pass(20);
    let refused = rig.command("c5", remove_node("a", false));
    assert!(refused.contains("instances of 1 PodGroups are placed on a or may still run there (web)"), "{refused}");
    rig.pass(300);
    assert_eq!(at(&rig, "web"), ["b", "b"]);
    assert_eq!(rig.command("c6", remove_node("a", false)), "Accepted");
    assert_eq!(nodes(&mut rig).len(), 1);
    assert!(page(&mut rig, "a").is_none());
    assert!(
        !rig.store.contains_key(&keys::node(&node("a"))) && !rig.store.contains_key(&keys::node_intent(&node("a")))
    );
    assert!(rig.command("c7", remove_node("a", false)).contains("NodeUnknown"));
    rig.elect();
    rig.pass(1);
    assert_eq!(nodes(&mut rig).len(), 1, "nor does a new leader know it");
    rig.clear();
    rig.cut.clear();
    rig.pass(2);
    assert!(told(&rig, "a", "joined"), "{:?}", rig.events);
    let view = nodes(&mut rig).remove(0);
    assert_eq!((view.cordon, view.liveness), (None, contract::query::Liveness::Alive));
    assert_eq!(rig.pods("a"), [""; 0], "what moved meanwhile is not wanted there");
    rig.command("c8", replica("web", 3));
    rig.pass(2);
    assert_eq!(at(&rig, "web"), ["b", "b", "a"]);
    assert_eq!(rig.core.disagreements(), 0, "no fence was used twice");
}

#[test]
fn a_node_that_will_not_return_gives_up_even_what_is_bound_to_it() {
    let mut rig = rig(&["a", "b"]);
    rig.command("c1", create("web", 2));
    rig.command("c2", bound("db", 2));
    rig.pass(2);
    rig.cut.insert(node("a"));
    rig.pass(20);
    assert_eq!(rig.command("c3", remove_node("a", true)), "Accepted");
    rig.pass(5);
    assert_eq!((at(&rig, "web").concat(), at(&rig, "db").concat()), ("bb".to_owned(), "bb".to_owned()));
    assert_eq!(rig.group("db").expect("a group").state, RunState::Success);
    assert_eq!(nodes(&mut rig).len(), 1);
    rig.cut.clear();
    rig.pass(3);
    assert_eq!(rig.pods("a"), [""; 0], "should it return all the same, its copies go");
}

#[test]
fn who_is_heard_again_before_it_is_forgotten_stays() {
    let mut rig = rig(&["a", "b"]);
    rig.agents.get_mut(&node("b")).expect("an agent").memory = 64 << 20;
    rig.report("b");
    rig.command("c1", bound("db", 3));
    rig.pass(2);
    rig.cut.insert(node("a"));
    rig.pass(20);
    assert_eq!(rig.command("c2", remove_node("a", true)), "Accepted");
    rig.pass(5);
    assert!(page(&mut rig, "a").expect("its instances have no other place").removing);
    rig.elect();
    rig.pass(1);
    assert!(page(&mut rig, "a").expect("a new leader knows of it").removing);
    rig.clear();
    rig.cut.clear();
    rig.pass(3);
    assert!(!page(&mut rig, "a").expect("the node").removing);
    assert!(told(&rig, "a", "it stays"), "{:?}", rig.events);
    assert_eq!(rig.group("db").expect("a group").state, RunState::Success);
}

#[test]
fn a_standby_forgets_a_removed_node_too() {
    let mut rig = rig(&["a", "b"]);
    let mut standby = Core::new(Settings::default());
    let now = rig.time();
    for name in ["a", "b"] {
        let report = ReportMessage::Whole(rig.agents[&node(name)].whole(&node(name)));
        standby.on(Input::Report(report), now);
    }
    rig.command("c1", cordon("b", "seen by standbys"));
    let pairs = rig.store.clone().into_iter().collect();
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
    let said = serde_json::to_vec(&NodeIntent::default()).expect("serialises");
    standby.on(Input::Mirror(super::super::io::Mirror::Put(keys::node_intent(&node("b")), said)), now);
    assert_eq!(ask(&mut standby, now), [("b".to_owned(), false)]);
}

#[test]
fn a_drain_that_waits_for_a_suspect_node_says_so_in_the_answer_and_in_one_event() {
    let mut rig = rig(&["a", "c"]);
    rig.command("c1", create("web", 3));
    rig.pass(5);
    assert_eq!(at(&rig, "web"), ["a", "c", "a"]);
    // The first instance goes to c, which is not heard any more; the third waits for it.
    rig.cut.insert(node("c"));
    assert_eq!(rig.command("c2", drain("a", false)), "Accepted");
    rig.pass(20);
    assert_eq!(page(&mut rig, "c").map(|page| page.node.liveness), Some(contract::query::Liveness::Suspect));
    assert_eq!(at(&rig, "web"), ["c", "c", "a"]);
    let pods = page(&mut rig, "a").expect("a page").pods;
    let words = "waits for instance 1 on c, which is suspect";
    assert!(pods.iter().any(|pod| pod.pod.instance == 3 && pod.why.contains(words)), "{pods:?}");
    let count = |rig: &Rig| rig.events.iter().filter(|event| event.message.contains(words)).count();
    assert_eq!(count(&rig), 1, "{:?}", rig.events);
    rig.command("c3", drain("a", false));
    rig.pass(5);
    assert_eq!(count(&rig), 1, "{:?}", rig.events);
}
