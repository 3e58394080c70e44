//! Messages and records about access.

use std::collections::{BTreeMap, BTreeSet};

use contract::access::audit::{AuditHead, AuditPage, AuditRecord, RefusedRequests};
use contract::access::table::{AccessPatch, AccessRecord, AccessTable, AccessView, CreatedToken, NewToken, TokenView};
use contract::access::token::{Credentials, Proof, TokenProof, TokenRecord};
use contract::access::{AnonymousBinding, Binding};
use contract::command::{Command, Decision, Refusal, Verb};
use contract::query::{Answer, Query};

use crate::golden::check;
use crate::samples;

const ID: &str = "0001020304050607";

fn bindings() -> Vec<Binding> {
    vec!["deployer@shop".parse().expect("a binding"), "viewer@team-*".parse().expect("a binding")]
}

fn anonymous() -> AnonymousBinding {
    "operator@* from 10.1.0.0/16".parse().expect("a binding")
}

fn proof() -> TokenProof {
    TokenProof { id: ID.to_owned(), half: "ab".repeat(32) }
}

fn record() -> TokenRecord {
    TokenRecord {
        id: ID.to_owned(),
        hash: proof().hash(),
        principal: "alice".to_owned(),
        bindings: bindings(),
        by: "root".to_owned(),
        created: samples::at(1),
        expires: samples::at(90),
    }
}

fn refused() -> RefusedRequests {
    let (peer, principal) = ("10.1.2.9".to_owned(), "bob".to_owned());
    RefusedRequests { peer, principal, route: "GET /api/backup".to_owned(), status: 403, count: 3 }
}

fn audited() -> AuditRecord {
    let record = AuditRecord {
        number: 7,
        at: samples::at(3),
        principal: "alice".to_owned(),
        token: Some(ID.to_owned()),
        said_by: "alice@laptop".to_owned(),
        peer: "10.1.2.3".to_owned(),
        apiserver: "apiserver-1".to_owned(),
        verb: "CreateGroup".to_owned(),
        object: "shop.web".to_owned(),
        namespace: "shop".to_owned(),
        refused: Some("PodGroup has already existed".to_owned()),
        requests: vec![refused()],
        command: "01JCN5XR9Q0000000000000000".parse().expect("an id"),
        details: String::new(),
        later: BTreeMap::new(),
        hash: String::new(),
    };
    AuditRecord { hash: record.hash_after("before"), ..record }
}

#[test]
fn golden_access_in_commands() {
    let credentials = |proof| {
        Some(Box::new(Credentials {
            apiserver: "apiserver-1".to_owned(),
            peer: "10.1.2.3".to_owned(),
            proof: Some(proof),
        }))
    };
    let command = samples::command(Verb::RunEngine { running: true });
    let with = |proof| Command { credentials: credentials(proof), ..command.clone() };
    check("command-with-token", &with(Proof::Token(proof())));
    check("command-anonymous", &with(Proof::Anonymous(anonymous())));
    check("command-create-token", &samples::command(Verb::CreateToken { token: Box::new(record()) }));
    check("command-revoke-token", &samples::command(Verb::RevokeToken { id: ID.to_owned() }));
    check("command-enforce-access", &samples::command(Verb::EnforceAccess { enforced: true }));
    check("command-report-refused", &samples::command(Verb::ReportRefused { requests: vec![refused()] }));
    let denied =
        Refusal::Denied { principal: "alice".to_owned(), right: "deploy".to_owned(), object: "shop.web".to_owned() };
    for (name, refusal) in [
        ("denied", denied),
        ("unauthenticated", Refusal::Unauthenticated { reason: "the token has expired".to_owned() }),
        ("token-unknown", Refusal::TokenUnknown { id: ID.to_owned() }),
    ] {
        check(&format!("outcome-{name}"), &samples::outcome(Decision::Refused(refusal)));
    }
}

#[test]
fn golden_access_in_the_store_and_in_answers() {
    let enforced = AccessRecord { enforced: true, since: samples::at(1), callbacks: BTreeSet::new() };
    check("record-access", &enforced);
    let callbacks = BTreeSet::from(["http://10.1.0.5/hook".to_owned()]);
    check("record-access-open", &AccessRecord { enforced: false, callbacks, ..enforced });
    check("record-token", &record());
    let head = AuditHead {
        last: 7,
        hash: audited().hash,
        dropped: 5,
        dropped_hash: "before".to_owned(),
        signature: Some("s1 c2ln".to_owned()),
    };
    check("record-audit", &audited());
    check("record-audit-head", &head);
    check("query-access", &Query::Access { known: Some("0f".to_owned()) });
    check("query-audit", &Query::Audit { after: 6, limit: 100, refused: false });
    check("query-audit-refused", &Query::Audit { after: 6, limit: 100, refused: true });
    let (version, tokens) = ("0f".to_owned(), vec![record()]);
    let table = AccessTable { version, enforced: true, tokens, anonymous: vec![anonymous()], as_of: None };
    check("answer-access", &Answer::Access(Some(Box::new(table))));
    let page = AuditPage { head, records: vec![audited()], next: Some(7) };
    check("answer-audit", &Answer::Audit(Ok(Box::new(page))));
}

#[test]
fn golden_access_in_the_api() {
    check(
        "http-new-token",
        &NewToken { principal: "alice".to_owned(), bindings: bindings(), valid_seconds: Some(3600) },
    );
    check("http-created-token", &CreatedToken { token: "ddt_0_1".to_owned(), view: TokenView::from(&record()) });
    let (principal, anonymous) = ("alice".to_owned(), vec![anonymous()]);
    check("http-access", &AccessView { enforced: true, principal, bindings: bindings(), anonymous });
    check("http-access-patch", &AccessPatch { enforced: true });
}
