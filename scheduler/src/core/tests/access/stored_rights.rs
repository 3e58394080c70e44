//! Access and its audit log when a change is not stored, not readable, or made while the cluster is read-only.

use contract::node::NodeChange;

use super::*;

#[test]
fn access_can_be_taken_away_while_the_cluster_is_read_only() {
    let mut rig = enforced();
    let create = |number| Verb::CreateToken { token: token_record(number, &["admin"]) };
    assert_eq!(rig.by_admin("t1", create(1)), "Accepted");
    assert_eq!(rig.by_admin("m1", Verb::EnforceAccess { enforced: false }), "Accepted");
    for (index, maintenance) in [false, true].into_iter().enumerate() {
        let configure = Verb::Configure { readonly: Some(!maintenance), maintenance: Some(maintenance) };
        assert_eq!(rig.by_admin(&format!("e{index}"), configure), "Accepted");
        assert_eq!(rig.by_admin(&format!("a{index}"), create(2)), "Refused(ReadOnly)");
        assert_eq!(rig.by_admin(&format!("b{index}"), Verb::EnforceAccess { enforced: false }), "Refused(ReadOnly)");
        let join = Verb::RevokeJoinToken { id: "none".to_owned() };
        assert!(rig.by_admin(&format!("c{index}"), join).contains("JoinTokenUnknown"));
        let remove = Verb::Node { node: node("a"), change: NodeChange::Remove { force: true } };
        assert_eq!(rig.by_admin(&format!("d{index}"), remove), "Refused(ReadOnly)", "it has no key to take away");
    }
    assert_eq!(rig.by_admin("m2", Verb::EnforceAccess { enforced: true }), "Accepted");
    assert_eq!(rig.by_admin("r1", Verb::RevokeToken { id: token(1).id }), "Accepted");
}

#[test]
fn texts_that_an_apiserver_invents_are_short_in_the_audit_log() {
    let mut rig = enforced();
    let long = "x".repeat(900_000);
    let mut delivery = rig.delivery("c1", in_namespace("web", &long));
    let proof = Some(Proof::Token(TokenProof { id: long.clone(), half: String::new() }));
    let command = delivery.command.as_mut().expect("a command");
    command.by = long.clone();
    command.credentials = Some(Box::new(Credentials { apiserver: long.clone(), peer: long, proof }));
    rig.run(Input::Command(delivery));
    let (_, records) = rig.audit();
    let size = serde_json::to_vec(&records[0]).expect("JSON").len();
    assert!(size < 2_000, "{size} bytes");
}
