//! Policies of namespaces: stored, listed, applied to writes, sent to agents, and the upgrade of a store without them.

use contract::command::Removal;
use contract::policy::{EVERY_NAMESPACE, Hardening, HostBind, Level, NamespacePolicy, Policy, Quota};

use super::*;

fn set(namespace: &str, policy: Policy) -> Verb {
    Verb::SetPolicy { namespace: namespace.to_owned(), policy: Box::new(policy) }
}
fn remove_policy(namespace: &str) -> Verb {
    Verb::RemovePolicy { namespace: namespace.to_owned() }
}
/// A group that binds a directory of the node.
fn binding(name: &str) -> Verb {
    let mut spec = spec(name, 1);
    spec.pod.containers[0].system_volumes = vec!["/srv/models:/models".to_owned()];
    Verb::CreateGroup { spec: Box::new(spec) }
}

impl Rig {
    fn policies(&mut self) -> Vec<(String, Level)> {
        let Answer::Policies(rows) = self.query(Query::Policies) else { panic!("not policies") };
        rows.into_iter().map(|NamespacePolicy { namespace, policy }| (namespace, policy.level)).collect()
    }
    /// What the order of a node says about new containers of a group.
    fn hardening(&self, name: &str, of: &str) -> Option<Hardening> {
        self.agents[&node(name)].order.hardening.get(&group(of)).cloned()
    }
}

fn rows(rows: &[(&str, Level)]) -> Vec<(String, Level)> {
    rows.iter().map(|(namespace, level)| ((*namespace).to_owned(), *level)).collect()
}

#[test]
fn a_policy_applies_to_its_namespace_and_survives_a_takeover() {
    let mut rig = rig(&["a"]);
    assert!(rig.command("c1", binding("web")).contains("rule host-binds"));
    let allow = HostBind { path: "/srv/models".to_owned(), read_only: false };
    let policy = Policy { host_binds: vec![allow], ..Policy::default() };
    assert_eq!(rig.command("c2", set("hello", policy)), "Accepted");
    rig.take_over();
    assert_eq!(rig.policies(), rows(&[("*", Level::Baseline), ("hello", Level::Baseline)]));
    assert_eq!(rig.command("c3", binding("web")), "Accepted");
    assert_eq!(rig.command("c4", remove_policy("hello")), "Accepted");
    assert!(rig.command("c5", binding("api")).contains("rule host-binds"));
    assert_eq!(rig.command("c6", remove_policy("hello")), "Refused(PolicyUnknown)");
    assert_eq!(rig.command("c7", set(EVERY_NAMESPACE, Policy::of(Level::Trusted))), "Accepted");
    assert_eq!(rig.command("c8", binding("api")), "Accepted");
    assert_eq!(rig.command("c9", remove_policy(EVERY_NAMESPACE)), "Accepted");
    assert_eq!(rig.policies(), rows(&[("*", Level::Baseline)]));
}

#[test]
fn no_namespace_binds_below_a_directory_that_another_one_may_write() {
    let mut rig = rig(&["a"]);
    let allowing = |path: &str, read_only| Policy {
        host_binds: vec![HostBind { path: path.to_owned(), read_only }],
        ..Policy::default()
    };
    let reading = |name: &str| {
        let mut spec = spec(name, 1);
        spec.pod.containers[0].system_volumes = vec!["/srv/models:/models:ro".to_owned()];
        Verb::CreateGroup { spec: Box::new(spec) }
    };
    assert_eq!(rig.command("c1", set("hello", allowing("/srv", true))), "Accepted");
    assert_eq!(rig.command("c2", set("writers", allowing("/srv", false))), "Accepted");
    let refused = rig.command("c3", reading("web"));
    assert!(refused.contains("/srv/models lies in /srv, which containers may write"), "{refused}");
    assert_eq!(rig.command("c4", remove_policy("writers")), "Accepted");
    assert_eq!(rig.command("c5", reading("web")), "Accepted");
    assert_eq!(rig.command("c6", set(EVERY_NAMESPACE, allowing("/srv", false))), "Accepted");
    assert!(
        rig.command("c7", reading("api")).contains("rule host-binds"),
        "namespaces without a policy of their own write it"
    );
}

