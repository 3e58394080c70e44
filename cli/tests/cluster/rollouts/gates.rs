//! Rollouts that wait for an outside system: readiness gates of new pods, and draining of old ones.

use contract::rollout_view::{RolloutPod, RolloutView};
use reqwest::StatusCode;
use serde_json::json;

use super::images::SECOND;
use super::rollout::{Rollout, group, with_image};
use crate::cluster::Cluster;

#[tokio::test(flavor = "multi_thread")]
async fn a_rollout_waits_for_gates_and_drains_across_a_change_of_leader() {
    let cluster = Cluster::start(&[]).await;
    let wanted = group(
        "gates.web.web",
        2,
        &json!({
            "Strategy": {"Type": "RollingUpdate", "MaxSurge": 1, "MaxUnavailable": 0},
            "ReadinessGates": ["traffic"],
            "Drain": {"GraceSeconds": 0, "NeedsAnswer": true},
        }),
    );
    let release = Rollout::open(&cluster, &wanted).await;
    release.exactly(2).await;
    let view = release.until("no gate is open yet", |view| view.instances.len() == 2).await;
    assert!(view.instances.iter().all(|instance| !instance.pods[0].ready && !instance.pods[0].gates["traffic"]));
    let (status, text) = release.patch("gate&instance=1&gate=nosuch&value=true", None).await;
    assert!(status == StatusCode::BAD_REQUEST && text.contains("traffic"), "the gates are named: {status} {text}");
    for instance in [1, 2] {
        release.patched(&format!("gate&instance={instance}&gate=traffic&value=true"), None).await;
    }
    release.completed(0).await;
    let before = release.exactly(2).await;

    release.change(&with_image(&wanted, SECOND)).await;
    for instance in [1, 2] {
        let view = release
            .until("the new one runs beside the old one and waits for its gate", |view| waits_for_gate(view, instance))
            .await;
        assert!(main(&view, instance).ready, "the old one serves on: {view:#?}");
        cluster.lose_leader().await;
        assert_eq!(release.containers().await.len(), 3);
        release.patched(&format!("gate&instance={instance}&gate=traffic&value=true&version=1"), None).await;
        let view = release.until("the old one is being drained", |view| main(view, instance).draining).await;
        assert!(!main(&view, instance).ready, "and takes no more traffic: {view:#?}");
        assert!(view.message.contains("drained"), "it says what it waits for: {:?}", view.message);
        cluster.lose_leader().await;
        release.until("the next leader continues the drain", |view| main(view, instance).draining).await;
        assert!(cluster.engine.runs(&before[instance as usize - 1].id).await, "and it is not touched yet");
        release.patched(&format!("drained&instance={instance}"), None).await;
    }
    release.completed(1).await;
    let after = release.exactly(2).await;
    assert!(after.iter().all(|container| !before.contains(container)));
}

/// The pod that is the instance's own.
fn main(view: &RolloutView, instance: u32) -> &RolloutPod {
    let found = view.instances.iter().find(|it| it.instance == instance).expect("the instance");
    &found.pods[0]
}

/// The pod beside it has come up, and its gate is still closed.
fn waits_for_gate(view: &RolloutView, instance: u32) -> bool {
    let found = view.instances.iter().find(|it| it.instance == instance);
    let beside = found.and_then(|it| it.pods.get(1));
    beside.is_some_and(|pod| pod.revision == 1 && !pod.containers.is_empty() && !pod.ready && !pod.gates["traffic"])
}
