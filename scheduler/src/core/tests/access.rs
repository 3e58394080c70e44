//! Who may do what, as the leader judges it, and the audit log.

mod namespaces;
mod stored_rights;

use contract::access::audit::{
    AuditHead, AuditRecord, Chain, DROPPED_AT_ONCE, MOST_REFUSED, RefusedRequests, Verifier,
};
use contract::access::table::{AccessRecord, AccessTable};
use contract::access::token::{Credentials, Proof, Token, TokenProof, TokenRecord};
use contract::command::{Drift, RolloutAction};
use contract::event::Kind;

use super::*;

const ADMIN: &str = "admin@* from uid:self";

fn token(number: u8) -> Token {
    Token::from_random(&[number; 40])
}

fn token_record(number: u8, bindings: &[&str]) -> Box<TokenRecord> {
    Box::new(TokenRecord {
        id: token(number).id,
        hash: token(number).proof().hash(),
        principal: format!("user-{number}"),
        bindings: bindings.iter().map(|text| text.parse().expect("a binding")).collect(),
        by: "anybody".to_owned(),
        created: Timestamp::NEVER,
        expires: Timestamp::from_millis(1_100_000),
    })
}

fn settings(anonymous: &[&str]) -> Settings {
    let anonymous = anonymous.iter().map(|text| text.parse().expect("a binding")).collect();
    Settings { anonymous, enforces_access: true, ..Settings::default() }
}

/// A new cluster whose admins come without a token.
fn enforced() -> Rig {
    rig_with(settings(&[ADMIN]), &["a"])
}

fn in_namespace(name: &str, namespace: &str) -> Verb {
    let mut spec = spec(name, 1);
    spec.namespace = namespace.to_owned();
    spec.pod.namespace = namespace.to_owned();
    Verb::CreateGroup { spec: Box::new(spec) }
}

impl Rig {
    fn command_of(&mut self, id: &str, verb: Verb, proof: Option<Proof>) -> String {
        let mut delivery = self.delivery(id, verb);
        let (apiserver, peer) = ("api-1".to_owned(), "10.1.2.3".to_owned());
        let command = delivery.command.as_mut().expect("a command");
        command.credentials = Some(Box::new(Credentials { apiserver, peer, proof }));
        self.run(Input::Command(delivery));
        self.outcomes.get(id).map_or_else(|| "none".to_owned(), |outcome| format!("{:?}", outcome.decision))
    }
    fn by_admin(&mut self, id: &str, verb: Verb) -> String {
        self.command_of(id, verb, Some(Proof::Anonymous(ADMIN.parse().expect("a binding"))))
    }
    fn by_token(&mut self, id: &str, verb: Verb, proof: TokenProof) -> String {
        self.command_of(id, verb, Some(Proof::Token(proof)))
    }
    fn mode(&self) -> Option<AccessRecord> {
        self.store.read(keys::ACCESS_MODE)
    }
    fn table(&mut self, known: Option<&str>) -> Option<AccessTable> {
        let query = Query::Access { known: known.map(str::to_owned) };
        let Answer::Access(table) = self.query(query) else { panic!("no table") };
        table.map(|table| *table)
    }
    fn audit(&self) -> (AuditHead, Vec<AuditRecord>) {
        self.log(Chain::Commands)
    }
    fn log(&self, chain: Chain) -> (AuditHead, Vec<AuditRecord>) {
        let prefix = chain.prefix();
        let records = self.store.range(prefix.to_owned()..).take_while(|(key, _)| key.starts_with(prefix));
        let records = records.map(|(_, value)| serde_json::from_slice(value).expect("a record")).collect();
        (self.store.read(chain.head_key()).unwrap_or_default(), records)
    }
    /// The number of the last record, after every hash was checked.
    fn verified(&self) -> u64 {
        let (head, records) = self.audit();
        let mut verifier = Verifier::new(&head);
        records.iter().for_each(|record| verifier.take(record).expect("a whole log"));
        verifier.end(&head).expect("the end of the log")
    }
}

