//! Dependency pods run on the nodes whose instances need them, also after a takeover.

use contract::query::DependencyView;
use contract::record::DependencyRecord;
use contract::spec::Dependency;
use contract::state::{DependencyPolicy, RestartPolicy, TargetState};
use contract::switches::Switches;

use super::*;

fn portal(memory: i64) -> PodSpec {
    let container =
        ContainerSpec { image: "portal".to_owned(), cpu_limit: 1, memory_limit: memory << 20, ..Default::default() };
    PodSpec {
        name: "portal".to_owned(),
        namespace: "svc".to_owned(),
        containers: vec![container],
        ..Default::default()
    }
}
fn create_portal() -> Verb {
    Verb::CreateDependency { pod: Box::new(portal(64)) }
}
fn update_portal(memory: i64) -> Verb {
    Verb::UpdateDependency { pod: Box::new(portal(memory)) }
}
fn remove_portal(force: bool) -> Verb {
    Verb::RemoveDependency { name: group("portal"), force }
}
fn run_engine(running: bool) -> Verb {
    Verb::RunEngine { running }
}

/// A group whose instances need these dependency pods.
fn client(name: &str, namespace: &str, instances: i64, needs: &[(&str, DependencyPolicy)]) -> Verb {
    let mut spec = spec(name, instances);
    spec.namespace = namespace.to_owned();
    spec.pod.namespace = namespace.to_owned();
    let needs = needs.iter().map(|(name, policy)| Dependency { pod_name: (*name).to_owned(), policy: *policy });
    spec.pod.dependencies = needs.collect();
    Verb::CreateGroup { spec: Box::new(spec) }
}
fn web(instances: i64) -> Verb {
    client("web", "hello", instances, &[("portal", DependencyPolicy::Namespace)])
}

impl Rig {
    /// The stored pairs of the dependency pod: node, namespace, version.
    fn pairs(&self) -> Vec<(String, String, u32)> {
        let pairs = contract::layout::read_pairs(&group("portal"), &self.store).expect("pairs");
        let row = |pair: contract::record::Pair| (pair.node.to_string(), pair.namespace, pair.version);
        pairs.into_iter().map(row).collect()
    }
    fn dependency_record(&self) -> Option<DependencyRecord> {
        contract::layout::read_dependency(&group("portal"), &self.store).expect("a record")
    }
    fn dependency(&mut self) -> Option<DependencyView> {
        match self.query(Query::Dependency { name: group("portal") }) {
            Answer::Dependency(view) => view.map(|view| *view),
            other => panic!("not a dependency pod: {other:?}"),
        }
    }
    /// The dependency pods in the order of a node.
    fn dependency_pods(&self, name: &str) -> Vec<String> {
        self.agents[&node(name)].order.pods.keys().filter(|pod| pod.instance == 0).map(ToString::to_string).collect()
    }
    /// Reports this state of a pod; `None`: the default state.
    fn report_state(&mut self, name: &str, pod: &str, state: Option<RunState>) {
        let states = &mut self.agent(name).states;
        match state {
            Some(state) => drop(states.insert(pod.to_owned(), state)),
            None => drop(states.remove(pod)),
        }
        self.report(name);
    }
}

fn rows(rows: &[(&str, &str, u32)]) -> Vec<(String, String, u32)> {
    rows.iter().map(|(node, namespace, version)| ((*node).to_owned(), (*namespace).to_owned(), *version)).collect()
}

#[test]
fn all_instances_of_a_namespace_on_a_node_share_one_dependency_pod() {
    let mut rig = rig(&["a", "b"]);
    assert_eq!(rig.command("c1", create_portal()), "Accepted");
    assert_eq!(rig.pairs(), [], "it does not run until an instance needs it");
    rig.command("c2", web(4));
    rig.command("c3", client("api", "hello", 2, &[("portal", DependencyPolicy::Namespace)]));
    assert_eq!(rig.pairs(), rows(&[("a", "hello", 0), ("b", "hello", 0)]));
    assert_eq!(rig.dependency_pods("a"), ["portal-a-hello.v0-i0-d0"]);
    assert_eq!(rig.dependency_pods("b"), ["portal-b-hello.v0-i0-d0"]);
    let order = &rig.agents[&node("a")].order;
    let (pod, assignment) = order.pods.iter().find(|(pod, _)| pod.instance == 0).expect("a pod");
    assert_eq!((assignment.target, assignment.restart_policy), (TargetState::Run, RestartPolicy::Always));
    let spec = &order.specs[&pod.spec_key()];
    let names = (spec.name.as_str(), spec.namespace.as_str(), spec.network.as_str(), spec.filters.join(","));
    assert_eq!(names, ("portal-a-hello", "portal", "portal_hello", "constraint:node==a".to_owned()));
}

