//! `deployctl token`: what is sent, what is shown once, and what is shown in lists.

use serde_json::{Value, json};

use crate::login::token;
use crate::server::{NEVER, Server};

const CREATE: &str = "POST /api/tokens";
const ID: &str = "0101010101010101";

fn view() -> Value {
    json!({"Id": ID, "Principal": "alice", "Bindings": ["deployer@shop"], "By": "root",
        "Created": "2026-01-01T00:00:00Z", "Expires": "2026-04-01T00:00:00Z"})
}

fn created() -> Value {
    let mut created = view();
    created["Token"] = json!(token(1));
    created
}

#[tokio::test]
async fn a_new_token_is_printed_alone_on_standard_output() {
    let server = Server::start(&[(CREATE, 201, created())]).await;
    let words =
        ["token", "create", "alice", "--role", "deployer", "--role", "viewer@*", "--namespace", "shop", "--ttl", "30d"];
    let ended = server.run(&words).await;
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), format!("{}\n", token(1)).as_str()), "{ended:?}");
    assert!(ended.err.contains(ID) && ended.err.contains("only time") && !ended.err.contains(&token(1)), "{ended:?}");
    let (line, body) = server.changes().remove(0);
    let sent: Value = serde_json::from_str(&body).expect("JSON");
    let wanted = json!({"Principal": "alice", "Bindings": ["deployer@shop", "viewer@*"], "ValidSeconds": 2_592_000});
    assert_eq!((line.as_str(), sent), (CREATE, wanted));
    assert!(!ended.err.contains("no scheduler"), "{ended:?}");
    assert_eq!(server.keys(), [""; 0], "a repeated request could not show the secret again");
}

#[tokio::test]
async fn a_new_token_is_written_to_a_file_that_only_its_owner_can_read() {
    use std::os::unix::fs::PermissionsExt;
    let server = Server::start(&[(CREATE, 403, json!({"message": "no"})), (CREATE, 201, created())]).await;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("alice.token");
    let words = ["token", "create", "alice", "--role", "admin", "--output", path.to_str().expect("a path")];
    let ended = server.run(&words).await;
    assert!(ended.code == Some(7) && !path.exists(), "{ended:?}");
    let ended = server.run(&words).await;
    assert!(ended.code == Some(0) && ended.out.is_empty() && !ended.err.contains(&token(1)), "{ended:?}");
    assert_eq!(std::fs::read_to_string(&path).expect("the token"), format!("{}\n", token(1)));
    assert_eq!(std::fs::metadata(&path).expect("a file").permissions().mode() & 0o777, 0o600);
    // An existing file stays, and no token is created that could not be written.
    let ended = server.run(&words).await;
    assert!(ended.code == Some(1) && ended.err.contains("exists already"), "{ended:?}");
    assert_eq!(server.count(CREATE), 2);
}

#[tokio::test]
async fn a_token_that_waits_for_a_scheduler_is_shown_with_a_warning() {
    let server = Server::start(&[(CREATE, 202, created())]).await;
    let ended = server.run(&["token", "create", "alice", "--role", "viewer"]).await;
    assert!(ended.out.trim() == token(1) && ended.err.contains("no scheduler has decided it yet"), "{ended:?}");
}

#[tokio::test]
async fn a_binding_that_is_none_is_refused_before_anything_is_sent() {
    let server = Server::start(&[]).await;
    for (words, text) in [
        ("--role king", "is not a role"),
        ("--role viewer@a@b", "namespace"),
        ("--role viewer --ttl soon", "90d"),
        ("--namespace shop", "--role"),
    ] {
        let words: Vec<&str> = ["token", "create", "alice"].into_iter().chain(words.split(' ')).collect();
        let ended = server.run(&words).await;
        assert!(ended.code == Some(2) && ended.err.contains(text), "{words:?}: {ended:?}");
    }
    assert_eq!(server.requests(), 0);
}

