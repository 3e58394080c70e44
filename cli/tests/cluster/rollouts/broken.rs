//! A rollout that cannot complete: four instances, maxSurge and maxUnavailable 25 %, and an image that does not exist.

use contract::record::RevisionOutcome;
use contract::rollout_view::{RolloutStatus, RolloutView};
use serde_json::{Value, json};

use super::diary::{Diary, fewest_and_most};
use super::images::{self, CRASHING, MISSING};
use super::rollout::{Rollout, group, with_image};
use crate::cluster::{Cluster, demo_group, text};
use crate::docker::Workload;

/// A quarter of four may be missing.
const MINIMUM: usize = 3;

fn four(name: &str, on_failure: &str) -> Value {
    let strategy = json!({"Type": "RollingUpdate", "MaxSurge": "25%", "MaxUnavailable": "25%"});
    group(name, 4, &json!({"Strategy": strategy, "FailureAction": on_failure}))
}

/// Four groups at the same time; each failure message names its group.
#[tokio::test(flavor = "multi_thread")]
async fn a_broken_rollout_stalls_or_rolls_back_with_the_minimum_serving() {
    let cluster = Cluster::start(&[]).await;
    tokio::join!(
        a_broken_rollout_stalls_with_the_minimum_serving_and_undo_keeps_healthy_instances(&cluster),
        a_broken_rollout_rolls_back_with_failure_action_rollback(&cluster),
        a_beta_that_crashes_is_taken_back_and_the_groups_after_it_are_never_touched(&cluster),
        a_release_that_exits_after_four_seconds_is_rolled_back_by_default_with_the_minimum_serving(&cluster),
    );
}

async fn a_broken_rollout_stalls_with_the_minimum_serving_and_undo_keeps_healthy_instances(cluster: &Cluster) {
    let wanted = four("stall.web.web", "Hold");
    let release = Rollout::deployed(cluster, &wanted).await;
    let before = release.exactly(4).await;
    let diary = Diary::open(cluster, release.name()).await;
    release.change(&with_image(&wanted, &images::unknown().await)).await;
    let stalled = release
        .until("it stalls", |view| {
            view.release == 1 && matches!(view.status, RolloutStatus::Held | RolloutStatus::Stuck)
        })
        .await;
    assert!(stalled.message.contains("undo"), "it says what to do: {:?}", stalled.message);
    let available: i64 = stalled.units.iter().map(|unit| unit.available).sum();
    assert!(available >= stalled.min_available && stalled.min_available == 3, "{stalled:#?}");
    let untouched = at_their_first_revision(&before, &stalled);
    assert!(untouched.len() >= MINIMUM, "{stalled:#?}");
    assert_eq!(release.containers().await, before, "old instances serve until the new image is pulled");

    release.patched("rollout&action=undo&cause=unknown+image", None).await;
    release.completed(2).await;
    let after = release.exactly(4).await;
    assert!(untouched.iter().all(|container| after.contains(container)), "{untouched:#?}\n{after:#?}");
    let entries = diary.up_to(&made_since(&before, &after)).await;
    assert!(fewest_and_most(&entries, &before).0 >= MINIMUM, "{entries:#?}");
    let outcomes = release.outcomes().await;
    let wanted = [
        (0, RevisionOutcome::Completed, None),
        (1, RevisionOutcome::Superseded, None),
        (2, RevisionOutcome::Completed, Some(0)),
    ];
    assert_eq!(outcomes, wanted);
    assert_eq!(release.history().await.revisions[2].cause, "unknown image");
}

async fn a_broken_rollout_rolls_back_with_failure_action_rollback(cluster: &Cluster) {
    let wanted = four("back.web.web", "Rollback");
    let release = Rollout::deployed(cluster, &wanted).await;
    let before = release.exactly(4).await;
    let diary = Diary::open(cluster, release.name()).await;
    release.change(&with_image(&wanted, MISSING)).await;
    let back = release.completed(2).await;
    assert!(back.is_rollback, "{back:#?}");
    let after = release.exactly(4).await;
    let same = before.iter().filter(|container| after.contains(container)).count();
    assert!(same >= MINIMUM, "{before:#?}\n{after:#?}");
    let stayed = after.iter().all(|container| container.name.ends_with("-d0"));
    assert!(stayed, "no serving instance moves because of a missing image: {after:#?}");
    let entries = diary.up_to(&made_since(&before, &after)).await;
    assert!(fewest_and_most(&entries, &before).0 >= MINIMUM, "{entries:#?}");
    let wanted = [
        (0, RevisionOutcome::Completed, None),
        (1, RevisionOutcome::RolledBack, None),
        (2, RevisionOutcome::Completed, Some(0)),
    ];
    assert_eq!(release.outcomes().await, wanted);
    let told = cluster.group(0, release.name()).await.expect("the group");
    assert_eq!(told.spec.pod.containers[0].image, crate::cluster::IMAGE);
}

