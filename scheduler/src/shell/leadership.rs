//! Everything that only a leader does. Dropping it ends all of it at once.

use std::time::Duration;

use contract::keys;
use contract::name::NodeName;
use contract::order::OrderMessage;
use contract::record::Cursor;
use fabric::backoff;
use fabric::election::Guard;
use fabric::etcd::Store;
use fabric::tasks::{Scoped, spawn_scoped};
use tokio::sync::mpsc;

use super::ears::{self, Questions};
use super::{Hands, commands, commits, janitor, orders};
use crate::core::io::{Commit, Input};

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
    pub(super) fn start(guard: Guard, stored: &[(String, Vec<u8>)], hands: &Hands, questions: &Questions) -> Self {
        let (sender, commands) = mpsc::channel(COMMANDS);
        let (commits, commits_task) = commits::start(hands.store.clone(), guard, &hands.name, hands.metrics.clone());
        let (orders, orders_task) = orders::start(hands.bus.clone(), hands.metrics.clone());
        let read = commands::read(hands.bus.clone(), cursor(stored), hands.clock, sender);
        let listen = ears::leader_questions(hands.bus.clone(), questions.clone());
        let tasks = vec![
            commits_task,
            orders_task,
            spawn_scoped("commands", read),
            spawn_scoped("leader questions", listen),
            spawn_scoped("janitor", janitor::run(hands.bus.clone(), hands.store.clone())),
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

    /// Hands a commit over; what the core is told when that cannot be.
    pub(super) fn commit(&self, commit: Commit) -> Option<Input> {
        self.commits.hand_over(commit)
    }

    /// Hands an order over; what the core is told when that cannot be.
    pub(super) fn order(&self, node: NodeName, message: OrderMessage) -> Option<Input> {
        self.orders.hand_over(node, message)
    }
}

/// Reads everything stored, after the election was won. Tries until it has it or is not wanted any more.
pub(super) async fn load(store: Store, loaded: mpsc::Sender<Vec<(String, Vec<u8>)>>) {
    let mut attempt = 0;
    loop {
        attempt += 1;
        let read = async {
            let mut pairs = store.list(keys::STATE).await?.pairs;
            pairs.extend(store.list(keys::OUTCOMES).await?.pairs);
            Ok::<_, fabric::etcd::Error>(pairs)
        };
        match read.await {
            Ok(pairs) => {
                // A closed channel means that we do not lead any more.
                let _unwanted = loaded.send(pairs).await;
                return;
            }
            Err(error) => tracing::warn!(%error, attempt, "cannot read what is stored yet"),
        }
        tokio::time::sleep(backoff::delay(attempt, Duration::from_millis(100), Duration::from_secs(1))).await;
    }
}

fn cursor(stored: &[(String, Vec<u8>)]) -> Cursor {
    let value = stored.iter().find(|(key, _)| key == keys::CURSOR).map(|(_, value)| value);
    value.and_then(|value| serde_json::from_slice(value).ok()).unwrap_or_default()
}
