//! Dependency pods follow the instances that need them, whoever leads.

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

/// A group whose instances need what is listed.
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
    /// Where the dependency pod is stored to be: node, namespace, version.
    fn pairs(&self) -> Vec<(String, String, u32)> {
        let pairs = contract::layout::read_pairs(&group("portal"), &self.store).expect("pairs");
        let row = |pair: contract::record::Pair| (pair.node.to_string(), pair.namespace, pair.version);
        pairs.into_iter().map(row).collect()
    }
    fn wanted(&self) -> Option<DependencyRecord> {
        contract::layout::read_dependency(&group("portal"), &self.store).expect("a record")
    }
    /// What the core says about the dependency pod.
    fn dependency(&mut self) -> Option<DependencyView> {
        self.run(Input::Query { query: Query::Dependency { name: group("portal") }, reply: "query".to_owned() });
        match self.replies.remove("query").expect("an answer").answer {
            Answer::Dependency(view) => view.map(|view| *view),
            other => panic!("not a dependency pod: {other:?}"),
        }
    }
    /// The pods of dependency pods an agent was told to run.
    fn beside(&self, name: &str) -> Vec<String> {
        self.agents[&node(name)].order.pods.keys().filter(|pod| pod.instance == 0).map(ToString::to_string).collect()
    }
    fn set(&mut self, name: &str, pod: &str, state: Option<RunState>) {
        let states = &mut self.agents.get_mut(&node(name)).expect("an agent").states;
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
fn one_pod_runs_beside_the_instances_of_a_namespace_on_a_node_however_many_there_are() {
    let mut rig = rig(&["a", "b"]);
    assert_eq!(rig.command("c1", create_portal()), "Accepted");
    assert_eq!(rig.pairs(), [], "nothing runs until an instance needs it");
    rig.command("c2", web(4));
    rig.command("c3", client("api", "hello", 2, &[("portal", DependencyPolicy::Namespace)]));
    assert_eq!(rig.pairs(), rows(&[("a", "hello", 0), ("b", "hello", 0)]));
    assert_eq!(rig.beside("a"), ["portal-a-hello.v0-i0-d0"]);
    assert_eq!(rig.beside("b"), ["portal-b-hello.v0-i0-d0"]);
    let order = &rig.agents[&node("a")].order;
    let (pod, assignment) = order.pods.iter().find(|(pod, _)| pod.instance == 0).expect("a pod");
    assert_eq!((assignment.target, assignment.restart_policy), (TargetState::Run, RestartPolicy::Always));
    let spec = &order.specs[&pod.spec_key()];
    let names = (spec.name.as_str(), spec.namespace.as_str(), spec.network.as_str(), spec.filters.join(","));
    assert_eq!(names, ("portal-a-hello", "portal", "portal_hello", "constraint:node==a".to_owned()));
}

#[test]
fn every_entry_of_a_list_has_its_own_policy_whatever_stands_before_it() {
    let mut rig = rig(&["a"]);
    rig.command("c1", create_portal());
    let (node_level, namespace_level) = (DependencyPolicy::Node, DependencyPolicy::Namespace);
    rig.command("c2", client("web", "hello", 1, &[("other", node_level), ("portal", namespace_level)]));
    assert_eq!(rig.pairs(), rows(&[("a", "hello", 0)]));
    rig.command("c3", client("api", "world", 1, &[("portal", node_level)]));
    assert_eq!(rig.pairs(), rows(&[("a", "a", 0), ("a", "hello", 0)]));
}

#[test]
fn a_dependency_that_is_created_after_its_users_runs_at_once() {
    let mut rig = rig(&["a"]);
    rig.command("c1", web(1));
    rig.pass(1);
    rig.take_over();
    assert_eq!(rig.beside("a"), [""; 0]);
    rig.command("c2", create_portal());
    assert_eq!(rig.beside("a"), ["portal-a-hello.v0-i0-d0"]);
}

#[test]
fn a_pod_that_nothing_needs_goes_after_the_grace_and_stays_if_it_is_needed_again() {
    let mut rig = rig(&["a"]);
    rig.command("c1", create_portal());
    rig.command("c2", web(1));
    rig.pass(1);
    rig.command("c3", remove("web"));
    rig.pass(290);
    assert_eq!(rig.beside("a").len(), 1);
    rig.command("c4", web(1));
    rig.pass(60);
    assert_eq!(rig.pairs(), rows(&[("a", "hello", 0)]), "it was needed again in time");
    rig.command("c5", remove("web"));
    rig.pass(200);
    rig.take_over();
    rig.pass(110);
    assert_eq!(rig.pairs(), [], "a change of leader does not begin the grace anew");
    assert_eq!(rig.beside("a"), [""; 0]);
    assert!(rig.dependency().is_some_and(|view| view.pods.is_empty()), "it is known and runs nowhere");
}

#[test]
fn what_follows_an_instance_follows_it_to_another_node() {
    let mut rig = rig(&["a", "b"]);
    rig.command("c1", create_portal());
    rig.command("c2", web(1));
    rig.pass(1);
    assert_eq!(rig.places("web"), [("a".to_owned(), 0)]);
    rig.cut.insert(node("a"));
    rig.pass(320);
    assert_eq!(rig.places("web"), [("b".to_owned(), 1)]);
    assert_eq!(rig.pairs(), rows(&[("a", "hello", 0), ("b", "hello", 0)]), "the lost node's waits for its grace");
    rig.pass(300);
    assert_eq!(rig.pairs(), rows(&[("b", "hello", 0)]));
}

#[test]
fn a_new_spec_goes_from_node_to_node_and_the_same_spec_does_nothing() {
    let mut rig = rig(&["a", "b"]);
    rig.command("c1", create_portal());
    rig.command("c2", web(2));
    rig.pass(1);
    rig.set("a", "portal-a-hello.v1-i0-d0", Some(RunState::Pending));
    assert_eq!(rig.command("c3", update_portal(128)), "Accepted");
    rig.pass(5);
    assert_eq!(rig.pairs(), rows(&[("a", "hello", 1), ("b", "hello", 0)]), "the first is not up yet");
    rig.take_over();
    rig.pass(5);
    assert_eq!(rig.beside("b"), ["portal-b-hello.v0-i0-d0"], "nor for another leader");
    rig.set("a", "portal-a-hello.v1-i0-d0", None);
    rig.pass(2);
    assert_eq!(rig.pairs(), rows(&[("a", "hello", 1), ("b", "hello", 1)]));
    assert_eq!(rig.beside("b"), ["portal-b-hello.v1-i0-d0"]);
    let wanted = rig.wanted().expect("a record");
    assert_eq!((wanted.spec.version, wanted.former.len(), wanted.spec.memory()), (1, 0, 128 << 20));
    rig.clear();
    assert_eq!(rig.command("c4", update_portal(128)), "Accepted");
    assert_eq!(
        rig.command("c5", Verb::UpdateDependency { pod: Box::new(PodSpec { version: 7, ..portal(0) }) }),
        "Accepted"
    );
    rig.pass(2);
    assert!(!rig.written().contains(&keys::dependency(&group("portal"))), "{:?}", rig.written());
    assert_eq!(rig.pairs(), rows(&[("a", "hello", 1), ("b", "hello", 1)]));
}

#[test]
fn an_update_goes_on_when_a_pod_does_not_come_up_in_time() {
    let mut rig = rig(&["a", "b"]);
    rig.command("c1", create_portal());
    rig.command("c2", web(2));
    rig.pass(1);
    rig.set("a", "portal-a-hello.v1-i0-d0", Some(RunState::Fail));
    rig.command("c3", update_portal(128));
    rig.pass(99);
    assert_eq!(rig.pairs()[1].2, 0);
    rig.pass(2);
    assert_eq!(rig.pairs()[1].2, 1);
}

#[test]
fn commands_about_what_is_not_there_or_there_already_are_refused() {
    let mut rig = rig(&["a"]);
    assert_eq!(rig.command("c1", update_portal(128)), "Refused(DependencyUnknown)");
    assert_eq!(rig.command("c2", remove_portal(false)), "Refused(DependencyUnknown)");
    assert_eq!(rig.command("c3", remove_portal(true)), "Refused(DependencyUnknown)");
    assert_eq!(rig.command("c4", create_portal()), "Accepted");
    assert_eq!(rig.command("c5", create_portal()), "Refused(DependencyExists)");
    let nameless = Verb::CreateDependency { pod: Box::new(PodSpec::default()) };
    assert!(rig.command("c6", nameless).starts_with("Refused(Malformed"));
    let stored = rig.wanted().expect("a record").spec;
    assert_eq!((stored.version, stored.created_at, stored.annotation.as_str()), (0, Timestamp::NEVER, "{}"));
}

#[test]
fn without_force_it_is_kept_while_it_is_used_and_goes_with_its_last_user() {
    let mut rig = rig(&["a"]);
    rig.command("c1", create_portal());
    rig.command("c2", web(1));
    rig.pass(1);
    assert_eq!(rig.command("c3", remove_portal(false)), "Accepted");
    rig.pass(400);
    assert_eq!(rig.beside("a").len(), 1);
    assert!(rig.dependency().is_some());
    assert_eq!(rig.command("c4", create_portal()), "Refused(DependencyExists)");
    rig.command("c5", remove("web"));
    rig.pass(2);
    assert_eq!(rig.beside("a"), [""; 0], "at once, without a grace");
    assert_eq!((rig.wanted(), rig.pairs().len()), (None, 0));
    assert_eq!(rig.command("c6", create_portal()), "Accepted");
    assert_eq!(rig.command("c7", remove_portal(false)), "Accepted");
    assert_eq!(rig.wanted(), None, "what nothing uses goes at once");
}

#[test]
fn changing_the_spec_takes_a_removal_back() {
    let mut rig = rig(&["a"]);
    rig.command("c1", create_portal());
    rig.command("c2", web(1));
    rig.command("c3", remove_portal(false));
    rig.command("c4", update_portal(64));
    rig.command("c5", remove("web"));
    rig.pass(5);
    assert_eq!(rig.wanted().map(|record| (record.delete_when_unused, record.spec.version)), Some((false, 0)));
}

#[test]
fn a_forced_removal_hides_it_at_once_and_ends_when_the_nodes_have_let_go() {
    let mut rig = rig(&["a", "b"]);
    rig.command("c1", create_portal());
    rig.command("c2", web(2));
    rig.pass(1);
    rig.cut.insert(node("b"));
    assert_eq!(rig.command("c3", remove_portal(true)), "Accepted");
    assert_eq!(rig.dependency(), None);
    rig.pass(2);
    assert_eq!(rig.beside("a"), [""; 0]);
    assert_eq!(rig.command("c4", create_portal()), "Refused(DependencyExists)");
    assert_eq!(rig.command("c5", update_portal(64)), "Refused(DependencyUnknown)");
    rig.take_over();
    rig.pass(2);
    assert!(rig.wanted().is_some(), "node b has not let go");
    assert_eq!(rig.command("c6", create_portal()), "Refused(DependencyExists)");
    rig.cut.clear();
    rig.pass(6);
    assert_eq!((rig.wanted(), rig.beside("b").len()), (None, 0));
    assert_eq!(rig.command("c7", create_portal()), "Accepted");
    assert_eq!(rig.beside("a"), ["portal-a-hello.v0-i0-d0"], "its users need it still");
}

#[test]
fn a_removal_does_not_wait_for_ever() {
    let mut rig = rig(&["a"]);
    rig.command("c1", create_portal());
    rig.command("c2", web(1));
    rig.pass(1);
    rig.cut.insert(node("a"));
    rig.command("c3", remove_portal(true));
    rig.pass(602);
    assert_eq!(rig.wanted(), None);
}

#[test]
fn a_stopped_engine_plans_no_dependency_and_goes_on_when_it_starts() {
    let mut rig = rig(&["a"]);
    rig.command("c1", create_portal());
    rig.command("c2", web(1));
    rig.pass(1);
    rig.command("c3", run_engine(false));
    rig.command("c4", update_portal(128));
    rig.pass(5);
    rig.take_over();
    rig.pass(5);
    assert_eq!(rig.beside("a"), ["portal-a-hello.v0-i0-d0"]);
    assert!(rig.core.wake_at().is_some_and(|at| at > rig.time()), "it does not ask to be woken at once");
    rig.command("c5", remove_portal(true));
    rig.pass(5);
    assert_eq!(rig.dependency(), None, "to users it is gone");
    assert_eq!(rig.beside("a"), ["portal-a-hello.v0-i0-d0"]);
    rig.command("c6", run_engine(true));
    rig.pass(2);
    assert_eq!((rig.beside("a").len(), rig.wanted()), (0, None));
}

#[test]
fn a_takeover_changes_nothing_and_no_order_ever_lacks_what_is_stored() {
    let mut rig = rig(&["a", "b"]);
    rig.command("c1", create_portal());
    rig.command("c2", web(2));
    rig.pass(1);
    rig.clear();
    rig.take_over();
    rig.pass(30);
    assert_eq!(rig.written(), BTreeSet::new());
    assert_eq!(rig.beside("a"), ["portal-a-hello.v0-i0-d0"]);
    let gone = rig.orders.iter().any(|(_, message)| match message {
        OrderMessage::Whole(order) => !order.pods.keys().any(|pod| pod.instance == 0),
        OrderMessage::Delta(delta) => !delta.pods.gone.is_empty(),
    });
    assert!(!gone, "{:?}", rig.orders);
    assert_eq!(rig.core.disagreements(), 0);
}

#[test]
fn what_cannot_be_read_is_spared_and_nothing_is_made_in_its_place() {
    for unreadable in [keys::dependency(&group("portal")), keys::pairs(&group("portal"), 0)] {
        let mut rig = rig(&["a"]);
        rig.command("c1", create_portal());
        rig.command("c2", web(1));
        rig.pass(1);
        rig.store.insert(unreadable.clone(), b"?".to_vec());
        rig.take_over();
        assert_eq!(rig.agents[&node("a")].order.spared, BTreeSet::from([group("portal")]), "{unreadable}");
        assert_eq!(rig.buried, [unreadable]);
        assert_eq!(rig.command("c3", create_portal()), "Refused(DependencyExists)");
        assert!(rig.command("c4", remove_portal(false)).contains("cannot be read"));
        assert_eq!(rig.command("c5", remove_portal(true)), "Accepted");
        assert_eq!(rig.agents[&node("a")].order.spared, BTreeSet::new());
    }
}

#[test]
fn while_a_group_cannot_be_read_nothing_is_taken_from_it() {
    let mut rig = rig(&["a"]);
    rig.command("c1", create_portal());
    rig.command("c2", web(1));
    rig.pass(1);
    rig.command("c3", remove_portal(false));
    rig.store.insert(keys::group(&group("web")), b"?".to_vec());
    rig.take_over();
    rig.pass(400);
    assert_eq!(rig.beside("a"), ["portal-a-hello.v0-i0-d0"]);
}

#[test]
fn no_pair_has_the_name_of_a_group_and_no_group_that_of_a_pair() {
    let mut rig = rig(&["a"]);
    rig.command("c1", create("portal-a-hello", 1));
    rig.command("c2", create_portal());
    rig.command("c3", web(1));
    assert_eq!(rig.pairs(), []);
    let told: Vec<&str> = rig.events.iter().map(|event| event.message.as_str()).collect();
    let why = "dependency pod portal cannot run beside hello on node a: a PodGroup is called portal-a-hello";
    assert_eq!(told.iter().filter(|message| **message == why).count(), 1, "{told:?}");
    rig.pass(1);
    rig.command("c4", remove("portal-a-hello"));
    rig.pass(10);
    assert_eq!(rig.pairs(), rows(&[("a", "hello", 0)]), "the slow sweep finds that the name is free");
    assert_eq!(rig.command("c5", create("portal-a-hello", 1)), "Refused(GroupExists)");
}

#[test]
fn a_pair_whose_name_would_be_too_long_is_not_made_and_says_so_once() {
    let mut rig = rig(&["a"]);
    let name = "x".repeat(125);
    let pod = Box::new(PodSpec { name: name.clone(), ..portal(64) });
    assert_eq!(rig.command("c1", Verb::CreateDependency { pod }), "Accepted");
    rig.command("c2", client("web", "hello", 1, &[(&name, DependencyPolicy::Namespace)]));
    rig.pass(10);
    assert_eq!(rig.beside("a"), [""; 0]);
    let told = rig
        .events
        .iter()
        .filter(|event| event.message.ends_with("its name is 133 characters long, at most 128 are allowed"));
    assert_eq!(told.count(), 1, "{:?}", rig.events);
}

#[test]
fn what_runs_beside_instances_takes_room_and_gives_it_back() {
    let mut rig = rig(&["a"]);
    rig.command("c1", create_portal());
    rig.command("c2", web(1));
    rig.pass(1);
    let used = |rig: &mut Rig| {
        rig.run(Input::Query { query: Query::Nodes, reply: "query".to_owned() });
        match rig.replies.remove("query").expect("an answer").answer {
            Answer::Nodes(nodes) => (nodes[0].used_memory >> 20, nodes[0].used_cpu_millis, nodes[0].containers),
            other => panic!("not nodes: {other:?}"),
        }
    };
    assert_eq!(used(&mut rig), (128, 1000, 2));
    rig.command("c3", update_portal(128));
    rig.pass(1);
    assert_eq!(used(&mut rig), (192, 1000, 2));
    rig.take_over();
    assert_eq!(used(&mut rig), (192, 1000, 2));
    rig.command("c4", remove_portal(true));
    rig.pass(2);
    assert_eq!(used(&mut rig), (64, 500, 1));
}

#[test]
fn it_is_told_as_it_is_reported_by_the_namespace_it_serves() {
    let mut rig = rig(&["a"]);
    rig.command("c1", create_portal());
    rig.command("c2", web(1));
    let container =
        ContainerFacts { id: "c".to_owned(), running: true, ip: "172.20.0.9".to_owned(), ..Default::default() };
    let containers = &mut rig.agents.get_mut(&node("a")).expect("an agent").containers;
    containers.insert("portal-a-hello.v0-i0-d0".to_owned(), vec![container]);
    rig.pass(1);
    let view = rig.dependency().expect("a dependency pod");
    let pods = &view.pods["hello"];
    assert_eq!((view.pods.len(), pods.len(), pods[0].id.to_string().as_str()), (1, 1, "portal-a-hello.v0-i0-d0"));
    assert_eq!((pods[0].node.clone(), pods[0].node_ip.as_str()), (Some(node("a")), "ip-of-a"));
    assert_eq!((pods[0].facts.state, pods[0].addresses.join(",")), (RunState::Success, "172.20.0.9".to_owned()));
    assert_eq!(rig.notices, []);
}

#[test]
fn guard_and_maintenance_do_not_keep_a_dependency_from_following_its_users() {
    let mut rig = rig(&["a"]);
    rig.command("c1", create_portal());
    rig.command("c2", Verb::Guard { working: false });
    rig.command("c3", web(1));
    assert_eq!(rig.beside("a"), ["portal-a-hello.v0-i0-d0"]);
    assert_eq!(rig.agents[&node("a")].order.switches, Switches { hold_missing: true, ..Switches::default() });
}
