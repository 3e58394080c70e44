//! The same cases against the fake store and a real etcd with fabric's writer: both must answer the same.

#![allow(clippy::unwrap_used, reason = "a test may fail anywhere")]

use std::collections::BTreeMap;
use std::time::Duration;

use contract::fence::Term;
use contract::time::Timestamp;
use fabric::election::Guard;
use fabric::etcd::{Args, CommitResult, Op, Store, Writer};
use fabric::local::EtcdServer;
use testkit::store::{Arrived, Candidate, Change, FakeStore};

const NOW: Timestamp = Timestamp::from_millis(0);
const LEADER: &str = "/lead";

#[derive(Debug, PartialEq, Eq)]
enum Answer {
    Stored,
    Fenced,
}
use Answer::{Fenced, Stored};

trait Subject {
    /// Wins an election and returns the term.
    async fn lead(&mut self) -> u64;
    /// The lease of the leader ends.
    async fn end_lease(&mut self);
    /// Sends commit `id` of a term. A repeated id is a retry whose first answer was lost.
    async fn commit(&mut self, term: u64, id: u64, changes: &[Change<'_>]) -> Answer;
    async fn revision(&self) -> u64;
    async fn all(&self) -> Vec<(String, Vec<u8>)>;
}

#[derive(Default)]
struct Fake {
    store: FakeStore,
    leader: Option<Candidate>,
    elections: u32,
}

impl Subject for Fake {
    async fn lead(&mut self) -> u64 {
        self.elections += 1;
        let candidate = Candidate { scheduler: 0, lease: self.elections };
        self.leader = Some(candidate);
        self.store.campaign(candidate, NOW).expect("no other leader").0
    }
    async fn end_lease(&mut self) {
        self.store.resign(self.leader.take().expect("a leader"), NOW);
    }
    async fn commit(&mut self, term: u64, id: u64, changes: &[Change<'_>]) -> Answer {
        match self.store.commit((Term(term), id), changes.iter().copied(), NOW) {
            Arrived::Stored | Arrived::Again => Stored,
            Arrived::Fenced => Fenced,
            Arrived::Refused => panic!("the store is not full"),
        }
    }
    async fn revision(&self) -> u64 {
        self.store.revision()
    }
    async fn all(&self) -> Vec<(String, Vec<u8>)> {
        self.store.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
    }
}

struct Real {
    _server: EtcdServer,
    _dir: tempfile::TempDir,
    store: Store,
    lease: i64,
    /// The writer of each term before its last commit: a retry uses the version that the first attempt used.
    writers: BTreeMap<u64, (u64, Writer)>,
}

impl Real {
    async fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let server = EtcdServer::start(dir.path(), 0).await.unwrap();
        let store = Store::connect(&Args::at(server.url())).await.unwrap();
        Self { _server: server, _dir: dir, store, lease: 0, writers: BTreeMap::new() }
    }
    fn writer(&self, term: u64) -> Writer {
        Writer::new(self.store.clone(), Guard { key: LEADER.to_owned(), term }, "me")
    }
}

impl Subject for Real {
    async fn lead(&mut self) -> u64 {
        self.lease = self.store.grant_lease(Duration::from_secs(60)).await.unwrap();
        let op = Op::Put { key: LEADER.to_owned(), value: b"me".to_vec(), lease: Some(self.lease) };
        assert_eq!(self.store.commit(None, &[op]).await.unwrap(), CommitResult::Stored);
        // The create revision of the key; nothing else writes.
        self.revision().await
    }
    async fn end_lease(&mut self) {
        self.store.revoke_lease(self.lease).await.unwrap();
    }
    async fn commit(&mut self, term: u64, id: u64, changes: &[Change<'_>]) -> Answer {
        let op = |(key, value): &Change<'_>| match value {
            Some(value) => Op::Put { key: (*key).to_owned(), value: value.to_vec(), lease: None },
            None => Op::Delete { key: (*key).to_owned() },
        };
        let ops: Vec<Op> = changes.iter().map(op).collect();
        let mut writer = match self.writers.remove(&term) {
            Some((last, writer)) if last < id => writer,
            Some(_) | None => self.writer(term),
        };
        let result = writer.commit(&ops).await.unwrap();
        self.writers.insert(term, (id, writer));
        match result {
            CommitResult::Stored => Stored,
            CommitResult::Fenced => Fenced,
            other => panic!("{other:?}"),
        }
    }
    async fn revision(&self) -> u64 {
        u64::try_from(self.store.list("/k/").await.unwrap().revision).unwrap()
    }
    async fn all(&self) -> Vec<(String, Vec<u8>)> {
        self.store.list("/k/").await.unwrap().pairs
    }
}

fn put<'a>(key: &'a str, value: &'a str) -> Change<'a> {
    (key, Some(value.as_bytes()))
}

fn pairs(of: &[(&str, &str)]) -> Vec<(String, Vec<u8>)> {
    of.iter().map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec())).collect()
}

async fn answers_like_etcd(mut subject: impl Subject) {
    assert_eq!(subject.commit(1, 1, &[put("/k/a", "none")]).await, Fenced, "without a leader");
    assert_eq!(subject.all().await, []);

    let first = subject.lead().await;
    assert_eq!(first, subject.revision().await, "the term is the revision that created the leader key");
    assert_eq!(subject.commit(first, 1, &[put("/k/b", "1"), put("/k/a", "1")]).await, Stored);
    assert_eq!(subject.revision().await, first + 1, "a transaction is one revision");
    assert_eq!(subject.all().await, pairs(&[("/k/a", "1"), ("/k/b", "1")]), "sorted by key");

    let retried = subject.commit(first, 1, &[put("/k/b", "1"), put("/k/a", "1")]).await;
    assert_eq!((retried, subject.revision().await), (Stored, first + 1), "a retry is stored once");

    assert_eq!(subject.commit(first, 2, &[put("/k/a", "2"), ("/k/b", None), ("/k/absent", None)]).await, Stored);
    assert_eq!((subject.revision().await, subject.all().await), (first + 2, pairs(&[("/k/a", "2")])));

    subject.end_lease().await;
    assert_eq!(subject.revision().await, first + 3, "the leader key is deleted");
    assert_eq!(subject.commit(first, 3, &[put("/k/a", "late")]).await, Fenced, "no leader");

    let second = subject.lead().await;
    assert_eq!(second, first + 4, "a later term is higher");
    assert_eq!(subject.commit(first, 3, &[put("/k/a", "late")]).await, Fenced, "another leader");
    assert_eq!((subject.revision().await, subject.all().await), (second, pairs(&[("/k/a", "2")])));
    assert_eq!(subject.commit(second, 1, &[put("/k/a", "3")]).await, Stored);
    assert_eq!(subject.all().await, pairs(&[("/k/a", "3")]));
}

#[tokio::test]
async fn the_fake_store_answers_like_etcd() {
    answers_like_etcd(Fake::default()).await;
}

#[tokio::test]
async fn etcd_answers_like_the_fake_store() {
    answers_like_etcd(Real::start().await).await;
}
