//! The strategies Recreate (all old pods stop before the first new one starts) and Batch (batches without a beta).

use serde_json::json;

use super::diary::{Action, Diary};
use super::images::{SECOND, THIRD};
use super::rollout::{Rollout, group, revision, with_image};
use crate::cluster::Cluster;

#[tokio::test(flavor = "multi_thread")]
async fn recreate_never_runs_old_and_new_together_and_batch_updates_batch_by_batch() {
    let cluster = Cluster::start(&[]).await;
    let wanted = group("ways.web.web", 4, &json!({"Strategy": {"Type": "Recreate"}}));
    let release = Rollout::deployed(&cluster, &wanted).await;
    let diary = Diary::open(&cluster, release.name()).await;
    release.change(&with_image(&wanted, SECOND)).await;
    release.completed(1).await;
    let containers = release.exactly(4).await;
    assert!(containers.iter().all(|container| revision(container) == 1));
    let entries = diary.up_to(&containers).await;
    let first_new = entries.iter().position(|entry| entry.action == Action::Started && entry.pod.version == 1);
    let ended = entries.iter().take(first_new.expect("a start")).filter(|entry| entry.action == Action::Ended).count();
    assert_eq!(ended, 4, "every old one ended before the first new one started: {entries:#?}");

    // The same group by groups of three, from now on.
    let strategy = json!({"Strategy": {"Type": "Batch", "BatchSize": 3}});
    release.patched("strategy", Some(&strategy)).await;
    let diary = Diary::open(&cluster, release.name()).await;
    release.change(&with_image(&wanted, THIRD)).await;
    let view = release.completed(2).await;
    assert_eq!(view.group, 2, "{view:#?}");
    let containers = release.exactly(4).await;
    let entries = diary.up_to(&containers).await;
    let started = |at: &usize| entries[*at].action == Action::Started && entries[*at].pod.version == 2;
    let starts: Vec<usize> = (0..entries.len()).filter(started).collect();
    let fourth = entries[starts[3]].pod.instance;
    let its_end = entries
        .iter()
        .position(|entry| entry.action == Action::Ended && (entry.pod.version, entry.pod.instance) == (1, fourth));
    assert!(its_end > Some(starts[2]), "the second group is touched when the first one runs: {entries:#?}");
}
