//! What a client that is bound to one namespace reaches of the others.

use contract::command::Removal;

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
