//! etcd: guarded commits, lists, watches, dead endpoints.

use std::time::Duration;

use fabric::election::Guard;
use fabric::etcd::{Args, Change, CommitResult, Error, Op, PageRequest, Store};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::servers::Etcd;

fn put(key: &str, value: &str) -> Op {
    Op::Put { key: key.to_owned(), value: value.as_bytes().to_vec(), lease: None }
}

async fn change(changes: &mut mpsc::Receiver<Change>) -> Change {
    tokio::time::timeout(Duration::from_secs(10), changes.recv()).await.expect("in time").expect("open")
}

/// A leader key tied to a lease, as the election makes it.
async fn leader_key(store: &Store, etcd: &Etcd) -> (Guard, i64) {
    let lease = store.grant_lease(Duration::from_secs(60)).await.unwrap();
    let op = Op::Put { key: "/lead".to_owned(), value: b"me".to_vec(), lease: Some(lease) };
    store.commit(None, &[op]).await.unwrap();
    let found = etcd.client().await.get("/lead", None).await.unwrap();
    let term = u64::try_from(found.kvs()[0].create_revision()).unwrap();
    (Guard { key: "/lead".to_owned(), term }, lease)
}

#[tokio::test]
async fn a_guarded_commit_after_the_lease_ended_stores_nothing() {
    let etcd = Etcd::start().await;
    let store = etcd.store().await;
    let (guard, lease) = leader_key(&store, &etcd).await;
    assert_eq!(store.commit(Some(&guard), &[put("/a", "1")]).await.unwrap(), CommitResult::Stored);
    store.revoke_lease(lease).await.unwrap();
    assert_eq!(store.commit(Some(&guard), &[put("/a", "2")]).await.unwrap(), CommitResult::Fenced);
    let (newer, _) = leader_key(&store, &etcd).await;
    assert!(newer.term > guard.term);
    assert_eq!(store.commit(Some(&guard), &[put("/a", "3")]).await.unwrap(), CommitResult::Fenced);
    assert_eq!(store.get("/a").await.unwrap().as_deref(), Some(b"1".as_slice()));
}

#[tokio::test]
async fn a_commit_of_127_operations_is_stored_and_one_more_is_refused() {
    let etcd = Etcd::start().await;
    let store = etcd.store().await;
    let (guard, _) = leader_key(&store, &etcd).await;
    let ops: Vec<Op> = (0..127).map(|n| put(&format!("/k/{n:03}"), "v")).collect();
    assert_eq!(store.commit(Some(&guard), &ops).await.unwrap(), CommitResult::Stored);
    assert_eq!(store.list("/k/").await.unwrap().pairs.len(), 127);
    let too_many: Vec<Op> = (0..128).map(|n| put(&format!("/k/{n}"), "v")).collect();
    let refused = store.commit(Some(&guard), &too_many).await;
    assert!(matches!(refused, Err(Error::TooManyOperations { count: 128 })), "{refused:?}");
}

#[tokio::test]
async fn a_list_of_many_pages_is_complete_sorted_and_limited_to_its_prefix() {
    let etcd = Etcd::start().await;
    let store = etcd.store().await;
    for page in 0..5 {
        let ops: Vec<Op> = (0..100).map(|n| put(&format!("/many/{page}{n:02}"), &"v".repeat(10_000))).collect();
        store.commit(None, &ops).await.unwrap();
    }
    store.commit(None, &[put("/many0", "not ours"), put("/man", "not ours")]).await.unwrap();
    let listing = store.list("/many/").await.unwrap();
    let keys: Vec<String> = listing.pairs.iter().map(|(key, _)| key.clone()).collect();
    let expected: Vec<String> = (0..500).map(|n| format!("/many/{n:03}")).collect();
    assert_eq!(keys, expected);
    assert!(listing.pairs.iter().all(|(_, value)| value.len() == 10_000));
}

#[tokio::test]
async fn keys_of_a_lease_are_deleted_with_it() {
    let etcd = Etcd::start().await;
    let store = etcd.store().await;
    let lease = store.grant_lease(Duration::from_secs(60)).await.unwrap();
    let leased = Op::Put { key: "/leased".to_owned(), value: b"v".to_vec(), lease: Some(lease) };
    store.commit(None, &[leased, put("/kept", "v")]).await.unwrap();
    store.commit(None, &[Op::Delete { key: "/kept".to_owned() }]).await.unwrap();
    assert_eq!(store.get("/kept").await.unwrap(), None);
    assert!(store.get("/leased").await.unwrap().is_some());
    store.revoke_lease(lease).await.unwrap();
    assert_eq!(store.get("/leased").await.unwrap(), None);
}

#[tokio::test]
async fn a_watch_starts_with_the_complete_state_and_then_sends_each_change() {
    let etcd = Etcd::start().await;
    let store = etcd.store().await;
    store.commit(None, &[put("/w/a", "1"), put("/x", "not watched")]).await.unwrap();
    let mut changes = store.watch("/w/");
    assert_eq!(change(&mut changes).await, Change::Reset(vec![("/w/a".to_owned(), b"1".to_vec())]));
    store.commit(None, &[put("/w/b", "2"), put("/x", "again")]).await.unwrap();
    assert_eq!(change(&mut changes).await, Change::Put("/w/b".to_owned(), b"2".to_vec()));
    store.commit(None, &[Op::Delete { key: "/w/a".to_owned() }]).await.unwrap();
    assert_eq!(change(&mut changes).await, Change::Delete("/w/a".to_owned()));
}

