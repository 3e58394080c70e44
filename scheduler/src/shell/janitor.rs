//! Removes commands that are in effect from the stream: everything before the stored cursor.
//!
//! The message at the cursor stays: by it the next leader sees whether the stream lost messages. When to purge follows from the
//! stream alone, so a change of the leader neither delays nor repeats it.

use std::time::Duration;

use contract::record::Cursor;
use contract::time::Timestamp;
use contract::{keys, streams};
use fabric::etcd::Store;
use fabric::nats::{Bus, Place, StreamState};
use tokio::sync::mpsc;

use super::Hands;
use super::commands::is_of;
use crate::core::io::Input;

/// Between two looks at the stream. A client that sends 64 MiB of commands needs longer than this on any disk that syncs.
const EVERY: Duration = Duration::from_secs(10);
/// Commands in effect may stay for this long.
const KEPT: Duration = Duration::from_secs(600);
/// A stream that is at least this full is purged at once: 64 of 256 MiB. A full stream refuses every change.
const FULL: u64 = (streams::COMMANDS.max_bytes / 4).unsigned_abs();

/// Runs while leading. Also compares our clock with that of NATS, which comes with the state of the stream.
pub(super) async fn run(hands: Hands, out: mpsc::Sender<Input>) {
    loop {
        let asked_at = hands.clock.now();
        match hands.bus.stream_state(streams::COMMANDS.name).await {
            Ok(state) => {
                let answered_at = hands.clock.now();
                if let Some(ahead_millis) = state.server_time.map(|server| ahead(server, asked_at, answered_at)) {
                    hands.metrics.clock_ahead.set(ahead_millis / 1_000);
                    // Closed only when this leadership ends.
                    let _unwanted = out.send(Input::Clock { ahead_millis }).await;
                }
                if let Err(error) = tidy(&hands.bus, &hands.store, &state, answered_at).await {
                    tracing::debug!(error, "commands are not purged now");
                }
            }
            Err(error) => tracing::debug!(%error, "the command stream is not looked at now"),
        }
        tokio::time::sleep(EVERY).await;
    }
}

/// How far our clock is ahead of the server's, in milliseconds, when the server answered between these two times of ours.
fn ahead(server: Timestamp, asked_at: Timestamp, answered_at: Timestamp) -> i64 {
    let (server, asked_at, answered_at) = (server.as_millis(), asked_at.as_millis(), answered_at.as_millis());
    (asked_at - server).max(0) - (server - answered_at).max(0)
}

async fn tidy(bus: &Bus, store: &Store, state: &StreamState, now: Timestamp) -> Result<(), String> {
    let stored = store.get(keys::CURSOR).await.map_err(|error| error.to_string())?;
    let Some(cursor) = stored.and_then(|value| serde_json::from_slice::<Cursor>(&value).ok()) else { return Ok(()) };
    if !is_due(state, &cursor, now) {
        return Ok(());
    }
    let place = Place { sequence: cursor.sequence, stored_at: cursor.stored_at };
    // A stream that lost messages gives their numbers to new commands, which the leader has yet to read.
    if bus.holds(streams::COMMANDS.name, place).await.map_err(|error| error.to_string())? != Some(true) {
        return Ok(());
    }
    let up_to = cursor.sequence.saturating_sub(1);
    bus.purge_up_to(streams::COMMANDS.name, up_to).await.map_err(|error| error.to_string())?;
    tracing::info!(up_to, bytes = state.bytes, "purged commands that are in effect");
    Ok(())
}

/// Whether there is something to purge and it has been kept for long enough, or fills the stream.
fn is_due(state: &StreamState, cursor: &Cursor, now: Timestamp) -> bool {
    is_of(cursor, state.identity.as_str())
        && state.first_sequence < cursor.sequence
        && (state.bytes >= FULL || now.since(state.first_stored_at) >= KEPT)
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
            assert!(due(1, KEPT, stream, 50), "by age, whichever leader looks first");
            assert!(due(64 << 20, Duration::ZERO, stream, 50), "by fill level: 64 of 256 MiB");
            assert!(!due((64 << 20) - 1, KEPT - Duration::from_secs(1), stream, 50));
        }
    }

    #[test]
    fn a_clock_differs_only_by_what_the_way_of_the_answer_does_not_explain() {
        let at = Timestamp::from_millis;
        assert_eq!(ahead(at(5_500), at(5_000), at(6_000)), 0);
        assert_eq!(ahead(at(5_000), at(65_000), at(66_000)), 60_000);
        assert_eq!(ahead(at(65_000), at(5_000), at(6_000)), -59_000);
    }

    #[test]
    fn the_message_at_the_cursor_and_other_streams_are_left_alone() {
        assert!(!due(64 << 20, KEPT, "C@1", 40), "only the message at the cursor is left");
        assert!(!due(64 << 20, KEPT, "C@2", 50));
        assert!(!due(64 << 20, KEPT, "C@12", 50));
    }
}
