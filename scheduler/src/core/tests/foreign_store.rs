//! Nodes of a foreign store: after etcd was wiped or set back, the leader reports them and changes nothing on them.

use super::*;
use contract::store::StoreRecord;

/// A leader whose store has this name.
pub(super) fn named_store(name: &str, nodes: &[&str]) -> Rig {
    let mut rig = rig(nodes);
    name_store(&mut rig, name);
    rig.elect();
    rig.report_all();
    rig
}

fn name_store(rig: &mut Rig, name: &str) {
    let record = StoreRecord { stores: [name.to_owned()].into(), ..StoreRecord::default() };
    rig.store.insert(keys::STORE.to_owned(), serde_json::to_vec(&record).expect("a record"));
}

/// Replaces the store by an empty one with another name, and the leader by a new process.
pub(super) fn wipe(rig: &mut Rig, name: &str) {
    rig.store.clear();
    name_store(rig, name);
    rig.core = Core::new(Settings::default());
    rig.clear();
    rig.elect();
    rig.report_all();
}

#[test]
fn nodes_refuse_orders_of_a_wiped_store_and_the_leader_reports_each_node_once() {
    let mut rig = named_store("old", &["a", "b"]);
    rig.command("c1", create("web", 4));
    rig.report_all();
    let before = [rig.pods("a"), rig.pods("b")];
    assert_eq!(before.concat().len(), 4);
    // The new store has a higher term, so the fence alone would not stop its orders.
    wipe(&mut rig, "new");
    rig.advance(120);
    assert_eq!([rig.pods("a"), rig.pods("b")], before);
    assert_eq!(rig.cluster_view().foreign_store, 2);
    let is_expected = |event: &&Event| event.message.contains("etcd was wiped or set back");
    assert_eq!(rig.events.iter().filter(is_expected).count(), 2);
    assert_eq!(rig.stepped_down, None, "a restore needs a leader");
    // Two nodes receive an order twice a minute, not with every report.
    assert!((4..=12).contains(&rig.orders.len()), "{}", rig.orders.len());
}

#[test]
fn a_node_without_pods_accepts_orders_of_a_new_store() {
    let mut rig = rig(&["a"]);
    name_store(&mut rig, "first");
    rig.elect();
    rig.report_all();
    rig.command("c1", create("web", 1));
    assert_eq!(rig.agents[&node("a")].order.stores, ["first".to_owned()].into());
    assert_eq!((rig.pods("a").len(), rig.cluster_view().foreign_store), (1, 0));
}

#[test]
fn a_leader_reports_a_store_that_was_set_back_and_keeps_managing_the_other_nodes() {
    let mut rig = rig(&["a", "b"]);
    rig.command("c1", create("web", 2));
    rig.report_all();
    let ahead = rig.agent("a");
    ahead.order.fence = Fence { term: Term(500), generation: 1 };
    let pods = rig.pods("a");
    rig.elect();
    rig.advance(90);
    assert_eq!((rig.stepped_down.take(), rig.cluster_view().foreign_store), (None, 1));
    assert_eq!(rig.pods("a"), pods);
    assert_eq!(rig.command("c2", replica("web", 4)), "Accepted", "the other node is still managed");
}

#[test]
fn a_leader_steps_down_when_it_cannot_read_the_store_name_or_the_restore() {
    for key in [keys::STORE, keys::RESTORE] {
        let mut rig = rig(&["a"]);
        rig.command("c1", create("web", 1));
        rig.clear();
        rig.store.insert(key.to_owned(), b"{".to_vec());
        rig.elect();
        assert!(rig.stepped_down.as_ref().is_some_and(|reason| reason.contains(key)), "{:?}", rig.stepped_down);
        assert_eq!((rig.core.term(), rig.orders.len()), (None, 0));
    }
}
