//! Updates in place: a new image keeps node, number and address; new limits keep the container too.

use std::time::Duration;

use contract::rollout_view::{RolloutPod, RolloutView};
use reqwest::StatusCode;
use serde_json::{Value, json};

use super::images::{SECOND, THIRD};
use super::rollout::{Rollout, group, with_image};
use crate::cluster::Cluster;
use crate::contract::docker::Hands;

const MORE_MEMORY: i64 = 48 << 20;

fn three(name: &str) -> Value {
    let fields = json!({
        "Strategy": {"Type": "RollingUpdate", "MaxSurge": 0, "MaxUnavailable": 1},
        "UpdatePolicy": "InPlaceIfPossible",
    });
    group(name, 3, &fields)
}

#[tokio::test(flavor = "multi_thread")]
async fn another_image_keeps_node_and_address_and_other_limits_keep_the_container() {
    let cluster = Cluster::start(&[]).await;
    let wanted = three("place.web.web");
    let release = Rollout::deployed(&cluster, &wanted).await;
    let first = release.completed(0).await;
    assert!(places(&first).iter().all(|(_, _, addresses)| !addresses.is_empty()), "{first:#?}");

    let mut pod = with_image(&wanted, SECOND);
    release.change(&pod).await;
    let second = release.completed(1).await;
    assert_eq!(places(&second), places(&first), "number, node and address stay");
    for instance in &second.instances {
        let text = answer(&instance.pods[0]).await;
        assert_eq!(text, format!("hello from place.web.web instance {} version 2\n", instance.instance));
    }

    let before = release.exactly(3).await;
    let mut starts = Vec::new();
    for container in &before {
        starts.push(cluster.engine.started_at(&container.id).await);
    }
    pod["Containers"][0]["MemoryLimit"] = MORE_MEMORY.into();
    release.change(&pod).await;
    let third = release.completed(2).await;
    assert_eq!(places(&third), places(&second));
    assert_eq!(release.exactly(3).await, before, "the very same containers");
    for (container, start) in before.iter().zip(starts) {
        assert_eq!(cluster.engine.started_at(&container.id).await, start, "{} was restarted", container.name);
        assert_eq!(Hands::connect().memory(&container.id).await, Some(MORE_MEMORY), "{}", container.name);
    }

    // An address is kept more than once, also by a container that was changed live in between.
    pod["Containers"][0]["Image"] = THIRD.into();
    release.change(&pod).await;
    let fourth = release.completed(3).await;
    assert_eq!(places(&fourth), places(&first));
    assert!(answer(&fourth.instances[0].pods[0]).await.ends_with(" version 3\n"));
    let last = release.exactly(3).await;
    assert!(last.iter().all(|container| !before.contains(container)));

    release.patched("strategy", Some(&json!({"UpdatePolicy": "InPlaceOnly"}))).await;
    pod["Containers"][0]["Env"] = json!(["A=1"]);
    let (status, text) = release.patch("spec", Some(&pod)).await;
    assert!(status == StatusCode::BAD_REQUEST && text.contains("Env"), "the field is named: {status} {text}");
    assert_eq!(release.containers().await, last);
}

/// Number, node and addresses of every instance.
fn places(view: &RolloutView) -> Vec<(u32, Option<String>, Vec<String>)> {
    let place =
        |(number, pod): (u32, &RolloutPod)| (number, pod.node.as_ref().map(ToString::to_string), pod.ips.clone());
    view.instances.iter().map(|instance| place((instance.instance, &instance.pods[0]))).collect()
}

async fn answer(pod: &RolloutPod) -> String {
    let client = fabric::http::client(Duration::from_secs(5));
    let url = format!("http://127.0.0.1:{}/", pod.node_ports[0]);
    client.get(url).send().await.expect("it answers").text().await.expect("text")
}
