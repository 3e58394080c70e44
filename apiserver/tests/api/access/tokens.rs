//! Tokens: created, used, revoked, expired, wrong.

use std::time::{Duration, Instant};

use contract::access::audit::{AuditPage, Verifier};
use contract::access::token::Proof;
use contract::time::Timestamp;
use serde_json::{Value, json};

use super::{Person, client_at, records, request};
use crate::leader::Leader;
use crate::world::{World, eventually, seen};

/// What the design promises.
const REVOKED_WITHIN: Duration = Duration::from_secs(5);

async fn guarded(people: &[&Person]) -> (World, Leader) {
    let world = World::guarded(&[]).await;
    let leader = Leader::enforcing(&world.bus, records(people), &[]).await;
    (world, leader)
}

/// The status of a request through another apiserver.
async fn status_at(world: &World, base: &str, header: &str, path: &str) -> u16 {
    let request = request(&world.client, "GET", format!("{base}{path}"), None);
    request.header("Authorization", header).send().await.unwrap().status().as_u16()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_works_everywhere_at_once_and_is_refused_within_five_seconds_of_its_revocation() {
    let root = Person::new("root", &["admin"]);
    let (world, leader) = guarded(&[&root]).await;
    let other = world.another_apiserver(&[]).await;
    assert_eq!(status_at(&world, &other, &root.header(), "/api/nodes").await, 202, "the other one has read the tokens");
    let body = r#"{"Principal": "alice", "Bindings": ["deployer@shop", "viewer@team-*"], "ValidSeconds": 3600}"#;
    let created = world.send(&root, "POST", "/api/tokens", Some(body)).await;
    assert_eq!(created.status, 201, "{}", created.text);
    let created = created.json();
    let (id, header) =
        (created["Id"].as_str().unwrap().to_owned(), format!("Bearer {}", created["Token"].as_str().unwrap()));
    assert_eq!((&created["Principal"], &created["By"]), (&json!("alice"), &json!("root")));
    let third = world.another_apiserver(&[]).await;
    for base in [&other, &third] {
        assert_eq!(status_at(&world, base, &header, "/api/nodes").await, 202, "looked up at once");
    }
    let lower = header.replace("Bearer", "bearer");
    assert_eq!(world.send_with(&lower, "GET", "/api/nodes", None).await.status, 202);
    let listed = world.read(&root, "/api/tokens").await;
    assert!(listed.text.contains(&id) && !listed.text.contains("Hash"), "{}", listed.text);
    world.create(&root, "shop", "shop.a").await;

    let revoked = world.send(&root, "DELETE", &format!("/api/tokens?id={id}"), None).await;
    assert_eq!(revoked.status, 202, "{}", revoked.text);
    let since = Instant::now();
    assert_eq!(world.send_with(&header, "GET", "/api/nodes", None).await.status, 401, "here at once");
    let change = request(&world.client, "DELETE", format!("{other}/api/podgroups?name=shop.a"), None);
    let change = seen(change.header("Authorization", &header).send().await.unwrap()).await;
    assert_eq!(change.status, 401, "the leader refuses changes at once: {}", change.text);
    assert_eq!(status_at(&world, &other, &header, "/api/nodes").await, 401, "the refusal tells the other one");
    eventually("a third apiserver refuses it", async || {
        (status_at(&world, &third, &header, "/api/nodes").await == 401).then_some(())
    })
    .await;
    assert!(since.elapsed() < REVOKED_WITHIN, "{:?}", since.elapsed());
    assert_eq!(world.send(&root, "DELETE", &format!("/api/tokens?id={id}"), None).await.status, 404);
    drop(leader);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_with_a_wrong_token_is_refused_with_the_remedy_and_gets_no_rights_of_its_address() {
    let mut expired = Person::new("expired", &["admin"]);
    expired.record.expires = Timestamp::from_millis(2);
    let mut wrong = Person::new("wrong", &["admin"]);
    wrong.record.hash = "0".repeat(64);
    let unknown = Person::new("unknown", &["admin"]);
    let world = World::guarded(&["--anonymous", "admin from any"]).await;
    let _leader = Leader::enforcing(&world.bus, records(&[&expired, &wrong]), &["admin from any"]).await;
    assert_eq!(world.get("/api/nodes").await.status, 202, "without a token the address counts");
    for (header, told) in [
        (expired.header(), "wrong or has expired"),
        (wrong.header(), "wrong or has expired"),
        (unknown.header(), "unknown or was revoked"),
        ("Basic YTpi".to_owned(), "holds no token"),
        ("Bearer ddt_1_2".to_owned(), "holds no token"),
    ] {
        let request = request(&world.client, "GET", world.at("/api/nodes"), None).header("Authorization", &header);
        let response = request.send().await.unwrap();
        assert_eq!(response.headers().get("www-authenticate").unwrap(), "Bearer");
        let seen = seen(response).await;
        assert_eq!(seen.status, 401, "{header}");
        let message = seen.message();
        assert!(message.contains(told) && message.contains("deployctl login"), "{message}");
    }
    let twice = request(&world.client, "GET", world.at("/api/nodes"), None);
    let twice = twice.header("Authorization", "Bearer a").header("Authorization", "Bearer b");
    assert_eq!(seen(twice.send().await.unwrap()).await.status, 400);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_tokens_are_limited_by_address_and_a_valid_one_always_works() {
    let (root, unknown) = (Person::new("root", &["admin"]), Person::new("unknown", &[]));
    let (world, _leader) = guarded(&[&root]).await;
    let (here, elsewhere) = (client_at(1, 1), client_at(1, 2));
    let status = async |client: &reqwest::Client, header: &str| {
        let request = request(client, "GET", world.at("/api/nodes"), None).header("Authorization", header);
        seen(request.send().await.unwrap()).await
    };
    for _ in 0..5 {
        assert_eq!(status(&here, "Bearer no").await.status, 401);
    }
    for header in ["Bearer no".to_owned(), unknown.header()] {
        let refused = status(&here, &header).await;
        assert!(refused.status == 429 && refused.retry_after, "{}", refused.text);
    }
    assert_eq!(status(&here, &root.header()).await.status, 202);
    assert_eq!(status(&elsewhere, "Bearer no").await.status, 401, "another address has its own limit");
    assert_eq!(here.get(world.at("/healthz")).send().await.unwrap().status(), 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_that_could_not_be_used_or_shown_is_not_created() {
    let (root, operator) = (Person::new("root", &["admin"]), Person::new("op", &["operator"]));
    let (world, leader) = guarded(&[&root, &operator]).await;
    let good = r#"{"Principal": "alice", "Bindings": ["viewer"]}"#;
    for (body, told) in [
        ("{}", "the body should be JSON"),
        (r#"{"Principal": "alice", "Bindings": ["king"]}"#, "\"king\" is not a role"),
        (r#"{"Principal": "alice", "Bindings": []}"#, "at least one binding"),
        (r#"{"Principal": "a b", "Bindings": ["viewer"]}"#, "plain characters"),
        (r#"{"Principal": "alice", "Bindings": ["viewer"], "ValidSeconds": 0}"#, "ValidSeconds: should be 1 to"),
        (r#"{"Principal": "alice", "Bindings": ["viewer"], "ValidSeconds": 400000000}"#, "10 years"),
        (r#"{"Principal": "alice", "Bindings": ["viewer"], "Secret": "x"}"#, "unknown field"),
    ] {
        let seen = world.send(&root, "POST", "/api/tokens", Some(body)).await;
        assert!(seen.status == 400 && seen.message().contains(told), "{body}: {}", seen.text);
    }
    let again = request(&world.client, "POST", world.at("/api/tokens"), Some(good));
    let again = again.header("Authorization", root.header()).header("Idempotency-Key", "a");
    let again = seen(again.send().await.unwrap()).await;
    assert!(again.status == 400 && again.message().contains("Idempotency-Key"), "{}", again.text);
    let refused = world.send(&operator, "POST", "/api/tokens", Some(good)).await;
    assert_eq!((refused.status, refused.message().starts_with("op may not administer /api/tokens")), (403, true));
    assert_eq!(world.send(&root, "DELETE", "/api/tokens", None).await.status, 400);
    assert!(leader.stop().await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_usual_token_is_valid_for_ninety_days() {
    let root = Person::new("root", &["admin"]);
    let (world, _leader) = guarded(&[&root]).await;
    let body = r#"{"Principal": "alice", "Bindings": ["viewer"]}"#;
    let created = world.send(&root, "POST", "/api/tokens", Some(body)).await.json();
    let time = |field: &str| Timestamp::parse(created[field].as_str().unwrap()).unwrap();
    assert_eq!(time("Expires").since(time("Created")), Duration::from_secs(90 * 24 * 60 * 60));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_carries_the_proof_and_the_name_of_its_token() {
    let alice = Person::new("alice", &["deployer@shop"]);
    let (world, leader) = guarded(&[&alice]).await;
    let create = request(&world.client, "POST", world.at("/api/podgroups"), Some(&super::group("shop", "shop.a")));
    let create = create.header("Authorization", alice.header()).header("X-Deployd-User", "mallory");
    assert_eq!(create.send().await.unwrap().status(), 202);
    let commands = leader.stop().await;
    let credentials = commands[0].credentials.as_ref().unwrap();
    assert_eq!((commands[0].by.as_str(), credentials.apiserver.as_str()), ("alice", "api-1"));
    assert_eq!(credentials.peer, "127.0.0.1");
    assert_eq!(credentials.proof, Some(Proof::Token(alice.token.proof())));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_learn_what_they_may_and_admins_switch_access_control() {
    let (root, viewer) = (Person::new("root", &["admin"]), Person::new("viewer", &["viewer@shop"]));
    let world = World::guarded(&["--anonymous", "monitor from 127.0.3.0/24"]).await;
    let _leader = Leader::enforcing(&world.bus, records(&[&root, &viewer]), &[]).await;
    let view = |enforced: bool, name: &str, binding: &str| json!({"Enforced": enforced, "Principal": name, "Bindings": [binding]});
    assert_eq!(world.read(&viewer, "/api/access").await.json(), view(true, "viewer", "viewer@shop"));
    let mut admin: Value = view(true, "root", "admin@*");
    admin["Anonymous"] = json!(["monitor@* from 127.0.3.0/24"]);
    assert_eq!(world.read(&root, "/api/access").await.json(), admin);
    let switch = async |body: &str| world.send(&root, "PATCH", "/api/access", Some(body)).await;
    assert_eq!(switch(r#"{"Enforced": "no"}"#).await.status, 400);
    assert_eq!(switch(r#"{"Enforced": false}"#).await.status, 202);
    assert_eq!(world.get("/api/access").await.json()["Principal"], "anonymous", "open from now on");
    assert_eq!(world.read(&viewer, "/api/tokens").await.status, 403, "a token keeps its rights");
    assert_eq!(switch(r#"{"Enforced": true}"#).await.status, 202);
    assert_eq!(world.get("/api/access").await.status, 401);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_admin_reads_the_audit_log_page_by_page_and_verifies_it() {
    let root = Person::new("root", &["admin"]);
    let (world, _leader) = guarded(&[&root]).await;
    let page = async |query: &str| -> AuditPage {
        let seen = world.read(&root, &format!("/api/audit{query}")).await;
        assert_eq!(seen.status, 200, "{}", seen.text);
        serde_json::from_value(seen.json()).unwrap()
    };
    let first = page("?limit=2").await;
    let second = page(&format!("?limit=2&after={}", first.next.unwrap())).await;
    let mut verifier = Verifier::new(&first.head);
    for record in first.records.iter().chain(&second.records) {
        verifier.take(record).unwrap();
    }
    assert_eq!((verifier.end(&first.head), second.next), (Ok(3), None));
    for wrong in ["limit=0", "limit=1001", "limit=x", "after=-1"] {
        assert_eq!(world.read(&root, &format!("/api/audit?{wrong}")).await.status, 400, "{wrong}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idempotency_key_of_another_principal_is_refused_and_shows_no_outcome() {
    let (alice, bob) = (Person::new("alice", &["deployer@shop"]), Person::new("bob", &["deployer@bank"]));
    let (world, _leader) = guarded(&[&alice, &bob]).await;
    world.create(&alice, "shop", "shop.k").await;
    let sent_by = async |person: &Person| {
        let path = world.at("/api/podgroups?name=shop.k&cmd=replica&num_instances=2");
        let request = request(&world.client, "PATCH", path, None).header("Idempotency-Key", "once");
        seen(request.header("Authorization", person.header()).send().await.unwrap()).await
    };
    assert_eq!(sent_by(&alice).await.status, 202);
    let foreign = sent_by(&bob).await;
    assert!(
        foreign.status == 409 && foreign.message().contains("another client"),
        "{} {}",
        foreign.status,
        foreign.text
    );
    assert_eq!(sent_by(&alice).await.status, 202, "her own key");
}
