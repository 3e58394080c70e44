//! NATS loses its newest messages, or etcd comes back with an older state.

use std::path::Path;

use contract::command::{Verb, Verdict};
use contract::keys;

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
