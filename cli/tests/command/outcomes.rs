//! Changes whose outcome is not known at once, deletions, and deadlines: what is printed is true.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::server::{NEVER, Server};

const CHANGE: &str = "PATCH /api/podgroups";
const OPERATION: &str = "GET /api/operations";
const GROUPS: &str = "GET /api/podgroups";

fn unknown() -> (&'static str, u16, Value) {
    (CHANGE, 503, json!({"unknown": true, "message": "the outcome of operation {key} is unknown"}))
}

fn unreachable() -> (&'static str, u16, Value) {
    (CHANGE, 503, json!({"message": "the message bus cannot be reached, nothing was accepted"}))
}

fn decided(state: &str, message: &str) -> (&'static str, u16, Value) {
    let at = "2026-01-01T00:00:00Z";
    (OPERATION, 200, json!({"operation": "{key}", "state": state, "message": message, "decided_at": at}))
}

fn assert_one_key(server: &Server) {
    let keys = server.keys();
    assert!(keys.len() > 1 && keys.iter().all(|key| *key == keys[0]), "{keys:?}");
}

#[tokio::test]
async fn an_outcome_that_is_unknown_stays_unknown_while_later_attempts_are_not_decided() {
    let server = Server::start(&[unknown(), unreachable(), (OPERATION, 404, json!({"message": "not decided"}))]).await;
    let ended = server.run(&["scale", "a.web.web", "3", "--detach", "--timeout", "1s"]).await;
    assert_eq!(ended.code, Some(6), "{ended:?}");
    assert_one_key(&server);
    let key = &server.keys()[0];
    assert!(ended.err.contains("outcome") && ended.err.contains(key.as_str()), "{ended:?}");
    assert!(!ended.err.contains("nothing was accepted") && !ended.err.contains("scaled to"), "{ended:?}");
}

#[tokio::test]
async fn a_definite_refusal_of_a_retry_is_final_and_reported_as_it_is() {
    for (status, code) in [(400, 1), (404, 3), (405, 1), (409, 1)] {
        let refused = (CHANGE, status, json!({"message": "NumInstances: too many"}));
        let undecided = (OPERATION, 404, json!({"message": "not decided"}));
        let server = Server::start(&[unknown(), refused, undecided, decided("refused", "too many")]).await;
        let ended = server.run(&["scale", "a.web.web", "3", "--detach", "--timeout", "20s"]).await;
        assert_eq!(ended.code, Some(code), "{status}: {ended:?}");
        assert_eq!(server.keys().len(), 2, "{status}: one retry");
        assert_one_key(&server);
        assert!(!ended.err.contains("may still be made") && !ended.err.contains("unknown"), "{status}: {ended:?}");
    }
}

#[tokio::test]
async fn a_refused_retry_names_the_earlier_attempt_only_while_that_is_undecided() {
    let refused = (CHANGE, 400, json!({"message": "no such command"}));
    let undecided = (OPERATION, 404, json!({"message": "not decided"}));
    let server = Server::start(&[unknown(), refused.clone(), undecided.clone()]).await;
    let started = Instant::now();
    let ended = server.run(&["scale", "a.web.web", "3", "--detach", "--timeout", "20s"]).await;
    assert_eq!(ended.code, Some(6), "{ended:?}");
    assert!(started.elapsed() < Duration::from_secs(10) && server.keys().len() == 2, "{:?}", started.elapsed());
    let key = &server.keys()[0];
    for part in ["the API refused (400): no such command", "may still be made", key.as_str()] {
        assert!(ended.err.contains(part), "{part}: {ended:?}");
    }
    let server = Server::start(&[unknown(), refused, undecided, decided("accepted", "")]).await;
    let ended = server.run(&["scale", "a.web.web", "3", "--detach", "--timeout", "20s"]).await;
    assert!(ended.code == Some(0) && server.keys().len() == 2, "the earlier attempt was accepted: {ended:?}");
}

fn too_many(what: &'static str) -> (&'static str, u16, Value) {
    let message = "too many requests in flight of this address; wait until some have ended";
    (what, 429, json!({"retry_after": 1, "message": message}))
}

