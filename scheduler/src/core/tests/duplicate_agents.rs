//! Two agents under one node name: the leader accepts the reports of one.

use contract::query::Liveness;

use super::*;

/// A leader with one node whose agent reports the identity `first`.
fn one_agent() -> Rig {
    let mut rig = rig(&[]);
    rig.agents.insert(node("a"), FakeNode { identity: "first".to_owned(), ..FakeNode::default() });
    rig.advance(1);
    rig.command("c1", create("web", 1));
    rig.advance(1);
    rig
}
/// An agent under the same name on another machine.
fn second() -> FakeNode {
    FakeNode { identity: "second".to_owned(), incarnation: 7, memory: 1 << 40, ..FakeNode::default() }
}
fn report_from(rig: &mut Rig, agent: &FakeNode) -> Vec<Effect> {
    rig.input(Input::Report(ReportMessage::Whole(agent.whole(&node("a")))))
}
fn memory(rig: &mut Rig) -> (u64, Liveness) {
    let node = rig.nodes().remove(0);
    (node.facts.memory, node.liveness)
}

#[test]
fn a_duplicate_agent_is_ignored_while_the_first_is_alive_and_reported_once() {
    let mut rig = one_agent();
    let duplicate_agent = second();
    let effects = report_from(&mut rig, &duplicate_agent);
    let events: Vec<&str> = effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Record(event) => Some(event.message.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(events.len(), 1, "{effects:?}");
    for part in ["second agent (second at ip-of-a)", "first at ip-of-a", "--name"] {
        assert!(events[0].contains(part), "{events:?} lacks {part}");
    }
    assert!(report_from(&mut rig, &duplicate_agent).is_empty(), "not reported again");
    assert_eq!(rig.core.ignored_reports(), 2);
    assert_eq!(memory(&mut rig), (1024 << 20, Liveness::Alive));
    rig.advance(30);
    assert_eq!(rig.group("web").expect("a group").state, RunState::Success);
    let Answer::Node(Some(page)) = rig.query(Query::Node { name: node("a") }) else { panic!("no node") };
    assert_eq!(
        (page.identity.as_str(), page.duplicate_agent.map(|duplicate_agent| duplicate_agent.identity)),
        ("first", Some("second".to_owned()))
    );
}

#[test]
fn orders_contain_the_identity_of_their_agent() {
    let rig = one_agent();
    assert!(rig.orders.iter().all(|(_, message)| message.agent() == "first"), "{:?}", rig.orders);
    let mut anonymous = self::rig(&["b"]);
    anonymous.command("c1", create("web", 1));
    assert!(anonymous.orders.iter().all(|(_, message)| message.agent().is_empty()), "{:?}", anonymous.orders);
}

#[test]
fn a_reinstalled_machine_is_accepted_once_the_agent_before_is_suspect() {
    let mut rig = one_agent();
    rig.agents.insert(node("a"), second());
    rig.advance(14);
    assert_eq!(memory(&mut rig).0, 1024 << 20, "the first agent is not suspect yet");
    rig.advance(2);
    assert_eq!(memory(&mut rig), (1 << 40, Liveness::Alive));
    rig.advance(5);
    let stored: contract::record::NodeRecord =
        serde_json::from_slice(&rig.store[&keys::node(&node("a"))]).expect("a record");
    assert_eq!(stored.identity, "second");
    assert_eq!(rig.pods("a"), ["web.v0-i1-d0"], "the new agent receives the order of the node");
    assert_eq!(rig.group("web").expect("a group").state, RunState::Success);
}

#[test]
fn a_restarted_agent_is_accepted_immediately() {
    let mut rig = one_agent();
    let agent = rig.agent("a");
    (agent.incarnation, agent.sequence, agent.memory) = (2, 0, 2048 << 20);
    rig.advance(1);
    assert_eq!(memory(&mut rig), (2048 << 20, Liveness::Alive));
    assert_eq!(rig.core.ignored_reports(), 0);
}

#[test]
fn a_new_leader_waits_for_the_agent_with_the_stored_identity() {
    let mut rig = one_agent();
    rig.core = Core::new(Settings::default());
    rig.now += 60_000;
    rig.elect();
    let (first, duplicate_agent) = (rig.agents[&node("a")].clone(), second());
    assert!(!report_from(&mut rig, &duplicate_agent).is_empty(), "the duplicate is reported");
    assert_eq!(rig.core.ignored_reports(), 1);
    rig.run(Input::Report(ReportMessage::Whole(first.whole(&node("a")))));
    assert_eq!(memory(&mut rig), (1024 << 20, Liveness::Alive));
    let agent = rig.agent("a");
    agent.identity.clear();
    rig.advance(1);
    assert_eq!(
        (rig.core.ignored_reports(), memory(&mut rig).1),
        (1, Liveness::Alive),
        "an agent of an older version has no identity and is accepted"
    );
}
