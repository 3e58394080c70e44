//! What a client that is bound to one namespace reaches of the others.

use contract::access::{Right, Role};
use contract::command::Removal;
use contract::spec::Dependency;

use super::*;

/// A cluster with the group `bank.web` in the namespace `bank`, and a client with `deployer@shop`.
fn with_bank() -> Rig {
    let mut rig = enforced();
    assert_eq!(rig.by_admin("t1", Verb::CreateToken { token: token_record(1, &["deployer@shop"]) }), "Accepted");
    assert_eq!(rig.by_admin("b1", in_namespace("bank.web", "bank")), "Accepted");
    rig.advance(5);
    rig
}

impl Rig {
    /// A command of the client with `deployer@shop`.
    fn by_shop(&mut self, id: &str, verb: Verb) -> String {
        self.by_token(id, verb, token(1).proof())
    }
}

#[test]
fn only_its_own_namespace_adopts_an_orphan() {
    let mut rig = with_bank();
    let orphaned = Verb::RemoveGroup { name: group("bank.web"), removal: Removal::Orphan };
    assert_eq!(rig.by_admin("b2", orphaned), "Accepted");
    rig.advance(5);
    assert_eq!(rig.by_shop("c1", in_namespace("bank.web", "shop")), "Refused(GroupExists)");
    assert_eq!(rig.by_admin("c2", in_namespace("bank.web", "shop")), "Refused(GroupExists)");
    assert_eq!(rig.record("bank.web").spec.namespace, "bank");
    assert_eq!(rig.by_admin("b3", in_namespace("bank.web", "bank")), "Accepted");
}

#[test]
fn an_undo_does_not_return_to_a_revision_of_another_namespace() {
    let mut rig = with_bank();
    let mut pod = spec("bank.web", 1).pod;
    pod.containers[0].image = "demo:2".to_owned();
    let patch = Verb::PatchSpec { name: group("bank.web"), pod: Box::new(pod), cause: String::new() };
    assert_eq!(rig.by_admin("b2", patch), "Accepted");
    rig.advance(60);
    // As an older version adopted an orphan of another namespace.
    let past = &mut rig.core.state.groups.get_mut(&group("bank.web")).expect("a group").past;
    past.revisions[0].pod.namespace = "vault".to_owned();
    let undo = RolloutAction::Undo { revision: Some(0), cause: String::new() };
    let undo = Verb::Rollout { name: group("bank.web"), release: None, action: undo };
    let refused = rig.by_admin("b3", undo);
    assert!(refused.contains("revision belongs to the namespace \\\"vault\\\""), "{refused}");
}

#[test]
fn an_object_that_cannot_be_read_is_removed_only_by_clients_of_all_namespaces() {
    let mut rig = with_bank();
    let portal = Verb::CreateDependency { pod: Box::new(spec("portal", 1).pod) };
    assert_eq!(rig.by_admin("b2", portal), "Accepted");
    assert_eq!(rig.by_admin("t2", Verb::CreateToken { token: token_record(2, &["deployer"]) }), "Accepted");
    let removals = || {
        let removed = Verb::RemoveDependency { name: group("portal"), force: true };
        [(keys::group(&group("bank.web")), remove("bank.web")), (keys::dependency(&group("portal")), removed)]
    };
    for (key, _) in removals() {
        rig.store.insert(key, b"?".to_vec());
    }
    rig.elect();
    for (number, (key, verb)) in removals().into_iter().enumerate() {
        let refused = rig.by_shop(&format!("c{number}"), verb);
        assert!(refused.contains("Unknown"), "{refused}");
        assert!(rig.store.contains_key(&key), "{key}");
    }
    for (number, (key, verb)) in removals().into_iter().enumerate() {
        assert_eq!(rig.by_token(&format!("d{number}"), verb, token(2).proof()), "Accepted");
        assert!(!rig.store.contains_key(&key), "{key}");
    }
}

#[test]
fn a_drift_does_not_tell_whether_a_foreign_group_exists() {
    let mut rig = with_bank();
    let drift = |name: &str| {
        let drift = Drift { from: node("a"), to: None, force: false, instance: None };
        Verb::Drift { drift, group: Some(group(name)) }
    };
    assert_eq!(rig.by_shop("c1", drift("bank.web")), "Refused(GroupUnknown)");
    assert_eq!(rig.by_shop("c2", drift("bank.none")), "Refused(GroupUnknown)");
    assert_eq!(rig.by_admin("c3", drift("bank.none")), "Accepted", "as in the original");
}

fn needing(name: &str, dependencies: &[&str]) -> PodGroupSpec {
    let mut spec = spec(name, 1);
    (spec.namespace, spec.pod.namespace) = ("shop".to_owned(), "shop".to_owned());
    let need = |name: &&str| Dependency { pod_name: (*name).to_owned(), ..Dependency::default() };
    spec.pod.dependencies = dependencies.iter().map(need).collect();
    spec
}

fn patch_to(spec: PodGroupSpec) -> Verb {
    Verb::PatchSpec { name: group(&spec.name), pod: Box::new(spec.pod), cause: String::new() }
}