#[test]
fn a_new_store_authenticates_commands_and_an_older_one_only_after_auth_enforce() {
    let mut rig = enforced();
    assert!(rig.mode().expect("chosen").enforced);
    assert!(rig.command("c1", create("web", 1)).contains("Unauthenticated"));
    assert_eq!(rig.group("web"), None);

    let mut older = super::rig(&["a"]);
    older.command("c1", create("web", 1));
    older.core = Core::new(settings(&[]));
    older.elect();
    assert!(!older.mode().expect("chosen").enforced);
    assert!(older.events.iter().any(|event| event.kind == Kind::Engine && event.message.contains("auth enforce")));
    assert_eq!(older.command("c2", create("api", 1)), "Accepted");
    let enforce = || Verb::EnforceAccess { enforced: true };
    assert!(older.command("c3", enforce()).contains("no client could manage"), "without an admin");
    assert_eq!(older.command("c4", Verb::CreateToken { token: token_record(1, &["admin"]) }), "Accepted");
    assert_eq!(older.command("c5", enforce()), "Accepted");
    older.elect();
    assert!(older.command("c6", create("db", 1)).contains("Unauthenticated"));
    let open = Verb::EnforceAccess { enforced: false };
    assert_eq!(older.by_token("c7", open, token(1).proof()), "Accepted");
    assert_eq!(older.command("c8", create("db", 1)), "Accepted");
}

#[test]
fn stored_callbacks_of_an_open_cluster_stay_allowed_until_access_is_enforced() {
    let former = |rig: &Rig| rig.core.state.access.former_callbacks().into_iter().collect::<Vec<_>>();
    let mut older = super::rig(&["a"]);
    let old = "http://10.1.0.5/hook?token=secret".to_owned();
    older.command("c1", Verb::AddCallback { url: old.clone() });
    older.core = Core::new(settings(&[]));
    older.elect();
    let told = older.events.iter().find(|event| event.message.contains("internal addresses"));
    let told = told.map(|event| event.message.clone()).unwrap_or_default();
    assert!(told.contains("http://10.1.0.5/") && !told.contains("secret"), "{told}");
    older.command("c2", Verb::AddCallback { url: "http://10.1.0.6/hook".to_owned() });
    older.elect();
    assert_eq!(former(&older), std::slice::from_ref(&old));
    let told = |rig: &mut Rig| {
        rig.run(Input::Query { query: Query::Callbacks, reply: "q".to_owned() });
        rig.replies.remove("q").and_then(|reply| reply.former_callbacks)
    };
    assert_eq!(told(&mut older), Some(BTreeSet::from([old])), "notifiers ask before each attempt");
    assert_eq!(older.command("c3", Verb::CreateToken { token: token_record(1, &["admin"]) }), "Accepted");
    for enforced in [true, false] {
        let verb = Verb::EnforceAccess { enforced };
        assert_eq!(older.by_token(&format!("e{enforced}"), verb, token(1).proof()), "Accepted");
        assert_eq!(former(&older), [""; 0], "they are not allowed again when the cluster is opened");
        assert_eq!(told(&mut older), Some(BTreeSet::new()));
    }
    assert_eq!(former(&enforced()), [""; 0]);
}

#[test]
fn a_standby_of_a_store_without_a_choice_does_not_call_it_open() {
    let mut standby = Core::new(settings(&[]));
    let query = Query::Access { known: None };
    let effects = standby.on(Input::Query { query, reply: "q".to_owned() }, Timestamp::from_millis(1));
    let [Effect::Answer { reply, .. }] = &effects[..] else { panic!("{effects:?}") };
    assert_eq!(reply.answer, Answer::Access(None));
}

#[test]
fn an_apiserver_cannot_use_a_binding_that_the_scheduler_does_not_have() {
    let mut rig = enforced();
    let other = Proof::Anonymous("admin@* from any".parse().expect("a binding"));
    assert!(rig.command_of("c1", create("web", 1), Some(other)).contains("does not"));
    assert_eq!(rig.by_admin("c2", create("web", 1)), "Accepted");
}

