//! Rollouts on a node with real Docker: in-place updates, kept addresses, pulls before the old pod stops.

use std::sync::Arc;
use std::time::Duration;

use agent::container::{Plan, plan};
use agent::core::io::{ActionFailure, ContainerSeen, ImageTrouble, Phase};
use contract::digest::Digest;
use contract::fence::{Fence, Term};
use contract::order::{Assignment, Fetch, Order, OrderReply};
use contract::pod_id::PodId;
use contract::report::{FetchState, PodFacts, Report};
use contract::spec::PodSpec;
use contract::state::RunState;
use serde_json::json;

use super::docker::{Cluster, in_cluster};
use super::node::{Node, always, runs, world};

const GRACE: Duration = Duration::from_secs(10);

/// Instance 1 at this revision.
fn version(cluster: &Cluster, version: u32) -> PodId {
    PodId { version, ..cluster.pod(1) }
}
fn networked(cluster: &Cluster) -> PodSpec {
    PodSpec { network: format!("{}-net", cluster.id), ..cluster.spec(1) }
}
fn order(generation: u64, pods: &[(&PodId, Assignment, &PodSpec)]) -> Order {
    let mut order = Order { fence: Fence { term: Term(1), generation }, ..Order::default() };
    for (pod, assignment, spec) in pods {
        let key = assignment.spec_key(pod);
        order.specs.insert(key.clone(), Arc::new(PodSpec { version: key.version, ..(*spec).clone() }));
        order.pods.insert((*pod).clone(), assignment.clone());
    }
    order
}
async fn obey(node: &Node, order: &Order) {
    let reply = node.order(order).await;
    assert_eq!(reply, OrderReply::Accepted { fence: order.fence, digest: order.digest() });
}
async fn until(node: &mut Node, pod: &PodId, done: impl Fn(&PodFacts) -> bool) -> PodFacts {
    node.until(|report: &Report| report.pods.get(pod).is_some_and(&done)).await.pods[pod].clone()
}
fn up(facts: &PodFacts) -> bool {
    runs(Some(facts))
}
/// Creates instance 1 at a revision, with this address.
async fn make(cluster: &Cluster, number: u32, spec: &PodSpec, address: &str) -> ContainerSeen {
    let plan = plan(&cluster.host("n1"), &version(cluster, number), spec, 0).expect("a plan");
    let plan = Plan { address: address.to_owned(), ..plan };
    cluster.engine("n1").create(&plan).await.expect("creates").expect("is there")
}

#[tokio::test]
async fn limits_are_updated_on_running_and_stopped_containers() {
    in_cluster(async |cluster: &Cluster| {
        let engine = cluster.engine("n1");
        let mut spec = cluster.spec(1);
        let made = engine.create(&cluster.plan(&spec, 0)).await.expect("creates").expect("is there");
        let limits = async || {
            let document = cluster.inspect(&made.id).await.expect("inspects");
            ["Memory", "MemorySwap", "CpuPeriod", "CpuQuota"].map(|field| document["HostConfig"][field].clone())
        };
        for (memory, level, quota) in [(64_i64 << 20, 2, 1_000_000), (16 << 20, 1, 500_000)] {
            (spec.containers[0].memory_limit, spec.containers[0].cpu_limit) = (memory, level);
            let updated = engine.update(&made.id, &cluster.plan(&spec, 0)).await.expect("updates").expect("is there");
            assert_eq!(updated, made, "nothing else changed, it was not started again");
            assert_eq!(limits().await, [json!(memory), json!(memory), json!(1_000_000), json!(quota)]);
        }
        engine.stop(&made.id, GRACE).await.expect("stops");
        spec.containers[0].memory_limit = 48 << 20;
        let updated = engine.update(&made.id, &cluster.plan(&spec, 0)).await.expect("updates").expect("is there");
        assert_eq!((updated.phase, &limits().await[0]), (Phase::Exited, &json!(48 << 20)));
        assert_eq!(engine.start(&made.id).await.expect("starts").expect("is there").phase, Phase::Running);

        spec.containers[0].memory_limit = 1 << 20;
        match engine.update(&made.id, &cluster.plan(&spec, 0)).await.map_err(ActionFailure::from) {
            Err(ActionFailure::Refused(text)) => assert!(text.contains("emory"), "{text}"),
            other => panic!("less than the engine takes: {other:?}"),
        }
        spec.containers[0].memory_limit = 0;
        engine.update(&made.id, &cluster.plan(&spec, 0)).await.expect("updates").expect("is there");
        assert!(limits().await[0].as_i64() > Some(1 << 50), "as good as none");
        engine.remove(&made.id, GRACE).await.expect("removes");
        assert_eq!(engine.update(&made.id, &cluster.plan(&spec, 0)).await.expect("it is gone"), None);
    })
    .await;
}

