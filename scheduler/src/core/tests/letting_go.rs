//! A stateful instance starts on another node only when the old node has reported that it does not run it, or by force.

use super::*;
use contract::command::Drift;

fn forced_drift(from: &str, to: &str) -> Verb {
    let drift = Drift { from: node(from), to: Some(node(to)), force: true, instance: None };
    Verb::Drift { drift, group: Some(group("web")) }
}

#[test]
fn a_stateful_instance_leaves_a_lost_node_only_by_a_forced_drift_after_the_loss() {
    let mut rig = rig(&["a", "b"]);
    let mut stateful = spec("web", 1);
    stateful.pod.stateful = true;
    rig.command("c1", Verb::CreateGroup { spec: Box::new(stateful) });
    rig.advance(2);
    let (from, to) = if rig.pods("a").is_empty() { ("b", "a") } else { ("a", "b") };
    rig.unreachable.insert(node(from));
    assert_eq!(rig.command("d1", forced_drift(from, to)), "Accepted");
    // Longer than a node takes to be lost (300 s) and a drift to release its lock (600 s).
    rig.advance(700);
    assert_eq!((rig.pods(from).len(), rig.pods(to).len()), (1, 0), "it may still run there");
    assert_eq!(rig.slots("web")[0].leaves, Some(node(from)));
    assert_eq!(rig.command("d2", forced_drift(from, to)), "Accepted");
    rig.advance(2);
    assert_eq!(rig.pods(to).len(), 1, "a forced drift from a lost node does not wait");
}