#[tokio::test]
async fn a_watch_that_missed_compacted_history_reads_everything_again() {
    let mut etcd = Etcd::start().await;
    let store = etcd.store().await;
    store.commit(None, &[put("/w/a", "1")]).await.unwrap();
    let mut changes = store.watch("/w/");
    assert!(matches!(change(&mut changes).await, Change::Reset(_)));
    // The watcher does not read while history is written and compacted, and its connection is cut.
    for n in 0..3000 {
        store.commit(None, &[put("/w/a", &n.to_string())]).await.unwrap();
    }
    store.commit(None, &[put("/w/a", "last"), put("/w/b", "new")]).await.unwrap();
    let revision = store.list("/w/").await.unwrap().revision;
    etcd.client().await.compact(revision, None).await.unwrap();
    etcd.server.kill();
    etcd.server.restart().await.unwrap();
    let expected = vec![("/w/a".to_owned(), b"last".to_vec()), ("/w/b".to_owned(), b"new".to_vec())];
    let mut state = Vec::new();
    while state != expected {
        match change(&mut changes).await {
            Change::Reset(pairs) => state = pairs,
            Change::Put(_, _) | Change::Delete(_) => {}
        }
    }
    store.commit(None, &[put("/w/c", "after")]).await.unwrap();
    assert_eq!(change(&mut changes).await, Change::Put("/w/c".to_owned(), b"after".to_vec()));
}

#[tokio::test]
async fn a_dead_second_endpoint_fails_no_call() {
    let etcd = Etcd::start().await;
    for endpoints in
        [["http://127.0.0.1:1".to_owned(), etcd.server.url()], [etcd.server.url(), "http://127.0.0.1:1".to_owned()]]
    {
        let store = Store::connect(&Args { endpoints: endpoints.to_vec(), ..Args::at("") }).await.unwrap();
        for n in 0..50 {
            let done = store.commit(None, &[put("/d", &n.to_string())]).await;
            assert!(matches!(done, Ok(CommitResult::Stored)), "{done:?}");
        }
        assert_eq!(store.list("/d").await.unwrap().pairs.len(), 1);
        assert!(matches!(change(&mut store.watch("/d")).await, Change::Reset(_)));
    }
}

#[tokio::test]
async fn calls_continue_after_etcd_was_killed_and_nothing_is_lost() {
    let mut etcd = Etcd::start().await;
    let store = etcd.store().await;
    store.commit(None, &[put("/k", "before")]).await.unwrap();
    etcd.server.kill();
    etcd.server.restart().await.unwrap();
    assert_eq!(store.get("/k").await.unwrap().as_deref(), Some(b"before".as_slice()));
    assert_eq!(store.commit(None, &[put("/k", "after")]).await.unwrap(), CommitResult::Stored);
}

#[tokio::test]
async fn a_call_to_a_frozen_etcd_ends_with_an_error_in_bounded_time() {
    let etcd = Etcd::start().await;
    let store = etcd.store().await;
    etcd.signal(rustix::process::Signal::STOP);
    let started = Instant::now();
    let refused = store.commit(None, &[put("/k", "v")]).await;
    assert!(refused.is_err());
    assert!(started.elapsed() < Duration::from_secs(9), "{:?}", started.elapsed());
    etcd.signal(rustix::process::Signal::CONT);
    assert_eq!(store.commit(None, &[put("/k", "v")]).await.unwrap(), CommitResult::Stored);
}

#[tokio::test]
async fn pages_have_one_revision_until_it_is_compacted() {
    let etcd = Etcd::start().await;
    let store = etcd.store().await;
    for number in 0..5 {
        store.commit(None, &[put(&format!("/p/{number}"), "old")]).await.unwrap();
    }
    let first = store.page("/p/", PageRequest { after: None, revision: None, limit: 2 }).await.unwrap();
    assert!(first.more);
    store.commit(None, &[put("/p/3", "new"), put("/p/9", "new"), Op::Delete { key: "/p/4".to_owned() }]).await.unwrap();
    let rest = PageRequest { after: Some("/p/1"), revision: Some(first.revision), limit: 9 };
    let second = store.page("/p/", rest).await.unwrap();
    let old = |keys: &[&str]| -> Vec<(String, Vec<u8>)> {
        keys.iter().map(|&key| (key.to_owned(), b"old".to_vec())).collect()
    };
    assert_eq!((first.pairs, second.pairs), (old(&["/p/0", "/p/1"]), old(&["/p/2", "/p/3", "/p/4"])));
    assert_eq!((second.revision, second.more), (first.revision, false));
    etcd.client().await.compact(first.revision + 1, None).await.unwrap();
    let gone = store.page("/p/", rest).await;
    assert!(matches!(gone, Err(Error::NoRevision { revision }) if revision == first.revision), "{gone:?}");
    let future = store.page("/p/", PageRequest { revision: Some(first.revision + 1000), ..rest }).await;
    assert!(matches!(future, Err(Error::NoRevision { .. })), "{future:?}");
}

#[tokio::test]
async fn a_call_with_refused_credentials_differs_from_a_temporary_failure() {
    let etcd = Etcd::start().await;
    let store = etcd.store().await;
    assert_eq!(store.commit(None, &[put("/k", "v")]).await.unwrap(), CommitResult::Stored);
    let client = etcd.client().await;
    let mut auth = client.auth_client();
    auth.user_add("root", "secret", None).await.unwrap();
    auth.user_grant_role("root", "root").await.unwrap();
    auth.auth_enable().await.unwrap();
    let refused = store.commit(None, &[put("/k", "w")]).await.unwrap_err();
    assert!(refused.is_denied(), "{refused:?}");
    assert!(!fabric::etcd::Error::TimedOut { doing: "testing" }.is_denied());
}
