//! etcd client: typed calls, each with a deadline and retried on another endpoint.
//!
//! One client per endpoint, because etcd-client's own balancer keeps choosing a dead member (18 % of the calls failed
//! with one of three members down). The endpoint that answered last is tried first. A write is only repeated with the
//! same values under the same guard, so repeating one that was stored changes nothing.

mod endpoint;
mod page;
mod watch;
mod writer;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use etcd_client::{Client, Compare, CompareOp, PutOptions, Txn, TxnOp};
use tokio::sync::mpsc;
use tokio::time::Instant;

pub use self::endpoint::Args;
pub use self::page::{Page, PageRequest};
pub use self::writer::Writer;

use self::endpoint::Endpoint;
use crate::backoff;
use crate::election::Guard;

/// Limit of operations per transaction: etcd's default of 128, less the one of [`Writer`].
pub const MOST_OPERATIONS: usize = 127;
/// The quota that everything in `deploy/` sets for etcd. docs/operations.md, "How large etcd gets", has the arithmetic.
pub const QUOTA_BYTES: u64 = 4 << 30;
/// How long a starting process waits for etcd.
const PATIENCE: Duration = Duration::from_secs(30);
/// Size limit of answers; the client's default of 4 MiB is less than a page of large values.
const LARGEST_ANSWER: usize = 256 << 20;
/// Queue of changes per watcher. When it is full, the watch waits and etcd keeps the rest.
const WATCH_QUEUE: usize = 1024;

/// Errors of the etcd client.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{endpoint:?} is not an etcd endpoint such as http://host:2379")]
    Endpoint {
        endpoint: String,
        #[source]
        source: etcd_client::Error,
    },
    #[error("no etcd endpoint is given")]
    NoEndpoint,
    #[error("cannot read credentials for etcd from {path}")]
    Credentials {
        path: String,
        #[source]
        source: std::io::Error,
    },
    #[error("etcd at {endpoints} cannot be used: {problem}; check --etcd-ca, --etcd-cert and the address in --etcd")]
    Tls {
        endpoints: String,
        problem: String,
        #[source]
        source: Box<Error>,
    },
    #[error("etcd at {endpoints} refused our credentials; check --etcd-user, --etcd-password-file and --etcd-cert")]
    Refused {
        endpoints: String,
        #[source]
        source: Box<Error>,
    },
    /// No endpoint answered in time.
    #[error("etcd did not answer in time while {doing}")]
    TimedOut { doing: &'static str },
    /// Every endpoint that was tried answered with an error.
    #[error("etcd failed while {doing}")]
    Failed {
        doing: &'static str,
        #[source]
        source: etcd_client::Error,
    },
    #[error("etcd has no revision {revision}: it was compacted away, or the store is another one by now")]
    NoRevision { revision: i64 },
    #[error("{count} operations do not fit one transaction of at most {MOST_OPERATIONS}")]
    TooManyOperations { count: usize },
}

impl Error {
    /// etcd refuses our credentials; a retry does not help before an operator changes something.
    pub fn is_denied(&self) -> bool {
        let Self::Failed { source: etcd_client::Error::GRpcStatus(status), .. } = self else { return false };
        // PermissionDenied, Unauthenticated. etcd answers a call without a user with InvalidArgument; only the text
        // distinguishes it from a bad request.
        matches!(status.code() as i32, 7 | 16)
            || ["user name is empty", "authentication failed"].iter().any(|text| status.message().contains(text))
    }

    fn is_final(&self) -> bool {
        matches!(self, Self::Failed { source, .. } if is_final(source))
    }

    /// etcd has reached its quota and refuses every write until an operator frees space.
    pub fn is_full(&self) -> bool {
        let Self::Failed { source: etcd_client::Error::GRpcStatus(status), .. } = self else { return false };
        // ResourceExhausted; only the text distinguishes it from a message that is too large.
        status.code() as i32 == 8 && status.message().contains("space exceeded")
    }
}

/// Everything under a prefix at one revision.
#[derive(Debug, Clone)]
pub struct Listing {
    /// In key order.
    pub pairs: Vec<(String, Vec<u8>)>,
    /// The revision at which all of it was read.
    pub revision: i64,
}

/// Size of the database of the member that answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Bytes of the file. Compaction frees pages for reuse; only defragmentation shrinks the file.
    pub allocated: u64,
    /// Bytes of pages that hold data.
    pub in_use: u64,
}

/// One write.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Op {
    Put {
        key: String,
        value: Vec<u8>,
        /// etcd deletes the key when this lease ends.
        lease: Option<i64>,
    },
    Delete {
        key: String,
    },
}

/// Result of a commit. Only `Stored` means that this call stored something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommitResult {
    /// All operations are stored.
    Stored,
    /// The guard's holder does not lead any more.
    Fenced,
    /// etcd refuses the content and would refuse it every time.
    Invalid {
        /// etcd's error text.
        reason: String,
    },
    /// etcd lacks earlier commits of this leader: it returned with an older state.
    WentBack,
}

/// A change under a watched prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The complete state: the first read, or after a gap.
    Reset(Vec<(String, Vec<u8>)>),
    Put(String, Vec<u8>),
    Delete(String),
}