#[tokio::test]
async fn a_change_beyond_the_limit_of_a_client_is_sent_again_after_the_time_the_api_asks_for() {
    for status in [408, 425, 429] {
        let (what, _, body) = too_many(CHANGE);
        let server = Server::start(&[(what, status, body), (CHANGE, 202, json!({"message": "ok"}))]).await;
        let started = Instant::now();
        let ended = server.run(&["scale", "a.web.web", "3", "--detach", "--timeout", "20s"]).await;
        assert_eq!((ended.code, server.keys().len()), (Some(0), 2), "{status}: {ended:?}");
        assert!(started.elapsed() >= Duration::from_secs(1), "{status}: {:?}", started.elapsed());
        assert_one_key(&server);
    }
}

#[tokio::test]
async fn a_limit_that_lasts_until_the_deadline_is_exit_code_5_with_the_text_of_the_api() {
    let server = Server::start(&[too_many(CHANGE)]).await;
    let started = Instant::now();
    let ended = server.run(&["scale", "a.web.web", "3", "--detach", "--timeout", "3s"]).await;
    assert!(ended.code == Some(5) && ended.err.contains("too many requests in flight of this address"), "{ended:?}");
    assert!((3..5).contains(&server.keys().len()), "one attempt per second: {}", server.keys().len());
    assert!(started.elapsed() < Duration::from_secs(6), "{:?}", started.elapsed());
}

