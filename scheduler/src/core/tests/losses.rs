//! When many nodes become suspect, the engine stops itself, unless the bus is the cause.

use contract::notice::Incident;
use contract::switches::EngineRecord;

use super::*;

const NODES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// A leader with six nodes whose bus has been connected for a minute.
fn settled() -> Rig {
    let mut rig = rig(&NODES);
    rig.command("callback", Verb::AddCallback { url: "http://127.0.0.1/".to_owned() });
    rig.run(Input::Bus { connected: true });
    rig.advance(60);
    rig.clear();
    rig
}

impl Rig {
    fn disconnect(&mut self, names: &[&str]) {
        self.unreachable.extend(names.iter().map(|name| node(name)));
    }
    fn is_stopped(&self) -> bool {
        let stored = self.store.get(keys::ENGINE);
        stored.is_some_and(|value| !serde_json::from_slice::<EngineRecord>(value).expect("a record").running)
    }
    /// Advances the time while no node reports.
    fn advance_without_reports(&mut self, seconds: i64) {
        for _ in 0..seconds {
            self.now += 1_000;
            self.run(Input::Tick);
        }
    }
}

#[test]
fn three_suspect_nodes_stop_the_engine_once_with_a_notice_an_event_and_orders() {
    let mut rig = settled();
    rig.disconnect(&["a", "b", "c"]);
    rig.advance(30);
    assert!(rig.is_stopped());
    let text = Incident::NodesLost.text();
    let notices: Vec<(&str, &str, u32, &str)> = rig
        .notices
        .iter()
        .map(|body| (body.namespace.as_str(), body.pod_name.as_str(), body.instance_no, body.message.as_str()))
        .collect();
    assert_eq!(notices, [("Cluster", "Deployd", 1, &*text)]);
    assert!(rig.events.iter().any(|event| event.message == format!("{text} (a, b, c)")), "{:?}", rig.events);
    assert!(rig.agents[&node("d")].order.switches.paused, "the orders of the other nodes contain the switch");
    rig.command("start", Verb::RunEngine { running: true });
    rig.advance(60);
    assert!(!rig.is_stopped(), "the three nodes do not stop it again");
}

#[test]
fn two_suspect_nodes_or_three_over_a_long_time_do_not_stop_the_engine() {
    let mut rig = settled();
    rig.disconnect(&["a", "b"]);
    rig.advance(200);
    rig.disconnect(&["c"]);
    rig.advance(60);
    assert!(!rig.is_stopped());
}

#[test]
fn the_engine_of_a_large_cluster_stops_only_when_a_tenth_of_the_nodes_is_suspect() {
    let names: Vec<String> = (0..40).map(|number| format!("n{number:02}")).collect();
    let nodes: Vec<&str> = names.iter().map(String::as_str).collect();
    for (suspect, is_stopped) in [(3, false), (4, true)] {
        let mut rig = rig(&nodes);
        rig.run(Input::Bus { connected: true });
        rig.advance(60);
        rig.disconnect(&nodes[..suspect]);
        rig.advance(60);
        assert_eq!(rig.is_stopped(), is_stopped, "{suspect} of 40 nodes are suspect");
    }
}

#[test]
fn a_node_that_becomes_suspect_repeatedly_counts_once() {
    let mut rig = settled();
    for _ in 0..4 {
        rig.disconnect(&["a"]);
        rig.advance(20);
        rig.unreachable.clear();
        rig.advance(5);
    }
    rig.disconnect(&["a", "b"]);
    rig.advance(30);
    assert!(!rig.is_stopped());
}

#[test]
fn nodes_that_report_again_do_not_count() {
    let mut rig = settled();
    rig.disconnect(&["a", "b"]);
    rig.advance(20);
    rig.unreachable.clear();
    rig.advance(5);
    rig.disconnect(&["c", "d"]);
    rig.advance(30);
    assert!(!rig.is_stopped());
}

#[test]
fn a_limit_of_zero_never_stops_the_engine() {
    let mut rig = rig_with(Settings { losses_stop: 0, ..Settings::default() }, &NODES);
    rig.advance(60);
    rig.disconnect(&["a", "b", "c", "d"]);
    rig.advance(60);
    assert!(!rig.is_stopped());
}

#[test]
fn an_outage_of_the_bus_does_not_stop_the_engine_although_some_nodes_reconnect_late() {
    let mut rig = settled();
    rig.run(Input::Bus { connected: false });
    rig.advance_without_reports(60);
    rig.run(Input::Bus { connected: true });
    // Half of the nodes reconnect 20 seconds later.
    rig.disconnect(&["a", "b", "c"]);
    rig.advance(20);
    rig.unreachable.clear();
    rig.advance(60);
    assert!(!rig.is_stopped());
}

#[test]
fn a_bus_that_hangs_until_the_connection_times_out_does_not_stop_the_engine() {
    let mut rig = settled();
    // The nodes report at different times, so they become suspect one after another while the bus still seems connected.
    for name in NODES {
        rig.now += 500;
        rig.report(name);
    }
    rig.advance_without_reports(22);
    rig.run(Input::Bus { connected: false });
    rig.advance_without_reports(30);
    rig.run(Input::Bus { connected: true });
    rig.advance(60);
    assert!(!rig.is_stopped());
    assert!(rig.notices.is_empty(), "{:?}", rig.notices);
}

#[test]
fn a_short_pause_of_the_bus_does_not_stop_the_engine() {
    let mut rig = settled();
    for name in NODES {
        rig.now += 500;
        rig.report(name);
    }
    // Long enough for the first three nodes to become suspect; then all report again in reverse order.
    rig.advance_without_reports(14);
    for name in NODES.into_iter().rev() {
        rig.report(name);
    }
    rig.advance(30);
    assert!(!rig.is_stopped());
}

#[test]
fn the_engine_stops_later_when_every_node_is_suspect_and_the_bus_is_connected() {
    let mut rig = settled();
    rig.disconnect(&NODES);
    rig.advance(30);
    assert!(!rig.is_stopped(), "the bus may be the cause");
    rig.advance(30);
    assert!(rig.is_stopped(), "by now the leader would have lost the connection to the bus");
}

#[test]
fn a_new_leader_counts_only_nodes_that_became_suspect_during_its_term() {
    let mut rig = settled();
    rig.disconnect(&["a", "b", "c"]);
    rig.advance(10);
    rig.elect();
    rig.advance(20);
    assert!(rig.is_stopped(), "they became suspect under the new leader");
    let mut rig = settled();
    rig.disconnect(&["a", "b", "c"]);
    rig.advance(14);
    rig.now += 2_000;
    rig.elect();
    rig.advance(60);
    assert!(!rig.is_stopped(), "they were suspect when it took over");
}
