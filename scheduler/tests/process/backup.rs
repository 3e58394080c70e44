//! Backups of a real etcd, which is then wiped and restored while schedulers run.

use std::collections::BTreeMap;
use std::time::Duration;

use contract::backup::{self, Entry, FORMAT, Header, Page, Step, Writer};
use contract::command::{Decision, Refusal, Verb};
use contract::keys;
use contract::query::{Answer, ClusterView, Query, Reply};
use contract::streams;
use contract::time::Timestamp;
use rustix::process::Signal;
use testkit::samples::group_spec;
use tokio::time::Instant;

use crate::cluster::{Cluster, LIMIT, add_callback, outcome};

async fn page(cluster: &Cluster, revision: Option<i64>, after: Option<String>) -> Result<Page, String> {
    let query = Query::Backup { revision, after };
    match cluster.ask_leader(&query).await.expect("an answer") {
        Reply { answer: Answer::Backup(page), .. } => page.map(|page| *page),
        other => panic!("not a page: {other:?}"),
    }
}

/// Every page of a backup, with a command between each two.
pub(crate) async fn pages(cluster: &Cluster) -> (Vec<Entry>, Header) {
    let mut next = page(cluster, None, None).await.unwrap();
    let (revision, schema) = (next.revision, next.schema);
    let mut entries = std::mem::take(&mut next.entries);
    let mut number = 1000;
    while let Some(after) = next.next.take() {
        number += 1;
        outcome(&mut cluster.command(&format!("between-{number}"), add_callback(number % 60)).await).await;
        next = page(cluster, Some(revision), Some(after)).await.unwrap();
        assert_eq!(next.revision, revision);
        entries.append(&mut next.entries);
    }
    let (taken_at, version) = (Timestamp::from_millis(1), "0.1.0".to_owned());
    (entries, Header { format: FORMAT, schema, revision, taken_at, version })
}

pub(crate) fn text(header: &Header, entries: &[Entry]) -> String {
    let mut writer = Writer::default();
    let first = writer.header(header);
    let lines: String = entries.iter().map(|entry| writer.entry(entry)).collect();
    first + &lines + &writer.end()
}

fn create(name: &str) -> Verb {
    Verb::CreateGroup { spec: Box::new(group_spec(name, 1)) }
}

async fn create_many(cluster: &Cluster, count: usize) {
    for number in 0..count {
        let verb = create(&format!("web{number}"));
        assert_eq!(
            outcome(&mut cluster.command(&format!("create-{number}"), verb).await).await.decision,
            Decision::Accepted
        );
    }
}

/// Replaces etcd by an empty one.
async fn wipe(cluster: &mut Cluster) {
    cluster.etcd.kill();
    std::fs::remove_dir_all(cluster.dir.path().join("etcd").join("data")).unwrap();
    cluster.etcd.restart().await.unwrap();
}