#[test]
fn a_stricter_policy_leaves_what_runs_and_refuses_its_next_spec_and_an_undo() {
    let mut rig = rig(&["a"]);
    rig.command("c0", set("hello", Policy::of(Level::Trusted)));
    assert_eq!(rig.command("c1", binding("web")), "Accepted");
    rig.advance(3);
    let plain = Verb::PatchSpec { name: group("web"), pod: Box::new(spec("web", 1).pod), cause: String::new() };
    assert_eq!(rig.command("c2", plain), "Accepted");
    rig.advance(3);
    rig.clear();
    rig.command("c3", set("hello", Policy::default()));
    rig.advance(1);
    assert!(rig.orders.is_empty(), "a policy changes no running pod");
    let undo = contract::command::RolloutAction::Undo { revision: Some(0), cause: String::new() };
    let undo = Verb::Rollout { name: group("web"), release: None, action: undo };
    assert!(rig.command("c4", undo).contains("rule host-binds"));
    assert_eq!(rig.command("c5", replica("web", 2)), "Accepted");
    rig.advance(1);
    assert_eq!(rig.pods("a").len(), 2);
}

#[test]
fn orders_carry_the_level_of_new_pods_and_no_digest_depends_on_it() {
    let mut rig = rig(&["a"]);
    rig.command("c0", set("hello", Policy::of(Level::Trusted)));
    rig.command("c1", create("web", 1));
    assert_eq!(rig.hardening("a", "web"), None);
    let capabilities = BTreeSet::from(["NET_RAW".to_owned()]);
    rig.command("c2", set("hello", Policy { capabilities: capabilities.clone(), ..Policy::of(Level::Restricted) }));
    let mut api = spec("api", 1);
    api.pod.containers[0].user = "7".to_owned();
    assert_eq!(rig.command("c3", Verb::CreateGroup { spec: Box::new(api) }), "Accepted");
    let expected = Hardening { level: Level::Restricted, capabilities, ..Hardening::default() };
    assert_eq!((rig.hardening("a", "api"), rig.hardening("a", "web")), (Some(expected.clone()), None));
    rig.advance(3);
    rig.command("c4", replica("web", 2));
    rig.advance(1);
    assert_eq!(rig.hardening("a", "web"), Some(expected));
    let order = &rig.agents[&node("a")].order;
    let without = Order { hardening: BTreeMap::new(), ..order.clone() };
    assert_eq!(order.digest(), without.digest());
    rig.command("c5", remove("api"));
    rig.advance(3);
    assert_eq!(rig.hardening("a", "api"), None, "nothing is kept of groups that are gone");
}

#[test]
fn quotas_limit_groups_and_instances_of_a_namespace() {
    let mut rig = rig(&["a"]);
    let quota = Quota { groups: Some(2), instances: Some(4), containers: None };
    rig.command("c0", set("hello", Policy { quota, ..Policy::default() }));
    assert_eq!(rig.command("c1", create("web", 2)), "Accepted");
    assert!(rig.command("c2", create("api", 3)).contains("would have 5 instances, its quota is 4"));
    assert_eq!(rig.command("c3", create("api", 2)), "Accepted");
    assert!(rig.command("c4", create("db", 0)).contains("would have 3 PodGroups, its quota is 2"));
    rig.advance(3);
    assert!(rig.command("c5", replica("api", 3)).contains("would have 5 instances"));
    assert_eq!(rig.command("c6", replica("web", 1)), "Accepted");
    rig.advance(3);
    assert_eq!(rig.command("c7", replica("api", 3)), "Accepted");
}

