//! The shape of what is stored: older ones are migrated by whoever is about to lead, newer ones are led over by nobody.

use contract::keys;
use contract::layout::{self, Stored};
use contract::name::GroupName;
use contract::record::{GroupRecord, PlacementRecord, SCHEMA_VERSION, SchemaRecord, Slot};
use contract::spec::{PodGroupSpec, PodSpec};
use fabric::election::{Election, Guard, Role, Settings};
use fabric::etcd::Op;
use fabric::shutdown::Shutdown;
use rustix::process::Signal;
use scheduler::migration::{Change, Shape, Step, transactions};
use scheduler::schema::{Error, prepare};
use tokio::time::Instant;

use crate::stage::{LIMIT, Stage};

/// More than two transactions of them.
const RECORDS: usize = 250;

/// From `old N` to `new N`, and then from `new N` to `newest N`; the cursor goes.
const STEPS: [Step; 2] = [
    Step {
        from: 1,
        change: |key, value| if key == keys::CURSOR { Change::Remove } else { renamed(value, "old ", "new ") },
    },
    Step { from: 2, change: |_, value| renamed(value, "new ", "newest ") },
];
const SHAPE: Shape = Shape { version: 3, steps: &STEPS };

fn renamed(value: &[u8], from: &str, to: &str) -> Change {
    let text = String::from_utf8_lossy(value);
    text.strip_prefix(from).map_or(Change::Keep, |rest| Change::Put(format!("{to}{rest}").into_bytes()))
}

fn put(key: String, value: &str) -> Op {
    Op::Put { key, value: value.as_bytes().to_vec(), lease: None }
}

/// The key of a record.
fn record(number: usize) -> String {
    keys::node(&format!("n{number:04}").parse().unwrap())
}