#[test]
fn each_dependency_of_a_pod_has_its_own_policy() {
    let mut rig = rig(&["a"]);
    rig.command("c1", create_portal());
    let (node_level, namespace_level) = (DependencyPolicy::Node, DependencyPolicy::Namespace);
    rig.command("c2", client("web", "hello", 1, &[("other", node_level), ("portal", namespace_level)]));
    assert_eq!(rig.pairs(), rows(&[("a", "hello", 0)]));
    rig.command("c3", client("api", "world", 1, &[("portal", node_level)]));
    assert_eq!(rig.pairs(), rows(&[("a", "a", 0), ("a", "hello", 0)]));
}

#[test]
fn a_dependency_that_is_created_after_its_users_runs_immediately() {
    let mut rig = rig(&["a"]);
    rig.command("c1", web(1));
    rig.advance(1);
    rig.take_over();
    assert_eq!(rig.dependency_pods("a"), [""; 0]);
    rig.command("c2", create_portal());
    assert_eq!(rig.dependency_pods("a"), ["portal-a-hello.v0-i0-d0"]);
}

#[test]
fn an_unused_dependency_pod_is_removed_after_the_grace_unless_it_is_needed_again() {
    let mut rig = rig(&["a"]);
    rig.command("c1", create_portal());
    rig.command("c2", web(1));
    rig.advance(1);
    rig.command("c3", remove("web"));
    rig.advance(290);
    assert_eq!(rig.dependency_pods("a").len(), 1);
    rig.command("c4", web(1));
    rig.advance(60);
    assert_eq!(rig.pairs(), rows(&[("a", "hello", 0)]), "it was needed again in time");
    rig.command("c5", remove("web"));
    rig.advance(200);
    rig.take_over();
    rig.advance(110);
    assert_eq!(rig.pairs(), [], "a takeover does not restart the grace");
    assert_eq!(rig.dependency_pods("a"), [""; 0]);
    assert!(rig.dependency().is_some_and(|view| view.pods.is_empty()), "the dependency still exists");
}

#[test]
fn a_dependency_pod_follows_its_instance_to_another_node() {
    let mut rig = rig(&["a", "b"]);
    rig.command("c1", create_portal());
    rig.command("c2", web(1));
    rig.advance(1);
    assert_eq!(rig.places("web"), [("a".to_owned(), 0)]);
    rig.unreachable.insert(node("a"));
    rig.advance(320);
    assert_eq!(rig.places("web"), [("b".to_owned(), 1)]);
    assert_eq!(
        rig.pairs(),
        rows(&[("a", "hello", 0), ("b", "hello", 0)]),
        "the pair of the lost node waits for its grace"
    );
    rig.advance(300);
    assert_eq!(rig.pairs(), rows(&[("b", "hello", 0)]));
}

#[test]
fn a_new_spec_is_rolled_out_node_by_node_and_the_same_spec_does_nothing() {
    let mut rig = rig(&["a", "b"]);
    rig.command("c1", create_portal());
    rig.command("c2", web(2));
    rig.advance(1);
    rig.report_state("a", "portal-a-hello.v1-i0-d0", Some(RunState::Pending));
    assert_eq!(rig.command("c3", update_portal(128)), "Accepted");
    rig.advance(5);
    assert_eq!(rig.pairs(), rows(&[("a", "hello", 1), ("b", "hello", 0)]), "the first pod is not up yet");
    rig.take_over();
    rig.advance(5);
    assert_eq!(rig.dependency_pods("b"), ["portal-b-hello.v0-i0-d0"], "another leader waits for it as well");
    rig.report_state("a", "portal-a-hello.v1-i0-d0", None);
    rig.advance(2);
    assert_eq!(rig.pairs(), rows(&[("a", "hello", 1), ("b", "hello", 1)]));
    assert_eq!(rig.dependency_pods("b"), ["portal-b-hello.v1-i0-d0"]);
    let record = rig.dependency_record().expect("a record");
    assert_eq!((record.spec.version, record.former.len(), record.spec.memory()), (1, 0, 128 << 20));
    rig.clear();
    assert_eq!(rig.command("c4", update_portal(128)), "Accepted");
    assert_eq!(
        rig.command("c5", Verb::UpdateDependency { pod: Box::new(PodSpec { version: 7, ..portal(0) }) }),
        "Accepted"
    );
    rig.advance(2);
    assert!(!rig.written().contains(&keys::dependency(&group("portal"))), "{:?}", rig.written());
    assert_eq!(rig.pairs(), rows(&[("a", "hello", 1), ("b", "hello", 1)]));
}

