//! Nodes that join with a token.

use std::collections::BTreeMap;

use contract::access::audit::AuditRecord;
use contract::access::join::{Join, JoinToken, JoinTokenRecord, JoinedNode, NodeKeyRecord};
use contract::access::token::Token;
use contract::node::NodeChange;
use testkit::node::FakeNode;

use super::*;

fn token(number: u8) -> JoinToken {
    JoinToken::new(Token::from_random(&[number; 40]), None)
}

fn record(number: u8, names: &str, uses: u32) -> JoinTokenRecord {
    JoinTokenRecord {
        id: token(number).id().to_owned(),
        hash: token(number).proof().hash(),
        names: names.to_owned(),
        labels: BTreeMap::from([("unit".to_owned(), "cell-a".to_owned())]),
        uses,
        replace: false,
        by: "root".to_owned(),
        created: Timestamp::NEVER,
        expires: Timestamp::from_millis(1_600_000),
    }
}

fn key(letter: char) -> String {
    format!("U{}", letter.to_string().repeat(55))
}

/// A cluster of `a`, which accepts no other name.
fn closed() -> Rig {
    rig_with(
        Settings { accepted_nodes: vec!["a".to_owned()], order_keys: "s1 AAAA\n".to_owned(), ..Settings::default() },
        &["a"],
    )
}

impl Rig {
    fn create_token(&mut self, id: &str, token: JoinTokenRecord) -> String {
        self.command(id, Verb::CreateJoinToken { token: Box::new(token) })
    }
    fn join(&mut self, id: &str, number: u8, name: &str, letter: char) -> String {
        let labels = BTreeMap::from([("unit", "other"), ("disk", "ssd")].map(|(k, v)| (k.to_owned(), v.to_owned())));
        let join = Join { proof: token(number).proof(), node: node(name), labels, key: key(letter) };
        self.command(id, Verb::Join { join: Box::new(join) })
    }
    fn uses(&mut self, number: u8) -> Option<u32> {
        let Answer::JoinTokens(tokens) = self.query(Query::JoinTokens) else { panic!("no tokens") };
        tokens.iter().find(|record| record.id == token(number).id()).map(|record| record.uses)
    }
    fn key_of(&self, name: &str) -> Option<String> {
        self.store.read::<NodeKeyRecord>(&keys::node_key(&node(name))).map(|record| record.key)
    }
}

#[test]
fn a_node_joins_with_its_name_uses_and_key_and_gets_work_without_approval() {
    let mut rig = closed();
    assert_eq!(rig.create_token("t1", record(1, "rack-3-*", 2)), "Accepted");
    assert!(rig.join("j1", 1, "web-1", 'A').contains("rack-3-*"));
    assert_eq!(rig.join("j2", 1, "rack-3-1", 'A'), "Accepted");
    assert_eq!((rig.uses(1), rig.key_of("rack-3-1")), (Some(1), Some(key('A'))));
    assert_eq!(rig.join("j3", 1, "rack-3-1", 'A'), "Accepted", "the same key again");
    assert_eq!(rig.uses(1), Some(1));
    let labels = BTreeMap::from([("unit", "cell-a"), ("disk", "ssd")].map(|(k, v)| (k.to_owned(), v.to_owned())));
    let Answer::Joined(Some(joined)) = rig.query(Query::Joined { node: node("rack-3-1") }) else { panic!("joined") };
    assert_eq!((&joined.labels, joined.order_keys.as_str()), (&labels, "s1 AAAA\n"));
    assert_eq!(rig.query(Query::Joined { node: node("a") }), Answer::Joined(None::<Box<JoinedNode>>));

    rig.elect();
    rig.agents.insert(node("rack-3-1"), FakeNode::default());
    rig.advance(3);
    assert!(rig.nodes().iter().all(|view| !view.pending) && rig.nodes().len() == 2);
    assert_eq!(rig.join("j4", 1, "rack-3-2", 'B'), "Accepted");
    assert!(rig.join("j5", 1, "rack-3-3", 'C').contains("no use left"));
    assert_eq!(rig.key_of("rack-3-3"), None);
}

#[test]
fn a_wrong_expired_or_revoked_token_lets_no_node_join() {
    let mut rig = closed();
    rig.create_token("t1", record(1, "*", 9));
    assert!(rig.join("j1", 2, "b", 'A').contains("Unauthenticated"));
    let mut forged = token(1).proof();
    forged.half = "00".repeat(32);
    let join = Join { proof: forged, node: node("b"), labels: BTreeMap::new(), key: key('A') };
    assert!(rig.command("j2", Verb::Join { join: Box::new(join) }).contains("Unauthenticated"));
    let wrong_key = Join { proof: token(1).proof(), node: node("b"), labels: BTreeMap::new(), key: "x\"".to_owned() };
    assert!(rig.command("j3", Verb::Join { join: Box::new(wrong_key) }).contains("Malformed"));
    assert_eq!(rig.command("r1", Verb::RevokeJoinToken { id: token(1).id().to_owned() }), "Accepted");
    assert!(rig.join("j4", 1, "b", 'A').contains("Unauthenticated"));
    assert!(rig.command("r2", Verb::RevokeJoinToken { id: token(1).id().to_owned() }).contains("JoinTokenUnknown"));
    rig.create_token("t2", record(2, "*", 9));
    rig.now = 1_600_000;
    assert!(rig.join("j5", 2, "b", 'A').contains("Unauthenticated"));
    assert!(rig.create_token("t3", record(3, "*", 9)).contains("expired already"));
    assert_eq!(rig.key_of("b"), None);
}