#[tokio::test]
async fn a_lost_answer_says_that_the_token_may_exist() {
    let server = Server::start(&[(CREATE, 503, json!({"message": "the leader is away", "unknown": true}))]).await;
    let ended = server.run(&["token", "create", "alice", "--role", "viewer"]).await;
    assert!(ended.code == Some(6) && ended.err.contains("deployctl token list"), "{ended:?}");
    assert_eq!(server.count(CREATE), 1, "it is sent once");
    let server = Server::start(&[(CREATE, NEVER, json!({}))]).await;
    let child = server.command(&["token", "create", "alice", "--role", "viewer"]).spawn().expect("deployctl runs");
    server.until_asked(CREATE, 1).await;
    server.stop();
    let ended = crate::server::Ended::of(&child.wait_with_output().await.expect("it ends"));
    assert!(ended.code == Some(6) && ended.err.contains("deployctl token list"), "{ended:?}");
}

#[tokio::test]
async fn tokens_are_listed_and_revoked_by_id() {
    let unknown = json!({"message": "there is no token \"x\""});
    let revoke = "DELETE /api/tokens";
    let server = Server::start(&[
        ("GET /api/tokens", 200, json!([view()])),
        (revoke, 202, json!({"message": "ok"})),
        (revoke, 404, unknown),
    ])
    .await;
    let listed = server.run(&["token", "list"]).await.out;
    let row: Vec<&str> = listed.lines().nth(1).expect("a row").split_whitespace().collect();
    assert_eq!(row[..4], [ID, "alice", "deployer@shop", "root"], "{listed}");
    assert!(listed.contains("CREATED BY") && listed.contains("(expired)"), "{listed}");
    let json: Value = serde_json::from_str(&server.run(&["token", "list", "-o", "json"]).await.out).expect("JSON");
    assert_eq!(json, json!([view()]));

    let ended = server.run(&["token", "revoke", ID]).await;
    assert!(ended.code == Some(0) && ended.out.contains("is revoked"), "{ended:?}");
    assert_eq!(server.changes()[0].0, format!("{revoke}?id={ID}"));
    let ended = server.run(&["token", "revoke", "x"]).await;
    assert!(ended.code == Some(3) && ended.err.contains("there is no token"), "{ended:?}");
}

#[tokio::test]
async fn a_join_token_is_created_listed_and_revoked() {
    let (create, revoke) = ("POST /api/jointokens", "DELETE /api/jointokens");
    let view = json!({"Id": ID, "Names": "rack-3-*", "Labels": {"unit": "cell-a"}, "Uses": 20, "Replace": true, "By": "root",
        "Created": "2026-01-01T00:00:00Z", "Expires": "2026-01-01T01:00:00Z"});
    let mut created = view.clone();
    created["Token"] = json!("ddj_secret");
    let server = Server::start(&[
        (create, 201, created),
        ("GET /api/jointokens", 200, json!([view])),
        (revoke, 202, json!({"message": "ok"})),
    ])
    .await;
    let words = "node token create --names rack-3-* --labels unit=cell-a,disk=ssd --uses 20 --ttl 2h --replace";
    let ended = server.run(&words.split(' ').collect::<Vec<_>>()).await;
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "ddj_secret\n"), "{ended:?}");
    assert!(ended.err.contains(ID) && ended.err.contains("only time") && !ended.err.contains("ddj_"), "{ended:?}");
    let sent: Value = serde_json::from_str(&server.changes().remove(0).1).expect("JSON");
    let labels = json!({"unit": "cell-a", "disk": "ssd"});
    let wanted = json!({"Names": "rack-3-*", "Labels": labels, "Uses": 20, "ValidSeconds": 7200, "Replace": true});
    assert_eq!(sent, wanted);
    let listed = server.run(&["node", "token", "list"]).await.out;
    let row: Vec<&str> = listed.lines().nth(1).expect("a row").split_whitespace().collect();
    assert_eq!(row[..6], [ID, "rack-3-*", "unit=cell-a", "20", "yes", "root"], "{listed}");
    let ended = server.run(&["node", "token", "revoke", ID]).await;
    assert!(ended.code == Some(0) && ended.out.contains("is revoked"), "{ended:?}");
    assert_eq!(server.changes()[1].0, format!("{revoke}?id={ID}"));
    let ended = server.run(&["node", "token", "create", "--labels", "unit-"]).await;
    assert!(ended.code == Some(2) && ended.err.contains("KEY=VALUE"), "{ended:?}");
}