async fn a_beta_that_crashes_is_taken_back_and_the_groups_after_it_are_never_touched(cluster: &Cluster) {
    let fields = json!({
        "Strategy": {"Type": "Beta", "BatchSize": 2},
        "Topology": {"UnitType": "Cell", "UnitLabel": "unit", "Values": ["cell-a", "cell-b"]},
        // It runs for a moment before it ends: that is not enough.
        "MinReadySeconds": 1,
        "FailureAction": "Rollback",
    });
    let wanted = group("crash.web.web", 5, &fields);
    let release = Rollout::deployed(cluster, &wanted).await;
    let before = release.exactly(5).await;
    let diary = Diary::open(cluster, release.name()).await;
    release.change(&with_image(&wanted, CRASHING)).await;
    release.completed(2).await;
    let after = release.exactly(5).await;
    assert_eq!(made_since(&before, &after).len(), 2, "one of each unit: {before:#?}\n{after:#?}");
    let entries = diary.up_to(&made_since(&before, &after)).await;
    assert!(fewest_and_most(&entries, &before).0 >= 3, "{entries:#?}");
    let outcomes: Vec<RevisionOutcome> = release.outcomes().await.into_iter().map(|(_, outcome, _)| outcome).collect();
    assert_eq!(outcomes, [RevisionOutcome::Completed, RevisionOutcome::RolledBack, RevisionOutcome::Completed]);
}

async fn a_release_that_exits_after_four_seconds_is_rolled_back_by_default_with_the_minimum_serving(cluster: &Cluster) {
    let mut wanted = demo_group("exits.web.web", 4);
    wanted["Strategy"] = json!({"Type": "RollingUpdate"});
    let folder = tempfile::tempdir().expect("a folder");
    let apply = async |name: &str, group: &Value| {
        let path = folder.path().join(name);
        std::fs::write(&path, group.to_string()).expect("written");
        cluster.deployctl(&["apply", "-w", "-f", path.to_str().expect("a path")]).await
    };
    let first = apply("first.json", &wanted).await;
    assert!(first.status.success(), "{}", text(&first));
    let release = Rollout::of(cluster, "exits.web.web").await;
    let before = release.exactly(4).await;
    let diary = Diary::open(cluster, release.name()).await;
    wanted["Pod"]["Containers"][0]["Env"] = json!(["DEMO_EXIT_AFTER_MS=4000", "DEMO_EXIT_CODE=3"]);
    let second = apply("second.json", &wanted).await;
    assert_eq!(second.status.code(), Some(1), "{}", text(&second));
    for part in ["exited (3)", "demo listens on 8080"] {
        assert!(text(&second).contains(part), "it says how the instance ended: {}", text(&second));
    }
    release.completed(2).await;
    let after = release.exactly(4).await;
    let entries = diary.up_to(&made_since(&before, &after)).await;
    assert!(fewest_and_most(&entries, &before).0 >= MINIMUM, "{entries:#?}");
    let outcomes: Vec<RevisionOutcome> = release.outcomes().await.into_iter().map(|(_, outcome, _)| outcome).collect();
    assert_eq!(outcomes, [RevisionOutcome::Completed, RevisionOutcome::RolledBack, RevisionOutcome::Completed]);
}

/// The containers of the instances that the rollout has not updated.
fn at_their_first_revision(before: &[Workload], view: &RolloutView) -> Vec<Workload> {
    let is_untouched = |container: &&Workload| {
        let instance = view.instances.iter().find(|instance| instance.instance == container.instance);
        instance.and_then(|instance| instance.pods.first()).is_some_and(|pod| pod.revision == 0)
    };
    before.iter().filter(is_untouched).cloned().collect()
}

fn made_since(before: &[Workload], after: &[Workload]) -> Vec<Workload> {
    after.iter().filter(|container| !before.contains(container)).cloned().collect()
}
