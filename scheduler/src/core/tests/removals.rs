//! Removal of groups in the foreground, in the background and as orphans whose containers stay.

use contract::command::{Refusal, Removal};

use super::rollouts::{create_spec, rolling, with_strategy};
use super::upgrades::image;
use super::*;

fn remove_as(name: &str, removal: Removal) -> Verb {
    Verb::RemoveGroup { name: group(name), removal }
}
fn running(rig: &Rig) -> BTreeSet<String> {
    rig.agents.values().flat_map(|agent| agent.order.pods.keys()).map(ToString::to_string).collect()
}
/// Makes the pods of all nodes keep running.
fn keep_all_pods(rig: &mut Rig) {
    for agent in rig.agents.values_mut() {
        agent.stuck_pods = agent.order.pods.keys().cloned().collect();
    }
}

#[test]
fn a_background_removal_frees_the_name_immediately_and_new_pods_have_new_names() {
    for has_strategy in [false, true] {
        let mut rig = rig(&["a", "b"]);
        let spec = if has_strategy { with_strategy("web", 2, rolling(1, 0)) } else { spec("web", 2) };
        rig.command("c1", create_spec(spec.clone()));
        rig.advance(10);
        rig.keep_pods("a");
        rig.keep_pods("b");
        assert_eq!(rig.command("c2", remove_as("web", Removal::Background)), "Accepted");
        assert_eq!(rig.group("web"), None);
        assert_eq!(rig.command("c3", create_spec(spec)), "Accepted", "while the old containers still run");
        rig.advance(5);
        let view = rig.group("web").expect("a group");
        assert_eq!((view.spec.version, view.pods.len()), (1, 2));
        assert!(running(&rig).iter().all(|pod| pod.starts_with("web.v1-")), "{:?}", running(&rig));
        assert_eq!(rig.revisions("web").iter().map(|revision| revision.number).collect::<Vec<_>>(), [1]);
        rig.agents.values_mut().for_each(|agent| agent.stuck_pods.clear());
        rig.take_over();
        rig.advance(30);
        assert_eq!((rig.record("web").operation, rig.record("web").proven), (None, Some(1)));
    }
}

#[test]
fn a_background_removal_deletes_all_records_when_the_name_is_not_used_again() {
    let mut rig = rig(&["a"]);
    rig.command("c1", create_spec(with_strategy("web", 2, rolling(1, 0))));
    rig.advance(10);
    rig.command("c2", remove_as("web", Removal::Background));
    rig.advance(5);
    assert!(!rig.store.keys().any(|key| key.ends_with("/web")), "{:?}", rig.store.keys());
    assert_eq!(rig.command("c3", create("web", 1)), "Accepted");
    assert_eq!(rig.record("web").spec.version, 0);
}

#[test]
fn every_event_of_a_group_names_its_namespace_also_after_the_group_is_gone() {
    let mut rig = rig(&["a"]);
    rig.command("c1", create("web", 2));
    rig.advance(10);
    rig.command("c2", remove_as("web", Removal::Foreground));
    rig.advance(30);
    assert_eq!(rig.group("web"), None);
    let of_group = rig.events.iter().filter(|event| event.group.as_ref() == Some(&group("web")));
    let namespaces: Vec<_> = of_group.map(|event| (event.message.clone(), event.namespace.clone())).collect();
    assert!(namespaces.iter().any(|(message, _)| message.contains("ended after")), "{namespaces:?}");
    assert!(namespaces.iter().all(|(_, namespace)| namespace.as_deref() == Some("hello")), "{namespaces:?}");
    rig.command("c3", remove_as("other", Removal::Foreground));
    let unknown = rig.events.iter().find(|event| event.group.as_ref() == Some(&group("other")));
    assert_eq!(unknown.and_then(|event| event.namespace.clone()).as_deref(), Some(""));
}

