//! One leader's commits, strictly one after the other.
//!
//! A commit that timed out may still be on its way through etcd, and arrive after later commits of the same leader: the
//! term alone would let it overwrite what they wrote. So every commit also rewrites the leader's own election key, and
//! compares that key's version: a commit out of turn finds another version and changes nothing. The key's value names the
//! commit, so that a repeat of one that did arrive is recognised as done instead of being done twice. The version never
//! decreases: a lower one means that etcd came back with an older state than this writer has stored.

use std::hash::{DefaultHasher, Hash, Hasher};

use etcd_client::{Compare, CompareOp, KeyValue, PutOptions, Txn, TxnOp, TxnOpResponse, TxnResponse};

use super::{CommitResult, Error, MOST_OPERATIONS, Op, Store, invalid, operation};
use crate::election::Guard;

/// A commit meets at most one unfinished one of this writer; the rest is room for what cannot happen.
const ATTEMPTS: usize = 4;

/// Writes in the name of one leadership.
#[derive(Debug)]
pub struct Writer {
    store: Store,
    guard: Guard,
    name: String,
    /// Version of the election key, as far as known: raised by each commit.
    version: i64,
}

impl Writer {
    /// A writer for the leadership that `guard` proves. `name` is kept in the election key for people to see.
    pub fn new(store: Store, guard: Guard, name: &str) -> Self {
        Self { store, guard, name: name.to_owned(), version: 1 }
    }

    /// Writes all or nothing, only while this leadership lasts. An error means that it is not known whether the writes are
    /// stored; the same or other writes may be committed next, and the unknown ones are then either stored before them or
    /// never.
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
        Err(Error::TimedOut { doing: "finding the turn of a commit" })
    }

    /// Names these writes at this turn.
    fn mark(&self, ops: &[Op]) -> String {
        let mut hasher = DefaultHasher::new();
        ops.hash(&mut hasher);
        format!("{} {}:{:016x}", self.name, self.version, hasher.finish())
    }

    fn transaction(&self, ops: &[Op], mark: &str) -> Txn {
        let key = self.guard.key.as_str();
        let in_turn = Compare::version(key, CompareOp::Equal, self.version);
        let take_turn = TxnOp::put(key, mark, Some(PutOptions::new().with_ignore_lease()));
        let writes: Vec<TxnOp> = ops.iter().map(operation).chain([take_turn]).collect();
        Txn::new().when([self.guard.compare(), in_turn]).and_then(writes).or_else([TxnOp::get(key, None)])
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

    struct Stage {
        _server: EtcdServer,
        _dir: tempfile::TempDir,
        store: Store,
        writer: Writer,
        lease: i64,
    }

    fn put(value: &str) -> Vec<Op> {
        vec![Op::Put { key: "/a".to_owned(), value: value.as_bytes().to_vec(), lease: None }]
    }

    async fn stage() -> Stage {
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
        Stage { _server: server, _dir: dir, store, writer, lease }
    }

    impl Stage {
        async fn value(&self) -> Vec<u8> {
            self.store.get("/a").await.unwrap().unwrap_or_default()
        }

        /// Sends a transaction as a timed out attempt that arrives in the end.
        async fn arrives(&self, transaction: Txn) -> bool {
            let client = &self.store.shared.endpoints[0].client;
            client.clone().txn(transaction).await.unwrap().succeeded()
        }
    }

    #[tokio::test]
    async fn a_commit_that_arrives_after_a_later_one_changes_nothing() {
        let mut stage = stage().await;
        let first = put("first");
        let late = stage.writer.transaction(&first, &stage.writer.mark(&first));
        assert_eq!(stage.writer.commit(&first).await.unwrap(), CommitResult::Stored);
        assert_eq!(stage.writer.commit(&put("second")).await.unwrap(), CommitResult::Stored);
        assert!(!stage.arrives(late).await);
        assert_eq!(stage.value().await, b"second");
    }

    #[tokio::test]
    async fn a_repeat_of_a_commit_that_did_arrive_is_stored_and_written_once() {
        let mut stage = stage().await;
        let ops = put("once");
        let unanswered = stage.writer.transaction(&ops, &stage.writer.mark(&ops));
        assert!(stage.arrives(unanswered).await);
        let before = stage.store.list("/a").await.unwrap().revision;
        assert_eq!(stage.writer.commit(&ops).await.unwrap(), CommitResult::Stored);
        assert_eq!(stage.store.list("/a").await.unwrap().revision, before);
    }

    #[tokio::test]
    async fn another_commit_after_an_unknown_one_comes_after_it() {
        let mut stage = stage().await;
        let unknown = put("unknown");
        let unanswered = stage.writer.transaction(&unknown, &stage.writer.mark(&unknown));
        assert!(stage.arrives(unanswered).await);
        assert_eq!(stage.writer.commit(&put("next")).await.unwrap(), CommitResult::Stored);
        assert_eq!(stage.value().await, b"next");
        assert_eq!(stage.writer.commit(&put("more")).await.unwrap(), CommitResult::Stored);
    }

    #[tokio::test]
    async fn a_commit_that_etcd_refuses_for_its_content_is_invalid_and_the_next_one_is_stored() {
        let mut stage = stage().await;
        // Above 1.5 MiB etcd refuses the request, above 2 MiB its gRPC server refuses the message.
        for (bytes, said) in [(1_800_000, "request is too large"), (3_000_000, "larger than max")] {
            let large = vec![Op::Put { key: "/a".to_owned(), value: vec![b'x'; bytes], lease: None }];
            let refused = stage.writer.commit(&large).await.unwrap();
            assert!(matches!(&refused, CommitResult::Invalid { reason } if reason.contains(said)), "{refused:?}");
        }
        let many: Vec<Op> = (0..=MOST_OPERATIONS).map(|n| Op::Delete { key: format!("/x/{n}") }).collect();
        assert!(matches!(stage.writer.commit(&many).await.unwrap(), CommitResult::Invalid { .. }));
        assert_eq!(stage.writer.commit(&put("next")).await.unwrap(), CommitResult::Stored);
        assert_eq!(stage.value().await, b"next");
    }

    #[tokio::test]
    async fn a_store_that_lost_commits_of_this_writer_is_recognised() {
        let mut stage = stage().await;
        for value in ["first", "second", "third"] {
            assert_eq!(stage.writer.commit(&put(value)).await.unwrap(), CommitResult::Stored);
        }
        // As after a restart from an older copy: the same key, written fewer times.
        let older = Writer::new(stage.store.clone(), stage.writer.guard.clone(), "me");
        stage.writer.version += 2;
        assert_eq!(stage.writer.commit(&put("fourth")).await.unwrap(), CommitResult::WentBack);
        assert_eq!(stage.value().await, b"third");
        stage.writer = older;
        assert_eq!(stage.writer.commit(&put("fifth")).await.unwrap(), CommitResult::Stored);
    }

    #[tokio::test]
    async fn the_end_of_the_lease_ends_the_writer_and_its_key_goes_with_it() {
        let mut stage = stage().await;
        let many: Vec<Op> = (0..MOST_OPERATIONS).map(|n| Op::Delete { key: format!("/x/{n}") }).collect();
        assert_eq!(stage.writer.commit(&many).await.unwrap(), CommitResult::Stored);
        stage.store.revoke_lease(stage.lease).await.unwrap();
        assert_eq!(stage.store.get("/lead").await.unwrap(), None, "rewriting the key kept its lease");
        assert_eq!(stage.writer.commit(&put("stale")).await.unwrap(), CommitResult::Fenced);
        assert_eq!(stage.value().await, b"");
    }
}
