//! Starting, stopping and refusing to start.

use std::time::Duration;

use contract::store::StoreWord;
use contract::{keys, subjects};
use fabric::etcd::Op;
use rustix::process::Signal;
use tokio::time::Instant;

use crate::cluster::{Cluster, LIMIT};

#[tokio::test]
async fn a_leader_that_receives_sigterm_exits_with_zero_and_another_leads_within_two_seconds() {
    let cluster = Cluster::start().await;
    let mut first = cluster.scheduler("first").await;
    let (name, term) = cluster.leader().await;
    assert_eq!(name, "first");
    let _second = cluster.scheduler("second").await;
    let started = Instant::now();
    first.signal(Signal::TERM);
    assert_eq!(first.ended().await.code(), Some(0), "{}", cluster.log("first"));
    assert!(started.elapsed() < Duration::from_secs(2));
    let (name, next) = cluster.leader().await;
    assert_eq!(name, "second");
    assert!(next > term);
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
}

#[tokio::test]
async fn the_metrics_of_a_leader_show_its_role_and_term() {
    let cluster = Cluster::start().await;
    let scheduler = cluster.scheduler("only").await;
    let (_, term) = cluster.leader().await;
    let (status, text) = scheduler.get("/metrics").await.unwrap();
    assert_eq!(status, 200);
    assert!(text.contains("deployd_scheduler_leader 1"), "{text}");
    assert!(text.contains(&format!("deployd_scheduler_term {term}")), "{text}");
    assert_eq!(scheduler.get("/healthz").await.unwrap().0, 200);
}

#[tokio::test]
async fn a_scheduler_without_nats_is_not_ready_until_nats_is_back() {
    let mut cluster = Cluster::start().await;
    let scheduler = cluster.scheduler("only").await;
    cluster.nats.kill();
    let started = Instant::now();
    while scheduler.get("/readyz").await.unwrap().0 != 503 {
        assert!(started.elapsed() < Duration::from_secs(10));
    }
    cluster.nats.restart().await.unwrap();
    while scheduler.get("/readyz").await.unwrap().0 != 200 {
        assert!(started.elapsed() < Duration::from_secs(20));
    }
    cluster.leader().await;
}

#[tokio::test]
async fn a_scheduler_announces_an_outage_of_etcd_and_its_end() {
    let cluster = Cluster::start().await;
    let mut announcements = cluster.bus.subscribe(subjects::STORE).await.unwrap();
    let _only = cluster.scheduler("only").await;
    cluster.leader().await;
    let etcd = rustix::process::Pid::from_raw(i32::try_from(cluster.etcd.pid()).unwrap()).unwrap();
    rustix::process::kill_process(etcd, Signal::STOP).unwrap();
    let mut next = async || {
        let message = tokio::time::timeout(LIMIT, announcements.next()).await;
        let message = message.expect("an announcement in time").expect("open");
        message.decode::<StoreWord>().unwrap()
    };
    let (first, second) = (next().await, next().await);
    rustix::process::kill_process(etcd, Signal::CONT).unwrap();
    assert_eq!(first.by, "only");
    assert!(first.away_since.is_some());
    assert_eq!(first, second, "repeated with the time at which the outage began");
    let started = Instant::now();
    while next().await.away_since.is_some() {
        assert!(started.elapsed() < LIMIT, "the end of the outage is not announced");
    }
    cluster.leader().await;
}

#[tokio::test]
async fn a_scheduler_refuses_to_start_over_a_newer_schema_and_names_the_version() {
    let cluster = Cluster::start().await;
    let newer = Op::Put { key: keys::SCHEMA.to_owned(), value: br#"{"version":99}"#.to_vec(), lease: None };
    cluster.store.commit(None, &[newer]).await.unwrap();
    let (mut program, _) = cluster.program("old");
    let status = tokio::task::spawn_blocking(move || program.status().unwrap()).await.unwrap();
    assert!(!status.success());
    assert!(cluster.log("old").contains("schema version 99"), "{}", cluster.log("old"));
}

#[test]
fn an_invalid_setting_exits_with_code_64_and_one_line() {
    for arguments in [["--lost-after", "soon"], ["--lease-ttl", "3s"], ["--listen", "here"], ["--what", "is this"]] {
        let program = env!("CARGO_BIN_EXE_deployd-scheduler");
        let output = std::process::Command::new(program).args(arguments).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(64), "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
    }
}

#[test]
fn the_error_about_an_invalid_setting_names_the_file_or_variable_it_comes_from() {
    let program = || std::process::Command::new(env!("CARGO_BIN_EXE_deployd-scheduler"));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("scheduler.toml");
    std::fs::write(&file, "# how patient we are\nlost-after = \"soon\"\n").unwrap();
    let run = |command: &mut std::process::Command| {
        let output = command.output().unwrap();
        (
            output.status.code(),
            format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr)),
        )
    };
    let (code, text) = run(program().arg("--config").arg(&file));
    assert_eq!(code, Some(64), "{text}");
    assert!(text.contains("scheduler.toml:2: invalid value 'soon' for '--lost-after"), "{text}");
    let (code, text) = run(program().env("DEPLOYD_LOST_AFTER", "later"));
    assert_eq!(code, Some(64), "{text}");
    assert!(text.contains("environment variable DEPLOYD_LOST_AFTER: invalid value 'later'"), "{text}");
    let (code, text) = run(program().args(["--nats", "nats://me:secret@127.0.0.1:4222"]));
    assert_eq!(code, Some(64), "{text}");
    assert!(text.contains("--nats has a password in it") && !text.contains("secret"), "{text}");

    std::fs::write(&file, "lost-after = \"7m\"\nnats = \"nats://me:secret@127.0.0.1:4222\"\n").unwrap();
    let (code, text) =
        run(program().arg("--config").arg(&file).arg("--check-config").env("DEPLOYD_SUSPECT_AFTER", "20s"));
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
