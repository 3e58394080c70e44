//! Commits transactions to etcd, one at a time and only while this process leads.
//!
//! Outcomes expire with an etcd lease. All outcomes of ten minutes share a lease of [`OUTCOME_KEPT`] plus ten minutes, so that each
//! lives for at least `OUTCOME_KEPT`.

use std::time::Duration;

use contract::fence::Term;
use fabric::election::Guard;
use fabric::etcd::{self, Op, Store, Writer};
use fabric::tasks::{Scoped, spawn_scoped};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::Context;
use crate::core::io::{Commit, CommitResult, Input, OUTCOME_KEPT, Write};
use crate::metrics::{CommitLabel, CommitLabels, Metrics};

/// For how long new outcomes use the same lease.
const LEASE_SHARED: Duration = Duration::from_secs(600);
/// The core has at most one commit in flight. When the queue is full, the result of the commit is `Unknown`.
const QUEUE: usize = 2;

pub(super) struct CommitQueue {
    sender: mpsc::Sender<Commit>,
    pub(super) done: mpsc::Receiver<Input>,
}

/// Starts to commit for the leader of `term`; `guard` makes etcd refuse commits once this process does not lead.
pub(super) fn start(context: &Context, guard: Guard, term: Term) -> (CommitQueue, Scoped) {
    let (sender, commits) = mpsc::channel(QUEUE);
    let (done_sender, done) = mpsc::channel(QUEUE);
    let writer = Writer::new(context.store.clone(), guard, &context.name);
    let worker = Worker { store: context.store.clone(), writer, term, metrics: context.metrics.clone(), lease: None };
    (CommitQueue { sender, done }, spawn_scoped("commits", worker.run(commits, done_sender)))
}

/// The input for the core when this process does not lead.
pub(super) fn fenced(commit: &Commit) -> Input {
    Input::Committed { id: commit.id, result: CommitResult::Fenced }
}

impl CommitQueue {
    pub(super) fn try_send(&self, commit: Commit) -> Option<Input> {
        let id = commit.id;
        self.sender.try_send(commit).err().map(|_| {
            tracing::error!(id, "refused a commit: others are in flight");
            Input::Committed { id, result: CommitResult::Unknown }
        })
    }
}

struct Worker {
    store: Store,
    writer: Writer,
    term: Term,
    metrics: Metrics,
    lease: Option<(i64, Instant)>,
}

impl Worker {
    async fn run(mut self, mut commits: mpsc::Receiver<Commit>, done: mpsc::Sender<Input>) {
        while let Some(commit) = commits.recv().await {
            let result = self.store(&commit).await;
            self.metrics.commits.get_or_create(&CommitLabels { result: label(&result) }).inc();
            if done.send(Input::Committed { id: commit.id, result }).await.is_err() {
                return;
            }
        }
    }

    async fn store(&mut self, commit: &Commit) -> CommitResult {
        if commit.term != self.term {
            tracing::error!(commit = %commit.term, ours = %self.term, "refused a commit of another term");
            return CommitResult::Fenced;
        }
        match self.try_store(commit).await {
            Ok(etcd::CommitResult::Stored) => CommitResult::Stored,
            Ok(etcd::CommitResult::Fenced) => CommitResult::Fenced,
            Ok(etcd::CommitResult::Invalid { reason }) => {
                tracing::error!(reason, writes = commit.writes.len(), "etcd refused a commit as invalid");
                CommitResult::Invalid { reason }
            }
            Ok(etcd::CommitResult::WentBack) => CommitResult::WentBack,
            Err(error) if error.is_denied() => {
                tracing::error!(error = %describe(&error), "etcd refuses this scheduler's credentials");
                CommitResult::Denied
            }
            Err(error) if error.is_full() => {
                tracing::error!(error = %describe(&error), "etcd is full and refuses every write");
                CommitResult::Full
            }
            Err(error) => {
                tracing::warn!(error = %describe(&error), writes = commit.writes.len(), "the result of a commit is unknown");
                // The lease may have expired; then every later commit would fail too.
                self.lease = None;
                CommitResult::Unknown
            }
        }
    }

    async fn try_store(&mut self, commit: &Commit) -> Result<etcd::CommitResult, etcd::Error> {
        let expires = |write: &Write| matches!(write, Write::Put { expires: true, .. });
        let lease = if commit.writes.iter().any(expires) { Some(self.lease().await?) } else { None };
        let ops: Vec<Op> = commit.writes.iter().map(|write| op(write, lease)).collect();
        self.writer.commit(&ops).await
    }

    async fn lease(&mut self) -> Result<i64, etcd::Error> {
        if let Some((lease, since)) = self.lease
            && since.elapsed() < LEASE_SHARED
        {
            return Ok(lease);
        }
        let since = Instant::now();
        let lease = self.store.grant_lease(OUTCOME_KEPT + LEASE_SHARED).await?;
        self.lease = Some((lease, since));
        Ok(lease)
    }
}

fn op(write: &Write, outcome_lease: Option<i64>) -> Op {
    match write {
        Write::Put { key, value, expires } => {
            Op::Put { key: key.clone(), value: value.clone(), lease: outcome_lease.filter(|_| *expires) }
        }
        Write::Delete { key } => Op::Delete { key: key.clone() },
    }
}

fn label(result: &CommitResult) -> CommitLabel {
    match result {
        CommitResult::Stored => CommitLabel::Stored,
        CommitResult::Fenced => CommitLabel::Fenced,
        CommitResult::WentBack => CommitLabel::WentBack,
        CommitResult::Denied => CommitLabel::Denied,
        CommitResult::Full => CommitLabel::Full,
        CommitResult::Unknown => CommitLabel::Unknown,
        CommitResult::Invalid { .. } => CommitLabel::Invalid,
    }
}

fn describe(error: &etcd::Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