#[tokio::test]
async fn reads_beyond_the_limit_of_a_client_are_repeated_before_and_while_a_command_waits() {
    let spec = json!({"Name": "a.web.web", "Namespace": "a", "NumInstances": 1});
    let ready = json!({"Spec": spec, "Pods": [{"InstanceNo": 1, "State": 2}]});
    let changed = (CHANGE, 202, json!({"message": "ok"}));
    let server = Server::start(&[changed, too_many(GROUPS), (GROUPS, 200, ready)]).await;
    let ended = server.run(&["scale", "a.web.web", "1", "--wait", "--timeout", "20s"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let file = tempfile::NamedTempFile::new().expect("a file");
    let text = "Name: a.web.web\nNamespace: a\nNumInstances: 1\nPod: {Containers: [{Image: i}]}\n";
    std::fs::write(file.path(), text).expect("the file is written");
    let created = ("POST /api/podgroups", 202, json!({"message": "ok"}));
    let server = Server::start(&[too_many(GROUPS), (GROUPS, 404, json!({})), created]).await;
    let ended = server.run(&["apply", "--detach", "-f", file.path().to_str().expect("a path")]).await;
    assert!(ended.code == Some(0) && server.changes().len() == 1, "{ended:?}");
}

#[tokio::test]
async fn a_read_beyond_the_rate_of_a_client_is_sent_again_unless_the_api_asks_for_a_long_pause() {
    let nodes = ("GET /api/nodes", 200, json!([]));
    let server = Server::start(&[too_many("GET /api/nodes"), too_many("GET /api/nodes"), nodes]).await;
    let started = Instant::now();
    let ended = server.run(&["node", "list"]).await;
    assert!(ended.code == Some(0) && server.requests() == 3, "{ended:?}");
    assert!(started.elapsed() >= Duration::from_secs(2), "{:?}", started.elapsed());
    let long = json!({"retry_after": 60, "message": "too many requests of this address had a wrong token"});
    let server = Server::start(&[("GET /api/nodes", 429, long)]).await;
    let ended = server.run(&["node", "list"]).await;
    assert!(ended.code != Some(0) && ended.err.contains("wrong token") && server.requests() == 1, "{ended:?}");
}

#[tokio::test]
async fn the_operations_of_the_api_resolve_an_unknown_outcome() {
    let server = Server::start(&[unknown(), unreachable(), decided("accepted", "")]).await;
    let ended = server.run(&["scale", "a.web.web", "3", "--detach", "--timeout", "20s"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let server = Server::start(&[unknown(), unreachable(), decided("refused", "no such group")]).await;
    let ended = server.run(&["scale", "a.web.web", "3", "--detach", "--timeout", "20s"]).await;
    assert!(ended.code == Some(1) && ended.err.contains("no such group"), "{ended:?}");
}

#[tokio::test]
async fn an_api_that_never_accepted_anything_is_reported_as_such() {
    let server = Server::start(&[unreachable()]).await;
    let ended = server.run(&["scale", "a.web.web", "3", "--detach", "--timeout", "1s"]).await;
    assert!(ended.code == Some(5) && ended.err.contains("nothing was accepted"), "{ended:?}");
    assert_one_key(&server);
}

#[tokio::test]
async fn a_request_without_an_answer_has_an_unknown_outcome_and_ends_at_the_deadline() {
    let server = Server::start(&[(CHANGE, NEVER, json!({}))]).await;
    let started = Instant::now();
    let ended = server.run(&["scale", "a.web.web", "3", "--detach", "--timeout", "1s"]).await;
    assert_eq!(ended.code, Some(6), "{ended:?}");
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
}

#[tokio::test]
async fn a_change_that_no_scheduler_has_decided_has_an_unknown_outcome() {
    let queued = (CHANGE, 202, json!({"queued": true, "operation": "{key}"}));
    let server = Server::start(&[queued, (OPERATION, 404, json!({"message": "not decided"}))]).await;
    let ended = server.run(&["scale", "a.web.web", "3", "--detach", "--timeout", "1s"]).await;
    assert!(ended.code == Some(6) && ended.err.contains("no scheduler has decided it yet"), "{ended:?}");
}

#[tokio::test]
async fn a_timeout_covers_the_whole_command() {
    let spec = json!({"Name": "a.web.web", "Namespace": "a", "NumInstances": 1,
        "Pod": {"Name": "a.web.web", "Namespace": "a", "Containers": [{"Image": "i"}]}});
    let group = json!({"Spec": spec, "Pods": [{"InstanceNo": 1, "State": 2}]});
    let line = |operation: &str| json!({"PodGroups": [{"Name": "a.web.web", "Operation": operation}]});
    // The restart holds the lock for about 3 s; after that the instance never runs.
    let mut answers = vec![(GROUPS, 200, group), (CHANGE, 202, json!({"message": "ok"}))];
    answers.extend((0..10).map(|_| (GROUPS, 200, line("Restarting"))));
    answers.push((GROUPS, 200, line("")));
    answers.push((GROUPS, 200, json!({"Spec": spec, "Pods": [{"InstanceNo": 1, "State": 0}]})));
    answers.push(("GET /api/rollouts", 200, crate::rollouts::rollout(1, "Progressing", 0)));
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(
        file.path(),
        json!({"Name": "a.web.web", "Namespace": "a", "NumInstances": 1, "RestartPolicy": 0,
        "Pod": {"Containers": [{"Image": "j"}]}})
        .to_string(),
    )
    .expect("the file is written");
    let server = Server::start(&answers).await;
    let started = Instant::now();
    let path = file.path().to_str().expect("a path");
    let ended = server.run(&["apply", "--wait", "--timeout", "4s", "-f", path]).await;
    assert!(ended.code == Some(5) && ended.err.contains("gave up after 4 s"), "{ended:?}");
    assert!(started.elapsed() < Duration::from_secs(6), "{:?}: {ended:?}", started.elapsed());
}

#[tokio::test]
async fn a_deletion_is_called_deleted_only_when_the_group_is_gone() {
    let listed = json!({"PodGroups": [{"Name": "a.web.web", "Operation": "Removing"}]});
    let deletes = ("DELETE /api/podgroups", 202, json!({"message": "ok"}));
    let server = Server::start(&[deletes.clone(), (GROUPS, 200, listed.clone())]).await;
    let ended = server.run(&["delete", "podgroup", "a.web.web", "--detach"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.err.contains("deletion accepted") && !ended.err.contains("deleted"), "{ended:?}");
    let gone = [(GROUPS, 404, json!({})), (GROUPS, 200, listed), (GROUPS, 404, json!({})), (GROUPS, 200, json!({}))];
    let server = Server::start(&[&[deletes][..], &gone].concat()).await;
    let ended = server.run(&["delete", "podgroup", "a.web.web"]).await;
    assert!(ended.code == Some(0) && ended.err.contains("PodGroup a.web.web deleted"), "{ended:?}");
}

#[tokio::test]
async fn a_directory_without_a_running_cluster_is_an_error_that_names_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().to_str().expect("a path");
    let server = Server::start(&[]).await;
    for words in [&["get", "nodes"][..], &["status"], &["scale", "a.web.web", "3"]] {
        let mut command = server.command(&[&["--dir", path][..], words].concat());
        let output = command.env_remove("DEPLOYD_API").output().await.expect("deployctl runs");
        let ended = crate::server::Ended::of(&output);
        assert_eq!(ended.code, Some(4), "{words:?}: {ended:?}");
        assert!(ended.err.contains(path) && !ended.err.contains("9003"), "{words:?}: {ended:?}");
    }
}
