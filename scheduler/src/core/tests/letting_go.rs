//! Who is bound to its data starts elsewhere only when the node it leaves has let go of it, lost or not.

use super::*;
use contract::command::Drift;

fn forced(from: &str, to: &str) -> Verb {
    let drift = Drift { from: node(from), to: Some(node(to)), force: true, instance: None };
    Verb::Drift { drift, group: Some(group("web")) }
}

#[test]
fn a_node_that_is_lost_later_has_not_let_go_of_an_instance_with_data() {
    let mut rig = rig(&["a", "b"]);
    let mut stateful = spec("web", 1);
    stateful.pod.stateful = true;
    rig.command("c1", Verb::CreateGroup { spec: Box::new(stateful) });
    rig.pass(2);
    let (from, to) = if rig.pods("a").is_empty() { ("b", "a") } else { ("a", "b") };
    rig.cut.insert(node(from));
    assert_eq!(rig.command("d1", forced(from, to)), "Accepted");
    // Longer than a node takes to be lost and a drift to give its lock back.
    rig.pass(700);
    assert_eq!((rig.pods(from).len(), rig.pods(to).len()), (1, 0), "it may still run there");
    assert_eq!(rig.slots("web")[0].leaves, Some(node(from)));
    assert_eq!(rig.command("d2", forced(from, to)), "Accepted");
    rig.pass(2);
    assert_eq!(rig.pods(to).len(), 1, "who forces it off a lost node does not want it to wait");
}
