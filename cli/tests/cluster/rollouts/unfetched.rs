//! A rollout to an image that cannot be pulled is paused, and all instances keep serving.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use contract::rollout_view::{RolloutStatus, RolloutView};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::images;
use super::probe::{Client, ports};
use super::rollout::{Rollout, group, pods, with_image};
use crate::cluster::{Cluster, eventually};

const INSTANCES: usize = 3;

fn three(name: &str, policy: &str) -> Value {
    let fields = json!({
        "Strategy": {"Type": "RollingUpdate", "MaxSurge": 0, "MaxUnavailable": 1},
        "UpdatePolicy": policy,
        "Drain": {"GraceSeconds": 1},
    });
    group(name, 3, &fields)
}

/// An in-place update and a rollout without surge, at the same time.
#[tokio::test(flavor = "multi_thread")]
async fn no_instance_is_touched_when_the_image_cannot_be_pulled() {
    let cluster = Cluster::start(&[]).await;
    let (place, surge) = (three("unfetched.web.place", "InPlaceIfPossible"), three("unfetched.web.surge", "ReCreate"));
    tokio::join!(is_untouched(&cluster, &place), is_untouched(&cluster, &surge));
}

async fn is_untouched(cluster: &Cluster, wanted: &Value) {
    let release = Rollout::deployed(cluster, wanted).await;
    let before = release.exactly(3).await;
    let (ready, _) = watch::channel(ports(&release.view().await.expect("a release")));
    let client = Client::start(&ready, Duration::ZERO);
    eventually(Duration::from_secs(10), "requests are in flight", async || (client.asked() >= 20).then_some(())).await;

    let fewest = AtomicUsize::new(INSTANCES);
    let look = |view: &RolloutView| {
        let serving = pods(view).filter(|pod| pod.ready && !pod.draining && pod.revision == 0).count();
        fewest.fetch_min(serving, Ordering::Relaxed);
        ready.send_replace(ports(view));
    };
    release.change(&with_image(wanted, &images::unknown().await)).await;
    let held = release
        .until("it is held", |view| {
            look(view);
            view.release == 1 && view.status == RolloutStatus::Held
        })
        .await;
    assert!(held.message.contains("image") && held.message.contains("undo"), "{:?}", held.message);
    assert_eq!(release.containers().await, before);

    release.patched("rollout&action=undo", None).await;
    release
        .until("release 2 is complete", |view| {
            look(view);
            view.release == 2 && view.status == RolloutStatus::Complete
        })
        .await;
    assert_eq!(fewest.into_inner(), INSTANCES, "all of them were ready throughout");
    assert_eq!(release.containers().await, before, "the very same containers");
    drop(ready);
    let answers = client.answers.await.expect("the client ends");
    let failed: Vec<&String> = answers.iter().filter_map(|answer| answer.as_ref().err()).collect();
    assert!(failed.is_empty(), "{} of {} failed: {failed:#?}", failed.len(), answers.len());
}