#[test]
fn a_known_name_with_another_key_needs_a_token_that_replaces_and_a_key_belongs_to_one_node() {
    let mut rig = closed();
    rig.create_token("t1", record(1, "*", 9));
    assert!(rig.join("j1", 1, "a", 'A').contains("known with another key"), "it reported before there were keys");
    assert_eq!(rig.join("j2", 1, "b", 'B'), "Accepted");
    assert!(rig.join("j3", 1, "b", 'C').contains("known with another key"));
    assert!(rig.join("j4", 1, "c", 'B').contains("b has this key"));
    rig.create_token("t2", JoinTokenRecord { replace: true, ..record(2, "*", 9) });
    assert_eq!(rig.join("j5", 2, "b", 'C'), "Accepted");
    assert_eq!(rig.join("j6", 2, "a", 'A'), "Accepted");
    assert_eq!((rig.key_of("a"), rig.key_of("b"), rig.uses(2)), (Some(key('A')), Some(key('C')), Some(7)));
}

#[test]
fn removing_a_node_deletes_its_key_and_its_token_although_it_reports() {
    let mut rig = closed();
    rig.create_token("t1", record(1, "b", 2));
    rig.join("j1", 1, "b", 'B');
    rig.agents.insert(node("b"), FakeNode::default());
    rig.advance(3);
    let remove = || Verb::Node { node: node("b"), change: NodeChange::Remove { force: false } };
    assert_eq!(rig.command("r1", remove()), "Accepted");
    assert_eq!(rig.key_of("b"), None);
    rig.advance(30);
    let pending: Vec<bool> =
        rig.nodes().iter().filter(|view| view.name == node("b")).map(|view| view.pending).collect();
    assert_eq!(pending, [true], "it still reports, and waits");
    assert!(!rig.store.contains_key(&keys::node(&node("b"))));
    assert!(rig.join("j2", 1, "b", 'B').contains("Unauthenticated"), "its token has a use left and is revoked");
    rig.create_token("t2", record(2, "b", 1));
    assert_eq!(rig.join("j3", 2, "b", 'C'), "Accepted", "a removed name is free");
    rig.advance(5);
    assert!(rig.nodes().iter().all(|view| !view.pending));
}

#[test]
fn removing_a_node_with_instances_needs_force_and_they_are_placed_elsewhere() {
    let mut rig = closed();
    rig.create_token("t1", record(1, "b", 1));
    rig.join("j1", 1, "b", 'B');
    rig.agents.insert(node("b"), FakeNode::default());
    rig.advance(3);
    rig.command("c1", create("web", 2));
    rig.advance(3);
    assert_eq!(rig.places("web"), [("a".to_owned(), 0), ("b".to_owned(), 0)]);
    let remove = |force| Verb::Node { node: node("b"), change: NodeChange::Remove { force } };
    assert!(rig.command("r1", remove(false)).contains("NodeBusy"));
    assert_eq!(rig.key_of("b"), Some(key('B')));
    assert_eq!(rig.command("r2", remove(true)), "Accepted");
    rig.advance(60);
    assert_eq!(rig.places("web"), [("a".to_owned(), 0), ("a".to_owned(), 1)]);
    assert_eq!(rig.key_of("b"), None);
}

#[test]
fn a_node_that_joined_and_never_started_can_be_removed() {
    let mut rig = closed();
    rig.create_token("t1", record(1, "b", 1));
    rig.join("j1", 1, "b", 'B');
    let remove = Verb::Node { node: node("b"), change: NodeChange::Remove { force: false } };
    assert_eq!((rig.command("r1", remove), rig.key_of("b")), ("Accepted".to_owned(), None));
}

#[test]
fn a_join_is_audited_under_the_id_of_its_token() {
    let mut rig = closed();
    rig.create_token("t1", record(1, "b", 1));
    rig.join("j1", 1, "b", 'B');
    let record: AuditRecord = rig.store.read(&keys::audit(2)).expect("a record");
    let id = token(1).id().to_owned();
    assert_eq!((record.principal, record.token), (format!("join:{id}"), Some(id)));
    assert_eq!((record.verb.as_str(), record.object.as_str(), record.refused), ("Join", "b", None));
}

#[test]
fn a_node_that_was_removed_with_its_key_cannot_be_approved_and_must_join_again() {
    let mut rig = closed();
    rig.create_token("t1", record(1, "b", 1));
    rig.join("j1", 1, "b", 'B');
    rig.agents.insert(node("b"), FakeNode::default());
    rig.advance(3);
    rig.command("c1", create("web", 2));
    rig.advance(3);
    let change = |change| Verb::Node { node: node("b"), change };
    // Its instance has no other place, so the node is not forgotten yet.
    let cordon = NodeChange::Cordon { why: String::new() };
    assert_eq!(rig.command("k1", Verb::Node { node: node("a"), change: cordon }), "Accepted");
    assert_eq!(rig.command("r1", change(NodeChange::Remove { force: true })), "Accepted");
    let refused = rig.command("a1", change(NodeChange::Approve));
    assert!(refused.contains("join again") && refused.contains("deployctl node token create"), "{refused}");
}
