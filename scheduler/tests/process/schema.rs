//! A new leader migrates an older schema; a scheduler does not lead over a newer one.

use contract::keys;
use contract::layout::{self, Stored};
use contract::name::GroupName;
use contract::record::{GroupRecord, Instance, PlacementRecord, SCHEMA_VERSION, SchemaRecord};
use contract::spec::{PodGroupSpec, PodSpec};
use fabric::election::{Election, ElectionRole, Guard, Settings};
use fabric::etcd::Op;
use fabric::shutdown::Shutdown;
use rustix::process::Signal;
use scheduler::migration::{Change, Migration, Schema, transactions};
use scheduler::schema::{Error, prepare};
use tokio::time::Instant;

use crate::cluster::{Cluster, LIMIT};

/// More than fit into two transactions.
const RECORDS: usize = 250;

/// From `old N` to `new N`, then from `new N` to `newest N`. The first one removes the cursor.
const MIGRATIONS: [Migration; 2] = [
    Migration {
        from: 1,
        change: |key, value| if key == keys::CURSOR { Change::Remove } else { renamed(value, "old ", "new ") },
    },
    Migration { from: 2, change: |_, value| renamed(value, "new ", "newest ") },
];
const SCHEMA: Schema = Schema { version: 3, migrations: &MIGRATIONS };

fn renamed(value: &[u8], from: &str, to: &str) -> Change {
    let text = String::from_utf8_lossy(value);
    text.strip_prefix(from).map_or(Change::Keep, |rest| Change::Put(format!("{to}{rest}").into_bytes()))
}

fn put(key: String, value: &str) -> Op {
    Op::Put { key, value: value.as_bytes().to_vec(), lease: None }
}

fn record_key(number: usize) -> String {
    keys::node(&format!("n{number:04}").parse().unwrap())
}

