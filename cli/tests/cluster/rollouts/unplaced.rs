//! An unschedulable rollout: its pods request more memory than any node has.

use contract::record::RevisionOutcome;
use contract::rollout_view::RolloutStatus;
use serde_json::{Value, json};

use super::diary::{Diary, fewest_and_most};
use super::rollout::{Rollout, group};
use crate::cluster::Cluster;

/// More than any machine this runs on has.
const HUGE: u64 = 1 << 50;

#[tokio::test(flavor = "multi_thread")]
async fn an_unschedulable_rollout_is_paused_with_every_nodes_reason_and_undo_touches_no_instance() {
    let cluster = Cluster::start(&[]).await;
    let mut nodes = std::collections::BTreeSet::new();
    for (name, strategy) in [
        ("huge.web.surge", json!({"Type": "RollingUpdate", "MaxSurge": 1, "MaxUnavailable": 0})),
        ("huge.web.renew", json!({"Type": "Batch", "BatchSize": 2})),
    ] {
        // Half of the deadline is less than the usual patience of a minute.
        let wanted = group(name, 3, &json!({"Strategy": strategy, "ProgressDeadlineSeconds": 20}));
        let release = Rollout::deployed(&cluster, &wanted).await;
        let before = release.exactly(3).await;
        let diary = Diary::open(&cluster, release.name()).await;
        release.change(&asking_for(&wanted, HUGE)).await;
        let held = release.until("it is held", |view| view.release == 1 && view.status == RolloutStatus::Held).await;
        assert!(
            held.message.contains("unschedulable") && held.message.contains("no node fits: "),
            "{:?}",
            held.message
        );
        nodes.extend(held.instances.iter().flat_map(|it| &it.pods).filter_map(|pod| pod.node.clone()));
        for node in &nodes {
            assert!(held.message.contains(&format!("{node}: memory ")), "{node} is named: {:?}", held.message);
        }
        assert!(held.message.contains("undo goes back"), "{:?}", held.message);
        assert_eq!(held.units.iter().map(|unit| unit.available).sum::<i64>(), 3, "{held:#?}");
        assert_eq!(release.exactly(3).await, before, "all of them serve on");

        release.patched("rollout&action=undo&cause=too+large", None).await;
        release.completed(2).await;
        assert_eq!(release.exactly(3).await, before, "no instance was touched");
        let entries = diary.up_to(&[]).await;
        assert_eq!(fewest_and_most(&entries, &before), (3, 3), "{entries:#?}");
        let outcomes: Vec<RevisionOutcome> = release.outcomes().await.into_iter().map(|(_, it, _)| it).collect();
        assert_eq!(outcomes, [RevisionOutcome::Completed, RevisionOutcome::Superseded, RevisionOutcome::Completed]);
    }
}

/// The pod of a group with another memory limit.
fn asking_for(group: &Value, memory: u64) -> Value {
    let mut pod = group["Pod"].clone();
    pod["Containers"][0]["MemoryLimit"] = memory.into();
    pod
}
