//! Samples the size of etcd's database, because the core refuses growth near the quota, and the stored commit progress, by which
//! the core detects that an operator replaced etcd's state under the leader.

use std::time::Duration;

use contract::keys;
use contract::progress::Progress;
use fabric::etcd::Size;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

use super::Context;

/// At 200 changes a second of 2 KB each the database grows by 2 MB between two samples.
const EVERY: Duration = Duration::from_secs(5);

/// Runs as long as the scheduler. After a failed request the last sample stays in place.
pub(super) async fn sample(context: Context, size: watch::Sender<Option<Size>>, progress: watch::Sender<Progress>) {
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        match context.store.size().await {
            Ok(now) => {
                context.metrics.store_in_use.set(i64::try_from(now.in_use).unwrap_or(i64::MAX));
                context.metrics.store_allocated.set(i64::try_from(now.allocated).unwrap_or(i64::MAX));
                size.send_if_modified(|before| before.replace(now) != Some(now));
            }
            Err(error) => tracing::debug!(%error, "cannot read the size of etcd's database"),
        }
        if let Ok(Some(value)) = context.store.get(keys::PROGRESS).await
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
