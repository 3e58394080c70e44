//! Samples how large etcd's database is, for the metrics and for the core, which refuses growth near the quota.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

use super::Hands;

/// At 200 changes a second of 2 KB each the database grows by 2 MB between two samples.
const EVERY: Duration = Duration::from_secs(5);

/// Runs as long as the scheduler. Every call has a deadline ([`fabric::etcd::Store::size`]); a sample that fails leaves the last
/// one in place.
pub(super) async fn sample(hands: Hands, in_use: watch::Sender<u64>) {
    let mut look = interval(EVERY);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        look.tick().await;
        match hands.store.size().await {
            Ok(size) => {
                hands.metrics.store_in_use.set(i64::try_from(size.in_use).unwrap_or(i64::MAX));
                hands.metrics.store_allocated.set(i64::try_from(size.allocated).unwrap_or(i64::MAX));
                in_use.send_if_modified(|before| std::mem::replace(before, size.in_use) != size.in_use);
            }
            Err(error) => tracing::debug!(%error, "the size of etcd is not known"),
        }
    }
}
