//! Starting, stopping and refusing to start.

use std::time::Duration;

use contract::store::StoreWord;
use contract::{keys, subjects};
use fabric::etcd::Op;
use rustix::process::Signal;
use tokio::time::Instant;

use crate::stage::{LIMIT, Stage};

#[tokio::test]
async fn a_leader_that_is_told_to_stop_exits_with_zero_and_another_leads_within_a_second() {
    let stage = Stage::set().await;
    let mut first = stage.scheduler("first").await;
    let (name, term) = stage.leader().await;
    assert_eq!(name, "first");
    let _second = stage.scheduler("second").await;
    let started = Instant::now();
    first.signal(Signal::TERM);
    assert_eq!(first.ended().await.code(), Some(0), "{}", stage.log("first"));
    assert!(started.elapsed() < Duration::from_secs(2));
    let (name, next) = stage.leader().await;
    assert_eq!(name, "second");
    assert!(next > term);
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
}

#[tokio::test]
async fn a_leader_shows_itself_in_its_metrics() {
    let stage = Stage::set().await;
    let scheduler = stage.scheduler("only").await;
    let (_, term) = stage.leader().await;
    let (status, text) = scheduler.get("/metrics").await.unwrap();
    assert_eq!(status, 200);
    assert!(text.contains("deployd_scheduler_leader 1"), "{text}");
    assert!(text.contains(&format!("deployd_scheduler_term {term}")), "{text}");
    assert_eq!(scheduler.get("/healthz").await.unwrap().0, 200);
}

#[tokio::test]
async fn a_scheduler_without_its_servers_is_not_ready_and_comes_back_with_them() {
    let mut stage = Stage::set().await;
    let scheduler = stage.scheduler("only").await;
    stage.nats.kill();
    let started = Instant::now();
    while scheduler.get("/readyz").await.unwrap().0 != 503 {
        assert!(started.elapsed() < Duration::from_secs(10));
    }
    stage.nats.restart().await.unwrap();
    while scheduler.get("/readyz").await.unwrap().0 != 200 {
        assert!(started.elapsed() < Duration::from_secs(20));
    }
    stage.leader().await;
}

#[tokio::test]
async fn a_scheduler_says_that_etcd_does_not_answer_and_when_it_does_again() {
    let stage = Stage::set().await;
    let mut words = stage.bus.subscribe(subjects::STORE).await.unwrap();
    let _only = stage.scheduler("only").await;
    stage.leader().await;
    let etcd = rustix::process::Pid::from_raw(i32::try_from(stage.etcd.pid()).unwrap()).unwrap();
    rustix::process::kill_process(etcd, Signal::STOP).unwrap();
    let mut next = async || {
        let message = tokio::time::timeout(LIMIT, words.next()).await.expect("a word in time").expect("open");
        message.decode::<StoreWord>().unwrap()
    };
    let (first, second) = (next().await, next().await);
    rustix::process::kill_process(etcd, Signal::CONT).unwrap();
    assert_eq!(first.by, "only");
    assert!(first.away_since.is_some());
    assert_eq!(first, second, "said again, with the time it began");
    let started = Instant::now();
    while next().await.away_since.is_some() {
        assert!(started.elapsed() < LIMIT, "its end is not said");
    }
    stage.leader().await;
}

#[tokio::test]
async fn a_newer_schema_is_refused_with_a_sentence() {
    let stage = Stage::set().await;
    let newer = Op::Put { key: keys::SCHEMA.to_owned(), value: br#"{"version":99}"#.to_vec(), lease: None };
    stage.store.commit(None, &[newer]).await.unwrap();
    let (mut program, _) = stage.program("old");
    let status = tokio::task::spawn_blocking(move || program.status().unwrap()).await.unwrap();
    assert!(!status.success());
    assert!(stage.log("old").contains("schema version 99"), "{}", stage.log("old"));
}

#[test]
fn a_bad_setting_ends_with_code_64_and_one_line() {
    for arguments in [["--lost-after", "soon"], ["--lease-ttl", "3s"], ["--listen", "here"], ["--what", "is this"]] {
        let program = env!("CARGO_BIN_EXE_deployd-scheduler");
        let ended = std::process::Command::new(program).args(arguments).output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(64), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}

#[test]
fn a_wrong_value_is_told_with_the_place_it_came_from() {
    let program = || std::process::Command::new(env!("CARGO_BIN_EXE_deployd-scheduler"));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("scheduler.toml");
    std::fs::write(&file, "# how patient we are\nlost-after = \"soon\"\n").unwrap();
    let said = |command: &mut std::process::Command| {
        let ended = command.output().unwrap();
        (
            ended.status.code(),
            format!("{}{}", String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr)),
        )
    };
    let (code, text) = said(program().arg("--config").arg(&file));
    assert_eq!(code, Some(64), "{text}");
    assert!(text.contains("scheduler.toml:2: invalid value 'soon' for '--lost-after"), "{text}");
    let (code, text) = said(program().env("DEPLOYD_LOST_AFTER", "later"));
    assert_eq!(code, Some(64), "{text}");
    assert!(text.contains("environment variable DEPLOYD_LOST_AFTER: invalid value 'later'"), "{text}");
    let (code, text) = said(program().args(["--nats", "nats://me:secret@127.0.0.1:4222"]));
    assert_eq!(code, Some(64), "{text}");
    assert!(text.contains("--nats has a password in it") && !text.contains("secret"), "{text}");

    std::fs::write(&file, "lost-after = \"7m\"\nnats = \"nats://me:secret@127.0.0.1:4222\"\n").unwrap();
    let (code, text) =
        said(program().arg("--config").arg(&file).arg("--check-config").env("DEPLOYD_SUSPECT_AFTER", "20s"));
    assert_eq!(code, Some(0), "{text}");
    let words = |name: &str| {
        let line = text.lines().find(|line| line.split_whitespace().next() == Some(name)).unwrap_or_default();
        line.split_whitespace().skip(1).take(2).collect::<Vec<_>>().join(" ")
    };
    assert!(words("lost-after").starts_with("7m ") && words("lost-after").ends_with("scheduler.toml:1"), "{text}");
    assert_eq!(words("suspect-after"), "20s DEPLOYD_SUSPECT_AFTER");
    assert_eq!(words("failover-grace"), "30s default");
    assert!(words("nats").starts_with("nats://***@127.0.0.1:4222 ") && !text.contains("secret"), "{text}");
}