/// Writes a whole cluster's worth of records in the oldest shape.
async fn store_old(stage: &Stage) {
    let old: Vec<Op> = (0..RECORDS).map(|number| put(record(number), &format!("old {number}"))).collect();
    for part in old.chunks(100) {
        stage.store.commit(None, part).await.unwrap();
    }
    let rest = [
        put(keys::SCHEMA.to_owned(), r#"{"version":1}"#),
        put(keys::CURSOR.to_owned(), "gone"),
        put(keys::CALLBACKS.to_owned(), "not of this kind"),
    ];
    stage.store.commit(None, &rest).await.unwrap();
}

async fn is_migrated(stage: &Stage) {
    let pairs = stage.store.list(keys::STATE).await.unwrap().pairs;
    let mut expected: Vec<(String, String)> =
        (0..RECORDS).map(|number| (record(number), format!("newest {number}"))).collect();
    expected.push((keys::CALLBACKS.to_owned(), "not of this kind".to_owned()));
    expected.sort();
    let found: Vec<(String, String)> =
        pairs.into_iter().map(|(key, value)| (key, String::from_utf8(value).unwrap())).collect();
    assert_eq!(found, expected);
    let schema: SchemaRecord = serde_json::from_slice(&stage.store.get(keys::SCHEMA).await.unwrap().unwrap()).unwrap();
    assert_eq!(schema, SchemaRecord { version: 3, migrating_to: None });
}

/// An election won.
async fn elected(stage: &Stage) -> (Election, Guard) {
    let election = Election::start(stage.store.clone(), keys::LEADER, "me", Settings::default(), Shutdown::new());
    let mut role = election.role();
    let led = tokio::time::timeout(LIMIT, role.wait_for(|role| matches!(role, Role::Leader(_)))).await;
    let Role::Leader(guard) = led.expect("elected in time").unwrap().clone() else { panic!("not a leader") };
    (election, guard)
}

#[tokio::test]
async fn an_older_shape_becomes_ours_and_the_second_time_nothing_is_written() {
    let stage = Stage::set().await;
    store_old(&stage).await;
    let (_election, guard) = elected(&stage).await;
    prepare(&stage.store, &guard, "me", &SHAPE).await.unwrap();
    is_migrated(&stage).await;
    let before = stage.store.list(keys::ROOT).await.unwrap().revision;
    prepare(&stage.store, &guard, "me", &SHAPE).await.unwrap();
    assert_eq!(stage.store.list(keys::ROOT).await.unwrap().revision, before);
}

#[tokio::test]
async fn a_migration_that_was_cut_off_anywhere_is_finished_by_the_next() {
    let stage = Stage::set().await;
    let (_election, guard) = elected(&stage).await;
    for cut in 0..=3 {
        store_old(&stage).await;
        let pairs = stage.store.list(keys::STATE).await.unwrap().pairs;
        let made = transactions(&STEPS[0], &pairs);
        assert_eq!(made.len(), 3, "of 250 records and the cursor");
        let begun = put(keys::SCHEMA.to_owned(), r#"{"version":1,"migrating_to":2}"#);
        stage.store.commit(None, &[begun]).await.unwrap();
        for transaction in &made[..cut] {
            stage.store.commit(None, transaction).await.unwrap();
        }
        prepare(&stage.store, &guard, "me", &SHAPE).await.unwrap();
        is_migrated(&stage).await;
    }
}

#[tokio::test]
async fn who_does_not_lead_any_more_migrates_nothing() {
    let stage = Stage::set().await;
    store_old(&stage).await;
    let (_election, guard) = elected(&stage).await;
    let before = stage.store.list(keys::STATE).await.unwrap().pairs;
    let deposed = Guard { term: guard.term - 1, ..guard.clone() };
    let refused = prepare(&stage.store, &deposed, "me", &SHAPE).await;
    assert!(matches!(refused, Err(Error::Deposed)), "{refused:?}");
    assert_eq!(stage.store.list(keys::STATE).await.unwrap().pairs, before);
    assert_eq!(stage.store.get(keys::SCHEMA).await.unwrap().unwrap(), br#"{"version":1}"#);
    // And a version nobody has a step for is left alone by its leader too.
    let lost = Shape { version: 3, steps: &[] };
    let refused = prepare(&stage.store, &guard, "me", &lost).await;
    assert!(matches!(refused, Err(Error::NoStep { found: 1 })), "{refused:?}");
}

#[tokio::test]
async fn what_schema_1_stored_is_led_over_after_its_migration() {
    let stage = Stage::set().await;
    let name: GroupName = "hello.web.web".parse().unwrap();
    let pod = PodSpec { name: name.to_string(), ..PodSpec::default() };
    let spec = PodGroupSpec { name: name.to_string(), num_instances: 120, pod, ..PodGroupSpec::default() };
    let record: GroupRecord = GroupRecord { spec, ..GroupRecord::default() };
    let placement = PlacementRecord { slots: vec![Slot { node: Some("n1".parse().unwrap()), ..Slot::default() }; 120] };
    // The key of schema 1: without a page.
    let former = keys::placements(&name).trim_end_matches('/').to_owned();
    let old = [
        put(keys::SCHEMA.to_owned(), r#"{"version":1}"#),
        put(keys::group(&name), &serde_json::to_string(&record).unwrap()),
        put(former.clone(), &serde_json::to_string(&placement).unwrap()),
    ];
    stage.store.commit(None, &old).await.unwrap();
    let _scheduler = stage.scheduler("first").await;
    assert_eq!(stage.leader().await.0, "first");
    let stored: Stored = stage.store.list(keys::STATE).await.unwrap().pairs.into_iter().collect();
    assert_eq!(layout::read_group(&name, &stored).unwrap().map(|found| found.spec), Some(record.spec));
    let slots = layout::read_slots(&name, &stored).unwrap();
    assert_eq!((slots.len(), slots[119].node.clone()), (120, placement.slots[0].node.clone()));
    assert_eq!(stored.keys().filter(|key| key.starts_with(&keys::placements(&name))).count(), 3, "three pages");
    assert!(!stored.contains_key(&former), "the old key is gone");
    let schema: SchemaRecord = serde_json::from_slice(&stage.store.get(keys::SCHEMA).await.unwrap().unwrap()).unwrap();
    assert_eq!(schema, SchemaRecord { version: SCHEMA_VERSION, migrating_to: None });
}

#[tokio::test]
async fn a_standby_that_is_older_than_what_is_stored_does_not_lead_and_says_why() {
    let stage = Stage::set().await;
    let mut first = stage.scheduler("first").await;
    assert_eq!(stage.leader().await.0, "first");
    let mut second = stage.scheduler("second").await;
    // As a newer leader does in the middle of its migration.
    let newer = put(keys::SCHEMA.to_owned(), r#"{"version":1,"migrating_to":99}"#);
    stage.store.commit(None, &[newer]).await.unwrap();
    let started = Instant::now();
    loop {
        let (status, text) = second.get("/readyz").await.unwrap();
        if status == 503 && text.contains("schema version 99") {
            break;
        }
        assert!(started.elapsed() < LIMIT, "{status} {text}");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    first.signal(Signal::TERM);
    assert_eq!(first.ended().await.code(), Some(0));
    assert_eq!(second.ended().await.code(), Some(1), "{}", stage.log("second"));
    let log = stage.log("second");
    assert!(log.contains("etcd holds schema version 99") && !log.contains("takes over"), "{log}");
    assert_eq!(stage.ask_leader(&contract::query::Query::Cluster).await, None, "nobody leads");
}