/// Stores records in the oldest schema.
async fn store_old(cluster: &Cluster) {
    let old: Vec<Op> = (0..RECORDS).map(|number| put(record_key(number), &format!("old {number}"))).collect();
    for part in old.chunks(100) {
        cluster.store.commit(None, part).await.unwrap();
    }
    let rest = [
        put(keys::SCHEMA.to_owned(), r#"{"version":1}"#),
        put(keys::CURSOR.to_owned(), "gone"),
        put(keys::CALLBACKS.to_owned(), "unaffected"),
    ];
    cluster.store.commit(None, &rest).await.unwrap();
}

async fn assert_migrated(cluster: &Cluster) {
    let pairs = cluster.store.list(keys::STATE).await.unwrap().pairs;
    let mut expected: Vec<(String, String)> =
        (0..RECORDS).map(|number| (record_key(number), format!("newest {number}"))).collect();
    expected.push((keys::CALLBACKS.to_owned(), "unaffected".to_owned()));
    expected.sort();
    let found: Vec<(String, String)> =
        pairs.into_iter().map(|(key, value)| (key, String::from_utf8(value).unwrap())).collect();
    assert_eq!(found, expected);
    let schema: SchemaRecord =
        serde_json::from_slice(&cluster.store.get(keys::SCHEMA).await.unwrap().unwrap()).unwrap();
    assert_eq!(schema, SchemaRecord { version: 3, migrating_to: None });
}

/// Wins the election.
async fn elected(cluster: &Cluster) -> (Election, Guard) {
    let election = Election::start(cluster.store.clone(), keys::LEADER, "me", Settings::default(), Shutdown::new());
    let mut role = election.role();
    let led = tokio::time::timeout(LIMIT, role.wait_for(|role| matches!(role, ElectionRole::Leader(_)))).await;
    let ElectionRole::Leader(guard) = led.expect("elected in time").unwrap().clone() else { panic!("not a leader") };
    (election, guard)
}

#[tokio::test]
async fn an_older_schema_is_migrated_once_and_a_second_run_writes_nothing() {
    let cluster = Cluster::start().await;
    store_old(&cluster).await;
    let (_election, guard) = elected(&cluster).await;
    prepare(&cluster.store, &guard, "me", &SCHEMA).await.unwrap();
    assert_migrated(&cluster).await;
    let before = cluster.store.list(keys::ROOT).await.unwrap().revision;
    prepare(&cluster.store, &guard, "me", &SCHEMA).await.unwrap();
    assert_eq!(cluster.store.list(keys::ROOT).await.unwrap().revision, before);
}

#[tokio::test]
async fn an_interrupted_migration_is_finished_by_the_next_leader() {
    let cluster = Cluster::start().await;
    let (_election, guard) = elected(&cluster).await;
    for cut in 0..=3 {
        store_old(&cluster).await;
        let pairs = cluster.store.list(keys::STATE).await.unwrap().pairs;
        let made = transactions(&MIGRATIONS[0], &pairs);
        assert_eq!(made.len(), 3, "of 250 records and the cursor");
        let begun = put(keys::SCHEMA.to_owned(), r#"{"version":1,"migrating_to":2}"#);
        cluster.store.commit(None, &[begun]).await.unwrap();
        for transaction in &made[..cut] {
            cluster.store.commit(None, transaction).await.unwrap();
        }
        prepare(&cluster.store, &guard, "me", &SCHEMA).await.unwrap();
        assert_migrated(&cluster).await;
    }
}

#[tokio::test]
async fn a_deposed_leader_migrates_nothing() {
    let cluster = Cluster::start().await;
    store_old(&cluster).await;
    let (_election, guard) = elected(&cluster).await;
    let before = cluster.store.list(keys::STATE).await.unwrap().pairs;
    let deposed = Guard { term: guard.term - 1, ..guard.clone() };
    let refused = prepare(&cluster.store, &deposed, "me", &SCHEMA).await;
    assert!(matches!(refused, Err(Error::Deposed)), "{refused:?}");
    assert_eq!(cluster.store.list(keys::STATE).await.unwrap().pairs, before);
    assert_eq!(cluster.store.get(keys::SCHEMA).await.unwrap().unwrap(), br#"{"version":1}"#);
    // A leader without a migration from the stored version changes nothing either.
    let incomplete = Schema { version: 3, migrations: &[] };
    let refused = prepare(&cluster.store, &guard, "me", &incomplete).await;
    assert!(matches!(refused, Err(Error::NoMigration { found: 1 })), "{refused:?}");
}

#[tokio::test]
async fn a_scheduler_migrates_the_state_of_schema_1_and_leads() {
    let cluster = Cluster::start().await;
    let name: GroupName = "hello.web.web".parse().unwrap();
    let pod = PodSpec { name: name.to_string(), ..PodSpec::default() };
    let spec = PodGroupSpec { name: name.to_string(), num_instances: 120, pod, ..PodGroupSpec::default() };
    let record: GroupRecord = GroupRecord { spec, ..GroupRecord::default() };
    let placement =
        PlacementRecord { instances: vec![Instance { node: Some("n1".parse().unwrap()), ..Instance::default() }; 120] };
    // The key of schema 1: without a page.
    let former = keys::placements(&name).trim_end_matches('/').to_owned();
    let old = [
        put(keys::SCHEMA.to_owned(), r#"{"version":1}"#),
        put(keys::group(&name), &serde_json::to_string(&record).unwrap()),
        put(former.clone(), &serde_json::to_string(&placement).unwrap()),
    ];
    cluster.store.commit(None, &old).await.unwrap();
    let _scheduler = cluster.scheduler("first").await;
    assert_eq!(cluster.leader().await.0, "first");
    let stored: Stored = cluster.store.list(keys::STATE).await.unwrap().pairs.into_iter().collect();
    assert_eq!(layout::read_group(&name, &stored).unwrap().map(|found| found.spec), Some(record.spec));
    let instances = layout::read_instances(&name, &stored).unwrap();
    assert_eq!((instances.len(), instances[119].node.clone()), (120, placement.instances[0].node.clone()));
    assert_eq!(stored.keys().filter(|key| key.starts_with(&keys::placements(&name))).count(), 3, "three pages");
    assert!(!stored.contains_key(&former), "the old key is gone");
    let schema: SchemaRecord =
        serde_json::from_slice(&cluster.store.get(keys::SCHEMA).await.unwrap().unwrap()).unwrap();
    assert_eq!(schema, SchemaRecord { version: SCHEMA_VERSION, migrating_to: None });
}

#[tokio::test]
async fn a_standby_that_is_older_than_the_stored_schema_does_not_lead_and_exits_with_the_reason() {
    let cluster = Cluster::start().await;
    let mut first = cluster.scheduler("first").await;
    assert_eq!(cluster.leader().await.0, "first");
    let mut second = cluster.scheduler("second").await;
    // A newer leader stores this in the middle of its migration.
    let newer = put(keys::SCHEMA.to_owned(), r#"{"version":1,"migrating_to":99}"#);
    cluster.store.commit(None, &[newer]).await.unwrap();
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
    assert_eq!(second.ended().await.code(), Some(1), "{}", cluster.log("second"));
    let log = cluster.log("second");
    assert!(log.contains("etcd holds schema version 99") && !log.contains("took over"), "{log}");
    assert_eq!(cluster.ask_leader(&contract::query::Query::Cluster).await, None, "no scheduler leads");
}
