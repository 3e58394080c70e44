//! Commits of one leader, strictly in order.
//!
//! A commit that timed out may still arrive at etcd after later commits of the same leader; the term alone would let it
//! overwrite them. Therefore every commit also rewrites the leader's election key and compares that key's version: a
//! late commit finds another version and changes nothing. The key's value identifies the commit, so a retry of a commit
//! that was stored is recognised. The version never decreases; a lower one means that etcd returned with an older state
//! than this writer has stored.

use std::hash::{DefaultHasher, Hash, Hasher};

use etcd_client::{Compare, CompareOp, KeyValue, PutOptions, Txn, TxnOp, TxnOpResponse, TxnResponse};

use super::{CommitResult, Error, MOST_OPERATIONS, Op, Store, invalid, operation};
use crate::election::Guard;

/// A commit can meet one unfinished commit of this writer; the rest is reserve.
const ATTEMPTS: usize = 4;

/// Commits for one term of leadership.
#[derive(Debug)]
pub struct Writer {
    store: Store,
    guard: Guard,
    name: String,
    /// Last known version of the election key; each commit increases it.
    version: i64,
}

impl Writer {
    /// A writer for the leadership that `guard` proves. The election key shows `name` to people.
    pub fn new(store: Store, guard: Guard, name: &str) -> Self {
        Self { store, guard, name: name.to_owned(), version: 1 }
    }

    /// Writes all or nothing, only while this leadership lasts. After an error it is unknown whether the writes are
    /// stored; they are stored before the next commit or never.
    pub async fn commit(&mut self, ops: &[Op]) -> Result<CommitResult, Error> {
        let committed = self.try_commit(ops).await;
        match committed.as_ref().err().and_then(invalid) {
            Some(reason) => Ok(CommitResult::Invalid { reason }),
            None => committed,
        }
    }

    async fn try_commit(&mut self, ops: &[Op]) -> Result<CommitResult, Error> {
        if ops.len() > MOST_OPERATIONS {
            return Err(Error::TooManyOperations { count: ops.len() });
        }
        for _ in 0..ATTEMPTS {
            let mark = self.mark(ops);
            let transaction = self.transaction(ops, &mark);
            let answer = self
                .store
                .call("committing", self.store.effort(), |mut client| {
                    let transaction = transaction.clone();
                    async move { client.txn(transaction).await }
                })
                .await?;
            if answer.succeeded() {
                self.version += 1;
                return Ok(CommitResult::Stored);
            }
            let Some(key) = found(&answer).filter(|key| u64::try_from(key.create_revision()) == Ok(self.guard.term))
            else {
                return Ok(CommitResult::Fenced);
            };
            if key.version() < self.version {
                return Ok(CommitResult::WentBack);
            }
            self.version = key.version();
            if key.value() == mark.as_bytes() {
                return Ok(CommitResult::Stored);
            }
        }
        Err(Error::TimedOut { doing: "ordering a commit" })
    }

    /// Identifies these writes at this version.
    fn mark(&self, ops: &[Op]) -> String {
        let mut hasher = DefaultHasher::new();
        ops.hash(&mut hasher);
        format!("{} {}:{:016x}", self.name, self.version, hasher.finish())
    }

    fn transaction(&self, ops: &[Op], mark: &str) -> Txn {
        let key = self.guard.key.as_str();
        let is_in_order = Compare::version(key, CompareOp::Equal, self.version);
        let raise_version = TxnOp::put(key, mark, Some(PutOptions::new().with_ignore_lease()));
        let writes: Vec<TxnOp> = ops.iter().map(operation).chain([raise_version]).collect();
        Txn::new().when([self.guard.compare(), is_in_order]).and_then(writes).or_else([TxnOp::get(key, None)])
    }
}

