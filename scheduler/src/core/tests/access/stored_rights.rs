//! Access and its audit log when a change is not stored, not readable, or made while the cluster is read-only.

use contract::access::join::{Join, JoinTokenRecord};
use contract::node::NodeChange;
use contract::notice::DeadLetter;
use contract::policy::{Level, Policy};

use super::*;

impl Rig {
    /// Runs a command of the admin whose transaction the store refuses for its content.
    fn refused_by_store(&mut self, id: &str, verb: Verb) -> String {
        let mut delivery = self.delivery(id, verb);
        let proof = Some(Proof::Anonymous(ADMIN.parse().expect("a binding")));
        let credentials = Credentials { apiserver: "api-1".to_owned(), peer: "10.1.2.3".to_owned(), proof };
        delivery.command.as_mut().expect("a command").credentials = Some(Box::new(credentials));
        let effects = self.input(Input::Command(delivery));
        let commit = first_commit(effects).expect("a commit");
        let reason = "too large".to_owned();
        self.run(Input::Committed { id: commit.id, result: CommitResult::Invalid { reason } });
        self.outcomes.get(id).map_or_else(|| "none".to_owned(), |outcome| format!("{:?}", outcome.decision))
    }
}

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

#[test]
fn access_is_as_stored_after_the_store_refused_a_change_of_it() {
    let create = |number, bindings: &[&str]| Verb::CreateToken { token: token_record(number, bindings) };
    let mut rig = enforced();
    assert_eq!(rig.by_admin("t1", create(1, &["viewer"])), "Accepted");
    let policy = |namespace: &str| Verb::SetPolicy { namespace: namespace.to_owned(), policy: Box::default() };
    assert_eq!(rig.by_admin("p1", policy("shop")), "Accepted");
    // The cursor moves on with every command.
    let table = |rig: &mut Rig| rig.table(None).map(|table| AccessTable { as_of: None, ..table });
    let before = table(&mut rig);
    let policies = rig.core.state.policies.rows();
    let changes = [
        ("c1", create(2, &["admin"])),
        ("c2", Verb::RevokeToken { id: token(1).id }),
        ("c3", Verb::EnforceAccess { enforced: false }),
        ("c4", policy("bank")),
        ("c5", Verb::RemovePolicy { namespace: "shop".to_owned() }),
    ];
    for (id, verb) in changes {
        let refused = rig.refused_by_store(id, verb);
        assert!(refused.contains("the store refused"), "{id}: {refused}");
        assert_eq!(table(&mut rig), before, "{id}");
        assert_eq!(rig.core.state.policies.rows(), policies, "{id}");
    }
    assert!(rig.by_token("c6", Verb::Guard { working: true }, token(2).proof()).contains("Unauthenticated"));
}

#[test]
fn a_join_that_the_store_refused_gives_no_key_and_uses_no_token() {
    let mut rig = enforced();
    let join_token = JoinTokenRecord {
        id: token(3).id,
        hash: token(3).proof().hash(),
        names: "*".to_owned(),
        labels: BTreeMap::new(),
        uses: 1,
        replace: false,
        by: String::new(),
        created: Timestamp::NEVER,
        expires: Timestamp::from_millis(1_100_000),
    };
    assert_eq!(rig.by_admin("t1", Verb::CreateJoinToken { token: Box::new(join_token) }), "Accepted");
    let key = format!("U{}", "A".repeat(55));
    let join = Join { proof: token(3).proof(), node: node("b"), labels: BTreeMap::new(), key };
    let refused = rig.refused_by_store("j1", Verb::Join { join: Box::new(join.clone()) });
    assert!(refused.contains("the store refused"), "{refused}");
    assert_eq!(rig.query(Query::Joined { node: node("b") }), Answer::Joined(None));
    assert_eq!(rig.by_admin("j2", Verb::Join { join: Box::new(join) }), "Accepted", "its use is left");
}

#[test]
fn a_command_that_the_store_refuses_or_that_cannot_be_read_has_a_record_too() {
    let mut rig = enforced();
    rig.refused_by_store("c1", Verb::Guard { working: true });
    let mut delivery = rig.delivery("c2", Verb::Guard { working: true });
    let payload = b"{\"id\":\"c2\",\"verb\":\"Later\"}";
    delivery.command =
        Err(DeadLetter::new(contract::subjects::COMMANDS, "unknown verb".to_owned(), payload, rig.time()));
    rig.run(Input::Command(delivery));
    assert_eq!(rig.verified(), 2);
    let (_, records) = rig.audit();
    let row = |record: &AuditRecord| {
        (record.command.to_string(), record.verb.clone(), record.refused.clone().unwrap_or_default())
    };
    let refused = "the store refused to store it: too large".to_owned();
    let unread = "the command could not be read: unknown verb".to_owned();
    assert_eq!(
        records.iter().map(row).collect::<Vec<_>>(),
        [("c1".to_owned(), "Guard".to_owned(), refused), ("c2".to_owned(), "Unreadable".to_owned(), unread)]
    );
    assert_eq!((records[0].principal.as_str(), records[0].apiserver.as_str()), (ADMIN, "api-1"));
}

#[test]
fn an_outcome_names_the_owner_of_the_token_and_no_other_client() {
    let mut rig = enforced();
    rig.by_admin("t1", Verb::CreateToken { token: token_record(1, &["deployer@shop"]) });
    rig.by_token("c1", in_namespace("shop.web", "shop"), token(1).proof());
    rig.by_token("c2", in_namespace("bank.web", "bank"), token(1).proof());
    rig.command("c3", in_namespace("shop.api", "shop"));
    let owner = |id: &str| rig.outcomes[id].principal.as_deref();
    assert_eq!(["t1", "c1", "c2", "c3"].map(owner), [None, Some("user-1"), Some("user-1"), None]);
    assert!(rig.refused_by_store("c4", Verb::Guard { working: true }).contains("the store refused"));
    assert_eq!(rig.outcomes["c4"].principal, None);
}

#[test]
fn an_audit_record_says_what_was_requested_without_secrets() {
    let mut rig = enforced();
    rig.by_admin("t1", Verb::CreateToken { token: token_record(1, &["admin"]) });
    let policy = Box::new(Policy::of(Level::Trusted));
    rig.by_admin("p1", Verb::SetPolicy { namespace: "shop".to_owned(), policy });
    let Verb::CreateGroup { mut spec } = in_namespace("shop.web", "shop") else { panic!("not a group") };
    spec.pod.containers[0].env = vec!["PASSWORD=canary".to_owned()];
    rig.by_admin("g1", Verb::CreateGroup { spec });
    let (_, records) = rig.audit();
    let details: Vec<&str> = records.iter().map(|record| record.details.as_str()).collect();
    assert!(details[0].starts_with("for user-1: admin@*, until "), "{details:?}");
    assert!(details[1].contains("trusted"), "{details:?}");
    assert!(details[2].contains("instances, pod spec ") && !details[2].contains("canary"), "{details:?}");
}