#[tokio::test]
async fn our_networks_are_split_and_their_containers_have_derived_addresses() {
    in_cluster(async |cluster: &Cluster| {
        let spec = networked(cluster);
        let engine = cluster.engine("n1");
        let made = make(cluster, 1, &spec, "").await;
        let config = cluster.network(&spec.network).await["IPAM"]["Config"][0].clone();
        let subnet = agent::address::Subnet::parse(config["Subnet"].as_str().expect("a subnet")).expect("of IPv4");
        assert_eq!(config["IPRange"], subnet.engine_half());
        assert_eq!(config["Gateway"], subnet.gateway().to_string());
        assert_eq!(made.ip, subnet.own(&version(cluster, 1).to_string()).to_string());
        engine.stop(&made.id, GRACE).await.expect("stops");
        let other = make(cluster, 2, &spec, "").await;
        assert_ne!(other.ip, made.ip, "it is free, and still not given to another");
        assert_eq!(engine.start(&made.id).await.expect("starts").expect("is there").ip, made.ip);
    })
    .await;
}

#[tokio::test]
async fn an_address_of_another_container_is_not_waited_for() {
    in_cluster(async |cluster: &Cluster| {
        let spec = networked(cluster);
        let first = make(cluster, 1, &spec, "").await;
        let second = make(cluster, 2, &spec, &first.ip).await;
        assert_eq!(second.phase, Phase::Running);
        assert!(!second.ip.is_empty() && second.ip != first.ip, "{} {}", first.ip, second.ip);
        let third = make(cluster, 3, &spec, "203.0.113.7").await;
        assert!(third.phase == Phase::Running && third.ip != "203.0.113.7", "an address of another network");
    })
    .await;
}