#[test]
fn an_update_continues_when_a_pod_does_not_come_up_in_time() {
    let mut rig = rig(&["a", "b"]);
    rig.command("c1", create_portal());
    rig.command("c2", web(2));
    rig.advance(1);
    rig.report_state("a", "portal-a-hello.v1-i0-d0", Some(RunState::Fail));
    rig.command("c3", update_portal(128));
    rig.advance(99);
    assert_eq!(rig.pairs()[1].2, 0);
    rig.advance(2);
    assert_eq!(rig.pairs()[1].2, 1);
}

#[test]
fn commands_for_a_missing_or_an_existing_dependency_are_refused() {
    let mut rig = rig(&["a"]);
    assert_eq!(rig.command("c1", update_portal(128)), "Refused(DependencyUnknown)");
    assert_eq!(rig.command("c2", remove_portal(false)), "Refused(DependencyUnknown)");
    assert_eq!(rig.command("c3", remove_portal(true)), "Refused(DependencyUnknown)");
    assert_eq!(rig.command("c4", create_portal()), "Accepted");
    assert_eq!(rig.command("c5", create_portal()), "Refused(DependencyExists)");
    let nameless = Verb::CreateDependency { pod: Box::new(PodSpec::default()) };
    assert!(rig.command("c6", nameless).starts_with("Refused(Malformed"));
    let stored = rig.dependency_record().expect("a record").spec;
    assert_eq!((stored.version, stored.created_at, stored.annotation.as_str()), (0, Timestamp::NEVER, "{}"));
}

#[test]
fn a_removal_without_force_waits_for_the_last_user() {
    let mut rig = rig(&["a"]);
    rig.command("c1", create_portal());
    rig.command("c2", web(1));
    rig.advance(1);
    assert_eq!(rig.command("c3", remove_portal(false)), "Accepted");
    rig.advance(400);
    assert_eq!(rig.dependency_pods("a").len(), 1);
    assert!(rig.dependency().is_some());
    assert_eq!(rig.command("c4", create_portal()), "Refused(DependencyExists)");
    rig.command("c5", remove("web"));
    rig.advance(2);
    assert_eq!(rig.dependency_pods("a"), [""; 0], "immediately, without a grace");
    assert_eq!((rig.dependency_record(), rig.pairs().len()), (None, 0));
    assert_eq!(rig.command("c6", create_portal()), "Accepted");
    assert_eq!(rig.command("c7", remove_portal(false)), "Accepted");
    assert_eq!(rig.dependency_record(), None, "an unused dependency is removed immediately");
}

#[test]
fn changing_the_spec_cancels_a_removal() {
    let mut rig = rig(&["a"]);
    rig.command("c1", create_portal());
    rig.command("c2", web(1));
    rig.command("c3", remove_portal(false));
    rig.command("c4", update_portal(64));
    rig.command("c5", remove("web"));
    rig.advance(5);
    assert_eq!(
        rig.dependency_record().map(|record| (record.delete_when_unused, record.spec.version)),
        Some((false, 0))
    );
}

#[test]
fn a_forced_removal_hides_a_dependency_immediately_and_ends_when_no_node_runs_it() {
    let mut rig = rig(&["a", "b"]);
    rig.command("c1", create_portal());
    rig.command("c2", web(2));
    rig.advance(1);
    rig.unreachable.insert(node("b"));
    assert_eq!(rig.command("c3", remove_portal(true)), "Accepted");
    assert_eq!(rig.dependency(), None);
    rig.advance(2);
    assert_eq!(rig.dependency_pods("a"), [""; 0]);
    assert_eq!(rig.command("c4", create_portal()), "Refused(DependencyExists)");
    assert_eq!(rig.command("c5", update_portal(64)), "Refused(DependencyUnknown)");
    rig.take_over();
    rig.advance(2);
    assert!(rig.dependency_record().is_some(), "node b may still run it");
    assert_eq!(rig.command("c6", create_portal()), "Refused(DependencyExists)");
    rig.unreachable.clear();
    rig.advance(6);
    assert_eq!((rig.dependency_record(), rig.dependency_pods("b").len()), (None, 0));
    assert_eq!(rig.command("c7", create_portal()), "Accepted");
    assert_eq!(rig.dependency_pods("a"), ["portal-a-hello.v0-i0-d0"], "its users still need it");
}