/// Tries of one call, and the deadline of each.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Effort {
    pub(crate) per_try: Duration,
    pub(crate) tries: usize,
}

/// The etcd client; clones share the connections.
#[derive(Clone)]
pub struct Store {
    shared: Arc<Shared>,
}

struct Shared {
    endpoints: Vec<Endpoint>,
    /// Index of the endpoint that answered last.
    preferred: AtomicUsize,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.shared.endpoints.iter().map(|endpoint| &endpoint.url)).finish()
    }
}

impl Store {
    /// Connects and waits up to 30 s until an endpoint answers.
    pub async fn connect(args: &Args) -> Result<Self, Error> {
        let endpoints = Box::pin(Endpoint::all(args)).await?;
        let store = Self { shared: Arc::new(Shared { endpoints, preferred: AtomicUsize::new(0) }) };
        store.wait_answer().await?;
        Ok(store)
    }

    async fn wait_answer(&self) -> Result<(), Error> {
        let started = Instant::now();
        let mut attempt = 0;
        loop {
            attempt += 1;
            let effort = Effort { per_try: Duration::from_secs(1), tries: self.shared.endpoints.len() };
            match self.call("reading its status", effort, |mut client| async move { client.status().await }).await {
                Ok(status) => {
                    tracing::info!(version = status.version(), "connected to etcd");
                    warn_of_corruption(status.version());
                    return Ok(());
                }
                Err(error) => {
                    // Certificates and passwords do not become right by waiting.
                    let error = Box::pin(self.explained(error)).await;
                    if matches!(error, Error::Tls { .. } | Error::Refused { .. }) || started.elapsed() >= PATIENCE {
                        return Err(error);
                    }
                    tracing::warn!(endpoints = ?self, %error, attempt, "etcd does not answer, retrying");
                }
            }
            tokio::time::sleep(backoff::delay(attempt, Duration::from_millis(100), Duration::from_secs(2))).await;
        }
    }

    /// The same error, or what is wrong with certificates or credentials. TLS is to blame when no endpoint accepts it.
    async fn explained(&self, error: Error) -> Error {
        let urls = || self.shared.endpoints.iter().map(|endpoint| endpoint.url.as_str()).collect::<Vec<_>>().join(",");
        if error.is_denied() {
            return Error::Refused { endpoints: urls(), source: Box::new(error) };
        }
        let mut problem = None;
        for endpoint in &self.shared.endpoints {
            problem = endpoint.tls_problem().await;
            if problem.is_none() {
                return error;
            }
        }
        match problem {
            Some(problem) => Error::Tls { endpoints: urls(), problem, source: Box::new(error) },
            None => error,
        }
    }

    /// Reads a key (linearizable).
    pub async fn get(&self, key: &str) -> Result<Option<Vec<u8>>, Error> {
        let mut found = self
            .call("reading a key", self.effort(), |client| {
                let mut keys = client.kv_client().max_decoding_message_size(LARGEST_ANSWER);
                let key = key.to_owned();
                async move { keys.get(key, None).await }
            })
            .await?;
        Ok(found.take_kvs().into_iter().next().map(|pair| pair.into_key_value().1))
    }

    /// Writes all or nothing; with a guard only while its holder leads. Retries on other endpoints. After an error it
    /// is unknown whether the writes are stored, and the call may be repeated. A leader that writes more than once uses
    /// a [`Writer`], which also orders its commits.
    pub async fn commit(&self, guard: Option<&Guard>, ops: &[Op]) -> Result<CommitResult, Error> {
        if ops.len() > MOST_OPERATIONS {
            return Err(Error::TooManyOperations { count: ops.len() });
        }
        let conditions: Vec<Compare> = guard.iter().map(|guard| guard.compare()).collect();
        let transaction = Txn::new().when(conditions).and_then(ops.iter().map(operation).collect::<Vec<_>>());
        let done = self
            .call("committing", self.effort(), |mut client| {
                let transaction = transaction.clone();
                async move { client.txn(transaction).await }
            })
            .await?;
        Ok(if done.succeeded() { CommitResult::Stored } else { CommitResult::Fenced })
    }

    pub async fn size(&self) -> Result<Size, Error> {
        let effort = Effort { per_try: Duration::from_secs(2), tries: self.shared.endpoints.len() };
        let status = self.call("reading its size", effort, |mut client| async move { client.status().await }).await?;
        let bytes = |count: i64| u64::try_from(count).unwrap_or(0);
        Ok(Size { allocated: bytes(status.db_size()), in_use: bytes(status.raft_used_db_size()) })
    }

    /// Creates a lease that expires after `ttl` unless it is renewed.
    pub async fn grant_lease(&self, ttl: Duration) -> Result<i64, Error> {
        let seconds = i64::try_from(ttl.as_secs().max(1)).unwrap_or(i64::MAX);
        let granted =
            self.call("granting a lease", self.effort(), |mut client| async move {
                client.lease_grant(seconds, None).await
            })
            .await?;
        Ok(granted.id())
    }