#[test]
fn a_token_works_in_its_namespaces_until_it_is_revoked_or_expires() {
    let mut rig = enforced();
    assert_eq!(rig.by_admin("t1", Verb::CreateToken { token: token_record(1, &["deployer@shop"]) }), "Accepted");
    assert_eq!(rig.by_admin("t2", Verb::CreateToken { token: token_record(2, &["releaser"]) }), "Accepted");
    assert_eq!(rig.by_admin("c0", in_namespace("bank.web", "bank")), "Accepted");
    let alice = || token(1).proof();
    assert_eq!(rig.by_token("c1", in_namespace("shop.web", "shop"), alice()), "Accepted");
    assert!(rig.by_token("c2", in_namespace("bank.api", "bank"), alice()).contains("Denied"));
    // A group of another namespace looks like one that does not exist.
    assert_eq!(rig.by_token("c3", remove("bank.web"), alice()), "Refused(GroupUnknown)");
    assert_eq!(rig.by_token("c4", remove("bank.none"), alice()), "Refused(GroupUnknown)");
    // A releaser sees the group, so the refusal says what is missing.
    assert!(rig.by_token("c5", remove("bank.web"), token(2).proof()).contains("right: \"deploy\""));
    let pause = |name: &str| Verb::Rollout { name: group(name), release: None, action: RolloutAction::Pause };
    assert!(!rig.by_token("c6", pause("bank.web"), token(2).proof()).contains("Denied"));
    let drift = Drift { from: node("a"), to: None, force: false, instance: None };
    assert!(rig.by_token("c7", Verb::Drift { drift, group: None }, alice()).contains("the cluster"));
    let forged = TokenProof { half: "00".repeat(32), ..alice() };
    assert!(rig.by_token("c8", remove("shop.web"), forged).contains("Unauthenticated"));
    assert_eq!(rig.by_admin("c9", Verb::RevokeToken { id: token(1).id }), "Accepted");
    assert!(rig.by_token("c10", remove("shop.web"), alice()).contains("Unauthenticated"));
    rig.now = 1_100_000;
    assert!(rig.by_token("c11", pause("bank.web"), token(2).proof()).contains("Unauthenticated"));
    assert_eq!(
        rig.by_admin("t3", Verb::CreateToken { token: token_record(1, &["viewer"]) }),
        "Refused(Unfit { reason: \"the token would have expired already\" })"
    );
    assert!(rig.by_admin("t4", Verb::RevokeToken { id: "none".to_owned() }).contains("TokenUnknown"));
}

#[test]
fn tokens_survive_a_takeover_and_apiservers_get_the_table_when_it_changed() {
    let mut rig = enforced();
    let before = rig.table(None).expect("a table");
    assert!(before.enforced && before.tokens.is_empty() && before.anonymous.len() == 1);
    assert_eq!(rig.table(Some(&before.version)), None);
    rig.by_admin("t1", Verb::CreateToken { token: token_record(1, &["viewer"]) });
    rig.elect();
    let table = rig.table(Some(&before.version)).expect("a new table");
    let stored = &table.tokens[0];
    assert_eq!((stored.by.as_str(), stored.created), ("tests", Timestamp::from_millis(1_000_000)));
    assert!(table.verify(&token(1).proof(), rig.time()).is_some());
}

#[test]
fn each_command_has_a_record_in_the_transaction_of_its_outcome() {
    let mut rig = enforced();
    rig.by_admin("t1", Verb::CreateToken { token: token_record(1, &["deployer@shop"]) });
    rig.clear();
    rig.by_token("c1", in_namespace("shop.web", "shop"), token(1).proof());
    let outcome = keys::outcome(&"c1".parse().expect("an id"));
    let with_outcome = rig.commits.iter().find(|commit| commit.writes.iter().any(|write| write.key() == outcome));
    let keys: Vec<&str> = with_outcome.expect("a commit").writes.iter().map(Write::key).collect();
    assert!(keys.contains(&keys::audit(2).as_str()) && keys.contains(&keys::AUDIT_HEAD), "{keys:?}");
    rig.by_token("c2", in_namespace("bank.web", "bank"), token(1).proof());
    rig.elect();
    rig.command("c3", create("web", 1));
    assert_eq!(rig.verified(), 4);
    let (_, records) = rig.audit();
    let row = |record: &AuditRecord| {
        let refused = record.refused.as_ref().map(|reason| reason.chars().take(14).collect::<String>());
        (record.principal.clone(), record.verb.clone(), record.object.clone(), refused)
    };
    let text = str::to_owned;
    assert_eq!(
        records.iter().map(row).collect::<Vec<_>>(),
        [
            (text(ADMIN), text("CreateToken"), token(1).id, None),
            (text("user-1"), text("CreateGroup"), text("shop.web"), None),
            (text("user-1"), text("CreateGroup"), text("bank.web"), Some(text("user-1 may not"))),
            (text(""), text("CreateGroup"), text("web"), Some(text("the command do"))),
        ]
    );
    assert_eq!((records[1].apiserver.as_str(), records[1].peer.as_str()), ("api-1", "10.1.2.3"));
    let drop = Input::DropAudit { chain: Chain::Commands, up_to: 3, hash: String::new(), signature: None };
    assert!(rig.core.on(drop, rig.time()).len() < 9);
}

