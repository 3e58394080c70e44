//! Questions: what is asked on a terminal, what an answer does, and that nothing is asked elsewhere.

use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use crate::server::{Ended, Server};

const GROUPS: &str = "GET /api/podgroups";
const CHANGE: &str = "PATCH /api/podgroups";
const PLAN: &str = "POST /api/podgroups/plan";

/// Runs deployctl on a terminal of 100 columns, and types `typed` into it.
pub(crate) async fn on_terminal(server: &Server, words: &str, typed: &str) -> Ended {
    let program = env!("CARGO_BIN_EXE_deployctl");
    let plain = server.command(&[]);
    let mut command = Command::new("script");
    command.args(["--quiet", "--return", "--command", &format!("stty cols 100; exec {program} {words}"), "/dev/null"]);
    for (name, value) in plain.as_std().get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.env("TERM", "xterm").env_remove("NO_COLOR").kill_on_drop(true);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("script runs; it is part of util-linux");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(typed.as_bytes()).await.expect("typed");
    let ended = tokio::time::timeout(Duration::from_secs(30), child.wait_with_output()).await;
    drop(stdin);
    Ended::of(&ended.expect("deployctl ends in time").expect("script runs"))
}

fn group(image: &str) -> Value {
    json!({"Spec": {"Name": "a.web.web", "Namespace": "a", "NumInstances": 1, "RestartPolicy": 1,
        "Pod": {"Name": "a.web.web", "Namespace": "a", "Containers": [{"Image": image}]}}})
}

fn plan() -> Value {
    json!({"Name": "a.web.web", "Release": 2, "Strategy": "Serial", "IsNew": false, "Steps": [], "Fates": {"1": "Recreated"},
        "PeakExtraPods": 0, "PeakExtraMemory": 0, "PeakExtraCpuMillis": 0, "MinAvailable": {"": 0}, "Unplaced": [],
        "Completes": true, "Warnings": []})
}

fn document() -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let text = "Name: a.web.web\nNamespace: a\nNumInstances: 1\nPod: {Containers: [{Image: 'box:2'}]}\n";
    std::fs::write(file.path(), text).expect("written");
    file
}

async fn server() -> Server {
    let accepted = json!({"message": "ok"});
    Server::start(&[(GROUPS, 200, group("box:1")), (PLAN, 200, plan()), (CHANGE, 202, accepted)]).await
}

fn sent(server: &Server) -> Vec<String> {
    server.changes().into_iter().map(|(line, _)| line.split('?').next().unwrap_or_default().to_owned()).collect()
}

#[tokio::test]
async fn apply_shows_the_plan_on_a_terminal_and_changes_an_existing_group_only_after_a_yes() {
    let file = document();
    let words = format!("apply --detach -f {}", file.path().display());
    for (typed, code, expected) in [("n\n", 1, &[PLAN][..]), ("\n", 1, &[PLAN]), ("y\n", 0, &[PLAN, CHANGE])] {
        let server = server().await;
        let ended = on_terminal(&server, &words, typed).await;
        assert_eq!(
            (ended.code, sent(&server)),
            (Some(code), expected.iter().map(|it| (*it).to_owned()).collect()),
            "{ended:?}"
        );
        assert!(ended.out.contains("replace: 1") && ended.out.contains("Apply these changes? [y/N]"), "{ended:?}");
    }
}

#[tokio::test]
async fn nothing_is_asked_without_a_terminal_with_yes_or_without_a_change() {
    let file = document();
    let path = file.path().to_str().expect("a path");
    let first = server().await;
    let ended = first.run(&["apply", "--detach", "-f", path]).await;
    assert_eq!((ended.code, sent(&first)), (Some(0), vec![CHANGE.to_owned()]), "{ended:?}");
    let second = server().await;
    let ended = on_terminal(&second, &format!("apply --yes --detach -f {path}"), "").await;
    assert_eq!((ended.code, sent(&second)), (Some(0), vec![CHANGE.to_owned()]), "{ended:?}");
    let third = Server::start(&[(GROUPS, 200, group("box:2"))]).await;
    let ended = on_terminal(&third, &format!("apply --detach -f {path}"), "").await;
    assert!(ended.code == Some(0) && ended.out.contains("is unchanged") && sent(&third).is_empty(), "{ended:?}");
}

#[tokio::test]
async fn apply_waits_for_its_result_without_a_terminal_unless_it_is_detached() {
    let file = document();
    let path = file.path().to_str().expect("a path");
    let listed = json!({"PodGroups": [{"Name": "a.web.web", "NumInstances": 1, "Operation": "Upgrading"}]});
    let server =
        Server::start(&[(GROUPS, 200, group("box:1")), (CHANGE, 202, json!({"message": "ok"})), (GROUPS, 200, listed)])
            .await;
    let ended = server.run(&["apply", "--timeout", "1s", "-f", path]).await;
    assert!(ended.code == Some(5) && ended.err.contains("gave up after 1 s: upgrading"), "{ended:?}");
}
