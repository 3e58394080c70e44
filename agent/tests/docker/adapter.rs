//! Single calls of the adapter.

use std::collections::BTreeSet;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use agent::container::Host;
use agent::core::io::{ActionFailure, ImageTrouble, Phase};
use agent::device::Device;
use contract::labels;
use contract::pod_id::PodId;
use contract::spec::{ContainerSpec, PodSpec};
use serde_json::json;

use super::docker::{Cluster, engine_time, in_cluster};

const GRACE: Duration = Duration::from_secs(10);

#[tokio::test]
async fn a_container_is_created_stopped_started_and_removed() {
    in_cluster(async |cluster: &Cluster| {
        let engine = cluster.engine("n1");
        let plan = cluster.plan(&cluster.spec(1), 0);
        let made = engine.create(&plan).await.expect("creates").expect("is there");
        assert_eq!((made.phase, &made.identity.pod, made.identity.index), (Phase::Running, &cluster.pod(1), 0));
        assert!(made.started_at.happened() && !made.ip.is_empty());
        assert_eq!(engine.inventory().await.expect("lists"), std::slice::from_ref(&made));

        let stopped = engine.stop(&made.id, GRACE).await.expect("stops").expect("is there");
        assert_eq!((stopped.phase, stopped.finished_at.happened()), (Phase::Exited, true));
        assert_eq!(engine.stop(&made.id, GRACE).await.expect("stops again").expect("is there").phase, Phase::Exited);
        let started = engine.start(&made.id).await.expect("starts").expect("is there");
        assert_eq!((started.phase, &started.id), (Phase::Running, &made.id));
        assert_eq!(engine.start(&made.id).await.expect("starts again").expect("is there").phase, Phase::Running);

        engine.remove(&made.id, GRACE).await.expect("removes");
        assert_eq!(engine.seen(&made.id).await.expect("looks"), None);
        engine.remove(&made.id, GRACE).await.expect("removing what is gone is no error");
        assert_eq!(engine.start(&made.id).await.expect("starting what is gone is no error"), None);
    })
    .await;
}

#[tokio::test]
async fn a_replacement_starts_after_the_old_container_exited() {
    in_cluster(async |cluster: &Cluster| {
        let engine = cluster.engine("n1");
        let old = engine.create(&cluster.plan(&cluster.spec(1), 0)).await.expect("creates").expect("is there");
        let (since, successor) = (engine_time(), PodId { version: 2, ..cluster.pod(1) });
        let plan = agent::container::plan(&cluster.host("n1"), &successor, &cluster.spec(1), 0).expect("a plan");
        let new = Box::pin(engine.replace(&old.id, GRACE, &plan)).await.expect("replaces").expect("is there");
        assert_eq!((new.phase, &new.identity.pod), (Phase::Running, &successor));
        assert_eq!(cluster.containers().await, std::slice::from_ref(&new.id), "the old one is gone");
        let died = cluster.when(&old.id, &since, "die").await;
        assert!(died < cluster.when(&new.id, &since, "start").await, "they do not run side by side");

        // A foreign container has the name: nothing is created, but the old container is removed.
        let third = PodId { version: 3, ..successor };
        cluster.foreign(&third.to_string(), HashMap::new()).await;
        let plan = agent::container::plan(&cluster.host("n1"), &third, &cluster.spec(1), 0).expect("a plan");
        assert!(Box::pin(engine.replace(&new.id, GRACE, &plan)).await.is_err());
        assert_eq!(engine.seen(&new.id).await.expect("looks"), None);
    })
    .await;
}

