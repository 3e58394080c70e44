//! Nodes that wait for approval: listed, without orders and without work.

use contract::node::NodeChange;
use testkit::node::FakeNode;

use super::*;

/// A cluster of `a` that accepts no other name, and an agent that calls itself `b`.
fn with_stranger() -> Rig {
    let mut rig = rig_with(Settings { accepted_nodes: vec!["a".to_owned()], ..Settings::default() }, &["a"]);
    rig.agents.insert(node("b"), FakeNode::default());
    rig.clear();
    rig.advance(2);
    rig
}

fn pending(rig: &mut Rig) -> Vec<String> {
    rig.nodes().into_iter().filter(|view| view.pending).map(|view| view.name.to_string()).collect()
}

fn orders_to_b(rig: &Rig) -> usize {
    rig.orders.iter().filter(|(name, _)| *name == node("b")).count()
}

fn approve(rig: &mut Rig, id: &str) -> String {
    rig.command(id, Verb::Node { node: node("b"), change: NodeChange::Approve })
}

#[test]
fn an_unknown_node_is_listed_and_gets_neither_orders_nor_work() {
    let mut rig = with_stranger();
    assert_eq!(rig.command("c1", create("web", 4)), "Accepted");
    rig.advance(30);
    assert_eq!(rig.places("web"), vec![("a".to_owned(), 0); 4]);
    assert_eq!((pending(&mut rig), orders_to_b(&rig)), (vec!["b".to_owned()], 0));
    assert!(!rig.store.contains_key(&keys::node(&node("b"))), "nothing is stored");
    let waits = rig.events.iter().filter(|event| event.message.contains("node approve b")).count();
    assert_eq!(waits, 1, "{:?}", rig.events);
}

#[test]
fn an_approved_node_gets_work_also_under_the_next_leader() {
    let mut rig = with_stranger();
    assert_eq!(approve(&mut rig, "c1"), "Accepted");
    rig.elect();
    rig.advance(5);
    assert_eq!(pending(&mut rig), Vec::<String>::new());
    rig.command("c2", create("web", 2));
    rig.advance(2);
    assert_eq!(rig.places("web"), [("a".to_owned(), 0), ("b".to_owned(), 0)]);
    assert_eq!(approve(&mut rig, "c3"), "Accepted", "a repeated approval changes nothing");
}

#[test]
fn a_name_can_be_approved_before_its_node_joins_and_a_silent_stranger_is_forgotten() {
    let mut rig = with_stranger();
    rig.unreachable.insert(node("b"));
    rig.advance(400);
    assert_eq!(pending(&mut rig), Vec::<String>::new());
    assert_eq!(approve(&mut rig, "c1"), "Accepted");
    rig.unreachable.clear();
    rig.advance(5);
    assert!(orders_to_b(&rig) > 0 && pending(&mut rig).is_empty());
}

#[test]
fn nodes_that_the_store_knows_are_accepted() {
    let mut rig = rig(&["a", "b"]);
    rig.core = Core::new(Settings { accepted_nodes: Vec::new(), ..Settings::default() });
    rig.clear();
    rig.elect();
    rig.advance(3);
    assert_eq!((pending(&mut rig).len(), rig.nodes().len()), (0, 2));
    rig.command("c1", create("web", 2));
    rig.advance(2);
    assert_eq!(rig.places("web"), [("a".to_owned(), 0), ("b".to_owned(), 0)]);
}

#[test]
fn what_a_stranger_reported_to_a_standby_counts_for_nothing_when_it_leads() {
    let mut rig = with_stranger();
    rig.core = Core::new(Settings { accepted_nodes: vec!["a".to_owned()], ..Settings::default() });
    for name in ["a", "b"] {
        let mut report = rig.agents[&node(name)].whole(&node(name));
        report.head.progress.raise(Term(1), u64::from(name == "b") * 1_000_000);
        rig.run(Input::Report(ReportMessage::Whole(report)));
    }
    rig.elect();
    rig.advance(3);
    assert!(!rig.core.is_behind());
    assert_eq!((pending(&mut rig), orders_to_b(&rig)), (vec!["b".to_owned()], 0));
}
