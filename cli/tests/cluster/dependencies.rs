//! Dependency pods on a real engine: they come with the instances that need them, are mended, updated, and go.

use std::collections::BTreeMap;
use std::time::Duration;

use contract::api::NamespacePodsWithSpec;
use contract::state::RunState;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::cluster::{Cluster, IMAGE, demo_group, eventually};
use crate::docker::Workload;

const SOON: Duration = Duration::from_secs(60);
const PORTAL: &str = "svc.portal.portal";
const LOGGER: &str = "svc.logger.logger";
const MEBIBYTE: i64 = 1024 * 1024;

async fn start() -> Cluster {
    Cluster::start_with(&[("DEPLOYD_DEPENDENCY_GRACE", "3s")], &["--nodes", "2"]).await
}

fn dependency(name: &str, memory: i64) -> Value {
    json!({
        "Name": name, "Namespace": "svc", "Annotation": "{}", "Filters": ["constraint:node==nowhere"],
        "Containers": [{"Image": IMAGE, "CpuLimit": 1, "MemoryLimit": memory * MEBIBYTE, "Expose": 8080, "Volumes": ["/data"]}],
    })
}

/// A group with the portal of its namespace and the logger of its nodes.
fn client(name: &str, count: u32) -> Value {
    let mut group = demo_group(name, count);
    // The one for the node stands first: it must not make the other one for the node too.
    group["Pod"]["Dependencies"] = json!([{"PodName": LOGGER, "Policy": 1}, {"PodName": PORTAL, "Policy": 0}]);
    group
}

async fn seen(cluster: &Cluster, name: &str) -> Option<NamespacePodsWithSpec> {
    let (status, body) = cluster.call(1, Method::GET, &format!("/api/depends?name={name}"), None).await;
    match status {
        StatusCode::OK => Some(serde_json::from_str(&body).expect("a NamespacePodsWithSpec")),
        StatusCode::NOT_FOUND => None,
        other => panic!("GET {name}: {other} {body}"),
    }
}

/// The containers of dependency pods, by name.
async fn beside(cluster: &Cluster, dependency: &str) -> BTreeMap<String, Workload> {
    let all = cluster.engine.of_cluster(cluster.id()).await.into_iter();
    let ours = all.filter(|container| container.name.starts_with(&format!("{dependency}-")));
    ours.map(|container| (container.name.clone(), container)).collect()
}

/// Waits until exactly these containers of the dependency pod run.
async fn exactly(cluster: &Cluster, dependency: &str, names: &[&str]) -> BTreeMap<String, Workload> {
    let wanted: Vec<String> = names.iter().map(|name| format!("{dependency}-{name}")).collect();
    eventually(SOON, &format!("exactly {wanted:?}"), async || {
        let found = beside(cluster, dependency).await;
        (found.keys().eq(&wanted) && found.values().all(|container| container.running)).then_some(found)
    })
    .await
}

const PORTALS: [&str; 2] = ["node-1-shop.v0-i0-d0", "node-2-shop.v0-i0-d0"];
const LOGGERS: [&str; 2] = ["node-1-node-1.v0-i0-d0", "node-2-node-2.v0-i0-d0"];