fn found(answer: &TxnResponse) -> Option<KeyValue> {
    answer.op_responses().into_iter().find_map(|response| match response {
        TxnOpResponse::Get(mut found) => found.take_kvs().into_iter().next(),
        TxnOpResponse::Put(_) | TxnOpResponse::Delete(_) | TxnOpResponse::Txn(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::etcd::Args;
    use crate::local::EtcdServer;

    struct Fixture {
        _server: EtcdServer,
        _dir: tempfile::TempDir,
        store: Store,
        writer: Writer,
        lease: i64,
    }

    fn put(value: &str) -> Vec<Op> {
        vec![Op::Put { key: "/a".to_owned(), value: value.as_bytes().to_vec(), lease: None }]
    }

    async fn fixture() -> Fixture {
        let dir = tempfile::tempdir().unwrap();
        let server = EtcdServer::start(dir.path(), 0).await.unwrap();
        let store = Store::connect(&Args::at(server.url())).await.unwrap();
        let lease = store.grant_lease(Duration::from_secs(60)).await.unwrap();
        let key = "/lead".to_owned();
        let op = Op::Put { key: key.clone(), value: b"me".to_vec(), lease: Some(lease) };
        store.commit(None, &[op]).await.unwrap();
        let mut client = etcd_client::Client::connect([server.url()], None).await.unwrap();
        let term = client.get("/lead", None).await.unwrap().kvs()[0].create_revision();
        let guard = Guard { key, term: u64::try_from(term).unwrap() };
        let writer = Writer::new(store.clone(), guard, "me");
        Fixture { _server: server, _dir: dir, store, writer, lease }
    }

    impl Fixture {
        async fn value(&self) -> Vec<u8> {
            self.store.get("/a").await.unwrap().unwrap_or_default()
        }

        /// Sends a transaction like a timed-out attempt that arrives late.
        async fn arrives(&self, transaction: Txn) -> bool {
            let client = self.store.shared.endpoints[0].client("testing").await.unwrap();
            client.clone().txn(transaction).await.unwrap().succeeded()
        }
    }

    #[tokio::test]
    async fn a_late_commit_changes_nothing() {
        let mut fixture = fixture().await;
        let first = put("first");
        let late = fixture.writer.transaction(&first, &fixture.writer.mark(&first));
        assert_eq!(fixture.writer.commit(&first).await.unwrap(), CommitResult::Stored);
        assert_eq!(fixture.writer.commit(&put("second")).await.unwrap(), CommitResult::Stored);
        assert!(!fixture.arrives(late).await);
        assert_eq!(fixture.value().await, b"second");
    }

    #[tokio::test]
    async fn a_retry_of_a_stored_commit_is_written_once() {
        let mut fixture = fixture().await;
        let ops = put("once");
        let unanswered = fixture.writer.transaction(&ops, &fixture.writer.mark(&ops));
        assert!(fixture.arrives(unanswered).await);
        let before = fixture.store.list("/a").await.unwrap().revision;
        assert_eq!(fixture.writer.commit(&ops).await.unwrap(), CommitResult::Stored);
        assert_eq!(fixture.store.list("/a").await.unwrap().revision, before);
    }

    #[tokio::test]
    async fn a_commit_after_one_with_an_unknown_result_follows_it() {
        let mut fixture = fixture().await;
        let unknown = put("unknown");
        let unanswered = fixture.writer.transaction(&unknown, &fixture.writer.mark(&unknown));
        assert!(fixture.arrives(unanswered).await);
        assert_eq!(fixture.writer.commit(&put("next")).await.unwrap(), CommitResult::Stored);
        assert_eq!(fixture.value().await, b"next");
        assert_eq!(fixture.writer.commit(&put("more")).await.unwrap(), CommitResult::Stored);
    }

    #[tokio::test]
    async fn a_commit_with_refused_content_is_invalid_and_the_next_one_is_stored() {
        let mut fixture = fixture().await;
        // Above 1.5 MiB etcd refuses the request, above 2 MiB its gRPC server refuses the message.
        for (bytes, said) in [(1_800_000, "request is too large"), (3_000_000, "larger than max")] {
            let large = vec![Op::Put { key: "/a".to_owned(), value: vec![b'x'; bytes], lease: None }];
            let refused = fixture.writer.commit(&large).await.unwrap();
            assert!(matches!(&refused, CommitResult::Invalid { reason } if reason.contains(said)), "{refused:?}");
        }
        let many: Vec<Op> = (0..=MOST_OPERATIONS).map(|n| Op::Delete { key: format!("/x/{n}") }).collect();
        assert!(matches!(fixture.writer.commit(&many).await.unwrap(), CommitResult::Invalid { .. }));
        assert_eq!(fixture.writer.commit(&put("next")).await.unwrap(), CommitResult::Stored);
        assert_eq!(fixture.value().await, b"next");
    }

    #[tokio::test]
    async fn a_store_that_lost_commits_is_detected() {
        let mut fixture = fixture().await;
        for value in ["first", "second", "third"] {
            assert_eq!(fixture.writer.commit(&put(value)).await.unwrap(), CommitResult::Stored);
        }
        // Like after a restart from an older copy: the same key, written fewer times.
        let older = Writer::new(fixture.store.clone(), fixture.writer.guard.clone(), "me");
        fixture.writer.version += 2;
        assert_eq!(fixture.writer.commit(&put("fourth")).await.unwrap(), CommitResult::WentBack);
        assert_eq!(fixture.value().await, b"third");
        fixture.writer = older;
        assert_eq!(fixture.writer.commit(&put("fifth")).await.unwrap(), CommitResult::Stored);
    }

    #[tokio::test]
    async fn a_writer_is_fenced_when_its_lease_ends() {
        let mut fixture = fixture().await;
        let many: Vec<Op> = (0..MOST_OPERATIONS).map(|n| Op::Delete { key: format!("/x/{n}") }).collect();
        assert_eq!(fixture.writer.commit(&many).await.unwrap(), CommitResult::Stored);
        fixture.store.revoke_lease(fixture.lease).await.unwrap();
        assert_eq!(fixture.store.get("/lead").await.unwrap(), None, "rewriting the key kept its lease");
        assert_eq!(fixture.writer.commit(&put("stale")).await.unwrap(), CommitResult::Fenced);
        assert_eq!(fixture.value().await, b"");
    }
}
