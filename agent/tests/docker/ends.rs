//! Containers that take their whole grace to end, among others that end at once.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bollard::models::{ContainerCreateBody, HostConfig};
use bollard::query_parameters::CreateContainerOptionsBuilder;
use futures_util::future::join_all;

use super::docker::{Cluster, IMAGE, in_cluster};

/// Longer than it takes the engine to end and remove all of them on a busy machine.
const GRACE: Duration = Duration::from_secs(8);

/// Containers of the node that are asked to end with this signal. The kernel keeps from process 1 whatever it has no handler for.
async fn make(cluster: &Cluster, count: usize, signal: &str) -> Vec<String> {
    let mut made = Vec::new();
    for number in 0..count {
        let body = ContainerCreateBody {
            image: Some(IMAGE.to_owned()),
            labels: Some(cluster.plan(&cluster.spec(1), 0).labels.into_iter().collect()),
            stop_signal: Some(signal.to_owned()),
            host_config: Some(HostConfig { network_mode: Some("none".to_owned()), ..Default::default() }),
            ..Default::default()
        };
        let options = CreateContainerOptionsBuilder::new().name(&format!("{}-{signal}-{number}", cluster.id)).build();
        let id = cluster.raw.create_container(Some(options), body).await.expect("creates").id;
        cluster.raw.start_container(&id, None).await.expect("starts");
        made.push(id);
    }
    made
}

#[tokio::test(flavor = "multi_thread")]
async fn those_that_take_their_whole_grace_wait_side_by_side_and_hold_no_quick_one_up() {
    in_cluster(async |cluster: &Cluster| {
        let (slow, quick) = (make(cluster, 20, "SIGUSR1").await, make(cluster, 8, "SIGTERM").await);
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