#[test]
fn a_store_of_a_version_without_policies_trusts_the_namespaces_that_exist() {
    let mut rig = rig(&["a"]);
    rig.command("c0", set("hello", Policy::of(Level::Trusted)));
    rig.command("c1", binding("web"));
    rig.store.retain(|key, _| !matches!(keys::parse(key), keys::Key::Policy(_)));
    rig.clear();
    rig.take_over();
    assert_eq!(rig.policies(), rows(&[("*", Level::Baseline), ("hello", Level::Trusted)]));
    let told: Vec<&Event> = rig.events.iter().filter(|event| event.message.starts_with("upgraded")).collect();
    assert!(matches!(told.as_slice(), [event] if event.message.ends_with(": hello")), "{told:?}");
    assert_eq!(rig.command("c2", binding("api")), "Accepted");
    let mut other = spec("other", 1);
    (other.namespace, other.pod.namespace) = ("new".to_owned(), "new".to_owned());
    other.pod.network = "host".to_owned();
    assert!(rig.command("c3", Verb::CreateGroup { spec: Box::new(other) }).contains("rule networks"));
    rig.command("c4", remove_policy("hello"));
    rig.clear();
    rig.take_over();
    assert_eq!(rig.policies(), rows(&[("*", Level::Baseline)]), "the upgrade happens once");
    assert!(rig.events.iter().all(|event| !event.message.starts_with("upgraded")));
}

#[test]
fn a_fresh_store_has_baseline_from_its_first_group_on() {
    let mut rig = rig(&["a"]);
    rig.take_over();
    assert_eq!(rig.policies(), []);
    assert_eq!(rig.command("c1", create("web", 1)), "Accepted");
    rig.take_over();
    assert_eq!(rig.policies(), rows(&[("*", Level::Baseline)]));
    assert!(rig.command("c2", binding("api")).contains("rule host-binds"));
}

#[test]
fn a_policy_that_cannot_be_read_counts_as_restricted() {
    let mut rig = rig(&["a"]);
    rig.command("c0", set("hello", Policy::of(Level::Trusted)));
    rig.store.insert(keys::policy("hello"), b"{\"Level\":\"trusted\",\"Newer\":1}".to_vec());
    rig.take_over();
    assert!(rig.command("c1", create("web", 1)).contains("rule users"));
    assert_eq!(rig.command("c2", set("hello", Policy::default())), "Accepted");
    assert_eq!(rig.command("c3", create("web", 1)), "Accepted");
}

#[test]
fn a_dependency_pod_is_checked_like_a_group() {
    let mut rig = rig(&["a"]);
    let mut pod = spec("portal", 1).pod;
    pod.containers[0].system_volumes = vec!["/etc:/x".to_owned()];
    let bad = Box::new(pod.clone());
    assert!(rig.command("c1", Verb::CreateDependency { pod: bad.clone() }).contains("rule host-binds"));
    pod.containers[0].system_volumes.clear();
    assert_eq!(rig.command("c2", Verb::CreateDependency { pod: Box::new(pod) }), "Accepted");
    assert!(rig.command("c3", Verb::UpdateDependency { pod: bad }).contains("rule host-binds"));
}

#[test]
fn a_quota_counts_the_instances_of_orphans_and_of_removed_groups_until_they_are_gone() {
    let mut rig = rig(&["a"]);
    let quota = Quota { groups: Some(2), instances: Some(4), containers: None };
    rig.command("c0", set("hello", Policy { quota, ..Policy::default() }));
    let remove_as = |name: &str, removal| Verb::RemoveGroup { name: group(name), removal };
    rig.command("c1", create("orphan", 2));
    rig.command("c2", create("removed", 2));
    rig.advance(5);
    rig.keep_pods("a");
    assert_eq!(rig.command("c3", remove_as("orphan", Removal::Orphan)), "Accepted");
    assert_eq!(rig.command("c4", remove_as("removed", Removal::Background)), "Accepted");
    rig.advance(5);
    assert!(rig.command("c5", create("web", 1)).contains("would have 5 instances, its quota is 4"));
    rig.agents.values_mut().for_each(|agent| agent.stuck_pods.clear());
    rig.advance(30);
    assert!(rig.command("c6", create("web", 3)).contains("would have 5 instances, its quota is 4"), "the orphan runs");
    assert_eq!(rig.command("c7", create("web", 2)), "Accepted");
}
