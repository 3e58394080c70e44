//! Invalid command lines and files: exit code 2, and no request is sent.

use crate::server::Server;

#[tokio::test]
async fn an_invalid_command_line_is_an_error_and_sends_no_request() {
    let server = Server::start(&[]).await;
    for (words, names) in [
        ("rollout", "Usage"),
        ("rollout status", "<NAME>"),
        ("rollout status a --no-wait --timeout 5s", "--timeout"),
        ("rollout status a --timeout soon", "is not a duration"),
        ("rollout status a --release first", "--release"),
        ("rollout confirm a --batch 0", "--batch"),
        ("rollout undo a --to x", "--revision"),
        ("rollout promote a", "promote"),
        ("rollout pause a --batch 1", "--batch"),
        ("plan", "--file"),
        ("gate a 1 open", "<VALUE>"),
        ("gate a 0 open true", "0"),
        ("gate a 1 open yes", "yes"),
        ("drained a", "<INSTANCE>"),
        ("delete podgroup a --mode later", "foreground"),
        ("up --label zone", "KEY=VALUE"),
    ] {
        let ended = server.run(&words.split(' ').collect::<Vec<_>>()).await;
        assert_eq!(ended.code, Some(2), "{words}: {ended:?}");
        assert!(ended.err.contains(names), "{words}: {names}: {}", ended.err);
    }
    assert_eq!(server.changes(), []);
}

#[tokio::test]
async fn an_invalid_file_names_the_field_and_sends_no_request() {
    let server = Server::start(&[]).await;
    let file = tempfile::NamedTempFile::new().expect("a file");
    let text =
        "Name: a.web.web\nNamespace: a\nNumInstances: 1\nStrategy: {Type: Rolling}\nPod: {Containers: [{Image: i}]}";
    std::fs::write(file.path(), text).expect("written");
    let path = file.path().to_str().expect("a path");
    for command in ["plan", "apply"] {
        let ended = server.run(&[command, "-f", path]).await;
        assert_eq!(ended.code, Some(2), "{command}: {ended:?}");
        assert!(ended.err.contains("Strategy.Type") && ended.err.contains("RollingUpdate"), "{command}: {ended:?}");
    }
    assert_eq!(server.changes(), []);
}

#[tokio::test]
async fn a_closed_standard_output_is_not_an_error() {
    let server = Server::start(&[("GET /api/nodes", 200, serde_json::json!([]))]).await;
    for words in [["node", "list"].as_slice(), &["node", "list", "-o", "json"]] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut command = server.command(words);
        let child = command.stdout(writer).spawn().expect("deployctl runs");
        let ended = child.wait_with_output().await.expect("deployctl ends");
        assert_eq!(
            (ended.status.code(), String::from_utf8_lossy(&ended.stderr).as_ref()),
            (Some(141), ""),
            "{words:?}"
        );
    }
}