/// The leader's view of the cluster, once it satisfies `ready`.
pub(crate) async fn wait_for_view(cluster: &Cluster, ready: impl Fn(&ClusterView) -> bool) -> ClusterView {
    let started = Instant::now();
    loop {
        if let Some(Reply { answer: Answer::Cluster(view), .. }) = cluster.ask_leader(&Query::Cluster).await
            && ready(&view)
        {
            return view;
        }
        assert!(started.elapsed() < LIMIT, "not in time: {}", cluster.log("first"));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

pub(crate) async fn send(cluster: &Cluster, restore: &str, text: &str) -> u32 {
    let parts = backup::parts(text);
    for (part, text) in (0u32..).zip(&parts) {
        let step = Step::Stage { restore: restore.parse().unwrap(), part, text: (*text).to_owned() };
        let mut reply = cluster.command(&format!("{restore}-{part}"), Verb::Restore { step }).await;
        assert_eq!(outcome(&mut reply).await.decision, Decision::Accepted);
    }
    u32::try_from(parts.len()).unwrap()
}

pub(crate) fn finish(restore: &str, parts: u32, replace: bool) -> Verb {
    Verb::Restore { step: Step::Finish { restore: restore.parse().unwrap(), parts, replace } }
}

/// The stored keys that a backup contains.
async fn state(cluster: &Cluster) -> BTreeMap<String, Vec<u8>> {
    let pairs = cluster.store.list(keys::STATE).await.unwrap().pairs;
    pairs.into_iter().filter(|(key, _)| keys::is_backed_up(key) && key != keys::STORE).collect()
}

#[tokio::test]
async fn a_backup_is_a_snapshot_although_the_state_changes_between_its_pages() {
    let cluster = Cluster::start().await;
    let _scheduler = cluster.scheduler("first").await;
    create_many(&cluster, 60).await;
    let (entries, header) = pages(&cluster).await;
    let groups = |entry: &&Entry| matches!(keys::parse(&entry.key), keys::Key::Group(_));
    assert_eq!(entries.iter().filter(groups).count(), 60);
    assert!(!entries.iter().any(|entry| entry.key == keys::CALLBACKS), "the callbacks are newer than the snapshot");
    assert!(entries.is_sorted_by(|one, other| one.key < other.key));
    assert!(entries.iter().any(|entry| entry.key == keys::STORE) && !entries.iter().any(|e| e.key == keys::CURSOR));
    assert_eq!(backup::read(&text(&header, &entries)).unwrap().entries, entries);
    assert!(!cluster.callbacks(1).await.is_empty(), "commands still run during a backup");
    let gone = page(&cluster, Some(header.revision + 100_000), None).await.unwrap_err();
    assert!(gone.contains("begin the backup again"), "{gone}");
}

#[tokio::test]
async fn a_wiped_store_repeats_no_earlier_command_and_accepts_new_ones() {
    let mut cluster = Cluster::start().await;
    cluster.bus.ensure_stream(&(&streams::COMMANDS).into()).await.unwrap();
    let mut early = cluster.command("early", add_callback(1)).await;
    let _scheduler = cluster.scheduler("first").await;
    assert_eq!(
        outcome(&mut early).await.decision,
        Decision::Accepted,
        "a command sent before the first scheduler started"
    );
    for number in 2..6 {
        outcome(&mut cluster.command(&format!("c{number}"), add_callback(number)).await).await;
    }
    wipe(&mut cluster).await;
    let mut reply = cluster.command("after", add_callback(9)).await;
    // The new leader skips the command if it was sent before the leader claimed the stream.
    let accepted = tokio::time::timeout(Duration::from_secs(6), reply.next()).await.is_ok();
    if !accepted {
        outcome(&mut cluster.command("again", add_callback(9)).await).await;
    }
    assert_eq!(cluster.callbacks(1).await, ["http://127.0.0.1:1/0009"]);
    assert!(cluster.log("first").contains("the command stream belongs to another store"), "{}", cluster.log("first"));
    // The next leader starts at the same message as the first leader of this store.
    let _second = cluster.scheduler("second").await;
    assert_eq!(cluster.callbacks(1).await, ["http://127.0.0.1:1/0009"]);
}

#[tokio::test]
async fn a_wiped_store_is_restored_and_its_leader_has_a_higher_term_than_any_before() {
    let mut cluster = Cluster::start().await;
    let _first = cluster.scheduler("first").await;
    create_many(&cluster, 10).await;
    let (_, term) = cluster.leader().await;
    let (entries, header) = pages(&cluster).await;
    let before: BTreeMap<String, Vec<u8>> =
        entries.iter().map(|entry| (entry.key.clone(), entry.value().unwrap())).collect();
    wipe(&mut cluster).await;
    wait_for_view(&cluster, |view| view.groups == 0 && view.term.is_some()).await;
    let parts = send(&cluster, "r1", &text(&header, &entries)).await;
    let mut reply = cluster.command("finish", finish("r1", parts, false)).await;
    assert_eq!(outcome(&mut reply).await.decision, Decision::Accepted);
    // The leader steps down after it has applied the backup, and answers as a standby until the next one leads.
    let view = wait_for_view(&cluster, |view| view.restored.is_some() && view.term.is_some()).await;
    assert_eq!((view.groups, view.instances), (10, 10));
    assert!(view.term.unwrap().0 > term, "{view:?}");
    let after = state(&cluster).await;
    for (key, value) in before.iter().filter(|(key, _)| keys::parse(key) != keys::Key::Store) {
        assert_eq!(after.get(key), Some(value), "{key}");
    }
    let mut reply = cluster.command("refused", finish("r1", parts, false)).await;
    let decision = outcome(&mut reply).await.decision;
    assert!(matches!(&decision, Decision::Refused(Refusal::Unfit { .. })), "{decision:?}");
}

#[tokio::test]
async fn a_restore_is_complete_although_the_leader_is_killed_in_the_middle() {
    let mut cluster = Cluster::start().await;
    let first = cluster.scheduler("first").await;
    create_many(&cluster, 130).await;
    let (entries, header) = pages(&cluster).await;
    wipe(&mut cluster).await;
    let _second = cluster.scheduler("second").await;
    wait_for_view(&cluster, |view| view.groups == 0 && view.term.is_some()).await;
    let text = text(&header, &entries);
    // One restore stops after its first part, the other is complete.
    let half = Step::Stage { restore: "r0".parse().unwrap(), part: 0, text: "half".to_owned() };
    outcome(&mut cluster.command("r0-0", Verb::Restore { step: half }).await).await;
    let parts = send(&cluster, "r1", &text).await;
    let _heard = cluster.command("finish", finish("r1", parts, true)).await;
    first.signal(Signal::KILL);
    let view = wait_for_view(&cluster, |view| view.restored.is_some()).await;
    assert_eq!((view.groups, view.restored.unwrap().as_str()), (130, "r1"));
    let started = Instant::now();
    while cluster.store.list(keys::RESTORE_PARTS).await.unwrap().pairs.iter().any(|(key, _)| key.contains("/r1/")) {
        assert!(started.elapsed() < LIMIT, "the parts are still stored");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(cluster.store.get(keys::RESTORE).await.unwrap(), None);
}