#[tokio::test]
async fn the_created_container_has_the_settings_of_the_contract() {
    in_cluster(async |cluster: &Cluster| {
        let mut spec = cluster.spec(1);
        spec.labels.insert("team".to_owned(), "x".to_owned());
        spec.containers[0].env = vec!["A=1".to_owned()];
        spec.containers[0].expose = 8080;
        spec.containers[0].volumes = vec!["/lain/logs".to_owned()];
        spec.health_config.cmd = "true".to_owned();
        let plan = cluster.plan(&spec, 0);
        let made = cluster.engine("n1").create(&plan).await.expect("creates").expect("is there");
        assert_ne!(made.node_port, 0, "the port is published");
        assert_eq!(made.spec_digest, contract::digest::Digest::of(&spec).to_string());

        let document = cluster.inspect(&made.id).await.expect("inspects");
        let (config, host) = (&document["Config"], &document["HostConfig"]);
        assert_eq!(document["Name"], format!("/{}", cluster.pod(1)));
        assert_eq!(config["Env"][0], "A=1");
        assert_eq!(config["Env"][1], "DEPLOYD_POD_INSTANCE_NO=1");
        assert_eq!(config["Env"][2], format!("DEPLOYD_POD_NAME={}", cluster.id));
        assert_eq!(config["Env"][3], "DEPLOYD_POD_NAMESPACE=test");
        assert_eq!(config["Labels"]["team"], "x");
        assert_eq!(config["Labels"][labels::NODE], "n1");
        assert_eq!(config["Healthcheck"]["Test"], json!(["CMD-SHELL", "true || exit 1"]));
        assert_eq!((&host["Memory"], &host["MemorySwap"]), (&json!(32 << 20), &json!(32 << 20)));
        assert_eq!((&host["CpuPeriod"], &host["CpuQuota"]), (&json!(1_000_000), &json!(500_000)));
        assert_eq!(host["BlkioDeviceReadBps"], json!(null));
        let second_hierarchy = std::path::Path::new("/sys/fs/cgroup/cgroup.controllers").exists();
        assert_eq!(host["MemorySwappiness"], if second_hierarchy { json!(null) } else { json!(0) });
        let volume = format!("{}/test/{}/1//lain/logs:/lain/logs", cluster.host("n1").volume_root, cluster.id);
        assert_eq!(host["Binds"], json!([volume]));
        assert_eq!(host["PortBindings"]["8080/tcp"][0]["HostIp"], "127.0.0.1");
    })
    .await;
}

#[tokio::test]
async fn a_container_gets_its_device_limits_and_keeps_its_identity_when_they_change() {
    in_cluster(async |cluster: &Cluster| {
        let path = super::docker::block_device();
        let device = Device::parse(&format!("path={path},rate=100mb,iops=1000")).expect("a device");
        let host = Host { throttles: vec![device.throttle()], ..cluster.host("n1") };
        let plan = agent::container::plan(&host, &cluster.pod(1), &cluster.spec(1), 0).expect("a plan");
        assert_eq!(plan.labels, cluster.plan(&cluster.spec(1), 0).labels);
        let made = cluster.engine("n1").create(&plan).await.expect("creates").expect("is there");
        assert_eq!(made.phase, Phase::Running);
        let document = cluster.inspect(&made.id).await.expect("inspects");
        let limit = |rate: u64| json!([{"Path": path, "Rate": rate}]);
        for (field, rate) in [
            ("BlkioDeviceReadBps", 70_000_000),
            ("BlkioDeviceWriteBps", 70_000_000),
            ("BlkioDeviceReadIOps", 700),
            ("BlkioDeviceWriteIOps", 700),
        ] {
            assert_eq!(document["HostConfig"][field], limit(rate), "{field}");
        }
    })
    .await;
}

#[tokio::test]
async fn details_are_the_documents_clients_read() {
    in_cluster(async |cluster: &Cluster| {
        let engine = cluster.engine("n1");
        let mut spec = cluster.spec(1);
        spec.containers[0].expose = 8080;
        let made = engine.create(&cluster.plan(&spec, 0)).await.expect("creates").expect("is there");
        let details = engine.details(&cluster.id).await.expect("inspects");
        assert_eq!(details.len(), 1);
        let detail = &details[0];
        assert_eq!((&detail.id, detail.state.running, detail.state.started_at), (&made.id, true, made.started_at));
        assert_eq!(detail.network_settings.ip_address, made.ip);
        assert!(detail.config.exposed_ports.as_ref().is_some_and(|ports| ports.contains_key("8080/tcp")));
        assert!(detail.network_settings.ports.contains_key("8080/tcp"));
        assert_eq!(engine.details("some.other.group").await.expect("inspects"), []);
    })
    .await;
}

