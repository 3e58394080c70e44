//! Writes the ledger in a task of its own, one write after the other.

use std::sync::Arc;

use tokio::sync::mpsc;
use tracing::error;

use crate::core::io::{Input, Ledger};
use crate::ledger::LedgerFile;

/// Queued writes. The core has one write in progress at a time, so the queue is never full.
const WRITES: usize = 2;

#[derive(Debug)]
pub struct Disk {
    writes: mpsc::Sender<(u64, Box<Ledger>)>,
}

impl Disk {
    pub fn start(file: LedgerFile, inputs: mpsc::Sender<Input>) -> Self {
        let (writes, mut queue) = mpsc::channel::<(u64, Box<Ledger>)>(WRITES);
        let file = Arc::new(file);
        fabric::tasks::spawn("disk", async move {
            while let Some((id, ledger)) = queue.recv().await {
                let file = Arc::clone(&file);
                let written = tokio::task::spawn_blocking(move || file.store(&ledger)).await;
                let result = match written {
                    Ok(stored) => stored.map_err(|error| describe(&error)),
                    Err(panic) => Err(panic.to_string()),
                };
                if inputs.send(Input::Persisted { id, result }).await.is_err() {
                    return;
                }
            }
        });
        Self { writes }
    }

    pub fn write(&self, id: u64, ledger: Box<Ledger>) {
        if self.writes.try_send((id, ledger)).is_err() {
            error!(id, "dropped a ledger: more than one write in progress");
        }
    }
}

fn describe(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), |source| format!("{error}: {source}"))
}
