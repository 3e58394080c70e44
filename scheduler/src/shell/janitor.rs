//! Throws away commands that are in effect for good: everything up to the stored cursor.

use std::time::Duration;

use contract::record::Cursor;
use contract::{keys, streams};
use fabric::etcd::Store;
use fabric::nats::Bus;

const EVERY: Duration = Duration::from_secs(600);

/// Runs while leading.
pub(super) async fn run(bus: Bus, store: Store) {
    loop {
        tokio::time::sleep(EVERY).await;
        if let Some(cursor) = stored_cursor(&store).await {
            purge(&bus, &cursor).await;
        }
    }
}

async fn stored_cursor(store: &Store) -> Option<Cursor> {
    match store.get(keys::CURSOR).await {
        Ok(value) => value.and_then(|value| serde_json::from_slice(&value).ok()),
        Err(error) => {
            tracing::debug!(%error, "commands are not purged now");
            None
        }
    }
}

async fn purge(bus: &Bus, cursor: &Cursor) {
    let identity = match bus.ensure_stream(&(&streams::COMMANDS).into()).await {
        Ok(identity) => identity,
        Err(error) => return tracing::debug!(%error, "commands are not purged now"),
    };
    // A cursor of another stream says nothing about this one.
    if cursor.stream != identity.as_str() {
        return;
    }
    match bus.purge_up_to(streams::COMMANDS.name, cursor.sequence).await {
        Ok(()) => tracing::debug!(up_to = cursor.sequence, "commands in effect are purged"),
        Err(error) => tracing::warn!(%error, "commands in effect could not be purged"),
    }
}