#[test]
fn the_containers_of_an_orphan_are_spared_and_counted_and_users_do_not_see_it() {
    let mut rig = rig(&["a", "b"]);
    rig.command("c1", create("web", 2));
    rig.advance(10);
    keep_all_pods(&mut rig);
    let memory = |rig: &Rig| -> u64 { rig.core.state.nodes.values().map(|host| host.used.memory).sum() };
    assert_eq!(rig.command("c2", remove_as("web", Removal::Orphan)), "Accepted");
    for takes_over in [false, true] {
        if takes_over {
            rig.take_over();
        }
        rig.advance(20);
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
fn one_order_removes_the_pods_of_an_orphan_and_spares_its_containers() {
    let mut rig = rig(&["a"]);
    rig.command("c1", create("web", 1));
    rig.advance(10);
    rig.clear();
    rig.command("c2", remove_as("web", Removal::Orphan));
    for (_, message) in &rig.orders {
        let OrderMessage::Delta(delta) = message else { panic!("not a delta: {message:?}") };
        assert!(delta.spared.contains(&group("web")), "{delta:?}");
    }
    assert_eq!(rig.orders.len(), 1);
}

#[test]
fn a_new_group_adopts_the_pods_of_an_orphan_with_the_same_name_and_spec() {
    for has_strategy in [false, true] {
        let mut rig = rig(&["a", "b"]);
        let spec = if has_strategy { with_strategy("web", 2, rolling(1, 0)) } else { spec("web", 2) };
        rig.command("c1", create_spec(spec.clone()));
        rig.advance(10);
        let before = running(&rig);
        rig.command("c2", remove_as("web", Removal::Orphan));
        rig.advance(5);
        rig.take_over();
        assert_eq!(rig.command("c3", create_spec(spec)), "Accepted");
        rig.advance(60);
        assert_eq!(running(&rig), before, "no pod was replaced");
        assert!(rig.agents.values().all(|agent| agent.order.spared.is_empty()));
        let record = rig.record("web");
        assert_eq!((record.spec.version, record.operation, record.proven), (1, None, Some(1)));
        let revisions: Vec<_> = rig.revisions("web").iter().map(|it| (it.number, it.copies)).collect();
        assert_eq!(revisions, [(0, None), (1, Some(0))]);
    }
}

#[test]
fn a_new_group_with_another_spec_updates_the_pods_of_an_orphan_by_a_rollout() {
    let mut rig = rig(&["a", "b"]);
    rig.command("c1", create_spec(with_strategy("web", 2, rolling(1, 0))));
    rig.advance(10);
    rig.command("c2", remove_as("web", Removal::Orphan));
    let other = PodGroupSpec { pod: image("web", "v1"), ..with_strategy("web", 3, rolling(1, 0)) };
    assert_eq!(rig.command("c3", create_spec(other)), "Accepted");
    assert!(rig.completes("web", 60), "{:?}", rig.release("web"));
    assert_eq!(running(&rig).len(), 3);
    assert!(running(&rig).iter().all(|pod| pod.starts_with("web.v1-")), "{:?}", running(&rig));
}

#[test]
fn removing_an_orphan_again_removes_its_containers() {
    for removal in [Removal::Foreground, Removal::Background] {
        let mut rig = rig(&["a"]);
        rig.command("c1", create("web", 2));
        rig.advance(10);
        keep_all_pods(&mut rig);
        rig.command("c2", remove_as("web", Removal::Orphan));
        rig.advance(5);
        assert_eq!(rig.command("c3", remove_as("web", removal)), "Accepted");
        rig.advance(5);
        assert!(rig.store.contains_key(&keys::group(&group("web"))), "its containers still run");
        assert!(rig.agents.values().all(|agent| agent.order.spared.is_empty()));
        rig.agents.values_mut().for_each(|agent| agent.stuck_pods.clear());
        rig.advance(5);
        assert!(!rig.store.keys().any(|key| key.ends_with("/web")), "{:?}", rig.store.keys());
    }
}

#[test]
fn an_orphan_does_not_move_when_its_node_is_lost_or_evacuated() {
    let mut rig = rig(&["a", "b"]);
    rig.command("c1", create("web", 2));
    rig.advance(10);
    rig.command("c2", remove_as("web", Removal::Orphan));
    let before = rig.instances("web");
    assert_eq!(rig.command("c3", Verb::Evacuate { node: node("a") }), "Accepted");
    rig.unreachable.insert(node("b"));
    rig.advance(320);
    assert_eq!(rig.instances("web"), before);
}

#[test]
fn a_group_can_be_removed_during_its_first_deployment() {
    let mut rig = rig(&["a"]);
    rig.agent("a").facts.insert("web.1".to_owned(), PodFacts::default());
    rig.command("c1", create("web", 3));
    assert_eq!(
        rig.record("web").operation.map(|operation| operation.kind),
        Some(contract::command::Operation::Deploying)
    );
    assert_eq!(rig.command("c2", remove("web")), "Accepted");
    rig.advance(30);
    assert_eq!((rig.pods("a"), rig.group("web").is_none()), (Vec::new(), true));
    assert_eq!(rig.command("c3", create("web", 1)), "Accepted");
}

#[test]
fn a_removal_that_a_new_leader_finishes_does_not_wait_for_a_node_that_never_had_an_instance() {
    let mut rig = rig(&["a", "b"]);
    rig.unreachable.insert(node("b"));
    rig.advance(20);
    rig.command("c1", create("web", 2));
    rig.advance(10);
    assert_eq!(rig.pods("a").len(), 2, "b is suspect");
    rig.unreachable.insert(node("a"));
    assert_eq!(rig.command("c2", remove("web")), "Accepted");
    rig.take_over();
    rig.unreachable.remove(&node("a"));
    rig.advance(30);
    assert_eq!((rig.pods("a"), rig.store.contains_key(&keys::group(&group("web")))), (Vec::new(), false));
}