#[tokio::test]
async fn an_existing_container_is_adopted() {
    in_cluster(async |cluster: &Cluster| {
        let engine = cluster.engine("n1");
        let plan = cluster.plan(&cluster.spec(1), 0);
        let first = engine.create(&plan).await.expect("creates").expect("is there");
        cluster.kill(&first.id).await;
        let second = engine.create(&plan).await.expect("adopts").expect("is there");
        assert_eq!((second.id, second.phase), (first.id, Phase::Running));
        assert_eq!(cluster.containers().await.len(), 1);
    })
    .await;
}

#[tokio::test]
async fn foreign_containers_are_neither_listed_nor_adopted_nor_changed() {
    in_cluster(async |cluster: &Cluster| {
        let plan = cluster.plan(&cluster.spec(1), 0);
        let mut look_alike: HashMap<String, String> = plan.labels.clone().into_iter().collect();
        look_alike.insert(labels::CLUSTER.to_owned(), format!("{}-other", cluster.id));
        let named = cluster.foreign(&plan.name, look_alike.clone()).await;
        look_alike.insert(labels::CLUSTER.to_owned(), cluster.id.clone());
        look_alike.insert(labels::NODE.to_owned(), "n2".to_owned());
        let neighbour = cluster.foreign(&format!("{}-neighbour", cluster.id), look_alike).await;

        let engine = cluster.engine("n1");
        match engine.create(&plan).await.map_err(ActionFailure::from) {
            Err(ActionFailure::Refused(text)) => assert!(text.starts_with("409: 409 Conflict, "), "{text}"),
            other => panic!("{other:?}"),
        }
        assert_eq!(engine.inventory().await.expect("lists"), []);
        assert_eq!(engine.seen(&neighbour).await.expect("looks"), None);
        assert!(cluster.is_running(&named).await && cluster.is_running(&neighbour).await);
    })
    .await;
}

#[tokio::test]
async fn a_pod_of_two_containers_has_two_names_and_one_pod() {
    in_cluster(async |cluster: &Cluster| {
        let engine = cluster.engine("n1");
        let mut spec = cluster.spec(2);
        spec.containers[1].env = vec!["PORT=8081".to_owned()];
        for index in 0..2 {
            let made = engine.create(&cluster.plan(&spec, index)).await.expect("creates").expect("is there");
            assert_eq!((made.identity.index, made.phase), (index, Phase::Running));
            let document = cluster.inspect(&made.id).await.expect("inspects");
            assert_eq!(document["Name"], format!("/{}-c{index}", cluster.pod(1)));
        }
        assert_eq!(engine.inventory().await.expect("lists").len(), 2);
    })
    .await;
}

