//! Two agents under one name: one is listened to.

use contract::query::Liveness;

use super::*;

/// A leader with one node whose agent says who it is.
fn known() -> Rig {
    let mut rig = rig(&[]);
    rig.agents.insert(node("a"), Agent { identity: "first".to_owned(), ..Agent::new() });
    rig.pass(1);
    rig.command("c1", create("web", 1));
    rig.pass(1);
    rig
}
/// Another agent of that name, on a machine that runs nothing.
fn second() -> Agent {
    Agent { identity: "second".to_owned(), incarnation: 7, memory: 1 << 40, ..Agent::new() }
}
fn says(rig: &mut Rig, agent: &Agent) -> Vec<Effect> {
    rig.input(Input::Report(ReportMessage::Whole(agent.whole(&node("a")))))
}
fn memory(rig: &mut Rig) -> (u64, Liveness) {
    rig.run(Input::Query { query: Query::Nodes, reply: "nodes".to_owned() });
    let Answer::Nodes(nodes) = rig.replies.remove("nodes").expect("an answer").answer else { panic!("not nodes") };
    (nodes[0].facts.memory, nodes[0].liveness)
}

#[test]
fn a_second_agent_under_a_living_name_is_ignored_and_told_about_once() {
    let mut rig = known();
    let duplicate_agent = second();
    let effects = says(&mut rig, &duplicate_agent);
    let told: Vec<&str> = effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Record(event) => Some(event.message.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(told.len(), 1, "{effects:?}");
    for part in ["second agent (second at ip-of-a)", "first at ip-of-a", "--name"] {
        assert!(told[0].contains(part), "{told:?} lacks {part}");
    }
    assert!(says(&mut rig, &duplicate_agent).is_empty(), "not with each of its reports");
    assert_eq!(rig.core.ignored_reports(), 2);
    assert_eq!(memory(&mut rig), (1024 << 20, Liveness::Alive));
    rig.pass(30);
    assert_eq!(rig.group("web").expect("a group").state, RunState::Success);
    rig.run(Input::Query { query: Query::Node { name: node("a") }, reply: "node".to_owned() });
    let Answer::Node(Some(page)) = rig.replies.remove("node").expect("an answer").answer else { panic!("no node") };
    assert_eq!(
        (page.identity.as_str(), page.duplicate_agent.map(|duplicate_agent| duplicate_agent.identity)),
        ("first", Some("second".to_owned()))
    );
}

#[test]
fn orders_name_the_agent_they_are_meant_for() {
    let mut rig = known();
    assert!(rig.orders.iter().all(|(_, message)| message.agent() == "first"), "{:?}", rig.orders);
    let mut silent = self::rig(&["b"]);
    silent.command("c1", create("web", 1));
    assert!(silent.orders.iter().all(|(_, message)| message.agent().is_empty()), "{:?}", silent.orders);
    rig.clear();
}

#[test]
fn a_machine_installed_anew_is_taken_in_once_its_predecessor_is_suspect() {
    let mut rig = known();
    rig.agents.insert(node("a"), second());
    rig.pass(14);
    assert_eq!(memory(&mut rig).0, 1024 << 20, "the first may still be there");
    rig.pass(2);
    assert_eq!(memory(&mut rig), (1 << 40, Liveness::Alive));
    rig.pass(5);
    let stored: contract::record::NodeRecord =
        serde_json::from_slice(&rig.store[&keys::node(&node("a"))]).expect("a record");
    assert_eq!(stored.identity, "second");
    assert_eq!(rig.pods("a"), ["web.v0-i1-d0"], "it is given what the node is to run");
    assert_eq!(rig.group("web").expect("a group").state, RunState::Success);
}

#[test]
fn an_agent_that_is_restarted_is_the_same_one_at_once() {
    let mut rig = known();
    let agent = rig.agents.get_mut(&node("a")).expect("an agent");
    (agent.incarnation, agent.sequence, agent.memory) = (2, 0, 2048 << 20);
    rig.pass(1);
    assert_eq!(memory(&mut rig), (2048 << 20, Liveness::Alive));
    assert_eq!(rig.core.ignored_reports(), 0);
}

#[test]
fn a_new_leader_gives_the_agent_it_knows_time_to_speak_first() {
    let mut rig = known();
    rig.core = Core::new(Settings::default());
    rig.now += 60_000;
    rig.elect();
    let (first, duplicate_agent) = (rig.agents[&node("a")].clone(), second());
    assert!(!says(&mut rig, &duplicate_agent).is_empty(), "people are told");
    assert_eq!(rig.core.ignored_reports(), 1);
    rig.run(Input::Report(ReportMessage::Whole(first.whole(&node("a")))));
    assert_eq!(memory(&mut rig), (1024 << 20, Liveness::Alive));
    let agent = rig.agents.get_mut(&node("a")).expect("an agent");
    agent.identity.clear();
    rig.pass(1);
    assert_eq!((rig.core.ignored_reports(), memory(&mut rig).1), (1, Liveness::Alive), "an older agent is listened to");
}