#[test]
fn an_apiserver_reports_refused_requests_without_a_proof() {
    let mut rig = enforced();
    let row = RefusedRequests {
        peer: "10.1.2.9".to_owned(),
        principal: String::new(),
        route: "r".repeat(9_000),
        status: 401,
        count: 7,
    };
    let report = Verb::ReportRefused { requests: vec![row; 200] };
    assert_eq!(rig.by_admin("c1", Verb::Guard { working: true }), "Accepted");
    rig.clear();
    assert_eq!(rig.command_of("r1", report, None), "Accepted");
    assert_eq!((rig.verified(), rig.audit().1.len()), (1, 1), "the log of commands has no place for strangers");
    let (head, records) = rig.log(Chain::Refused);
    let mut verifier = Verifier::new(&head);
    records.iter().for_each(|record| verifier.take(record).expect("a whole log"));
    assert_eq!(verifier.end(&head), Ok(1));
    assert_eq!((records[0].verb.as_str(), records[0].apiserver.as_str()), ("ReportRefused", "api-1"));
    assert_eq!((records[0].requests.len(), records[0].requests[0].route.len()), (MOST_REFUSED, 200));
    assert!(rig.events.is_empty());
}

#[test]
fn a_record_that_shares_a_refused_commit_is_numbered_again() {
    let mut rig = enforced();
    let first = rig.delivery("c0", create("web", 1));
    let effects = rig.input(Input::Command(first));
    for number in 1..4 {
        rig.by_admin(&format!("c{number}"), Verb::Guard { working: number % 2 == 0 });
    }
    let commit = first_commit(effects).expect("a commit");
    let reason = "too large".to_owned();
    let effects = rig.input(Input::Committed { id: commit.id, result: CommitResult::Invalid { reason } });
    rig.perform(effects);
    assert_eq!(rig.verified(), rig.audit().1.len() as u64);
    assert!(rig.verified() >= 3);
}

#[test]
fn the_oldest_records_are_dropped_and_the_rest_can_be_verified() {
    let mut rig = enforced();
    for number in 0..DROPPED_AT_ONCE + 20 {
        rig.by_admin(&format!("c{number}"), Verb::Guard { working: true });
    }
    let hash = rig.audit().1[usize::try_from(DROPPED_AT_ONCE).expect("small") - 1].hash.clone();
    let drop = |up_to, hash: &str| {
        let (hash, signature) = (hash.to_owned(), Some("s1 x".to_owned()));
        Input::DropAudit { chain: Chain::Commands, up_to, hash, signature }
    };
    rig.run(drop(DROPPED_AT_ONCE, &hash));
    let (head, records) = rig.audit();
    assert_eq!((head.dropped, records.len()), (DROPPED_AT_ONCE, 20));
    assert_eq!((rig.verified(), head.signature.as_deref()), (DROPPED_AT_ONCE + 20, Some("s1 x")));
    // The same again, and more than there are records: nothing changes.
    rig.run(drop(DROPPED_AT_ONCE, &hash));
    rig.run(drop(DROPPED_AT_ONCE * 2, &hash));
    rig.by_admin("last", Verb::Guard { working: false });
    assert_eq!((rig.verified(), rig.audit().1.len()), (DROPPED_AT_ONCE + 21, 21));
}
