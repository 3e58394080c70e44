//! Join tokens, and nodes that join with them: they need no client token, and nothing else gets in.

use contract::access::join::{JoinAnswer, JoinCa, JoinRequest, JoinToken, signed_text};
use contract::command::Verb;
use fabric::bus_accounts;
use serde_json::{Value, json};

use super::{Person, client_at, records, request};
use crate::leader::Leader;
use crate::world::{Seen, World, seen};

async fn guarded(flags: &[&str]) -> (World, Leader, Person) {
    let root = Person::new("root", &["admin"]);
    let world = World::guarded(flags).await;
    let leader = Leader::enforcing(&world.bus, records(&[&root]), &[]).await;
    (world, leader, root)
}

async fn token(world: &World, root: &Person, body: &Value) -> JoinToken {
    let created = world.send(root, "POST", "/api/jointokens", Some(&body.to_string())).await;
    assert_eq!(created.status, 201, "{}", created.text);
    JoinToken::parse(created.json()["Token"].as_str().unwrap()).unwrap()
}

/// What `deployd-agent join` sends.
fn wanted(token: &JoinToken, name: &str) -> JoinRequest {
    let (seed, key) = bus_accounts::generate_key();
    let node = name.parse().unwrap();
    let signature = bus_accounts::sign(&seed, &signed_text(token.id(), &node, &key)).unwrap();
    let labels = [("unit", "b"), ("disk", "ssd")].map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    JoinRequest { token: token.reveal(), name: node, labels, key, signature }
}

async fn join(world: &World, wanted: &JoinRequest) -> Seen {
    world.post("/api/join", &serde_json::to_string(wanted).unwrap()).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_with_a_join_token_gets_what_its_agent_needs_and_the_command_carries_no_secret() {
    let (world, leader, root) = guarded(&[]).await;
    let labels = json!({"unit": "a"});
    let token =
        token(&world, &root, &json!({"Names": "rack-*", "Labels": labels, "Uses": 2, "ValidSeconds": 60})).await;
    assert_eq!(token.ca(), None, "this apiserver has no TLS");
    assert_eq!(world.get("/api/join").await.json(), serde_json::to_value(JoinCa::default()).unwrap());
    let listed = world.read(&root, "/api/jointokens").await;
    let row = &listed.json()[0];
    assert_eq!((&row["Id"], &row["Uses"], &row["By"]), (&json!(token.id()), &json!(2), &json!("root")));
    assert!(!listed.text.contains("Hash"), "{}", listed.text);

    let wanted = wanted(&token, "rack-1");
    let answer = join(&world, &wanted).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    let answer: JoinAnswer = serde_json::from_str(&answer.text).unwrap();
    assert_eq!((answer.nats, answer.ca), (vec![world.nats.url()], None));
    let expected = [("unit", "a"), ("disk", "ssd")].map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    assert_eq!((answer.node.labels, answer.node.order_keys.as_str()), (expected, "s1 AAAA\n"));
    assert_eq!(join(&world, &self::wanted(&token, "web-1")).await.status, 400, "the leader decides about names");

    let revoked = world.send(&root, "DELETE", &format!("/api/jointokens?id={}", token.id()), None).await;
    assert_eq!(revoked.status, 202, "{}", revoked.text);
    assert_eq!(join(&world, &wanted).await.status, 401);
    let commands = leader.stop().await;
    assert!(commands.iter().any(|command| matches!(command.verb, Verb::Join { .. })));
    let secret = token.reveal();
    let secret = secret.split('_').nth(2).unwrap();
    assert!(!serde_json::to_string(&commands).unwrap().contains(secret));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_token_or_a_key_of_another_process_sends_no_command() {
    let (world, leader, root) = guarded(&[]).await;
    let token = token(&world, &root, &json!({"Names": "*"})).await;
    let good = wanted(&token, "rack-1");
    let (_, other) = bus_accounts::generate_key();
    let foreign = JoinRequest { key: other, ..good.clone() };
    let renamed = JoinRequest { name: "rack-2".parse().unwrap(), ..good.clone() };
    for (request, status) in [(&foreign, 400), (&renamed, 400)] {
        assert_eq!(join(&world, request).await.status, status, "{request:?}");
    }
    let text = token.reveal();
    let forged = format!("{}{}_-", &text[..text.len() - 3], if text.ends_with("0_-") { "1" } else { "0" });
    for wrong in [forged.as_str(), "ddj_1_2_-", "", &root.token.reveal()] {
        assert_eq!(join(&world, &JoinRequest { token: wrong.to_owned(), ..good.clone() }).await.status, 401, "{wrong}");
    }
    assert_eq!(world.post("/api/join", r#"{"Token": "ddj_1_2_-"}"#).await.status, 400);
    let commands = leader.stop().await;
    assert!(!commands.iter().any(|command| matches!(command.verb, Verb::Join { .. })), "{commands:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_join_tokens_are_limited_by_address_before_a_scheduler_is_asked() {
    let (world, leader, _root) = guarded(&[]).await;
    let client = client_at(9, 1);
    let body = serde_json::to_string(&wanted(
        &JoinToken::new(contract::access::token::Token::from_random(&[1; 40]), None),
        "a",
    ));
    let body = body.unwrap();
    let status =
        async || seen(request(&client, "POST", world.at("/api/join"), Some(&body)).send().await.unwrap()).await;
    for _ in 0..5 {
        assert_eq!(status().await.status, 401);
    }
    // Nothing answers a query from now on.
    leader.stop().await;
    let refused = status().await;
    assert!(refused.status == 429 && refused.retry_after, "{}", refused.text);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_join_token_is_checked_before_it_is_created() {
    let (world, _leader, root) = guarded(&[]).await;
    for (body, names) in [
        (json!({"Names": "a*b"}), "Names"),
        (json!({"Names": "*", "Uses": 0}), "Uses"),
        (json!({"Names": "*", "ValidSeconds": 31 * 24 * 3600}), "30 days"),
        (json!({"Names": "*", "Labels": {"a": "b,c=d"}}), "labels"),
        (json!({"Name": "*"}), "Names"),
    ] {
        let refused = world.send(&root, "POST", "/api/jointokens", Some(&body.to_string())).await;
        assert!(refused.status == 400 && refused.message().contains(names), "{body}: {}", refused.text);
    }
}