#[test]
fn a_removal_stops_waiting_for_an_unreachable_node_after_ten_minutes() {
    let mut rig = rig(&["a"]);
    rig.command("c1", create_portal());
    rig.command("c2", web(1));
    rig.advance(1);
    rig.unreachable.insert(node("a"));
    rig.command("c3", remove_portal(true));
    rig.advance(602);
    assert_eq!(rig.dependency_record(), None);
}

#[test]
fn a_stopped_engine_reconciles_no_dependency_until_it_starts() {
    let mut rig = rig(&["a"]);
    rig.command("c1", create_portal());
    rig.command("c2", web(1));
    rig.advance(1);
    rig.command("c3", run_engine(false));
    rig.command("c4", update_portal(128));
    rig.advance(5);
    rig.take_over();
    rig.advance(5);
    assert_eq!(rig.dependency_pods("a"), ["portal-a-hello.v0-i0-d0"]);
    assert!(rig.core.wake_at().is_some_and(|at| at > rig.time()), "the core does not ask for an immediate tick");
    rig.command("c5", remove_portal(true));
    rig.advance(5);
    assert_eq!(rig.dependency(), None, "users do not see it");
    assert_eq!(rig.dependency_pods("a"), ["portal-a-hello.v0-i0-d0"]);
    rig.command("c6", run_engine(true));
    rig.advance(2);
    assert_eq!((rig.dependency_pods("a").len(), rig.dependency_record()), (0, None));
}

#[test]
fn a_takeover_writes_nothing_and_no_order_lacks_a_stored_dependency_pod() {
    let mut rig = rig(&["a", "b"]);
    rig.command("c1", create_portal());
    rig.command("c2", web(2));
    rig.advance(1);
    rig.clear();
    rig.take_over();
    rig.advance(30);
    assert_eq!(rig.written(), BTreeSet::new());
    assert_eq!(rig.dependency_pods("a"), ["portal-a-hello.v0-i0-d0"]);
    let gone = rig.orders.iter().any(|(_, message)| match message {
        OrderMessage::Whole(order) => !order.pods.keys().any(|pod| pod.instance == 0),
        OrderMessage::Delta(delta) => !delta.pods.gone.is_empty(),
    });
    assert!(!gone, "{:?}", rig.orders);
    assert_eq!(rig.core.disagreements(), 0);
}

#[test]
fn an_unreadable_dependency_is_spared_and_cannot_be_created_again() {
    for unreadable in [keys::dependency(&group("portal")), keys::pairs(&group("portal"), 0)] {
        let mut rig = rig(&["a"]);
        rig.command("c1", create_portal());
        rig.command("c2", web(1));
        rig.advance(1);
        rig.store.insert(unreadable.clone(), b"?".to_vec());
        rig.take_over();
        assert_eq!(rig.agents[&node("a")].order.spared, BTreeSet::from([group("portal")]), "{unreadable}");
        assert_eq!(rig.dead_letters, [unreadable]);
        assert_eq!(rig.command("c3", create_portal()), "Refused(DependencyExists)");
        assert!(rig.command("c4", remove_portal(false)).contains("cannot be read"));
        assert_eq!(rig.command("c5", remove_portal(true)), "Accepted");
        assert_eq!(rig.agents[&node("a")].order.spared, BTreeSet::new());
    }
}

#[test]
fn an_unreadable_group_keeps_its_dependency_pods() {
    let mut rig = rig(&["a"]);
    rig.command("c1", create_portal());
    rig.command("c2", web(1));
    rig.advance(1);
    rig.command("c3", remove_portal(false));
    rig.store.insert(keys::group(&group("web")), b"?".to_vec());
    rig.take_over();
    rig.advance(400);
    assert_eq!(rig.dependency_pods("a"), ["portal-a-hello.v0-i0-d0"]);
}

#[test]
fn a_pair_and_a_group_never_have_the_same_name() {
    let mut rig = rig(&["a"]);
    rig.command("c1", create("portal-a-hello", 1));
    rig.command("c2", create_portal());
    rig.command("c3", web(1));
    assert_eq!(rig.pairs(), []);
    let messages: Vec<&str> = rig.events.iter().map(|event| event.message.as_str()).collect();
    let expected = "dependency pod portal cannot run beside hello on node a: a PodGroup is called portal-a-hello";
    assert_eq!(messages.iter().filter(|message| **message == expected).count(), 1, "{messages:?}");
    rig.advance(1);
    rig.command("c4", remove("portal-a-hello"));
    rig.advance(10);
    assert_eq!(rig.pairs(), rows(&[("a", "hello", 0)]), "the sweep finds that the name is free");
    assert_eq!(rig.command("c5", create("portal-a-hello", 1)), "Refused(GroupExists)");
}

