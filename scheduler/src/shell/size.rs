//! Samples how large etcd's database is, for the metrics and for the core, which refuses growth near the quota, and which commits
//! it holds, because the state in it may be replaced under a leader.

use std::time::Duration;

use contract::keys;
use contract::progress::Progress;
use fabric::etcd::Size;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

use super::Hands;

/// At 200 changes a second of 2 KB each the database grows by 2 MB between two samples.
const EVERY: Duration = Duration::from_secs(5);

/// Runs as long as the scheduler. Every call has a deadline ([`fabric::etcd::Store::size`]); a sample that fails leaves the last
/// one in place.
pub(super) async fn sample(hands: Hands, size: watch::Sender<Option<Size>>, progress: watch::Sender<Progress>) {
    let mut look = interval(EVERY);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        look.tick().await;
        match hands.store.size().await {
            Ok(now) => {
                hands.metrics.store_in_use.set(i64::try_from(now.in_use).unwrap_or(i64::MAX));
                hands.metrics.store_allocated.set(i64::try_from(now.allocated).unwrap_or(i64::MAX));
                size.send_if_modified(|before| before.replace(now) != Some(now));
            }
            Err(error) => tracing::debug!(%error, "the size of etcd is not known"),
        }
        if let Ok(Some(value)) = hands.store.get(keys::PROGRESS).await
            && let Ok(now) = serde_json::from_slice::<Progress>(&value)
        {
            progress.send_if_modified(|before| {
                let is_new = *before != now;
                *before = now;
                is_new
            });
        }
    }
}
