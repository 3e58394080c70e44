//! Backups of a real store, and a store that is wiped and restored under running schedulers.

use std::collections::BTreeMap;
use std::time::Duration;

use contract::backup::{self, Entry, FORMAT, Header, Page, Step, Writer};
use contract::command::{Refusal, Verb, Verdict};
use contract::keys;
use contract::query::{Answer, ClusterView, Query, Reply};
use contract::streams;
use contract::time::Timestamp;
use rustix::process::Signal;
use tokio::time::Instant;

use crate::stage::{LIMIT, Stage, add_callback, outcome};

async fn page(stage: &Stage, revision: Option<i64>, after: Option<String>) -> Result<Page, String> {
    let query = Query::Backup { revision, after };
    match stage.ask_leader(&query).await.expect("an answer") {
        Reply { answer: Answer::Backup(page), .. } => page.map(|page| *page),
        other => panic!("not a page: {other:?}"),
    }
}

/// Every page, with a change between each two.
pub(crate) async fn pages(stage: &Stage) -> (Vec<Entry>, Header) {
    let mut next = page(stage, None, None).await.unwrap();
    let (revision, schema) = (next.revision, next.schema);
    let mut entries = std::mem::take(&mut next.entries);
    let mut number = 1000;
    while let Some(after) = next.next.take() {
        number += 1;
        outcome(&mut stage.command(&format!("between-{number}"), add_callback(number % 60)).await).await;
        next = page(stage, Some(revision), Some(after)).await.unwrap();
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
    let container =
        contract::spec::ContainerSpec { image: "demo".to_owned(), memory_limit: 64 << 20, ..Default::default() };
    let pod = contract::spec::PodSpec {
        name: name.to_owned(),
        namespace: "hello".to_owned(),
        containers: vec![container],
        ..Default::default()
    };
    let spec = contract::spec::PodGroupSpec {
        name: name.to_owned(),
        namespace: "hello".to_owned(),
        num_instances: 1,
        pod,
        ..Default::default()
    };
    Verb::CreateGroup { spec: Box::new(spec) }
}

async fn create_many(stage: &Stage, count: usize) {
    for number in 0..count {
        let verb = create(&format!("web{number}"));
        assert_eq!(
            outcome(&mut stage.command(&format!("create-{number}"), verb).await).await.verdict,
            Verdict::Accepted
        );
    }
}

/// Takes etcd away with everything it holds and gives an empty one.
async fn wipe(stage: &mut Stage) {
    stage.etcd.kill();
    std::fs::remove_dir_all(stage.dir.path().join("etcd").join("data")).unwrap();
    stage.etcd.restart().await.unwrap();
}

/// The cluster as its leader sees it, once `ready` says so.
pub(crate) async fn cluster(stage: &Stage, ready: impl Fn(&ClusterView) -> bool) -> ClusterView {
    let started = Instant::now();
    loop {
        if let Some(Reply { answer: Answer::Cluster(view), .. }) = stage.ask_leader(&Query::Cluster).await
            && ready(&view)
        {
            return view;
        }
        assert!(started.elapsed() < LIMIT, "not in time: {}", stage.log("first"));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

pub(crate) async fn send(stage: &Stage, restore: &str, text: &str) -> u32 {
    let parts = backup::parts(text);
    for (part, text) in (0u32..).zip(&parts) {
        let step = Step::Stage { restore: restore.parse().unwrap(), part, text: (*text).to_owned() };
        let mut heard = stage.command(&format!("{restore}-{part}"), Verb::Restore { step }).await;
        assert_eq!(outcome(&mut heard).await.verdict, Verdict::Accepted);
    }
    u32::try_from(parts.len()).unwrap()
}

pub(crate) fn finish(restore: &str, parts: u32, replace: bool) -> Verb {
    Verb::Restore { step: Step::Finish { restore: restore.parse().unwrap(), parts, replace } }
}

/// What is stored of the cluster itself.
async fn state(stage: &Stage) -> BTreeMap<String, Vec<u8>> {
    let pairs = stage.store.list(keys::STATE).await.unwrap().pairs;
    pairs.into_iter().filter(|(key, _)| keys::is_backed_up(key) && key != keys::STORE).collect()
}

#[tokio::test]
async fn a_backup_is_of_one_moment_however_much_changes_meanwhile() {
    let stage = Stage::set().await;
    let _scheduler = stage.scheduler("first").await;
    create_many(&stage, 60).await;
    let (entries, header) = pages(&stage).await;
    let groups = |entry: &&Entry| matches!(keys::parse(&entry.key), keys::Key::Group(_));
    assert_eq!(entries.iter().filter(groups).count(), 60);
    assert!(!entries.iter().any(|entry| entry.key == keys::CALLBACKS), "that came later");
    assert!(entries.is_sorted_by(|one, other| one.key < other.key));
    assert!(entries.iter().any(|entry| entry.key == keys::STORE) && !entries.iter().any(|e| e.key == keys::CURSOR));
    assert_eq!(backup::read(&text(&header, &entries)).unwrap().entries, entries);
    assert!(!stage.callbacks(1).await.is_empty(), "and changes went on");
    let gone = page(&stage, Some(header.revision + 100_000), None).await.unwrap_err();
    assert!(gone.contains("begin the backup again"), "{gone}");
}

#[tokio::test]
async fn a_wiped_store_does_not_do_again_what_was_done_and_takes_what_comes() {
    let mut stage = Stage::set().await;
    stage.bus.ensure_stream(&(&streams::COMMANDS).into()).await.unwrap();
    let mut early = stage.command("early", add_callback(1)).await;
    let _scheduler = stage.scheduler("first").await;
    assert_eq!(outcome(&mut early).await.verdict, Verdict::Accepted, "what was asked before anybody ran is done");
    for number in 2..6 {
        outcome(&mut stage.command(&format!("c{number}"), add_callback(number)).await).await;
    }
    wipe(&mut stage).await;
    let mut heard = stage.command("after", add_callback(9)).await;
    // The leader may come just before or just after the command: it is not of the store that was.
    let taken = tokio::time::timeout(Duration::from_secs(6), heard.next()).await.is_ok();
    if !taken {
        outcome(&mut stage.command("again", add_callback(9)).await).await;
    }
    assert_eq!(stage.callbacks(1).await, ["http://127.0.0.1:1/0009"]);
    assert!(stage.log("first").contains("the command stream belongs to another store"), "{}", stage.log("first"));
    // Whoever leads next begins where the first leader of this store did.
    let _second = stage.scheduler("second").await;
    assert_eq!(stage.callbacks(1).await, ["http://127.0.0.1:1/0009"]);
}

#[tokio::test]
async fn a_wiped_store_is_restored_and_leads_in_a_higher_term_than_any_before() {
    let mut stage = Stage::set().await;
    let _first = stage.scheduler("first").await;
    create_many(&stage, 10).await;
    let (_, term) = stage.leader().await;
    let (entries, header) = pages(&stage).await;
    let before: BTreeMap<String, Vec<u8>> =
        entries.iter().map(|entry| (entry.key.clone(), entry.value().unwrap())).collect();
    wipe(&mut stage).await;
    cluster(&stage, |view| view.groups == 0 && view.term.is_some()).await;
    let parts = send(&stage, "r1", &text(&header, &entries)).await;
    let mut heard = stage.command("finish", finish("r1", parts, false)).await;
    assert_eq!(outcome(&mut heard).await.verdict, Verdict::Accepted);
    // Whoever put the backup in place leads no more, and tells of it as a standby until the next one leads.
    let view = cluster(&stage, |view| view.restored.is_some() && view.term.is_some()).await;
    assert_eq!((view.groups, view.instances), (10, 10));
    assert!(view.term.unwrap().0 > term, "{view:?}");
    let after = state(&stage).await;
    for (key, value) in before.iter().filter(|(key, _)| keys::parse(key) != keys::Key::Store) {
        assert_eq!(after.get(key), Some(value), "{key}");
    }
    let mut heard = stage.command("refused", finish("r1", parts, false)).await;
    let verdict = outcome(&mut heard).await.verdict;
    assert!(matches!(&verdict, Verdict::Refused(Refusal::Unfit { .. })), "{verdict:?}");
}

#[tokio::test]
async fn a_restore_is_whole_whoever_is_killed_on_the_way() {
    let mut stage = Stage::set().await;
    let first = stage.scheduler("first").await;
    create_many(&stage, 130).await;
    let (entries, header) = pages(&stage).await;
    wipe(&mut stage).await;
    let _second = stage.scheduler("second").await;
    cluster(&stage, |view| view.groups == 0 && view.term.is_some()).await;
    let text = text(&header, &entries);
    // One that is cut off after some parts, and one that is not.
    let half = Step::Stage { restore: "r0".parse().unwrap(), part: 0, text: "half".to_owned() };
    outcome(&mut stage.command("r0-0", Verb::Restore { step: half }).await).await;
    let parts = send(&stage, "r1", &text).await;
    let _heard = stage.command("finish", finish("r1", parts, true)).await;
    first.signal(Signal::KILL);
    let view = cluster(&stage, |view| view.restored.is_some()).await;
    assert_eq!((view.groups, view.restored.unwrap().as_str()), (130, "r1"));
    let started = Instant::now();
    while stage.store.list(keys::RESTORE_PARTS).await.unwrap().pairs.iter().any(|(key, _)| key.contains("/r1/")) {
        assert!(started.elapsed() < LIMIT, "the parts stay");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(stage.store.get(keys::RESTORE).await.unwrap(), None);
}