#[tokio::test]
async fn a_missing_network_is_created_once_by_four_concurrent_agents() {
    in_cluster(async |cluster: &Cluster| {
        for round in 0..3 {
            let network = format!("{}-net{round}", cluster.id);
            let spec = PodSpec { network: network.clone(), ..cluster.spec(1) };
            let make = async |node: &'static str, instance: u32| {
                let plan = agent::container::plan(&cluster.host(node), &cluster.pod(round * 4 + instance), &spec, 0);
                cluster.engine(node).create(&plan.expect("a plan")).await.expect("creates").expect("is there")
            };
            let made =
                futures_util::future::join_all([make("n1", 1), make("n2", 2), make("n3", 3), make("n4", 4)]).await;
            let ips: BTreeSet<String> = made.into_iter().map(|made| made.ip).collect();
            assert_eq!(cluster.networks(&network).await, 1);
            assert!(ips.len() == 4 && !ips.contains(""), "each runs with an address of its own: {ips:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_removed_network_is_recreated_at_the_next_start() {
    in_cluster(async |cluster: &Cluster| {
        let network = format!("{}-net", cluster.id);
        let spec = PodSpec { network: network.clone(), ..cluster.spec(1) };
        let engine = cluster.engine("n1");
        let made = engine.create(&cluster.plan(&spec, 0)).await.expect("creates").expect("is there");
        engine.stop(&made.id, GRACE).await.expect("stops");
        cluster.raw.remove_network(&network).await.expect("removes the network");
        let second = PodSpec { version: 2, ..spec };
        let plan = agent::container::plan(&cluster.host("n1"), &cluster.pod(2), &second, 0).expect("a plan");
        let again = engine.create(&plan).await.expect("creates").expect("is there");
        assert_eq!((again.phase, cluster.networks(&network).await), (Phase::Running, 1));
    })
    .await;
}

#[tokio::test]
async fn a_missing_image_is_refused_with_the_engines_error() {
    in_cluster(async |cluster: &Cluster| {
        let spec = PodSpec {
            containers: vec![ContainerSpec { image: "127.0.0.1:1/absent:1".to_owned(), ..Default::default() }],
            ..cluster.spec(1)
        };
        match cluster.engine("n1").create(&cluster.plan(&spec, 0)).await.map_err(ActionFailure::from) {
            Err(ActionFailure::NoImage { text, trouble: ImageTrouble::NoRegistry }) => {
                assert!(text.starts_with("404: 404 Not Found, "), "{text}");
                assert!(text.contains("absent") && text.contains("cannot be pulled"), "{text}");
            }
            other => panic!("{other:?}"),
        }
        assert!(cluster.containers().await.is_empty());
    })
    .await;
}

#[tokio::test]
async fn a_container_that_cannot_be_started_is_left_for_a_start_that_reports_why() {
    in_cluster(async |cluster: &Cluster| {
        let engine = cluster.engine("n1");
        let mut spec = cluster.spec(1);
        spec.containers[0].entrypoint = Some(vec!["/no-such-program".to_owned()]);
        let made = engine.create(&cluster.plan(&spec, 0)).await.expect("creates").expect("is there");
        assert_eq!(made.phase, Phase::Created);
        match engine.start(&made.id).await.map_err(ActionFailure::from) {
            Err(ActionFailure::Refused(text)) => assert!(text.contains("no-such-program"), "{text}"),
            other => panic!("{other:?}"),
        }
    })
    .await;
}

#[tokio::test]
async fn events_are_of_own_containers_only() {
    in_cluster(async |cluster: &Cluster| {
        let engine = Arc::new(cluster.engine("n1"));
        let made = engine.create(&cluster.plan(&cluster.spec(1), 0)).await.expect("creates").expect("is there");
        let neighbour = cluster.foreign(&format!("{}-neighbour", cluster.id), HashMap::new()).await;
        let (sender, mut changed) = tokio::sync::mpsc::channel(16);
        let watching = Arc::clone(&engine);
        let mut since = Some(made.started_at.as_millis() * 1_000_000);
        let watcher = fabric::tasks::spawn("watch", async move { watching.watch(&mut since, &sender).await.is_ok() });
        cluster.kill(&neighbour).await;
        cluster.kill(&made.id).await;
        let mut heard = std::collections::BTreeSet::new();
        while engine.seen(&made.id).await.expect("looks").is_some_and(|seen| seen.phase == Phase::Running)
            || heard.is_empty()
        {
            let id = tokio::time::timeout(Duration::from_secs(10), changed.recv()).await.expect("an event in time");
            heard.insert(id.expect("an event"));
        }
        assert_eq!(heard, [made.id].into());
        watcher.abort();
    })
    .await;
}
