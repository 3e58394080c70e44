//! A group that is removed leaves its name when it should, and its containers only when they should stay.

use contract::command::{Refusal, Removal};

use super::releases::{conducted, create_spec, rolling};
use super::upgrades::image;
use super::*;

fn remove_as(name: &str, removal: Removal) -> Verb {
    Verb::RemoveGroup { name: group(name), removal }
}
fn running(rig: &Rig) -> BTreeSet<String> {
    rig.agents.values().flat_map(|agent| agent.order.pods.keys()).map(ToString::to_string).collect()
}
/// The node leaves what it is told to spare and removes what it is not told to run.
fn clinging(rig: &mut Rig) {
    for agent in rig.agents.values_mut() {
        agent.clinging = agent.order.pods.keys().cloned().collect();
    }
}

#[test]
fn in_the_background_a_name_is_free_at_once_and_no_containers_name_comes_twice() {
    for conducts in [false, true] {
        let mut rig = rig(&["a", "b"]);
        let spec = if conducts { conducted("web", 2, rolling(1, 0)) } else { spec("web", 2) };
        rig.command("c1", create_spec(spec.clone()));
        rig.pass(10);
        rig.cling("a");
        rig.cling("b");
        assert_eq!(rig.command("c2", remove_as("web", Removal::Background)), "Accepted");
        assert_eq!(rig.group("web"), None);
        assert_eq!(rig.command("c3", create_spec(spec)), "Accepted", "although its containers are still there");
        rig.pass(5);
        let view = rig.group("web").expect("a group");
        assert_eq!((view.spec.version, view.pods.len()), (1, 2));
        assert!(running(&rig).iter().all(|pod| pod.starts_with("web.v1-")), "{:?}", running(&rig));
        assert_eq!(rig.revisions("web").iter().map(|revision| revision.number).collect::<Vec<_>>(), [1]);
        rig.agents.values_mut().for_each(|agent| agent.clinging.clear());
        rig.take_over();
        rig.pass(30);
        assert_eq!((rig.record("web").operation, rig.record("web").proven), (None, Some(1)));
    }
}

#[test]
fn a_background_removal_ends_like_any_other_when_nobody_takes_the_name() {
    let mut rig = rig(&["a"]);
    rig.command("c1", create_spec(conducted("web", 2, rolling(1, 0))));
    rig.pass(10);
    rig.command("c2", remove_as("web", Removal::Background));
    rig.pass(5);
    assert!(!rig.store.keys().any(|key| key.ends_with("/web")), "{:?}", rig.store.keys());
    assert_eq!(rig.command("c3", create("web", 1)), "Accepted");
    assert_eq!(rig.record("web").spec.version, 0);
}

#[test]
fn an_orphans_containers_stay_are_spared_and_accounted_for_and_users_do_not_see_it() {
    let mut rig = rig(&["a", "b"]);
    rig.command("c1", create("web", 2));
    rig.pass(10);
    clinging(&mut rig);
    let memory = |rig: &Rig| -> u64 { rig.core.state.nodes.values().map(|host| host.used.memory).sum() };
    assert_eq!(rig.command("c2", remove_as("web", Removal::Orphan)), "Accepted");
    for takes_over in [false, true] {
        if takes_over {
            rig.take_over();
        }
        rig.pass(20);
        assert!(rig.agents.values().all(|agent| agent.order.pods.is_empty()));
        assert!(rig.agents.values().all(|agent| agent.order.spared.contains(&group("web"))));
        assert_eq!((rig.group("web"), memory(&rig)), (None, 2 * (64 << 20)));
        assert_eq!(rig.refusal(&format!("r{takes_over}"), replica("web", 3)), Refusal::GroupUnknown);
    }
    rig.run(Input::Query {
        query: Query::Groups { namespace: None, after: None, limit: 10 },
        reply: "query".to_owned(),
    });
    assert_eq!(rig.replies["query"].answer, Answer::Groups(Vec::new()));
    assert_eq!(rig.refusal("c3", remove_as("web", Removal::Orphan)), Refusal::GroupUnknown);
    assert_eq!(rig.core.disagreements(), 0);
}

#[test]
fn an_order_takes_an_orphans_pods_and_spares_them_at_once() {
    let mut rig = rig(&["a"]);
    rig.command("c1", create("web", 1));
    rig.pass(10);
    rig.clear();
    rig.command("c2", remove_as("web", Removal::Orphan));
    for (_, message) in &rig.orders {
        let OrderMessage::Delta(delta) = message else { panic!("not a delta: {message:?}") };
        assert!(delta.spared.contains(&group("web")), "whoever is told to drop a pod is told to spare it: {delta:?}");
    }
    assert_eq!(rig.orders.len(), 1);
}

