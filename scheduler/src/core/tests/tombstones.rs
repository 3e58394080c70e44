//! A stateful instance never runs twice, also when it is removed and created again while its node is lost.

use super::rollouts::rolling;
use super::*;
use contract::command::Removal;

/// Two stateful instances, with or without a strategy; the node of the second one is lost.
fn lost(has_strategy: bool) -> (Rig, NodeName) {
    let mut rig = rig(&["a", "b", "c"]);
    let mut spec = spec("db", 2);
    spec.pod.containers[0].volumes = vec!["/data".to_owned()];
    spec.strategy = has_strategy.then(|| rolling(0, 1));
    rig.command("c1", Verb::CreateGroup { spec: Box::new(spec) });
    rig.advance(30);
    let lost = rig.instances("db")[1].node.clone().expect("a place");
    rig.unreachable.insert(lost.clone());
    rig.advance(320);
    (rig, lost)
}

#[test]
fn scaling_in_and_out_while_a_node_is_lost_starts_no_second_pod_of_its_instance() {
    for has_strategy in [false, true] {
        for fails_over in [false, true] {
            let (mut rig, lost) = lost(has_strategy);
            assert_eq!(rig.command("c2", replica("db", 1)), "Accepted");
            rig.advance(30);
            if fails_over {
                rig.take_over();
            }
            assert_eq!(rig.command("c3", replica("db", 2)), "Accepted");
            rig.advance(60);
            assert_eq!(rig.copies("db"), BTreeMap::from([(1, 1), (2, 1)]), "{:?}", rig.instances("db"));
            let view = rig.group("db").expect("a group");
            let error = &view.pods[1].facts.last_error;
            assert!(error.contains(&format!("node {lost}, which it leaves, is lost")), "{error}");
            rig.unreachable.clear();
            rig.advance(60);
            assert_eq!(rig.copies("db"), BTreeMap::from([(1, 1), (2, 1)]), "{:?}", rig.instances("db"));
            assert!(rig.instances("db").iter().all(|instance| instance.leaves.is_none()), "{:?}", rig.instances("db"));
        }
    }
}

#[test]
fn removing_the_lost_node_from_the_cluster_frees_the_instance_number() {
    for has_strategy in [false, true] {
        let (mut rig, lost) = lost(has_strategy);
        rig.command("c2", replica("db", 1));
        rig.advance(30);
        let change = contract::node::NodeChange::Remove { force: true };
        assert_eq!(rig.command("c3", Verb::Node { node: lost.clone(), change }), "Accepted");
        rig.advance(5);
        assert!(!rig.store.contains_key(&keys::node(&lost)), "the node is forgotten");
        rig.command("c4", replica("db", 2));
        rig.advance(30);
        assert!(rig.instances("db").iter().all(|instance| instance.leaves.is_none() && instance.node.is_some()));
    }
}

#[test]
fn the_name_of_a_removed_group_stays_in_use_until_its_lost_node_returns() {
    for has_strategy in [false, true] {
        for removal in [Removal::Foreground, Removal::Background] {
            for fails_over in [false, true] {
                let (mut rig, lost) = lost(has_strategy);
                let removed = Verb::RemoveGroup { name: group("db"), removal };
                assert_eq!(rig.command("c2", removed), "Accepted");
                // Longer than the limit of an operation (600 s).
                rig.advance(1_000);
                if fails_over {
                    rig.take_over();
                    rig.advance(1_000);
                }
                let mut again = spec("db", 2);
                again.pod.containers[0].volumes = vec!["/data".to_owned()];
                let create = Verb::CreateGroup { spec: Box::new(again) };
                let decision = rig.command("c3", create.clone());
                assert!(decision.contains(&format!("may still run on {lost}, which is lost")), "{decision}");
                assert!(rig.copies("db").values().all(|copies| *copies <= 1), "{:?}", rig.copies("db"));
                rig.unreachable.clear();
                rig.advance(60);
                assert_eq!(rig.copies("db"), BTreeMap::new());
                assert_eq!(rig.command("c4", create), "Accepted");
                rig.advance(30);
                assert_eq!(rig.copies("db"), BTreeMap::from([(1, 1), (2, 1)]), "{:?}", rig.instances("db"));
            }
        }
    }
}

#[test]
fn removing_the_lost_node_from_the_cluster_frees_the_name_of_a_removed_group() {
    let (mut rig, lost) = lost(false);
    rig.command("c2", Verb::RemoveGroup { name: group("db"), removal: Removal::Foreground });
    rig.advance(30);
    let change = contract::node::NodeChange::Remove { force: true };
    assert_eq!(rig.command("c3", Verb::Node { node: lost.clone(), change }), "Accepted");
    rig.advance(5);
    assert!(!rig.store.contains_key(&keys::node(&lost)), "the node is forgotten");
    assert!(!rig.store.contains_key(&keys::group(&group("db"))), "the group is forgotten");
    assert_eq!(rig.command("c4", create("db", 2)), "Accepted");
}