/// Both dependency pods, and two groups of one namespace that need them on both nodes.
async fn shop(cluster: &Cluster) {
    for name in [PORTAL, LOGGER] {
        cluster.accepted(Method::POST, "/api/depends", Some(&dependency(name, 16))).await;
    }
    for (name, count) in [("shop.web.web", 4), ("shop.api.web", 2)] {
        cluster.accepted(Method::POST, "/api/podgroups", Some(&client(name, count))).await;
    }
    cluster.running("shop.web.web", 4, SOON).await;
    cluster.running("shop.api.web", 2, SOON).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_pod_per_node_and_namespace_comes_is_mended_and_is_updated_one_by_one() {
    let cluster = start().await;
    shop(&cluster).await;
    let before = exactly(&cluster, PORTAL, &PORTALS).await;
    exactly(&cluster, LOGGER, &LOGGERS).await;
    for container in before.values() {
        let name = container.name.strip_suffix(".v0-i0-d0").expect("its version");
        assert!(name.contains(&container.node), "{container:?}");
        let view = eventually(SOON, "it is reported", async || {
            let pods = seen(&cluster, PORTAL).await?.pods.remove("shop")?;
            pods.into_iter().find(|pod| pod.containers[0].id == container.id && pod.state == RunState::Success)
        })
        .await;
        let runtime = serde_json::to_value(&view.containers[0].runtime).expect("JSON");
        assert!(runtime["NetworkSettings"]["Networks"].get(format!("{PORTAL}_shop")).is_some(), "{runtime}");
        let binds = runtime["HostConfig"]["Binds"].to_string();
        assert!(binds.contains(&format!("/volumes/{PORTAL}/{name}/0//data:/data")), "{binds}");
        assert!(!view.containers[0].container_ip.is_empty());
    }
    mended(&cluster, &before).await;
    updated(&cluster).await;
}

/// A killed container is restarted, and a missing one is created again under the same name.
async fn mended(cluster: &Cluster, before: &BTreeMap<String, Workload>) {
    let mut containers = before.values();
    let (killed, removed) = (containers.next().expect("one"), containers.next().expect("another"));
    let started = cluster.engine.started_at(&killed.id).await;
    cluster.engine.kill(&killed.id).await;
    cluster.engine.remove(&removed.id).await;
    eventually(SOON, "the killed one runs again", async || {
        (cluster.engine.runs(&killed.id).await && cluster.engine.started_at(&killed.id).await != started).then_some(())
    })
    .await;
    let after = exactly(cluster, PORTAL, &PORTALS).await;
    assert_eq!(after[&killed.name].id, killed.id, "the same container");
    assert_ne!(after[&removed.name].id, removed.id, "another container of the same name");
}

async fn updated(cluster: &Cluster) {
    let ids = |found: &BTreeMap<String, Workload>| found.values().map(|c| c.id.clone()).collect::<Vec<_>>();
    let loggers = ids(&beside(cluster, LOGGER).await);
    cluster.accepted(Method::PUT, "/api/depends", Some(&dependency(PORTAL, 32))).await;
    let after = eventually(SOON, "both portals are of version 1", async || {
        let found = beside(cluster, PORTAL).await;
        let running = found.values().filter(|container| container.running).count();
        assert!(running > 0, "one portal is up while the other is replaced: {found:?}");
        let names = ["node-1-shop.v1-i0-d0", "node-2-shop.v1-i0-d0"].map(|name| format!("{PORTAL}-{name}"));
        (found.keys().eq(&names) && running == 2).then_some(found)
    })
    .await;
    let view = seen(cluster, PORTAL).await.expect("a dependency pod");
    assert_eq!((view.spec.version, view.spec.containers[0].memory_limit), (1, 32 * MEBIBYTE));
    let memory = view.pods["shop"].iter().map(|pod| pod.containers[0].runtime.host_config.memory);
    assert_eq!(memory.collect::<Vec<_>>(), [32 * MEBIBYTE; 2]);
    cluster.accepted(Method::PUT, "/api/depends", Some(&dependency(PORTAL, 32))).await;
    assert_eq!(
        seen(cluster, PORTAL).await.expect("a dependency pod").spec.version,
        1,
        "the same spec is no new version"
    );
    assert_eq!(ids(&beside(cluster, PORTAL).await), ids(&after));
    assert_eq!(ids(&beside(cluster, LOGGER).await), loggers, "the other dependency pod was not touched");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dependency_pod_is_removed_when_unused_when_deleted_and_immediately_by_force() {
    let cluster = start().await;
    shop(&cluster).await;
    exactly(&cluster, PORTAL, &PORTALS).await;
    exactly(&cluster, LOGGER, &LOGGERS).await;
    let portal = format!("/api/depends?name={PORTAL}");
    cluster.accepted(Method::DELETE, &portal, None).await;
    cluster.accepted(Method::DELETE, "/api/podgroups?name=shop.api.web", None).await;
    cluster.exactly("shop.api.web", 0, SOON).await;
    exactly(&cluster, PORTAL, &PORTALS).await;
    assert!(seen(&cluster, PORTAL).await.is_some(), "it is in use");
    let (status, body) = cluster.call(0, Method::POST, "/api/depends", Some(&dependency(PORTAL, 16))).await;
    assert!(status == 405 && body.contains("DependencyPod has already existed"), "{status} {body}");

    cluster.accepted(Method::DELETE, "/api/podgroups?name=shop.web.web", None).await;
    exactly(&cluster, PORTAL, &[]).await;
    eventually(SOON, "the portal is deleted", async || seen(&cluster, PORTAL).await.is_none().then_some(())).await;
    exactly(&cluster, LOGGER, &[]).await;
    let logger = seen(&cluster, LOGGER).await.expect("it still exists");
    assert_eq!(logger.pods, BTreeMap::new());

    cluster.accepted(Method::POST, "/api/podgroups", Some(&client("shop.web.web", 2))).await;
    exactly(&cluster, LOGGER, &LOGGERS).await;
    cluster.accepted(Method::DELETE, &format!("/api/depends?name={LOGGER}&force=true"), None).await;
    assert_eq!(seen(&cluster, LOGGER).await, None, "the API does not show it any more");
    exactly(&cluster, LOGGER, &[]).await;
    eventually(SOON, "the name is free again", async || {
        let (status, body) = cluster.call(0, Method::POST, "/api/depends", Some(&dependency(LOGGER, 16))).await;
        assert!([202, 405].contains(&status.as_u16()), "{status} {body}");
        (status == 202).then_some(())
    })
    .await;
    exactly(&cluster, LOGGER, &LOGGERS).await;
}
