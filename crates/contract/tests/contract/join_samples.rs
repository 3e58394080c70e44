//! Golden files of join tokens and of nodes that join.

use std::collections::BTreeMap;

use contract::access::join::{
    CreatedJoinToken, Join, JoinAnswer, JoinCa, JoinRequest, JoinTokenRecord, JoinTokenView, JoinedNode, NewJoinToken,
    NodeKeyRecord,
};
use contract::access::token::TokenProof;
use contract::command::{Decision, Refusal, Verb};
use contract::name::NodeName;
use contract::query::{Answer, Query};

use crate::golden::check;
use crate::samples;

const ID: &str = "0001020304050607";

fn node() -> NodeName {
    "rack-3-1".parse().expect("a name")
}

fn labels() -> BTreeMap<String, String> {
    BTreeMap::from([("unit".to_owned(), "cell-a".to_owned())])
}

fn proof() -> TokenProof {
    TokenProof { id: ID.to_owned(), half: "ab".repeat(32) }
}

fn key() -> String {
    format!("U{}", "A2".repeat(27) + "A")
}

fn record() -> JoinTokenRecord {
    JoinTokenRecord {
        id: ID.to_owned(),
        hash: proof().hash(),
        names: "rack-3-*".to_owned(),
        labels: labels(),
        uses: 20,
        replace: true,
        by: "root".to_owned(),
        created: samples::at(1),
        expires: samples::at(60),
    }
}

fn joined() -> JoinedNode {
    JoinedNode { labels: labels(), order_keys: "s1 AAAA\n".to_owned(), stores: vec!["01JCK0".to_owned()] }
}

#[test]
fn golden_joins_in_commands() {
    check("command-create-join-token", &samples::command(Verb::CreateJoinToken { token: Box::new(record()) }));
    check("command-revoke-join-token", &samples::command(Verb::RevokeJoinToken { id: ID.to_owned() }));
    let join = Join { proof: proof(), node: node(), labels: labels(), key: key() };
    check("command-join", &samples::command(Verb::Join { join: Box::new(join) }));
    let unknown = Refusal::JoinTokenUnknown { id: ID.to_owned() };
    check("outcome-join-token-unknown", &samples::outcome(Decision::Refused(unknown)));
}

#[test]
fn golden_joins_in_the_store_and_in_answers() {
    check("record-join-token", &record());
    let key = NodeKeyRecord { key: key(), labels: labels(), token: ID.to_owned(), at: samples::at(3) };
    check("record-node-key", &key);
    check("query-join-tokens", &Query::JoinTokens);
    check("query-joined", &Query::Joined { node: node() });
    check("answer-join-tokens", &Answer::JoinTokens(vec![record()]));
    check("answer-joined", &Answer::Joined(Some(Box::new(joined()))));
}

#[test]
fn golden_joins_in_the_api() {
    let new = NewJoinToken {
        names: "rack-3-*".to_owned(),
        labels: labels(),
        uses: Some(20),
        valid_seconds: Some(3600),
        replace: true,
    };
    check("http-new-join-token", &new);
    let view = JoinTokenView::from(&record());
    check("http-created-join-token", &CreatedJoinToken { token: "ddj_0_1_-".to_owned(), view });
    check("http-join-ca", &JoinCa { ca: Some("PEM".to_owned()) });
    let (token, signature) = ("ddj_0_1_-".to_owned(), "c2ln".to_owned());
    check("http-join", &JoinRequest { token, name: node(), labels: labels(), key: key(), signature });
    let nats = vec!["nats://10.0.0.1:4222".to_owned()];
    check("http-joined", &JoinAnswer { nats, ca: Some("PEM".to_owned()), node: joined() });
}
