//! NATS loses its newest messages, or etcd comes back with an older state.

use std::path::Path;

use contract::command::{Verb, Verdict};
use contract::keys;
use contract::query::ClusterView;

use crate::backup::{cluster, finish, pages, send, text};
use crate::stage::{LIMIT, Stage, add_callback, outcome};

/// Copies a directory tree, as a backup of a server's files does.
pub(crate) fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &target),
            false => drop(std::fs::copy(entry.path(), target).unwrap()),
        }
    }
}

fn remove_callback(number: usize) -> Verb {
    Verb::RemoveCallback { url: format!("http://127.0.0.1:1/{number:04}") }
}

/// Restarts nats-server from the files in `copy`.
async fn rewind_nats(stage: &mut Stage, saved: &Path) {
    let files = stage.dir.path().join("nats").join("jetstream");
    stage.nats.kill();
    std::fs::remove_dir_all(&files).unwrap();
    copy(saved, &files);
    stage.nats.restart().await.unwrap();
}

#[tokio::test]
async fn every_command_stored_after_nats_lost_its_tail_runs_and_none_runs_twice() {
    let mut stage = Stage::set().await;
    let first = stage.scheduler("first").await;
    for number in 0..5 {
        outcome(&mut stage.command(&format!("c{number}"), add_callback(number)).await).await;
    }
    let saved = stage.dir.path().join("saved");
    stage.nats.kill();
    copy(&stage.dir.path().join("nats").join("jetstream"), &saved);
    stage.nats.restart().await.unwrap();
    for number in 5..9 {
        outcome(&mut stage.command(&format!("c{number}"), add_callback(number)).await).await;
    }
    outcome(&mut stage.command("c9", remove_callback(0)).await).await;
    drop(first); // kill -9
    // As after an hour: only the messages themselves can show that they are in effect.
    for (key, _) in stage.store.list(keys::OUTCOMES).await.unwrap().pairs {
        stage.store.commit(None, &[fabric::etcd::Op::Delete { key }]).await.unwrap();
    }
    rewind_nats(&mut stage, &saved).await;
    let mut heard = Vec::new();
    for number in 10..18 {
        // Sequence numbers 6 to 13: most of them are below the cursor, which is 10.
        heard.push(stage.command(&format!("n{number}"), add_callback(number)).await);
    }
    let second = stage.scheduler("second").await;
    for heard in &mut heard {
        assert_eq!(outcome(heard).await.verdict, Verdict::Accepted);
    }
    let urls = stage.callbacks(16).await;
    let expected: Vec<String> = (1..9).chain(10..18).map(|number| format!("http://127.0.0.1:1/{number:04}")).collect();
    assert_eq!(urls, expected, "each command ran once");
    assert!(second.get("/metrics").await.unwrap().1.contains("deployd_scheduler_command_stream_losses_total 1"));
    assert!(stage.log("second").contains("lost messages"));
}

#[tokio::test]
async fn a_quarter_full_command_stream_is_purged_also_after_it_lost_its_tail() {
    let mut stage = Stage::set().await;
    let first = stage.scheduler("first").await;
    outcome(&mut stage.command("c0", add_callback(0)).await).await;
    let saved = stage.dir.path().join("saved");
    stage.nats.kill();
    copy(&stage.dir.path().join("nats").join("jetstream"), &saved);
    stage.nats.restart().await.unwrap();
    outcome(&mut stage.command("c1", add_callback(1)).await).await;
    drop(first); // kill -9
    rewind_nats(&mut stage, &saved).await;
    let _second = stage.scheduler("second").await;
    // 70 messages of 1 MB that are no commands: a quarter of 256 MiB is 64 MiB.
    let filling = "x".repeat(1_000_000);
    for number in 0..70 {
        stage.store_raw(&format!("fill-{number}"), &filling).await;
    }
    outcome(&mut stage.command("c2", add_callback(2)).await).await;
    let started = tokio::time::Instant::now();
    loop {
        let state = stage.bus.stream_state("COMMANDS").await.unwrap();
        if state.bytes < 4 << 20 {
            break;
        }
        assert!(started.elapsed() < 2 * LIMIT, "{} bytes, {}", state.bytes, stage.log("second"));
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    assert_eq!(outcome(&mut stage.command("c3", add_callback(3)).await).await.verdict, Verdict::Accepted);
    assert_eq!(stage.callbacks(4).await.len(), 4);
}

/// Restarts etcd from the files in `saved`.
async fn rewind_etcd(stage: &mut Stage, saved: &Path) {
    let files = stage.dir.path().join("etcd").join("data");
    stage.etcd.kill();
    std::fs::remove_dir_all(&files).unwrap();
    copy(saved, &files);
    stage.etcd.restart().await.unwrap();
}

/// Follows "etcd was restored from an older copy" of docs/operations.md: seen, and ended by a restore of the older state.
#[tokio::test]
async fn a_leader_notices_that_etcd_came_back_with_an_older_state_and_a_restore_ends_it() {
    let mut stage = Stage::set().await;
    let scheduler = stage.scheduler("first").await;
    outcome(&mut stage.command("c0", add_callback(0)).await).await;
    let saved = stage.dir.path().join("saved");
    stage.etcd.kill();
    copy(&stage.dir.path().join("etcd").join("data"), &saved);
    stage.etcd.restart().await.unwrap();
    outcome(&mut stage.command("c1", add_callback(1)).await).await;
    rewind_etcd(&mut stage, &saved).await;
    // Whether the leader kept its lease or not: commit c1 is gone, and the next commit shows it.
    let mut heard = stage.command("c2", add_callback(2)).await;
    assert_eq!(outcome(&mut heard).await.verdict, Verdict::Accepted);
    let is_warned = |view: &ClusterView| view.warnings.iter().any(|warning| warning.contains("older state"));
    cluster(&stage, is_warned).await;
    assert!(scheduler.get("/metrics").await.unwrap().1.contains("deployd_scheduler_store_behind 1"));
    // The older state is accepted; the commands that were given since then came from the stream.
    let (entries, header) = pages(&stage).await;
    let parts = send(&stage, "r1", &text(&header, &entries)).await;
    outcome(&mut stage.command("f1", finish("r1", parts, true)).await).await;
    let restored = cluster(&stage, |view| view.restored.is_some() && !is_warned(view)).await;
    assert_eq!(restored.foreign_store, 0);
    assert_eq!(stage.callbacks(3).await.len(), 3);
    assert_eq!(outcome(&mut stage.command("c3", add_callback(3)).await).await.verdict, Verdict::Accepted);
    assert!(scheduler.get("/metrics").await.unwrap().1.contains("deployd_scheduler_store_behind 0"));
}
