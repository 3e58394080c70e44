//! Files that another user planted above the working directory are neither run nor believed, and files that another user
//! can write are refused.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::json;
use tokio::process::Command;

use crate::server::{Ended, Server};

fn write(path: &Path, text: &str, mode: u32) {
    std::fs::create_dir_all(path.parent().expect("a directory")).expect("created");
    std::fs::write(path, text).expect("written");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("the mode is set");
}

/// The state of a running cluster with this API.
fn state(api: &str) -> String {
    json!({"cluster": "local-1", "api": [api], "nats": "", "etcd": "", "nodes": [], "children": [], "ports": {},
        "supervisor": {"pid": 1, "command": ["deployctl"]}})
    .to_string()
}

/// deployctl outside of a checkout and a package.
fn installed(folder: &Path) -> PathBuf {
    let program = folder.join("installed/deployctl");
    std::fs::create_dir_all(program.parent().expect("a directory")).expect("created");
    let built = env!("CARGO_BIN_EXE_deployctl");
    // A hard link spares 100 MB where both are on one file system.
    if std::fs::hard_link(built, &program).is_err() {
        std::fs::copy(built, &program).expect("copied");
    }
    program
}

async fn run(program: &Path, folder: &Path, words: &[&str]) -> Ended {
    let mut command = Command::new(program);
    command
        .args(words)
        .current_dir(folder)
        .env_remove("DEPLOYD_API")
        .env_remove("DEPLOYD_DIR")
        .env_remove("DEPLOYD_BIN_DIR");
    command.stdin(Stdio::null()).kill_on_drop(true);
    Ended::of(&command.output().await.expect("deployctl runs"))
}

#[tokio::test]
async fn servers_planted_above_the_working_directory_are_not_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let (here, ran) = (folder.path().join("a/b"), folder.path().join("ran"));
    std::fs::create_dir_all(&here).expect("created");
    for program in ["nats-server", "etcd"] {
        let text = format!("#!/bin/sh\ntouch {}\n", ran.display());
        for above in [folder.path(), &here] {
            write(&above.join(".deployd/bin").join(program), &text, 0o755);
        }
    }
    let program = installed(folder.path());
    // The other programs of deployd are not beside it, so `up` fails after it has looked at the servers.
    let ended = run(&program, &here, &["up", "--dir", "cluster", "--port", "0", "--no-demo"]).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(!ran.exists(), "a planted program was run: {ended:?}");
}

#[tokio::test]
async fn a_missing_demo_is_an_error_before_anything_is_started() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = installed(folder.path());
    let ended = run(&program, folder.path(), &["up", "--dir", "cluster", "--port", "0"]).await;
    assert!(ended.code == Some(1) && ended.err.contains("build-demo") && ended.err.contains("--no-demo"), "{ended:?}");
    assert!(!folder.path().join("cluster/state.json").exists() && !folder.path().join("cluster/keys").exists());
}

#[tokio::test]
async fn a_state_planted_above_the_working_directory_gets_no_request() {
    let folder = tempfile::tempdir().expect("a folder");
    let here = folder.path().join("a/b");
    std::fs::create_dir_all(&here).expect("created");
    let server = Server::start(&[]).await;
    write(&folder.path().join(".deployd/run/state.json"), &state(&server.url()), 0o600);
    let ended = run(&installed(folder.path()), &here, &["node", "list"]).await;
    assert_eq!(server.requests(), 0, "{ended:?}");
}

#[tokio::test]
async fn a_state_that_others_can_write_is_refused_with_the_remedy() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = installed(folder.path());
    let server = Server::start(&[]).await;
    let file = folder.path().join(".deployd/run/state.json");
    write(&file, &state(&server.url()), 0o666);
    for words in [&["node", "list"][..], &["node", "list", "--dir", ".deployd/run"]] {
        let ended = run(&program, folder.path(), words).await;
        assert_eq!((ended.code, server.requests()), (Some(4), 0), "{ended:?}");
        assert!(ended.err.contains("chmod go-w"), "{ended:?}");
    }
    write(&file, &state(&server.url()), 0o600);
    run(&program, folder.path(), &["node", "list"]).await;
    assert!(server.requests() > 0, "the own state is believed");
}
