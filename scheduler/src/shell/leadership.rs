//! The tasks that only a leader runs: reading commands, committing, sending orders, answering queries, purging the stream.

use std::time::Duration;

use contract::fence::Term;
use contract::keys;
use contract::name::NodeName;
use contract::order::OrderMessage;
use contract::record::Cursor;
use fabric::backoff;
use fabric::election::Guard;
use fabric::tasks::{Scoped, spawn_scoped};
use tokio::sync::mpsc;

use super::commits::CommitQueue;
use super::orders::OrderQueue;
use super::subscriptions::{self, QuerySender};
use super::{Context, audit, commands, commits, orders, purge, schema, store_name};
use crate::core::io::{Commit, Input};
use crate::migration::CURRENT;

/// Commands that wait for the loop. When full, the reader waits; the stream keeps the rest.
const COMMAND_QUEUE: usize = 256;

/// One term of this process as the leader. Dropping it ends its tasks. Each term has its own channels, so that no message of an
/// earlier term arrives in a later one.
pub(super) struct Leadership {
    commands: mpsc::Receiver<Input>,
    commits: CommitQueue,
    orders: OrderQueue,
    _tasks: Vec<Scoped>,
}

impl Leadership {
    pub(super) fn start(
        guard: Guard,
        term: Term,
        stored: &[(String, Vec<u8>)],
        context: &Context,
        queries: &QuerySender,
    ) -> Self {
        let (sender, commands) = mpsc::channel(COMMAND_QUEUE);
        let (commits, commits_task) = commits::start(context, guard, term);
        let (orders, orders_task) = orders::start(context);
        let reader = commands::Reader::new(
            context.clone(),
            queries.publisher.clone(),
            store_name::read(stored).stores,
            sender.clone(),
        );
        let read_queries = subscriptions::leader_queries(context.bus.clone(), queries.clone());
        let callback_queries = subscriptions::callback_queries(context.bus.clone(), queries.clone());
        let tasks = vec![
            commits_task,
            orders_task,
            spawn_scoped("commands", reader.run(cursor(stored))),
            spawn_scoped("leader queries", read_queries),
            spawn_scoped("callback queries", callback_queries),
            spawn_scoped("purge", purge::run(context.clone(), sender.clone())),
            spawn_scoped("audit log", audit::drop_oldest(context.clone(), sender)),
        ];
        Self { commands, commits, orders, _tasks: tasks }
    }

    /// The next finished commit, order reply or command. May be cancelled without loss.
    pub(super) async fn next(&mut self) -> Input {
        tokio::select! {
            Some(done) = self.commits.done.recv() => done,
            Some(reply) = self.orders.replies.recv() => reply,
            Some(command) = self.commands.recv() => command,
            else => std::future::pending().await,
        }
    }

    /// A command or an order reply that waits already; the two kinds alternate.
    pub(super) fn try_next(&mut self, turn: usize) -> Option<Input> {
        let command = |leading: &mut Self| leading.commands.try_recv().ok();
        let reply = |leading: &mut Self| leading.orders.replies.try_recv().ok();
        if turn.is_multiple_of(2) {
            command(self).or_else(|| reply(self))
        } else {
            reply(self).or_else(|| command(self))
        }
    }

    /// Queues a commit. Returns the failure for the core when the queue is full.
    pub(super) fn commit(&self, commit: Commit) -> Option<Input> {
        self.commits.try_send(commit)
    }

    /// Queues an order. Returns the failure for the core when the queue is full.
    pub(super) fn order(&self, node: NodeName, message: OrderMessage) -> Option<Input> {
        self.orders.try_send(node, message)
    }
}

/// The stored keys and values, or why this scheduler must not lead.
pub(super) type Loaded = Result<Vec<(String, Vec<u8>)>, schema::Error>;

/// Migrates and reads the stored state after this process has won the election. Retries until it succeeds, finds a reason not to
/// lead, or is deposed.
pub(super) async fn load(context: Context, guard: Guard, loaded: mpsc::Sender<Loaded>) {
    let mut attempt = 0;
    loop {
        attempt += 1;
        let error = match read(&context, &guard).await {
            Err(schema::Error::Deposed) => return,
            Err(schema::Error::Store(error)) if !error.is_denied() => error.to_string(),
            Err(error @ schema::Error::Invalid { .. }) => error.to_string(),
            read @ (Ok(_)
            | Err(
                schema::Error::Newer { .. }
                | schema::Error::NoMigration { .. }
                | schema::Error::Unreadable(_)
                | schema::Error::Store(_),
            )) => {
                // A closed channel means that we do not lead any more.
                let _unwanted = loaded.send(read).await;
                return;
            }
        };
        tracing::warn!(%error, attempt, "cannot read the stored state yet");
        tokio::time::sleep(backoff::delay(attempt, Duration::from_millis(100), Duration::from_secs(1))).await;
    }
}

async fn read(context: &Context, guard: &Guard) -> Loaded {
    let store = &context.store;
    // Checked at each takeover, not only at the start of the process: a newer scheduler may have led in between.
    schema::prepare(store, guard, &context.name, &CURRENT).await?;
    store_name::ensure(store, guard, &context.name).await?;
    let mut pairs = store.list(keys::STATE).await.map_err(schema::Error::Store)?.pairs;
    pairs.extend(store.list(keys::OUTCOMES).await.map_err(schema::Error::Store)?.pairs);
    Ok(pairs)
}

fn cursor(stored: &[(String, Vec<u8>)]) -> Cursor {
    let value = stored.iter().find(|(key, _)| key == keys::CURSOR).map(|(_, value)| value);
    value.and_then(|value| serde_json::from_slice(value).ok()).unwrap_or_default()
}
