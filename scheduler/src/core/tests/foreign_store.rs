//! A store that was wiped or set back knows less than the nodes: it does nothing to them, and says so.

use super::*;
use contract::query::ClusterView;
use contract::store::StoreRecord;

/// A cluster whose store has a name.
pub(super) fn named(name: &str, nodes: &[&str]) -> Rig {
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

/// Everything stored is gone, and another scheduler leads over what is left: a store with another name.
pub(super) fn wipe(rig: &mut Rig, name: &str) {
    rig.store.clear();
    name_store(rig, name);
    rig.core = Core::new(Settings::default());
    rig.clear();
    rig.elect();
    rig.report_all();
}

pub(super) fn cluster(rig: &mut Rig) -> ClusterView {
    rig.run(Input::Query { query: Query::Cluster, reply: "cluster".to_owned() });
    match rig.replies.remove("cluster").expect("an answer").answer {
        Answer::Cluster(view) => view,
        other => panic!("not the cluster: {other:?}"),
    }
}

#[test]
fn a_wiped_store_is_not_obeyed_whatever_its_term_and_says_so_once_for_each_node() {
    let mut rig = named("old", &["a", "b"]);
    rig.command("c1", create("web", 4));
    rig.report_all();
    let before = [rig.pods("a"), rig.pods("b")];
    assert_eq!(before.concat().len(), 4);
    // The rig counts terms on: the fence alone would let it pass.
    wipe(&mut rig, "new");
    rig.pass(120);
    assert_eq!([rig.pods("a"), rig.pods("b")], before);
    assert_eq!(cluster(&mut rig).foreign_store, 2);
    let told = |event: &&Event| event.message.contains("etcd was wiped or set back");
    assert_eq!(rig.events.iter().filter(told).count(), 2);
    assert_eq!(rig.stepped_down, None, "somebody must lead, or nobody could restore");
    // Two nodes, asked twice a minute, and not with every report.
    assert!((4..=12).contains(&rig.orders.len()), "{}", rig.orders.len());
}

#[test]
fn a_node_without_work_takes_orders_of_a_new_store() {
    let mut rig = rig(&["a"]);
    name_store(&mut rig, "first");
    rig.elect();
    rig.report_all();
    rig.command("c1", create("web", 1));
    assert_eq!(rig.agents[&node("a")].order.stores, ["first".to_owned()].into());
    assert_eq!((rig.pods("a").len(), cluster(&mut rig).foreign_store), (1, 0));
}

#[test]
fn a_leader_resigns_once_for_a_later_one_and_then_knows_that_the_store_was_set_back() {
    let mut rig = rig(&["a", "b"]);
    rig.command("c1", create("web", 2));
    rig.report_all();
    let ahead = rig.agents.get_mut(&node("a")).expect("an agent");
    ahead.order.fence = Fence { term: Term(500), generation: 1 };
    let pods = rig.pods("a");
    rig.elect();
    rig.pass(5);
    assert!(rig.stepped_down.take().is_some_and(|reason| reason.contains("500.1")), "it may have been overtaken");
    rig.elect();
    rig.pass(90);
    assert_eq!((rig.stepped_down.take(), cluster(&mut rig).foreign_store), (None, 1));
    assert_eq!(rig.pods("a"), pods);
    assert_eq!(rig.command("c2", replica("web", 4)), "Accepted", "the rest goes on");
}

#[test]
fn nobody_leads_over_a_store_whose_name_or_restore_cannot_be_read() {
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
