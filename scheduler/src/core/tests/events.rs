//! What people are told happened: each thing once, with its decision, and never too much of it.

use contract::event::Kind;

use super::*;

impl Rig {
    /// Kind, group, instance and node of what was recorded, with its sentence.
    fn recorded(&mut self) -> Vec<String> {
        let shown = |event: Event| {
            let group = event.group.map(|name| format!(" {name}")).unwrap_or_default();
            let instance = if event.instance > 0 { format!("#{}", event.instance) } else { String::new() };
            let node = event.node.map(|name| format!(" @{name}")).unwrap_or_default();
            format!("{:?}{group}{instance}{node}: {}", event.kind, event.message)
        };
        std::mem::take(&mut self.events).into_iter().map(shown).collect()
    }
}

#[test]
fn the_life_of_a_group_can_be_read_from_its_events() {
    let mut rig = rig(&["a"]);
    rig.command("c1", create("web", 2));
    rig.pass(1);
    assert_eq!(
        rig.recorded(),
        [
            "Accepted web: create with 2 instances: accepted; asked through tests as c1",
            "Operation web: Deploying began",
            "Placed web#1 @a: placed on a",
            "Placed web#2 @a: placed on a",
            "Operation web: Deploying ended after 1.0 s",
        ]
    );
    rig.command("c2", replica("web", 1));
    rig.command("c3", replica("web", 3));
    rig.pass(1);
    let told = rig.recorded();
    assert_eq!(
        told[..3],
        [
            "Accepted web: replica 1: accepted; asked through tests as c2",
            "Operation web: Scheduling began",
            "Placed web#2 @a: leaves a",
        ]
    );
    assert!(told.iter().any(|line| line.starts_with("Operation web: Scheduling ended after")), "{told:?}");
    rig.command("c4", remove("web"));
    rig.pass(1);
    let told = rig.recorded();
    assert_eq!(told[1], "Operation web: Removing began");
    assert!(told.last().is_some_and(|line| line.starts_with("Operation web: Removing ended after")), "{told:?}");
}

#[test]
fn a_refusal_says_why_and_who_asked() {
    let mut rig = rig(&["a"]);
    rig.command("c1", remove("web"));
    assert_eq!(rig.recorded(), ["Refused web: remove: refused: PodGroup not existed; asked through tests as c1"]);
}

#[test]
fn nothing_is_told_before_it_is_stored() {
    let mut rig = rig(&["a"]);
    let delivery = rig.delivery("c1", create("web", 1));
    let effects = rig.input(Input::Command(delivery));
    assert!(!effects.iter().any(|effect| matches!(effect, Effect::Record(_))), "{effects:?}");
    rig.perform(effects);
    assert!(!rig.events.is_empty());
}

#[test]
fn a_group_without_a_place_is_told_with_every_node_and_reason_and_not_again_for_the_same() {
    let mut rig = rig(&["a", "b"]);
    let mut large = spec("web", 1);
    large.pod.containers[0].memory_limit = 4 << 30;
    rig.command("c1", Verb::CreateGroup { spec: Box::new(large) });
    rig.pass(300);
    let told: Vec<Event> = rig.events.iter().filter(|event| event.kind == Kind::Unplaceable).cloned().collect();
    assert_eq!(told.len(), 1, "{told:?}");
    let short = vec!["memory 3072 MiB short".to_owned()];
    assert_eq!(told[0].reasons, BTreeMap::from([(node("a"), short.clone()), (node("b"), short)]));
    assert!(told[0].message.starts_with("no node fits: a: memory"), "{}", told[0].message);
    rig.clear();
    for memory in 0..60 {
        rig.agents.get_mut(&node("a")).expect("an agent").memory = memory << 20;
        rig.pass(1);
    }
    let again = rig.events.iter().filter(|event| event.kind == Kind::Unplaceable).count();
    assert!((1..=2).contains(&again), "other reasons, but not every second: {again}");
}

#[test]
fn a_thousand_nodes_without_room_still_make_a_small_event() {
    let reasons = |length: usize| {
        let names = (0..1_000).map(|number| node(&format!("node-{number:04}")));
        names.map(|name| (name, BTreeSet::from(["\"".repeat(length)]))).collect::<BTreeMap<_, _>>()
    };
    for (length, most) in [(20, 200), (10_000, 3)] {
        let effect = super::super::events::unplaceable(&group("web"), "no", &reasons(length), Timestamp::NEVER);
        let Effect::Record(event) = effect else { panic!("not an event") };
        assert!(serde_json::to_vec(&event).expect("JSON").len() < 64 << 10);
        assert!(event.reasons.len() <= most && !event.reasons.is_empty(), "{}", event.reasons.len());
        let left_out = 1_000 - event.reasons.len();
        assert_eq!(event.message, format!("no (the reasons of {left_out} more nodes are left out)"));
    }
}

#[test]
fn many_moves_are_told_node_by_node() {
    let mut rig = rig(&["a", "b"]);
    for agent in rig.agents.values_mut() {
        agent.memory = 64 << 30;
        agent.cpu_millis = 1_000_000;
    }
    rig.report_all();
    rig.clear();
    rig.command("c1", create("web", 60));
    let placed: Vec<String> = rig.recorded().into_iter().filter(|line| line.starts_with("Placed")).collect();
    assert_eq!(placed, ["Placed web @a: instances: 30 placed here", "Placed web @b: instances: 30 placed here"]);
}

#[test]
fn moves_on_many_nodes_are_told_once() {
    let names: Vec<String> = (0..60).map(|number| format!("n{number:02}")).collect();
    let mut rig = rig(&names.iter().map(String::as_str).collect::<Vec<_>>());
    rig.command("c1", create("web", 120));
    let placed: Vec<String> = rig.recorded().into_iter().filter(|line| line.starts_with("Placed")).collect();
    assert_eq!(placed, ["Placed web: instances: 120 placed on 60 nodes"]);
}

#[test]
fn nodes_and_leaders_come_and_go_in_words() {
    let mut rig = rig(&["a", "b"]);
    rig.agents.insert(node("c"), Agent::new());
    rig.pass(1);
    rig.cut.insert(node("c"));
    rig.pass(20);
    rig.cut.clear();
    rig.pass(1);
    rig.cut.insert(node("c"));
    rig.pass(310);
    rig.cut.clear();
    rig.pass(1);
    rig.agents.get_mut(&node("a")).expect("an agent").engine = EngineState::Hung;
    rig.pass(1);
    rig.agents.get_mut(&node("a")).expect("an agent").engine = EngineState::Up;
    rig.pass(1);
    rig.elect();
    assert_eq!(
        rig.recorded(),
        [
            "Node @c: joined",
            "Node @c: not heard for 15.0 s: suspect",
            "Node @c: heard again",
            "Node @c: not heard for 15.0 s: suspect",
            "Node @c: lost: what has no state of its own moves elsewhere",
            "Node @c: came back; it was lost",
            "Node @a: its engine does not answer",
            "Node @a: its engine answers again",
            "Leader: scheduler leads, term 2",
        ]
    );
}

#[test]
fn switches_and_constraints_are_told_when_they_change() {
    let mut rig = rig(&["a"]);
    rig.command("c1", Verb::Guard { working: false });
    rig.command("c2", Verb::Configure { readonly: Some(true), maintenance: Some(false) });
    rig.command("c3", Verb::Configure { readonly: Some(true), maintenance: None });
    let told: Vec<String> = rig.recorded().into_iter().filter(|line| line.starts_with("Engine")).collect();
    assert_eq!(told, ["Engine: the guard sleeps", "Engine: read-only: changes are refused"]);
}
