//! Exit codes of an API that cannot be reached and of a deadline that passes.

use std::time::Duration;

use serde_json::{Value, json};
use tempfile::NamedTempFile;
use tokio::net::{TcpSocket, TcpStream};

use crate::server::{Ended, NEVER, Server};

const CHANGE: &str = "PATCH /api/podgroups";
const GROUPS: &str = "GET /api/podgroups";

fn document() -> NamedTempFile {
    let file = NamedTempFile::new().expect("a file");
    let text = "Name: a.web.web\nNamespace: a\nNumInstances: 1\nPod: {Containers: [{Image: i}]}\n";
    std::fs::write(file.path(), text).expect("the file is written");
    file
}

fn accepted() -> (&'static str, u16, Value) {
    (CHANGE, 202, json!({"message": "ok"}))
}

fn group(state: u8) -> Value {
    let spec = json!({"Name": "a.web.web", "Namespace": "a", "NumInstances": 1});
    json!({"Spec": spec, "Pods": [{"InstanceNo": 1, "State": state}]})
}

#[tokio::test]
async fn every_command_that_cannot_reach_the_api_exits_4() {
    let server = Server::start(&[]).await;
    server.stop();
    let (file, folder) = (document(), tempfile::tempdir().expect("a folder"));
    let path = file.path().to_str().expect("a path");
    let backup = folder.path().join("a.backup");
    let backup = backup.to_str().expect("a path");
    for words in [
        "get nodes",
        "scale a.web.web 3 --timeout 1s",
        &format!("apply --timeout 1s -f {path}"),
        &format!("plan -f {path}"),
        "delete podgroup a.web.web --timeout 1s",
        "restart a.web.web --timeout 1s",
        "drift --from n1 --all --timeout 1s",
        "evacuate n1 --yes --timeout 1s",
        "node drain n1 --timeout 1s",
        "rollout status a.web.web --timeout 1s",
        "rollout undo a.web.web --timeout 1s",
        &format!("backup {backup} --timeout 1s"),
        "restore --abort --timeout 1s",
    ] {
        let ended = server.run(&words.split(' ').collect::<Vec<_>>()).await;
        assert_eq!(ended.code, Some(4), "{words}: {ended:?}");
        assert!(ended.err.contains("no apiserver answers at http://127.0.0.1:"), "{words}: {ended:?}");
    }
}

#[tokio::test]
async fn an_api_that_goes_away_while_a_command_waits_is_exit_code_4() {
    let server = Server::start(&[accepted(), (GROUPS, 200, group(0))]).await;
    let child = server.command(&["scale", "a.web.web", "1", "--wait", "--timeout", "2s"]).spawn();
    server.until_asked(GROUPS, 1).await;
    server.stop();
    let ended = Ended::of(&child.expect("deployctl runs").wait_with_output().await.expect("it ends"));
    assert!(ended.code == Some(4) && ended.err.contains("no apiserver answers"), "{ended:?}");
}

#[tokio::test]
async fn an_api_that_answers_but_not_in_time_is_exit_code_5() {
    let server = Server::start(&[accepted(), (GROUPS, 200, group(0)), (GROUPS, NEVER, json!({}))]).await;
    let ended = server.run(&["scale", "a.web.web", "1", "--wait", "--timeout", "1s"]).await;
    assert!(ended.code == Some(5) && ended.err.contains("gave up after 1 s"), "{ended:?}");
}

/// A host that drops packets: whether the deadline is shorter or longer than one attempt to connect, nothing was sent.
#[tokio::test]
async fn a_change_that_found_no_connection_was_not_sent_and_is_exit_code_4() {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind("127.0.0.1:0".parse().expect("an address")).expect("a port");
    let listener = socket.listen(1).expect("a listener");
    let address = listener.local_addr().expect("an address");
    // The kernel drops connections beyond the queue of a listener that accepts none.
    let mut queued = Vec::new();
    while let Ok(Ok(stream)) = tokio::time::timeout(Duration::from_millis(300), TcpStream::connect(address)).await {
        queued.push(stream);
        assert!(queued.len() < 64, "the queue never fills up");
    }
    let server = Server::start(&[]).await;
    for timeout in ["2s", "8s"] {
        let mut command = server.command(&["scale", "a.web.web", "3", "--timeout", timeout]);
        let output = command.env("DEPLOYD_API", format!("http://{address}")).output().await.expect("deployctl runs");
        let ended = Ended::of(&output);
        assert!(ended.code == Some(4) && ended.err.contains("no apiserver answers"), "{timeout}: {ended:?}");
    }
}

#[tokio::test]
async fn the_help_lists_every_exit_code_with_its_meaning() {
    let help = Server::start(&[]).await.run(&["--help"]).await.out;
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    for exit in cli::exit::Exit::ALL {
        let line = format!("{} {}", exit.code(), exit.meaning());
        assert!(words(&help).contains(&line), "{line}: {help}");
    }
}
