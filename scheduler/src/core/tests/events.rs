//! Events: each is recorded once, together with its decision, and their number and size are bounded.

use contract::event::Kind;

use super::*;

impl Rig {
    /// The recorded events as `kind group#instance @node: message`.
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
fn events_record_the_creation_scaling_and_removal_of_a_group() {
    let mut rig = rig(&["a"]);
    rig.command("c1", create("web", 2));
    rig.advance(1);
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
    rig.advance(1);
    let events = rig.recorded();
    assert_eq!(
        events[..3],
        [
            "Accepted web: replica 1: accepted; asked through tests as c2",
            "Operation web: Scheduling began",
            "Placed web#2 @a: leaves a",
        ]
    );
    assert!(events.iter().any(|line| line.starts_with("Operation web: Scheduling ended after")), "{events:?}");
    rig.command("c4", remove("web"));
    rig.advance(1);
    let events = rig.recorded();
    assert_eq!(events[1], "Operation web: Removing began");
    assert!(events.last().is_some_and(|line| line.starts_with("Operation web: Removing ended after")), "{events:?}");
}

#[test]
fn a_refusal_is_recorded_with_its_reason_and_its_sender() {
    let mut rig = rig(&["a"]);
    rig.command("c1", remove("web"));
    assert_eq!(rig.recorded(), ["Refused web: remove: refused: PodGroup not existed; asked through tests as c1"]);
}

#[test]
fn no_event_is_recorded_before_its_decision_is_committed() {
    let mut rig = rig(&["a"]);
    let delivery = rig.delivery("c1", create("web", 1));
    let effects = rig.input(Input::Command(delivery));
    assert!(!effects.iter().any(|effect| matches!(effect, Effect::Record(_))), "{effects:?}");
    rig.perform(effects);
    assert!(!rig.events.is_empty());
}

#[test]
fn an_unschedulable_group_is_recorded_once_with_the_reason_of_every_node() {
    let mut rig = rig(&["a", "b"]);
    let mut large = spec("web", 1);
    large.pod.containers[0].memory_limit = 4 << 30;
    rig.command("c1", Verb::CreateGroup { spec: Box::new(large) });
    rig.advance(300);
    let events: Vec<Event> = rig.events.iter().filter(|event| event.kind == Kind::Unplaceable).cloned().collect();
    assert_eq!(events.len(), 1, "{events:?}");
    let short = vec!["memory 3072 MiB short".to_owned()];
    assert_eq!(events[0].reasons, BTreeMap::from([(node("a"), short.clone()), (node("b"), short)]));
    assert!(events[0].message.starts_with("no node fits: a: memory"), "{}", events[0].message);
    rig.clear();
    for memory in 0..60 {
        rig.agent("a").memory = memory << 20;
        rig.advance(1);
    }
    let again = rig.events.iter().filter(|event| event.kind == Kind::Unplaceable).count();
    assert!((1..=2).contains(&again), "changed reasons are not recorded every second: {again}");
}

#[test]
fn the_reasons_of_a_thousand_nodes_fit_into_a_small_event() {
    let reasons = |length: usize| {
        let names = (0..1_000).map(|number| node(&format!("node-{number:04}")));
        names.map(|name| (name, BTreeSet::from(["\"".repeat(length)]))).collect::<BTreeMap<_, _>>()
    };
    for (length, limit) in [(20, 200), (10_000, 3)] {
        let effect = super::super::events::unplaceable(&group("web"), "no", &reasons(length), Timestamp::NEVER);
        let Effect::Record(event) = effect else { panic!("not an event") };
        assert!(serde_json::to_vec(&event).expect("JSON").len() < 64 << 10);
        assert!(event.reasons.len() <= limit && !event.reasons.is_empty(), "{}", event.reasons.len());
        let left_out = 1_000 - event.reasons.len();
        assert_eq!(event.message, format!("no (the reasons of {left_out} more nodes are left out)"));
    }
}

#[test]
fn many_placements_are_recorded_as_one_event_per_node() {
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
fn placements_on_many_nodes_are_recorded_as_one_event() {
    let names: Vec<String> = (0..60).map(|number| format!("n{number:02}")).collect();
    let mut rig = rig(&names.iter().map(String::as_str).collect::<Vec<_>>());
    rig.command("c1", create("web", 120));
    let placed: Vec<String> = rig.recorded().into_iter().filter(|line| line.starts_with("Placed")).collect();
    assert_eq!(placed, ["Placed web: instances: 120 placed on 60 nodes"]);
}

#[test]
fn the_states_of_nodes_and_takeovers_are_recorded() {
    let mut rig = rig(&["a", "b"]);
    rig.agents.insert(node("c"), FakeNode::default());
    rig.advance(1);
    rig.unreachable.insert(node("c"));
    rig.advance(20);
    rig.unreachable.clear();
    rig.advance(1);
    rig.unreachable.insert(node("c"));
    rig.advance(310);
    rig.unreachable.clear();
    rig.advance(1);
    rig.agent("a").engine = EngineState::Hung;
    rig.advance(1);
    rig.agent("a").engine = EngineState::Up;
    rig.advance(1);
    rig.elect();
    assert_eq!(
        rig.recorded(),
        [
            "Node @c: joined",
            "Node @c: no heartbeat for 15.0 s: suspect",
            "Node @c: reports again",
            "Node @c: no heartbeat for 15.0 s: suspect",
            "Node @c: lost: its stateless instances move to other nodes",
            "Node @c: came back; it was lost",
            "Node @a: its engine does not answer",
            "Node @a: its engine answers again",
            "Leader: scheduler leads, term 2",
        ]
    );
}

#[test]
fn a_switch_is_recorded_when_it_changes() {
    let mut rig = rig(&["a"]);
    rig.command("c1", Verb::Guard { working: false });
    rig.command("c2", Verb::Configure { readonly: Some(true), maintenance: Some(false) });
    rig.command("c3", Verb::Configure { readonly: Some(true), maintenance: None });
    let events: Vec<String> = rig.recorded().into_iter().filter(|line| line.starts_with("Engine")).collect();
    assert_eq!(events, ["Engine: the guard sleeps", "Engine: read-only: changes are refused"]);
}
