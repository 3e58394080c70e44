//! Containers that use their whole grace among others that exit immediately.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;

use super::docker::{Cluster, in_cluster};

/// Longer than Docker needs to stop and remove all of them on a busy machine.
const GRACE: Duration = Duration::from_secs(8);

#[tokio::test(flavor = "multi_thread")]
async fn slow_stops_wait_in_parallel_and_do_not_delay_fast_ones() {
    in_cluster(async |cluster: &Cluster| {
        let (slow, quick) = (cluster.ending_with("SIGUSR1", 20).await, cluster.ending_with("SIGTERM", 8).await);
        let engine = Arc::new(cluster.engine("n1"));
        let (changed, _ids) = tokio::sync::mpsc::channel(1024);
        let watching = Arc::clone(&engine);
        let watcher = fabric::tasks::spawn("watch", async move { watching.watch(&mut None, &changed).await.is_ok() });

        let begun = Instant::now();
        let remove = async |id: &String| {
            engine.remove(id, GRACE).await.expect("removes");
            begun.elapsed()
        };
        // The slow ones come first.
        let gone = join_all(slow.iter().chain(&quick).map(remove)).await;
        watcher.abort();
        let (slow, quick) = gone.split_at(slow.len());
        let (first, last) = (slow.iter().min().expect("some"), slow.iter().max().expect("some"));
        println!(
            "20 slow ones were gone after {first:?} to {last:?}, 8 quick ones after at most {:?}",
            quick.iter().max()
        );
        assert!(quick.iter().all(|after| after < first), "quick ones waited for slow ones: {quick:?}, {slow:?}");
        assert!(*first >= GRACE && *last < 2 * GRACE, "they have one grace together: {slow:?}");
        assert!(cluster.containers().await.is_empty());
    })
    .await;
}
