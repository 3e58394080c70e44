//! `backup` and `restore`: what is written, and what is refused before anything is asked for.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use contract::backup::{self, Entry, FORMAT, Header, Writer};
use contract::keys;
use contract::record::SCHEMA_VERSION;
use contract::time::Timestamp;
use serde_json::{Value, json};

use crate::server::Server;

const PAGE: &str = "GET /api/backup";

fn page(key: &str, next: Option<&str>) -> Value {
    json!({"revision": 7, "schema": SCHEMA_VERSION, "entries": [{"key": key, "text": "{}"}], "next": next})
}

fn cluster(groups: u64) -> (&'static str, u16, Value) {
    ("GET /api/cluster", 200, json!({"leader": "s1", "term": 3, "groups": groups, "instances": 2 * groups}))
}

fn write(path: &Path, schema: u32) -> String {
    let mut writer = Writer::default();
    let taken_at = Timestamp::from_millis(0);
    let header = Header { format: FORMAT, schema, revision: 7, taken_at, version: "0.1.0".to_owned() };
    let mut text = writer.header(&header);
    text.push_str(&writer.entry(&Entry::new(keys::ENGINE.to_owned(), b"{}".to_vec())));
    text.push_str(&writer.end());
    std::fs::write(path, &text).expect("a file");
    text
}

#[tokio::test]
async fn a_backup_is_a_whole_file_only_its_owner_may_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("a.backup");
    let pages = [(PAGE, 200, page(keys::CALLBACKS, Some(keys::CALLBACKS))), (PAGE, 200, page(keys::ENGINE, None))];
    let server = Server::start(&pages).await;
    let ended = server.run(&["backup", file.to_str().expect("a path")]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.err.contains("0 PodGroups with 0 instances (2 records) of revision 7"), "{ended:?}");
    let read = backup::read(&std::fs::read_to_string(&file).expect("the file")).expect("a backup");
    let names: Vec<&str> = read.entries.iter().map(|entry| entry.key.as_str()).collect();
    assert_eq!((names, read.header.revision), (vec![keys::CALLBACKS, keys::ENGINE], 7));
    assert_eq!(std::fs::metadata(&file).expect("the file").permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::read_dir(folder.path()).expect("the folder").count(), 1, "nothing is left beside it");
    let next = keys::CALLBACKS.replace('/', "%2F");
    assert_eq!(server.count(&format!("{PAGE}?revision=7&after={next}")), 1);
}

#[tokio::test]
async fn a_revision_that_went_meanwhile_begins_the_file_again_but_not_standard_output() {
    let gone = json!({"message": "compacted; begin the backup again"});
    let again = [
        (PAGE, 200, page(keys::CALLBACKS, Some(keys::CALLBACKS))),
        (PAGE, 410, gone.clone()),
        (PAGE, 200, page(keys::CALLBACKS, None)),
    ];
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("a.backup");
    let ended = Server::start(&again).await.run(&["backup", file.to_str().expect("a path")]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(backup::read(&std::fs::read_to_string(&file).expect("the file")).expect("a backup").entries.len(), 1);
    let ended = Server::start(&again[..2]).await.run(&["backup", "-"]).await;
    assert!(ended.code == Some(1) && ended.err.contains("begin the backup again"), "{ended:?}");
    assert!(backup::read(&ended.out).is_err(), "half a backup is none");
}

#[tokio::test]
async fn a_file_that_is_no_whole_backup_is_refused_before_anything_is_asked() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("a.backup");
    let path = file.to_str().expect("a path");
    let server = Server::start(&[cluster(0)]).await;
    let text = write(&file, SCHEMA_VERSION);
    for (content, why) in [
        (text.replace("{}", "{ }"), "digest does not fit"),
        (text.lines().take(2).map(|line| format!("{line}\n")).collect(), "cut off"),
        ("something else\n".to_owned(), "not a backup"),
    ] {
        std::fs::write(&file, content).expect("a file");
        let ended = server.run(&["restore", path, "--yes"]).await;
        assert!(
            ended.code == Some(1) && ended.err.contains(why) && ended.err.contains("nothing was changed"),
            "{ended:?}"
        );
    }
    write(&file, SCHEMA_VERSION + 1);
    let ended = server.run(&["restore", path, "--yes"]).await;
    assert!(ended.code == Some(1) && ended.err.contains("upgrade deployd first"), "{ended:?}");
    assert_eq!(server.count("GET /api/cluster"), 0);
    let missing = server.run(&["restore", "/no/such/file", "--yes"]).await;
    assert!(missing.code == Some(1) && missing.err.contains("cannot read /no/such/file"), "{missing:?}");
}

#[tokio::test]
async fn a_restore_over_podgroups_needs_replace_and_confirmation() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("a.backup");
    let path = file.to_str().expect("a path");
    write(&file, SCHEMA_VERSION);
    let server = Server::start(&[cluster(3)]).await;
    let full = server.run(&["restore", path, "--yes"]).await;
    assert!(full.code == Some(1) && full.err.contains("has 3 PodGroups"), "{full:?}");
    let unasked = server.run(&["restore", path, "--replace"]).await;
    assert!(unasked.code == Some(1) && unasked.err.contains("pass --yes"), "{unasked:?}");
    assert!(unasked.err.contains("replaces  3 PodGroups with 6 instances"), "{unasked:?}");
    assert_eq!(server.changes(), []);
    assert_eq!(server.run(&["restore"]).await.code, Some(2));
    assert_eq!(server.run(&["restore", path, "--abort"]).await.code, Some(2));
}

#[tokio::test]
async fn abort_discards_the_staged_parts() {
    let server = Server::start(&[("DELETE /api/restore", 202, json!({"message": "forgotten"}))]).await;
    let ended = server.run(&["restore", "--abort"]).await;
    assert!(ended.code == Some(0) && ended.out.contains("is discarded"), "{ended:?}");
    assert_eq!(server.changes().len(), 1);
}
