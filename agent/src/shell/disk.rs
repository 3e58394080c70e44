//! Writes the ledger, one write after the other, off the loop.

use std::sync::Arc;

use tokio::sync::mpsc;
use tracing::error;

use crate::core::io::{Input, Ledger};
use crate::ledger::LedgerFile;

/// Writes that wait. The core has one under way at a time, so two places are one more than ever used.
const WRITES: usize = 2;

/// Where ledgers go.
#[derive(Debug)]
pub struct Disk {
    writes: mpsc::Sender<(u64, Box<Ledger>)>,
}

impl Disk {
    /// Starts the writer.
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

    /// Puts a ledger in line.
    pub fn write(&self, id: u64, ledger: Box<Ledger>) {
        if self.writes.try_send((id, ledger)).is_err() {
            error!(id, "a ledger was dropped: more than one write under way");
        }
    }
}

fn describe(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), |source| format!("{error}: {source}"))
}
