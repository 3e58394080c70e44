//! Commands to a rollout that is in progress: pause, resume, abort, undo, skip, freeze.

use contract::record::RevisionOutcome;
use contract::rollout_view::{RolloutPhase, RolloutStatus, RolloutView};
use reqwest::{Method, StatusCode};
use serde_json::json;

use super::images::{self, SECOND, THIRD};
use super::rollout::{Rollout, group, revision, with_image};
use crate::cluster::Cluster;

#[tokio::test(flavor = "multi_thread")]
async fn a_rollout_does_what_operators_command() {
    let cluster = Cluster::start(&[]).await;
    tokio::join!(
        a_rollout_is_paused_resumed_aborted_and_undone_by_command(&cluster),
        a_failed_batch_is_skipped_and_nothing_moves_in_a_frozen_group(&cluster),
    );
}

async fn a_rollout_is_paused_resumed_aborted_and_undone_by_command(cluster: &Cluster) {
    let strategy = json!({"Strategy": {
        "Type": "Batch", "BatchSize": 1, "NeedWaitingForConfirm": true, "ConfirmFirstDeployment": true,
    }});
    let wanted = group("word.web.web", 3, &strategy);
    let release = Rollout::open(cluster, &wanted).await;
    for ordinal in [1, 2] {
        release.until("its group waits", |view| waits(view, 0, ordinal)).await;
        say(&release, &format!("confirm&group={ordinal}")).await;
    }
    release.completed(0).await;
    let first = release.exactly(3).await;

    say(&release, "pause").await;
    release.change(&with_image(&wanted, SECOND)).await;
    release.until("it is paused", |view| (view.release, view.status) == (1, RolloutStatus::Paused)).await;
    assert_eq!(release.containers().await, first, "nothing starts");
    say(&release, "resume").await;
    release.until("its group waits", |view| waits(view, 1, 1)).await;
    say(&release, "abort").await;
    say(&release, "abort").await;
    release.until("it is aborted", |view| view.status == RolloutStatus::Aborted).await;
    let (status, text) = release.patch("rollout&action=confirm&group=1", None).await;
    assert_eq!(status, StatusCode::CONFLICT, "{text}");
    let mixed = release.exactly(3).await;
    assert_eq!(mixed.iter().filter(|container| revision(container) == 1).count(), 1, "the mix stays: {mixed:#?}");

    say(&release, "undo").await;
    release.completed(2).await;
    let back = release.exactly(3).await;
    let kept = mixed.iter().filter(|container| revision(container) == 0);
    assert!(kept.clone().count() == 2 && kept.clone().all(|container| back.contains(container)), "{back:#?}");
    let outcomes: Vec<RevisionOutcome> = release.outcomes().await.into_iter().map(|(_, outcome, _)| outcome).collect();
    assert_eq!(outcomes, [RevisionOutcome::Completed, RevisionOutcome::Aborted, RevisionOutcome::Completed]);
}

async fn a_failed_batch_is_skipped_and_nothing_moves_in_a_frozen_group(cluster: &Cluster) {
    let strategy = json!({"Strategy": {"Type": "Batch", "BatchSize": 1}});
    let wanted = group("skip.web.web", 3, &strategy);
    let release = Rollout::deployed(cluster, &wanted).await;
    let first = release.exactly(3).await;
    release.change(&with_image(&wanted, &images::unknown().await)).await;
    release.until("its first group failed", |view| (view.status, view.group) == (RolloutStatus::Held, 1)).await;
    say(&release, "skip&group=1").await;
    release.until("its second group failed", |view| (view.status, view.group) == (RolloutStatus::Held, 2)).await;
    assert_eq!(release.containers().await, first, "old instances serve until the new image is pulled");

    say(&release, "freeze").await;
    release.change(&with_image(&wanted, THIRD)).await;
    let path = format!("/api/podgroups?name={}&cmd=replica&num_instances=4", release.name());
    cluster.accepted(Method::PATCH, &path, None).await;
    let frozen = release.until("it is frozen", |view| (view.release, view.status) == (2, RolloutStatus::Frozen)).await;
    assert!(frozen.message.contains("unfreeze"), "{:?}", frozen.message);
    cluster.stays(first, async || release.containers().await).await;
    say(&release, "unfreeze").await;
    release.completed(2).await;
    assert!(release.exactly(4).await.iter().all(|container| revision(container) == 2));
}

fn waits(view: &RolloutView, number: u32, ordinal: u64) -> bool {
    (view.release, view.group, view.phase) == (number, ordinal, RolloutPhase::WaitingForConfirm)
}

async fn say(release: &Rollout<'_>, action: &str) {
    release.patched(&format!("rollout&action={action}"), None).await;
}
