//! Many nodes go silent: when the engine stops itself, and when not.

use contract::notice::Incident;
use contract::switches::EngineRecord;

use super::*;

const NODES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// A leader of six nodes, long after the bus came.
fn settled() -> Rig {
    let mut rig = rig(&NODES);
    rig.command("callback", Verb::AddCallback { url: "http://127.0.0.1/".to_owned() });
    rig.run(Input::Bus { connected: true });
    rig.pass(60);
    rig.clear();
    rig
}

impl Rig {
    fn silence(&mut self, names: &[&str]) {
        self.cut.extend(names.iter().map(|name| node(name)));
    }
    fn is_stopped(&self) -> bool {
        let stored = self.store.get(keys::ENGINE);
        stored.is_some_and(|value| !serde_json::from_slice::<EngineRecord>(value).expect("a record").running)
    }
    /// Time passes with nobody heard and nobody speaking.
    fn wait(&mut self, seconds: i64) {
        for _ in 0..seconds {
            self.now += 1_000;
            self.run(Input::Tick);
        }
    }
}

#[test]
fn three_silent_nodes_stop_the_engine_once_and_everybody_is_told() {
    let mut rig = settled();
    rig.silence(&["a", "b", "c"]);
    rig.pass(30);
    assert!(rig.is_stopped());
    let text = Incident::NodesLost.text();
    let told: Vec<(&str, &str, u32, &str)> = rig
        .notices
        .iter()
        .map(|body| (body.namespace.as_str(), body.pod_name.as_str(), body.instance_no, body.message.as_str()))
        .collect();
    assert_eq!(told, [("Cluster", "Deployd", 1, &*text)]);
    assert!(rig.events.iter().any(|event| event.message == format!("{text} (a, b, c)")), "{:?}", rig.events);
    assert!(rig.agents[&node("d")].order.switches.paused, "nodes are told");
    rig.command("start", Verb::RunEngine { running: true });
    rig.pass(60);
    assert!(!rig.is_stopped(), "whoever started it knows about the three");
}

#[test]
fn two_silent_nodes_or_three_over_a_long_time_stop_nothing() {
    let mut rig = settled();
    rig.silence(&["a", "b"]);
    rig.pass(200);
    rig.silence(&["c"]);
    rig.pass(60);
    assert!(!rig.is_stopped());
}

#[test]
fn a_large_cluster_stops_its_engine_only_when_a_tenth_of_its_nodes_is_silent() {
    let names: Vec<String> = (0..40).map(|number| format!("n{number:02}")).collect();
    let nodes: Vec<&str> = names.iter().map(String::as_str).collect();
    for (silent, is_stopped) in [(3, false), (4, true)] {
        let mut rig = rig(&nodes);
        rig.run(Input::Bus { connected: true });
        rig.pass(60);
        rig.silence(&nodes[..silent]);
        rig.pass(60);
        assert_eq!(rig.is_stopped(), is_stopped, "{silent} of 40 nodes are silent");
    }
}

#[test]
fn one_node_that_goes_and_comes_counts_once() {
    let mut rig = settled();
    for _ in 0..4 {
        rig.silence(&["a"]);
        rig.pass(20);
        rig.cut.clear();
        rig.pass(5);
    }
    rig.silence(&["a", "b"]);
    rig.pass(30);
    assert!(!rig.is_stopped());
}

#[test]
fn who_came_back_does_not_count() {
    let mut rig = settled();
    rig.silence(&["a", "b"]);
    rig.pass(20);
    rig.cut.clear();
    rig.pass(5);
    rig.silence(&["c", "d"]);
    rig.pass(30);
    assert!(!rig.is_stopped());
}

#[test]
fn a_limit_of_none_never_stops() {
    let mut rig = rig_with(Settings { losses_stop: 0, ..Settings::default() }, &NODES);
    rig.pass(60);
    rig.silence(&["a", "b", "c", "d"]);
    rig.pass(60);
    assert!(!rig.is_stopped());
}

#[test]
fn an_outage_of_the_bus_stops_nothing_however_the_nodes_return() {
    let mut rig = settled();
    rig.run(Input::Bus { connected: false });
    rig.wait(60);
    rig.run(Input::Bus { connected: true });
    // Half of them are slow to find their way back.
    rig.silence(&["a", "b", "c"]);
    rig.pass(20);
    rig.cut.clear();
    rig.pass(60);
    assert!(!rig.is_stopped());
}

#[test]
fn a_bus_that_hangs_before_its_connection_is_given_up_stops_nothing() {
    let mut rig = settled();
    // Heard at different moments, so they go silent one after another while the connection still looks alive.
    for name in NODES {
        rig.now += 500;
        rig.report(name);
    }
    rig.wait(22);
    rig.run(Input::Bus { connected: false });
    rig.wait(30);
    rig.run(Input::Bus { connected: true });
    rig.pass(60);
    assert!(!rig.is_stopped());
    assert!(rig.notices.is_empty(), "{:?}", rig.notices);
}

#[test]
fn a_bus_that_stood_still_for_a_moment_stops_nothing() {
    let mut rig = settled();
    for name in NODES {
        rig.now += 500;
        rig.report(name);
    }
    // Long enough for the first three to be suspect; then everybody is heard again, the last ones first.
    rig.wait(14);
    for name in NODES.into_iter().rev() {
        rig.report(name);
    }
    rig.pass(30);
    assert!(!rig.is_stopped());
}

#[test]
fn when_every_node_is_silent_and_the_bus_is_not_the_engine_stops_all_the_same() {
    let mut rig = settled();
    rig.silence(&NODES);
    rig.pass(30);
    assert!(!rig.is_stopped(), "it may be the bus");
    rig.pass(30);
    assert!(rig.is_stopped(), "the bus would have been found dead by now");
}

#[test]
fn a_new_leader_counts_only_what_it_saw_itself() {
    let mut rig = settled();
    rig.silence(&["a", "b", "c"]);
    rig.pass(10);
    rig.elect();
    rig.pass(20);
    assert!(rig.is_stopped(), "they went silent before its ears");
    let mut rig = settled();
    rig.silence(&["a", "b", "c"]);
    rig.pass(14);
    rig.now += 2_000;
    rig.elect();
    rig.pass(60);
    assert!(!rig.is_stopped(), "they were silent when it took over");
}