/// A cluster with a dependency pod `bank.vault` in the namespace `bank`.
fn with_vault() -> Rig {
    let mut rig = with_bank();
    let mut vault = spec("bank.vault", 1).pod;
    vault.namespace = "bank".to_owned();
    assert_eq!(rig.by_admin("b2", Verb::CreateDependency { pod: Box::new(vault) }), "Accepted");
    rig
}

#[test]
fn a_client_starts_no_dependency_pod_of_a_namespace_that_it_may_not_read() {
    let mut rig = with_vault();
    let create = |name: &str, needs: &[&str]| Verb::CreateGroup { spec: Box::new(needing(name, needs)) };
    let foreign = rig.by_shop("c1", create("shop.web", &["bank.vault"]));
    assert!(foreign.contains("the DependencyPod bank.vault"), "{foreign}");
    let missing = rig.by_shop("c2", create("shop.web", &["bank.none"]));
    assert_eq!(missing.replace("bank.none", "bank.vault"), foreign, "nothing shows which of them exists");
    assert_eq!(rig.by_shop("c3", create("shop.web", &[])), "Accepted");
    rig.advance(30);
    assert_eq!(rig.by_shop("c4", patch_to(needing("shop.web", &["bank.vault"]))), foreign);
    for (number, bindings) in [&["deployer"][..], &["deployer@shop", "viewer@bank"]].into_iter().enumerate() {
        let (id, number) = (format!("t-{number}"), u8::try_from(number).expect("small") + 5);
        assert_eq!(rig.by_admin(&id, Verb::CreateToken { token: token_record(number, bindings) }), "Accepted");
        let verb = create(&format!("shop.of-{number}"), &["bank.vault"]);
        assert_eq!(rig.by_token(&format!("c-{number}"), verb, token(number).proof()), "Accepted", "{bindings:?}");
    }
}

#[test]
fn a_dependency_that_a_group_has_stays_and_an_undo_does_not_bring_a_foreign_one_back() {
    let mut rig = with_vault();
    let spec = needing("shop.web", &["bank.vault"]);
    assert_eq!(rig.by_admin("c1", Verb::CreateGroup { spec: Box::new(spec.clone()) }), "Accepted");
    rig.advance(20);
    let mut newer = spec;
    newer.pod.containers[0].image = "demo:2".to_owned();
    assert_eq!(rig.by_shop("c2", patch_to(newer)), "Accepted");
    rig.advance(20);
    assert_eq!(rig.by_shop("c3", patch_to(needing("shop.web", &[]))), "Accepted");
    rig.advance(20);
    let undo = |revision| {
        let action = RolloutAction::Undo { revision, cause: String::new() };
        Verb::Rollout { name: group("shop.web"), release: None, action }
    };
    for (id, revision) in [("c4", Some(0)), ("c5", None)] {
        let refused = rig.by_shop(id, undo(revision));
        assert!(refused.contains("the DependencyPod bank.vault"), "{refused}");
    }
    assert_eq!(rig.by_admin("c6", undo(Some(0))), "Accepted");
}

/// What a client learns from a refusal.
#[derive(Debug, PartialEq, Eq)]
enum Learned {
    Allowed,
    Unknown,
    Denied,
}

#[test]
fn each_role_is_answered_alike_about_foreign_missing_and_unreadable_groups() {
    let mut rig = with_bank();
    for name in ["bank.left", "bank.unread"] {
        assert_eq!(rig.by_admin(name, in_namespace(name, "bank")), "Accepted");
    }
    let removed = |name: &str| Verb::RemoveGroup { name: group(name), removal: Removal::Orphan };
    assert_eq!(rig.by_admin("orphan", removed("bank.left")), "Accepted");
    rig.store.insert(keys::group(&group("bank.unread")), b"?".to_vec());
    rig.elect();
    let drift = |name: &str| {
        let drift = Drift { from: node("z"), to: None, force: false, instance: None };
        Verb::Drift { drift, group: Some(group(name)) }
    };
    let learned = |text: String| match () {
        () if text.contains("Denied") => Learned::Denied,
        () if text.contains("GroupUnknown") => Learned::Unknown,
        () => Learned::Allowed,
    };
    let mut number = 10;
    for role in Role::ALL {
        for scope in ["shop", "*"] {
            number += 1;
            let binding = format!("{role}@{scope}");
            let create = Verb::CreateToken { token: token_record(number, &[&binding]) };
            assert_eq!(rig.by_admin(&format!("t{number}"), create), "Accepted");
            // No node is called z, and the containers of an unreadable group cannot be orphaned: nothing changes for those that may.
            let verbs = [drift("bank.web"), drift("bank.left"), drift("bank.none"), removed("bank.unread")];
            for (index, verb) in verbs.into_iter().enumerate() {
                let seen = learned(rig.by_token(&format!("c{number}-{index}"), verb, token(number).proof()));
                let expected = match (role.has(Right::Deploy), scope) {
                    (true, "*") => Learned::Allowed,
                    (true, _) => Learned::Unknown,
                    (false, _) => Learned::Denied,
                };
                assert_eq!(seen, expected, "{binding}, {index}");
            }
            let adopt = rig.by_token(&format!("a{number}"), in_namespace("bank.left", "shop"), token(number).proof());
            assert!(
                adopt.contains(if role.has(Right::Deploy) { "GroupExists" } else { "Denied" }),
                "{binding}: {adopt}"
            );
        }
    }
}
