//! Recovery after NATS lost its newest messages, and after etcd came back with an older state.

use std::path::Path;

use contract::command::{Decision, Verb};
use contract::keys;
use contract::query::ClusterView;

use crate::backup::{finish, pages, send, text, wait_for_view};
use crate::cluster::{Cluster, LIMIT, add_callback, outcome};

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

/// Restarts nats-server from the files in `saved`.
async fn rewind_nats(cluster: &mut Cluster, saved: &Path) {
    let files = cluster.dir.path().join("nats").join("jetstream");
    cluster.nats.kill();
    std::fs::remove_dir_all(&files).unwrap();
    copy(saved, &files);
    cluster.nats.restart().await.unwrap();
}

#[tokio::test]
async fn after_nats_lost_its_newest_messages_every_new_command_runs_and_none_runs_twice() {
    let mut cluster = Cluster::start().await;
    let first = cluster.scheduler("first").await;
    for number in 0..5 {
        outcome(&mut cluster.command(&format!("c{number}"), add_callback(number)).await).await;
    }
    let saved = cluster.dir.path().join("saved");
    cluster.nats.kill();
    copy(&cluster.dir.path().join("nats").join("jetstream"), &saved);
    cluster.nats.restart().await.unwrap();
    for number in 5..9 {
        outcome(&mut cluster.command(&format!("c{number}"), add_callback(number)).await).await;
    }
    outcome(&mut cluster.command("c9", remove_callback(0)).await).await;
    drop(first); // kill -9
    // Outcomes expire after an hour. Without them only the stream itself shows which commands are in effect.
    for (key, _) in cluster.store.list(keys::OUTCOMES).await.unwrap().pairs {
        cluster.store.commit(None, &[fabric::etcd::Op::Delete { key }]).await.unwrap();
    }
    rewind_nats(&mut cluster, &saved).await;
    let mut replies = Vec::new();
    for number in 10..18 {
        // Sequence numbers 6 to 13: most of them are below the cursor, which is 10.
        replies.push(cluster.command(&format!("n{number}"), add_callback(number)).await);
    }
    let second = cluster.scheduler("second").await;
    for reply in &mut replies {
        assert_eq!(outcome(reply).await.decision, Decision::Accepted);
    }
    let urls = cluster.callbacks(16).await;
    let expected: Vec<String> = (1..9).chain(10..18).map(|number| format!("http://127.0.0.1:1/{number:04}")).collect();
    assert_eq!(urls, expected, "each command ran once");
    assert!(second.get("/metrics").await.unwrap().1.contains("deployd_scheduler_command_stream_losses_total 1"));
    assert!(cluster.log("second").contains("lost messages"));
}

#[tokio::test]
async fn a_quarter_full_command_stream_is_purged_also_after_it_lost_messages() {
    let mut cluster = Cluster::start().await;
    let first = cluster.scheduler("first").await;
    outcome(&mut cluster.command("c0", add_callback(0)).await).await;
    let saved = cluster.dir.path().join("saved");
    cluster.nats.kill();
    copy(&cluster.dir.path().join("nats").join("jetstream"), &saved);
    cluster.nats.restart().await.unwrap();
    outcome(&mut cluster.command("c1", add_callback(1)).await).await;
    drop(first); // kill -9
    rewind_nats(&mut cluster, &saved).await;
    let _second = cluster.scheduler("second").await;
    // 70 unreadable messages of 1 MB: more than 64 MiB, a quarter of 256 MiB.
    let presence = "x".repeat(1_000_000);
    for number in 0..70 {
        cluster.send_raw(&format!("fill-{number}"), &presence).await;
    }
    outcome(&mut cluster.command("c2", add_callback(2)).await).await;
    let started = tokio::time::Instant::now();
    loop {
        let state = cluster.bus.stream_state("COMMANDS").await.unwrap();
        // 70 MB without a purge. One that came before the last message leaves the messages after it.
        if state.bytes < 64 << 20 {
            break;
        }
        assert!(started.elapsed() < 2 * LIMIT, "{} bytes, {}", state.bytes, cluster.log("second"));
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    assert_eq!(outcome(&mut cluster.command("c3", add_callback(3)).await).await.decision, Decision::Accepted);
    assert_eq!(cluster.callbacks(4).await.len(), 4);
}

/// Restarts etcd from the files in `saved`.
async fn rewind_etcd(cluster: &mut Cluster, saved: &Path) {
    let files = cluster.dir.path().join("etcd").join("data");
    cluster.etcd.kill();
    std::fs::remove_dir_all(&files).unwrap();
    copy(saved, &files);
    cluster.etcd.restart().await.unwrap();
}

/// Follows "etcd was restored from an older copy" of docs/operations.md.
#[tokio::test]
async fn a_leader_detects_that_etcd_came_back_with_an_older_state_until_an_operator_restores_it() {
    let mut cluster = Cluster::start().await;
    let scheduler = cluster.scheduler("first").await;
    outcome(&mut cluster.command("c0", add_callback(0)).await).await;
    let saved = cluster.dir.path().join("saved");
    cluster.etcd.kill();
    copy(&cluster.dir.path().join("etcd").join("data"), &saved);
    cluster.etcd.restart().await.unwrap();
    outcome(&mut cluster.command("c1", add_callback(1)).await).await;
    rewind_etcd(&mut cluster, &saved).await;
    // Commit c1 is lost; the next commit shows it, whether or not the leader kept its lease.
    let mut reply = cluster.command("c2", add_callback(2)).await;
    assert_eq!(outcome(&mut reply).await.decision, Decision::Accepted);
    let is_warned = |view: &ClusterView| view.warnings.iter().any(|warning| warning.contains("older state"));
    wait_for_view(&cluster, is_warned).await;
    assert!(scheduler.get("/metrics").await.unwrap().1.contains("deployd_scheduler_store_behind 1"));
    // The restore accepts the older state. The leader has read the lost commands from the stream again.
    let (entries, header) = pages(&cluster).await;
    let parts = send(&cluster, "r1", &text(&header, &entries)).await;
    outcome(&mut cluster.command("f1", finish("r1", parts, true)).await).await;
    let restored = wait_for_view(&cluster, |view| view.restored.is_some() && !is_warned(view)).await;
    assert_eq!(restored.foreign_store, 0);
    assert_eq!(cluster.callbacks(3).await.len(), 3);
    assert_eq!(outcome(&mut cluster.command("c3", add_callback(3)).await).await.decision, Decision::Accepted);
    assert!(scheduler.get("/metrics").await.unwrap().1.contains("deployd_scheduler_store_behind 0"));
}