    /// Revokes a lease; etcd deletes the keys attached to it.
    pub async fn revoke_lease(&self, lease: i64) -> Result<(), Error> {
        let effort = Effort { per_try: Duration::from_secs(1), tries: 1 };
        self.call("revoking a lease", effort, |mut client| async move { client.lease_revoke(lease).await })
            .await
            .map(|_| ())
    }

    /// Watches all keys under a prefix. Reads everything again when the watch is cancelled, compacted or silent. Ends
    /// when the receiver is dropped.
    pub fn watch(&self, prefix: &str) -> mpsc::Receiver<Change> {
        let (changes, receiver) = mpsc::channel(WATCH_QUEUE);
        crate::tasks::spawn("etcd watch", watch::follow(self.clone(), prefix.to_owned(), changes));
        receiver
    }

    /// Makes one call, first on the endpoint that answered last, then on the others in turn.
    pub(crate) async fn call<T, F>(
        &self,
        doing: &'static str,
        effort: Effort,
        operation: impl Fn(Client) -> F,
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<T, etcd_client::Error>>,
    {
        let count = self.shared.endpoints.len();
        let mut last = Error::TimedOut { doing };
        for attempt in 0..effort.tries.max(1) {
            if attempt > 0 && attempt % count == 0 {
                // Every endpoint was tried once: wait a moment.
                let wait = backoff::delay(attempt / count, Duration::from_millis(50), Duration::from_millis(500));
                tokio::time::sleep(wait).await;
            }
            let index = self.shared.preferred.load(Ordering::Relaxed) % count;
            let endpoint = &self.shared.endpoints[index];
            let once = async {
                let client = endpoint.client(doing).await?;
                operation(client).await.map_err(|source| Error::Failed { doing, source })
            };
            match tokio::time::timeout(effort.per_try, once).await {
                Ok(Ok(done)) => return Ok(done),
                Ok(Err(error)) if error.is_final() => return Err(error),
                Ok(Err(error)) => last = error,
                Err(_) => last = Error::TimedOut { doing },
            }
            tracing::debug!(endpoint = endpoint.url, error = %last, "trying the next endpoint");
            self.shared.preferred.store((index + 1) % count, Ordering::Relaxed);
        }
        Err(last)
    }

    /// Two tries per endpoint, at least three.
    pub(crate) fn effort(&self) -> Effort {
        Effort { per_try: Duration::from_secs(2), tries: (2 * self.shared.endpoints.len()).max(3) }
    }
}

impl Guard {
    /// True while the key created at our term exists.
    fn compare(&self) -> Compare {
        Compare::create_revision(self.key.as_str(), CompareOp::Equal, i64::try_from(self.term).unwrap_or(i64::MAX))
    }
}

fn operation(op: &Op) -> TxnOp {
    match op {
        Op::Put { key, value, lease } => {
            let options = lease.map(|lease| PutOptions::new().with_lease(lease));
            TxnOp::put(key.as_str(), value.clone(), options)
        }
        Op::Delete { key } => TxnOp::delete(key.as_str(), None),
    }
}

/// Errors that every endpoint would return: bad arguments, unknown lease, no permission, no space.
fn is_final(error: &etcd_client::Error) -> bool {
    match error {
        etcd_client::Error::GRpcStatus(status) => matches!(status.code() as i32, 3 | 5 | 7 | 8 | 9 | 11 | 16),
        etcd_client::Error::InvalidArgs(_) | etcd_client::Error::LeaseKeepAliveError(_) => true,
        _ => false,
    }
}

/// Why etcd refused the content of a transaction; none for every other error.
fn invalid(error: &Error) -> Option<String> {
    let Error::Failed { source: etcd_client::Error::GRpcStatus(status), .. } = error else {
        return match error {
            Error::TooManyOperations { .. } => Some(error.to_string()),
            _ => None,
        };
    };
    // InvalidArgument: "etcdserver: request is too large", "too many operations", "duplicate key". Message limits use
    // the codes ResourceExhausted and OutOfRange, where the text decides.
    let is_invalid = match status.code() as i32 {
        // A call whose user etcd does not know has this code too.
        3 => !error.is_denied() && !status.message().contains("auth"),
        8 | 11 => status.message().contains("larger than max") || status.message().contains("too large"),
        _ => false,
    };
    is_invalid.then(|| status.message().to_owned())
}

/// The first key after all keys with this prefix.
fn prefix_end(prefix: &str) -> Vec<u8> {
    let mut end = prefix.as_bytes().to_vec();
    while let Some(last) = end.pop() {
        if last < 0xff {
            end.push(last + 1);
            return end;
        }
    }
    vec![0]
}

fn warn_of_corruption(version: &str) {
    let patch = version.strip_prefix("3.5.").and_then(|patch| patch.parse::<u32>().ok());
    if patch.is_some_and(|patch| patch <= 5) {
        tracing::warn!(version, "etcd 3.5.0 to 3.5.5 can corrupt its data after a crash: run 3.5.6 or newer");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_end_is_the_first_key_after_the_prefix() {
        assert_eq!(prefix_end("/a/"), b"/a0");
        assert_eq!(prefix_end(""), [0]);
    }
}