#[test]
fn a_pair_whose_name_would_be_too_long_is_not_created_and_reported_once() {
    let mut rig = rig(&["a"]);
    let name = "x".repeat(125);
    let pod = Box::new(PodSpec { name: name.clone(), ..portal(64) });
    assert_eq!(rig.command("c1", Verb::CreateDependency { pod }), "Accepted");
    rig.command("c2", client("web", "hello", 1, &[(&name, DependencyPolicy::Namespace)]));
    rig.advance(10);
    assert_eq!(rig.dependency_pods("a"), [""; 0]);
    let events = rig
        .events
        .iter()
        .filter(|event| event.message.ends_with("its name is 133 characters long, at most 128 are allowed"));
    assert_eq!(events.count(), 1, "{:?}", rig.events);
}

#[test]
fn dependency_pods_use_the_capacity_of_their_node_and_release_it() {
    let mut rig = rig(&["a"]);
    rig.command("c1", create_portal());
    rig.command("c2", web(1));
    rig.advance(1);
    let used = |rig: &mut Rig| {
        let node = rig.nodes().remove(0);
        (node.used_memory >> 20, node.used_cpu_millis, node.containers)
    };
    assert_eq!(used(&mut rig), (128, 1000, 2));
    rig.command("c3", update_portal(128));
    rig.advance(1);
    assert_eq!(used(&mut rig), (192, 1000, 2));
    rig.take_over();
    assert_eq!(used(&mut rig), (192, 1000, 2));
    rig.command("c4", remove_portal(true));
    rig.advance(2);
    assert_eq!(used(&mut rig), (64, 500, 1));
}

#[test]
fn the_view_of_a_dependency_lists_its_pods_by_namespace() {
    let mut rig = rig(&["a"]);
    rig.command("c1", create_portal());
    rig.command("c2", web(1));
    let container =
        ContainerFacts { id: "c".to_owned(), running: true, ip: "172.20.0.9".to_owned(), ..Default::default() };
    let containers = &mut rig.agent("a").containers;
    containers.insert("portal-a-hello.v0-i0-d0".to_owned(), vec![container]);
    rig.advance(1);
    let view = rig.dependency().expect("a dependency pod");
    let pods = &view.pods["hello"];
    assert_eq!((view.pods.len(), pods.len(), pods[0].id.to_string().as_str()), (1, 1, "portal-a-hello.v0-i0-d0"));
    assert_eq!((pods[0].node.clone(), pods[0].node_ip.as_str()), (Some(node("a")), "ip-of-a"));
    assert_eq!((pods[0].facts.state, pods[0].addresses.join(",")), (RunState::Success, "172.20.0.9".to_owned()));
    assert_eq!(rig.notices, []);
}

#[test]
fn a_disabled_guard_does_not_stop_a_dependency_from_following_its_users() {
    let mut rig = rig(&["a"]);
    rig.command("c1", create_portal());
    rig.command("c2", Verb::Guard { working: false });
    rig.command("c3", web(1));
    assert_eq!(rig.dependency_pods("a"), ["portal-a-hello.v0-i0-d0"]);
    assert_eq!(rig.agents[&node("a")].order.switches, Switches { hold_missing: true, ..Switches::default() });
}

#[test]
fn no_namespace_shares_a_network_with_a_dependency_pod_and_no_group_takes_its_name() {
    let mut rig = rig(&["a", "b"]);
    assert_eq!(rig.command("p", create_portal()), "Accepted");
    let shared = rig.command("1", client("evil", "portal_hello", 1, &[]));
    assert!(shared.contains("would share a network"), "{shared}");
    let taken = rig.command("2", client("portal-a-hello", "hello", 1, &[]));
    assert!(taken.contains("belongs to the dependency pod portal"), "{taken}");
    assert_eq!(rig.command("3", client("portal-web", "hello", 1, &[])), "Accepted");
    assert_eq!(rig.command("4", client("other", "team_shop", 1, &[])), "Accepted");
    let team = PodSpec { name: "team".to_owned(), namespace: "shop".to_owned(), ..portal(64) };
    let reason = rig.command("5", Verb::CreateDependency { pod: Box::new(team) });
    assert!(reason.contains("team_shop could share a network"), "{reason}");
}
