//! Everything that only a leader does. Dropping it ends all of it at once.

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

use super::ears::{self, Questions};
use super::{Hands, commands, commits, janitor, naming, orders, schema};
use crate::core::io::{Commit, Input};
use crate::migration::PRESENT;

/// Commands the loop may be behind. When full the reader waits; the stream keeps the rest.
const COMMANDS: usize = 256;

/// One time of leading. Its channels are its own: nothing of an earlier leadership can come out of them.
pub(super) struct Leadership {
    commands: mpsc::Receiver<Input>,
    commits: commits::Lane,
    orders: orders::Lane,
    _tasks: Vec<Scoped>,
}

impl Leadership {
    /// Starts to read commands after the stored cursor, and to take commits and orders.
    pub(super) fn start(
        guard: Guard,
        term: Term,
        stored: &[(String, Vec<u8>)],
        hands: &Hands,
        questions: &Questions,
    ) -> Self {
        let (sender, commands) = mpsc::channel(COMMANDS);
        let (commits, commits_task) = commits::start(hands, guard, term);
        let (orders, orders_task) = orders::start(hands.bus.clone(), hands.metrics.clone());
        let reader =
            commands::Reader::new(hands.clone(), questions.post.clone(), naming::read(stored).stores, sender.clone());
        let read = reader.run(cursor(stored));
        let listen = ears::leader_questions(hands.bus.clone(), questions.clone());
        let tasks = vec![
            commits_task,
            orders_task,
            spawn_scoped("commands", read),
            spawn_scoped("leader questions", listen),
            spawn_scoped("janitor", janitor::run(hands.clone(), sender)),
        ];
        Self { commands, commits, orders, _tasks: tasks }
    }

    /// What happened. May be cancelled without loss.
    pub(super) async fn next(&mut self) -> Input {
        tokio::select! {
            Some(done) = self.commits.done.recv() => done,
            Some(reply) = self.orders.replies.recv() => reply,
            Some(command) = self.commands.recv() => command,
            else => std::future::pending().await,
        }
    }

    /// A command or an answer to an order that is at hand, by turns.
    pub(super) fn waiting(&mut self, turn: usize) -> Option<Input> {
        let command = |leading: &mut Self| leading.commands.try_recv().ok();
        let reply = |leading: &mut Self| leading.orders.replies.try_recv().ok();
        if turn.is_multiple_of(2) {
            command(self).or_else(|| reply(self))
        } else {
            reply(self).or_else(|| command(self))
        }
    }

    /// Hands a commit over; what the core is told when that cannot be.
    pub(super) fn commit(&self, commit: Commit) -> Option<Input> {
        self.commits.hand_over(commit)
    }

    /// Hands an order over; what the core is told when that cannot be.
    pub(super) fn order(&self, node: NodeName, message: OrderMessage) -> Option<Input> {
        self.orders.hand_over(node, message)
    }
}

/// Everything stored, or why this build must not lead over it.
pub(super) type Loaded = Result<Vec<(String, Vec<u8>)>, schema::Error>;

/// Brings what is stored into the present shape and reads it, after the election was won. Tries until it has it or is not wanted
/// any more.
pub(super) async fn load(hands: Hands, guard: Guard, loaded: mpsc::Sender<Loaded>) {
    let mut attempt = 0;
    loop {
        attempt += 1;
        let error = match read(&hands, &guard).await {
            Err(schema::Error::Deposed) => return,
            Err(schema::Error::Store(error)) if !error.is_denied() => error.to_string(),
            Err(error @ schema::Error::Invalid { .. }) => error.to_string(),
            read @ (Ok(_)
            | Err(
                schema::Error::Newer { .. }
                | schema::Error::NoStep { .. }
                | schema::Error::Unreadable(_)
                | schema::Error::Store(_),
            )) => {
                // A closed channel means that we do not lead any more.
                let _unwanted = loaded.send(read).await;
                return;
            }
        };
        tracing::warn!(%error, attempt, "cannot read what is stored yet");
        tokio::time::sleep(backoff::delay(attempt, Duration::from_millis(100), Duration::from_secs(1))).await;
    }
}

async fn read(hands: &Hands, guard: &Guard) -> Loaded {
    let store = &hands.store;
    // Checked by each new leader, not only at its start: a newer one may have led in between.
    schema::prepare(store, guard, &hands.name, &PRESENT).await?;
    naming::ensure(store, guard, &hands.name).await?;
    let mut pairs = store.list(keys::STATE).await.map_err(schema::Error::Store)?.pairs;
    pairs.extend(store.list(keys::OUTCOMES).await.map_err(schema::Error::Store)?.pairs);
    Ok(pairs)
}

fn cursor(stored: &[(String, Vec<u8>)]) -> Cursor {
    let value = stored.iter().find(|(key, _)| key == keys::CURSOR).map(|(_, value)| value);
    value.and_then(|value| serde_json::from_slice(value).ok()).unwrap_or_default()
}