#[test]
fn a_group_of_the_same_name_adopts_and_touches_nobody_who_runs_what_it_asks_for() {
    for conducts in [false, true] {
        let mut rig = rig(&["a", "b"]);
        let spec = if conducts { conducted("web", 2, rolling(1, 0)) } else { spec("web", 2) };
        rig.command("c1", create_spec(spec.clone()));
        rig.pass(10);
        let before = running(&rig);
        rig.command("c2", remove_as("web", Removal::Orphan));
        rig.pass(5);
        rig.take_over();
        assert_eq!(rig.command("c3", create_spec(spec)), "Accepted");
        rig.pass(60);
        assert_eq!(running(&rig), before, "the same containers");
        assert!(rig.agents.values().all(|agent| agent.order.spared.is_empty()));
        let record = rig.record("web");
        assert_eq!((record.spec.version, record.operation, record.proven), (1, None, Some(1)));
        let revisions: Vec<_> = rig.revisions("web").iter().map(|it| (it.number, it.copies)).collect();
        assert_eq!(revisions, [(0, None), (1, Some(0))]);
    }
}

#[test]
fn an_adopted_group_comes_to_another_spec_as_by_a_release() {
    let mut rig = rig(&["a", "b"]);
    rig.command("c1", create_spec(conducted("web", 2, rolling(1, 0))));
    rig.pass(10);
    rig.command("c2", remove_as("web", Removal::Orphan));
    let other = PodGroupSpec { pod: image("web", "v1"), ..conducted("web", 3, rolling(1, 0)) };
    assert_eq!(rig.command("c3", create_spec(other)), "Accepted");
    assert!(rig.completes("web", 60), "{:?}", rig.release("web"));
    assert_eq!(running(&rig).len(), 3);
    assert!(running(&rig).iter().all(|pod| pod.starts_with("web.v1-")), "{:?}", running(&rig));
}

#[test]
fn an_orphan_can_be_removed_for_good() {
    for removal in [Removal::Foreground, Removal::Background] {
        let mut rig = rig(&["a"]);
        rig.command("c1", create("web", 2));
        rig.pass(10);
        clinging(&mut rig);
        rig.command("c2", remove_as("web", Removal::Orphan));
        rig.pass(5);
        assert_eq!(rig.command("c3", remove_as("web", removal)), "Accepted");
        rig.pass(5);
        assert!(rig.store.contains_key(&keys::group(&group("web"))), "its containers are still there");
        assert!(rig.agents.values().all(|agent| agent.order.spared.is_empty()));
        rig.agents.values_mut().for_each(|agent| agent.clinging.clear());
        rig.pass(5);
        assert!(!rig.store.keys().any(|key| key.ends_with("/web")), "{:?}", rig.store.keys());
    }
}

#[test]
fn an_orphan_is_left_alone_when_its_node_is_lost_or_evacuated() {
    let mut rig = rig(&["a", "b"]);
    rig.command("c1", create("web", 2));
    rig.pass(10);
    rig.command("c2", remove_as("web", Removal::Orphan));
    let before = rig.slots("web");
    assert_eq!(rig.command("c3", Verb::Evacuate { node: node("a") }), "Accepted");
    rig.cut.insert(node("b"));
    rig.pass(320);
    assert_eq!(rig.slots("web"), before);
}

#[test]
fn a_group_can_be_removed_while_it_is_deployed_for_the_first_time() {
    let mut rig = rig(&["a"]);
    rig.agents.get_mut(&node("a")).expect("an agent").facts.insert("web.1".to_owned(), PodFacts::default());
    rig.command("c1", create("web", 3));
    assert_eq!(
        rig.record("web").operation.map(|operation| operation.kind),
        Some(contract::command::Operation::Deploying)
    );
    assert_eq!(rig.command("c2", remove("web")), "Accepted");
    rig.pass(30);
    assert_eq!((rig.pods("a"), rig.group("web").is_none()), (Vec::new(), true));
    assert_eq!(rig.command("c3", create("web", 1)), "Accepted");
}

#[test]
fn a_removal_that_a_new_leader_finishes_does_not_wait_for_a_node_that_never_had_an_instance() {
    let mut rig = rig(&["a", "b"]);
    rig.cut.insert(node("b"));
    rig.pass(20);
    rig.command("c1", create("web", 2));
    rig.pass(10);
    assert_eq!(rig.pods("a").len(), 2, "b is silent");
    rig.cut.insert(node("a"));
    assert_eq!(rig.command("c2", remove("web")), "Accepted");
    rig.take_over();
    rig.cut.remove(&node("a"));
    rig.pass(30);
    assert_eq!((rig.pods("a"), rig.store.contains_key(&keys::group(&group("web")))), (Vec::new(), false));
}