#[tokio::test]
async fn a_present_image_needs_no_pull_and_a_failed_pull_reports_why() {
    in_cluster(async |cluster: &Cluster| {
        let engine = cluster.engine("n1");
        engine.fetch(super::docker::IMAGE).await.expect("it is here");
        let trouble = async |image: &str| match engine.fetch(image).await.map_err(ActionFailure::from) {
            Err(ActionFailure::NoImage { text, trouble }) => (trouble, text),
            other => panic!("{other:?}"),
        };
        let (why, text) = trouble("127.0.0.1:1/absent:1").await;
        assert_eq!(why, ImageTrouble::NoRegistry, "{text}");
        assert!(text.contains("absent") && text.contains("cannot be pulled"), "{text}");
        let (why, text) = trouble("127.0.0.1:1/Absent:1").await;
        assert_eq!(why, ImageTrouble::Denied, "{text}");
        let mut spec = cluster.spec(1);
        spec.containers[0].image = "127.0.0.1:1/Absent:1".to_owned();
        let made = engine.create(&cluster.plan(&spec, 0)).await.map_err(ActionFailure::from);
        assert!(matches!(made, Err(ActionFailure::NoImage { trouble: ImageTrouble::Denied, .. })), "{made:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn images_of_the_next_revision_are_pulled_while_the_pod_runs() {
    in_cluster(async |cluster: &Cluster| {
        let (nats, home) = world().await;
        let mut node = Node::start(cluster, &nats, home.path()).await;
        let (pod, spec) = (version(cluster, 1), cluster.spec(1));
        obey(&node, &order(1, &[(&pod, always(), &spec)])).await;
        let before = until(&mut node, &pod, up).await.containers;
        let asked = [("127.0.0.1:1/Absent:1", FetchState::Hopeless), (super::docker::IMAGE, FetchState::Here)];
        for (generation, (image, state)) in (2..).zip(asked) {
            let number = u32::try_from(generation).expect("few");
            let fetch = Fetch { version: number, images: [image.to_owned()].into() };
            obey(&node, &order(generation, &[(&pod, Assignment { fetch: Some(fetch), ..always() }, &spec)])).await;
            let is_over = |facts: &PodFacts| {
                facts.fetched.as_ref().is_some_and(|it| it.version == number && it.state != FetchState::Coming)
            };
            let facts = until(&mut node, &pod, is_over).await;
            assert_eq!(facts.fetched.as_ref().map(|it| it.state), Some(state), "{facts:?}");
            assert_eq!((facts.state, &facts.containers), (RunState::Success, &before), "it serves");
        }
        node.stop().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_live_update_keeps_the_container_and_survives_a_restart_of_the_agent() {
    in_cluster(async |cluster: &Cluster| {
        let (nats, home) = world().await;
        let mut node = Node::start(cluster, &nats, home.path()).await;
        let (pod, before) = (cluster.pod(1), cluster.spec(1));
        obey(&node, &order(1, &[(&pod, always(), &before)])).await;
        let made = until(&mut node, &pod, up).await.containers[0].clone();
        let mut after = before.clone();
        after.containers[0].memory_limit = 64 << 20;
        let updated = order(2, &[(&pod, Assignment { updated_to: Some(2), ..always() }, &after)]);
        let digest = Digest::of(updated.spec_of(&pod).expect("its spec").as_ref()).to_string();
        obey(&node, &updated).await;
        let has_it = |facts: &PodFacts| facts.containers.first().is_some_and(|c| c.spec_digest == digest);
        let now = until(&mut node, &pod, has_it).await.containers[0].clone();
        assert_eq!((&now.id, now.started_at, &now.ip), (&made.id, made.started_at, &made.ip));
        assert_eq!(cluster.inspect(&made.id).await.expect("inspects")["HostConfig"]["Memory"], 64 << 20);
        node.stop().await;

        let mut node = Node::start(cluster, &nats, home.path()).await;
        let facts = until(&mut node, &pod, up).await;
        assert!(has_it(&facts), "{facts:?}");
        assert_eq!(facts.containers[0].id, made.id);
        node.stop().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_limits_are_reported_and_the_pod_keeps_running() {
    in_cluster(async |cluster: &Cluster| {
        let (nats, home) = world().await;
        let mut node = Node::start(cluster, &nats, home.path()).await;
        let (pod, mut spec) = (cluster.pod(1), cluster.spec(1));
        obey(&node, &order(1, &[(&pod, always(), &spec)])).await;
        let made = until(&mut node, &pod, up).await.containers[0].clone();
        // Below Docker's minimum.
        spec.containers[0].memory_limit = 1 << 20;
        obey(&node, &order(2, &[(&pod, Assignment { updated_to: Some(2), ..always() }, &spec)])).await;
        let facts = until(&mut node, &pod, |facts| !facts.last_error.is_empty()).await;
        assert!(facts.last_error.starts_with("Cannot update container, "), "{facts:?}");
        assert_eq!((facts.state, &facts.containers[0]), (RunState::Success, &made));
        node.stop().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_with_another_image_takes_over_the_address() {
    in_cluster(async |cluster: &Cluster| {
        let (nats, home) = world().await;
        let mut node = Node::start(cluster, &nats, home.path()).await;
        let (old, new, spec) = (cluster.pod(1), version(cluster, 2), networked(cluster));
        obey(&node, &order(1, &[(&old, always(), &spec)])).await;
        let before = until(&mut node, &old, up).await.containers[0].clone();
        let mut other = spec.clone();
        other.containers[0].image = cluster.second_image().await;
        let leased = Assignment { addresses: vec![before.ip.clone()], ..always() };
        obey(&node, &order(2, &[(&new, leased.clone(), &other)])).await;
        let facts = until(&mut node, &new, up).await;
        assert_eq!((&facts.containers[0].ip, facts.last_error.as_str()), (&before.ip, ""));
        assert!(facts.containers[0].id != before.id && !cluster.is_running(&before.id).await);
        // From now on the container's own address.
        cluster.kill(&facts.containers[0].id).await;
        let again = until(&mut node, &new, |facts| facts.restarts == 1 && up(facts)).await;
        assert_eq!(again.containers[0].ip, before.ip);
        node.stop().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_network_without_reserved_addresses_a_pod_runs_and_reports_it() {
    in_cluster(async |cluster: &Cluster| {
        let (nats, home) = world().await;
        let mut node = Node::start(cluster, &nats, home.path()).await;
        let (pod, spec) = (cluster.pod(1), networked(cluster));
        cluster.foreign_network(&spec.network).await;
        let leased = Assignment { addresses: vec!["172.31.255.7".to_owned()], ..always() };
        obey(&node, &order(1, &[(&pod, leased, &spec)])).await;
        let facts = until(&mut node, &pod, up).await;
        assert!(facts.last_error.starts_with("Cannot keep the address 172.31.255.7"), "{facts:?}");
        assert!(!facts.containers[0].ip.is_empty());
        node.stop().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_broken_image_the_old_container_keeps_running() {
    in_cluster(async |cluster: &Cluster| {
        let (nats, home) = world().await;
        let mut node = Node::start(cluster, &nats, home.path()).await;
        let (old, broken, better) = (cluster.pod(1), version(cluster, 2), version(cluster, 3));
        let spec = cluster.spec(1);
        obey(&node, &order(1, &[(&old, always(), &spec)])).await;
        let before = until(&mut node, &old, up).await.containers[0].clone();
        let mut absent = spec.clone();
        absent.containers[0].image = "127.0.0.1:1/Absent:1".to_owned();
        obey(&node, &order(2, &[(&broken, always(), &absent)])).await;
        let facts = until(&mut node, &broken, |facts| facts.state == RunState::Error).await;
        assert!(facts.image_is_hopeless && facts.last_error.starts_with("Cannot pull image, "), "{facts:?}");
        assert!(cluster.is_running(&before.id).await);
        let leaving = until(&mut node, &old, |facts| facts.leaving).await;
        assert_eq!(leaving.state, RunState::Success);

        obey(&node, &order(3, &[(&better, always(), &spec)])).await;
        until(&mut node, &better, up).await;
        assert_eq!(cluster.containers().await.len(), 1);
        assert!(cluster.inspect(&before.id).await.is_none());
        node.stop().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_pods_of_an_instance_run_in_parallel_with_ports_and_volumes() {
    in_cluster(async |cluster: &Cluster| {
        let (nats, home) = world().await;
        let mut node = Node::start(cluster, &nats, home.path()).await;
        let (old, new) = (cluster.pod(1), version(cluster, 2));
        let mut spec = networked(cluster);
        spec.containers[0].expose = 8080;
        spec.containers[0].volumes = vec!["/lain/logs".to_owned()];
        obey(&node, &order(1, &[(&old, always(), &spec)])).await;
        let first = until(&mut node, &old, up).await.containers[0].clone();
        obey(&node, &order(2, &[(&old, always(), &spec), (&new, always(), &spec)])).await;
        let second = until(&mut node, &new, up).await.containers[0].clone();
        assert!(cluster.is_running(&first.id).await, "the old one was not touched");
        assert!(first.node_port != second.node_port && second.node_port != 0, "{first:?} {second:?}");
        assert_ne!(first.ip, second.ip);
        cluster.kill(&first.id).await;
        until(&mut node, &old, |facts| facts.restarts == 1 && up(facts)).await;
        let facts = until(&mut node, &new, up).await;
        assert_eq!((facts.restarts, &facts.containers[0].id), (0, &second.id));
        obey(&node, &order(3, &[(&new, always(), &spec)])).await;
        node.until(|report| !report.pods.contains_key(&old) && runs(report.pods.get(&new))).await;
        assert!(cluster.is_running(&second.id).await);
        node.stop().await;
    })
    .await;
}
