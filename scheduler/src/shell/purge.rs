//! Purges commands that are in effect from the stream: all messages before the stored cursor.
//!
//! The message at the cursor stays: the next leader compares it with the cursor to detect that the stream lost messages. When to
//! purge follows from the stream alone, so a change of the leader neither delays nor repeats it.

use std::time::Duration;

use contract::record::Cursor;
use contract::time::Timestamp;
use contract::{keys, streams};
use fabric::etcd::Store;
use fabric::nats::{Bus, StreamPosition, StreamState};
use tokio::sync::mpsc;

use super::Context;
use super::commands::is_of;
use crate::core::io::Input;

/// The interval between two checks. A client needs longer than this to send 64 MiB of commands to a disk that syncs.
const EVERY: Duration = Duration::from_secs(10);
/// The age at which commands in effect are purged.
const MAX_AGE: Duration = Duration::from_secs(600);
/// The size at which commands in effect are purged at any age: 64 of 256 MiB. A full stream refuses every change.
const MAX_BYTES: u64 = (streams::COMMANDS.max_bytes / 4).unsigned_abs();

/// Runs while this process leads. Also compares its clock with that of NATS, which comes with the state of the stream.
pub(super) async fn run(context: Context, out: mpsc::Sender<Input>) {
    loop {
        let asked_at = context.clock.now();
        match context.bus.stream_state(streams::COMMANDS.name).await {
            Ok(state) => {
                let answered_at = context.clock.now();
                if let Some(ahead_millis) = state.server_time.map(|server| ahead(server, asked_at, answered_at)) {
                    context.metrics.clock_ahead.set(ahead_millis / 1_000);
                    // The channel closes only when this leadership ends.
                    let _closed = out.send(Input::Clock { ahead_millis }).await;
                }
                if let Err(error) = purge(&context.bus, &context.store, &state, answered_at).await {
                    tracing::debug!(error, "cannot purge the command stream");
                }
            }
            Err(error) => tracing::debug!(%error, "cannot read the state of the command stream"),
        }
        tokio::time::sleep(EVERY).await;
    }
}

/// By how many milliseconds our clock is ahead of the server's, which read its clock between `asked_at` and `answered_at`. Asked
/// at 65,000, answered at 66,000, server time 5,000: at least 60,000 ms ahead. A server time in between: 0.
fn ahead(server: Timestamp, asked_at: Timestamp, answered_at: Timestamp) -> i64 {
    let (server, asked_at, answered_at) = (server.as_millis(), asked_at.as_millis(), answered_at.as_millis());
    (asked_at - server).max(0) - (server - answered_at).max(0)
}

async fn purge(bus: &Bus, store: &Store, state: &StreamState, now: Timestamp) -> Result<(), String> {
    let stored = store.get(keys::CURSOR).await.map_err(|error| error.to_string())?;
    let Some(cursor) = stored.and_then(|value| serde_json::from_slice::<Cursor>(&value).ok()) else { return Ok(()) };
    if !is_due(state, &cursor, now) {
        return Ok(());
    }
    let place = StreamPosition { sequence: cursor.sequence, stored_at: cursor.stored_at };
    // A stream that lost messages reuses their numbers for new commands, which the leader has not read yet.
    if bus.holds(streams::COMMANDS.name, place).await.map_err(|error| error.to_string())? != Some(true) {
        return Ok(());
    }
    let up_to = cursor.sequence.saturating_sub(1);
    bus.purge_up_to(streams::COMMANDS.name, up_to).await.map_err(|error| error.to_string())?;
    tracing::info!(up_to, bytes = state.bytes, "purged commands that are in effect");
    Ok(())
}

/// Whether the stream holds messages before the cursor and is old or full enough to purge them.
fn is_due(state: &StreamState, cursor: &Cursor, now: Timestamp) -> bool {
    is_of(cursor, state.identity.as_str())
        && state.first_sequence < cursor.sequence
        && (state.bytes >= MAX_BYTES || now.since(state.first_stored_at) >= MAX_AGE)
}

#[cfg(test)]
mod tests {
    use fabric::nats::StreamIdentity;

    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_000_000_000);

    fn due(bytes: u64, age: Duration, stream: &str, sequence: u64) -> bool {
        let state = StreamState {
            identity: StreamIdentity::new("C@1"),
            first_sequence: 40,
            first_stored_at: NOW - age,
            bytes,
            server_time: None,
        };
        is_due(&state, &Cursor { stream: stream.to_owned(), sequence, stored_at: Some(1) }, NOW)
    }

    #[test]
    fn a_stream_is_purged_by_age_and_by_fill_level_also_after_it_lost_messages() {
        for stream in ["C@1", "C@1~1", "C@1~900"] {
            assert!(due(1, MAX_AGE, stream, 50), "by age");
            assert!(due(64 << 20, Duration::ZERO, stream, 50), "by fill level: 64 of 256 MiB");
            assert!(!due((64 << 20) - 1, MAX_AGE - Duration::from_secs(1), stream, 50));
        }
    }

    #[test]
    fn a_clock_is_ahead_only_by_what_exceeds_the_round_trip() {
        let at = Timestamp::from_millis;
        assert_eq!(ahead(at(5_500), at(5_000), at(6_000)), 0);
        assert_eq!(ahead(at(5_000), at(65_000), at(66_000)), 60_000);
        assert_eq!(ahead(at(65_000), at(5_000), at(6_000)), -59_000);
    }

    #[test]
    fn the_message_at_the_cursor_and_other_streams_are_left_alone() {
        assert!(!due(64 << 20, MAX_AGE, "C@1", 40), "only the message at the cursor is left");
        assert!(!due(64 << 20, MAX_AGE, "C@2", 50));
        assert!(!due(64 << 20, MAX_AGE, "C@12", 50));
    }
}
