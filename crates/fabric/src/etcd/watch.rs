//! Watches a prefix without missing a change.
//!
//! Reads everything, then watches from the next revision. Whatever happens to the watch (broken stream, cancelled by
//! etcd, compacted history, silence), everything is read again. A cancelled watch does not end, it becomes silent,
//! hence the progress requests.

use std::time::Duration;

use etcd_client::{EventType, WatchOptions, WatchResponse, WatchStream};
use tokio::sync::mpsc;

use super::{Change, Effort, Error, LARGEST_ANSWER, Store};
use crate::backoff;

/// Interval of progress requests.
const ASK_PROGRESS: Duration = Duration::from_secs(10);
/// Two missed answers plus slack.
const SILENCE: Duration = Duration::from_secs(25);

/// Why everything must be read again.
#[derive(Debug, thiserror::Error)]
enum Gap {
    #[error("etcd cancelled the watch: {0}")]
    Cancelled(String),
    #[error("the history was compacted")]
    Compacted,
    #[error("no message for too long")]
    Silent,
    #[error("the watch broke: {0}")]
    Broken(String),
    #[error("the receiver was dropped")]
    Dropped,
}

pub(super) async fn follow(store: Store, prefix: String, changes: mpsc::Sender<Change>) {
    let mut attempt = 0;
    while !changes.is_closed() {
        let gap = match begin(&store, &prefix, &changes).await {
            Ok(Some(stream)) => {
                attempt = 0;
                tokio::select! {
                    gap = forward(stream, &changes) => gap,
                    () = changes.closed() => Gap::Dropped,
                }
            }
            Ok(None) => Gap::Dropped,
            Err(error) => Gap::Broken(error.to_string()),
        };
        if matches!(gap, Gap::Dropped) {
            return;
        }
        attempt += 1;
        tracing::debug!(prefix, %gap, attempt, "restarting the watch with a full read");
        tokio::time::sleep(backoff::delay(attempt, Duration::from_millis(20), Duration::from_secs(1))).await;
    }
}

/// Sends the complete state and opens the watch after it.
async fn begin(store: &Store, prefix: &str, changes: &mpsc::Sender<Change>) -> Result<Option<WatchStream>, Error> {
    let listing = store.list(prefix).await?;
    if changes.send(Change::Reset(listing.pairs)).await.is_err() {
        return Ok(None);
    }
    let options = WatchOptions::new().with_prefix().with_start_revision(listing.revision + 1).with_progress_notify();
    let effort = Effort { per_try: Duration::from_secs(2), tries: 1 };
    let stream = store
        .call("opening a watch", effort, |client| {
            let mut watcher = client.watch_client().max_decoding_message_size(LARGEST_ANSWER);
            let (prefix, options) = (prefix.to_owned(), options.clone());
            async move { watcher.watch(prefix, Some(options)).await }
        })
        .await?;
    Ok(Some(stream))
}

async fn forward(mut stream: WatchStream, changes: &mpsc::Sender<Change>) -> Gap {
    let mut ask = tokio::time::interval(ASK_PROGRESS);
    let mut last_message = tokio::time::Instant::now();
    loop {
        tokio::select! {
            message = stream.message() => match message {
                Ok(Some(response)) => {
                    last_message = tokio::time::Instant::now();
                    if let Err(gap) = forward_events(&response, changes).await {
                        return gap;
                    }
                }
                Ok(None) => return Gap::Broken("the stream ended".to_owned()),
                Err(error) => return Gap::Broken(error.to_string()),
            },
            _ = ask.tick() => {
                if let Err(error) = stream.request_progress().await {
                    return Gap::Broken(error.to_string());
                }
            }
            () = tokio::time::sleep_until(last_message + SILENCE) => return Gap::Silent,
        }
    }
}

async fn forward_events(response: &WatchResponse, changes: &mpsc::Sender<Change>) -> Result<(), Gap> {
    if response.compact_revision() > 0 {
        return Err(Gap::Compacted);
    }
    if response.canceled() {
        return Err(Gap::Cancelled(response.cancel_reason().to_owned()));
    }
    for event in response.events() {
        let Some(pair) = event.kv() else { continue };
        let key = String::from_utf8_lossy(pair.key()).into_owned();
        let change = match event.event_type() {
            EventType::Put => Change::Put(key, pair.value().to_vec()),
            EventType::Delete => Change::Delete(key),
        };
        changes.send(change).await.map_err(|_| Gap::Dropped)?;
    }
    Ok(())
}
