//! Networks: many of them, removed with their last container.

use std::collections::BTreeSet;
use std::time::Duration;

use agent::address::Subnet;
use agent::container::plan;
use agent::core::io::Phase;
use agent::docker::Engine;
use agent::pool::Pool;
use contract::spec::PodSpec;
use futures_util::StreamExt as _;

use super::docker::{Cluster, in_cluster};

const GRACE: Duration = Duration::from_secs(1);
/// Twice the size of Docker's default pools; override with DEPLOYD_TEST_NETWORKS.
const NAMESPACES: u32 = 60;

fn namespaces() -> u32 {
    std::env::var("DEPLOYD_TEST_NETWORKS").ok().and_then(|text| text.parse().ok()).unwrap_or(NAMESPACES)
}

fn on_network(cluster: &Cluster, number: u32) -> PodSpec {
    PodSpec { network: format!("{}-n{number}", cluster.id), ..cluster.spec(1) }
}

async fn run(cluster: &Cluster, engine: &Engine, number: u32) -> (String, String) {
    let plan = plan(&cluster.host("n1"), &cluster.pod(number), &on_network(cluster, number), 0).expect("a plan");
    let made = engine.create(&plan).await.expect("creates").expect("is there");
    assert_eq!((made.phase, made.ip.is_empty()), (Phase::Running, false), "namespace {number}");
    (made.id, made.ip)
}

#[tokio::test]
async fn sixty_namespaces_run_at_the_same_time_and_leave_no_network() {
    in_cluster(async |cluster: &Cluster| {
        let engine = cluster.engine("n1");
        let count = usize::try_from(namespaces()).expect("few");
        let all = futures_util::stream::iter(1..=namespaces()).map(|number| run(cluster, &engine, number));
        let made: Vec<(String, String)> = all.buffer_unordered(6).collect().await;
        let addresses: BTreeSet<&String> = made.iter().map(|(_, ip)| ip).collect();
        assert_eq!((addresses.len(), cluster.networks(&cluster.id).await), (count, count));
        assert_eq!(engine.remove_unused_networks(Duration::ZERO).await.expect("looks"), 0, "all are used");
        let gone =
            futures_util::stream::iter(&made).map(async |(id, _)| engine.remove(id, GRACE).await.expect("removes"));
        gone.buffer_unordered(6).collect::<Vec<()>>().await;
        assert_eq!(engine.remove_unused_networks(Duration::ZERO).await.expect("removes"), count);
        assert_eq!(cluster.networks(&cluster.id).await, 0);
    })
    .await;
}

#[tokio::test]
async fn a_network_gets_addresses_from_the_pool_and_the_same_ones_when_recreated() {
    in_cluster(async |cluster: &Cluster| {
        let engine = cluster.engine("n1").with_pool(Pool::parse("10.99.0.0/16").expect("a pool"));
        let subnet = async || {
            let config = cluster.network(&on_network(cluster, 1).network).await["IPAM"]["Config"][0].clone();
            Subnet::parse(config["Subnet"].as_str().expect("a subnet")).expect("of IPv4")
        };
        let (id, ip) = run(cluster, &engine, 1).await;
        let first = subnet().await;
        assert!(first.overlaps(Subnet::parse("10.99.0.0/16").expect("a range")), "{first}");
        engine.remove(&id, GRACE).await.expect("removes");
        assert_eq!(engine.remove_unused_networks(Duration::ZERO).await.expect("removes"), 1);
        assert_eq!((run(cluster, &engine, 1).await.1, subnet().await), (ip, first));
    })
    .await;
}

#[tokio::test]
async fn a_network_is_kept_while_a_stopped_container_uses_it_and_for_a_while_after() {
    in_cluster(async |cluster: &Cluster| {
        let engine = cluster.engine("n1");
        let (id, _) = run(cluster, &engine, 1).await;
        engine.stop(&id, GRACE).await.expect("stops");
        assert_eq!(cluster.engine("n2").remove_unused_networks(Duration::ZERO).await.expect("looks"), 0);
        engine.remove(&id, GRACE).await.expect("removes");
        let long = Duration::from_secs(3600);
        assert_eq!(engine.remove_unused_networks(long).await.expect("looks"), 0, "it may be needed again in a moment");
        let (id, _) = run(cluster, &engine, 1).await;
        assert_eq!(engine.remove_unused_networks(Duration::ZERO).await.expect("looks"), 0, "it is");
        engine.remove(&id, GRACE).await.expect("removes");
        assert_eq!(engine.remove_unused_networks(Duration::ZERO).await.expect("looks"), 1);
    })
    .await;
}

#[tokio::test]
async fn a_network_removed_by_another_agent_is_recreated_for_the_next_container() {
    in_cluster(async |cluster: &Cluster| {
        let (one, other) = (cluster.engine("n1"), cluster.engine("n2"));
        let (id, _) = run(cluster, &one, 1).await;
        one.remove(&id, GRACE).await.expect("removes");
        assert_eq!(other.remove_unused_networks(Duration::ZERO).await.expect("removes"), 1);
        run(cluster, &one, 1).await;
        assert_eq!(cluster.networks(&on_network(cluster, 1).network).await, 1);
    })
    .await;
}

#[tokio::test]
async fn the_error_of_an_exhausted_pool_names_the_remedy() {
    in_cluster(async |cluster: &Cluster| {
        let engine = cluster.engine("n1").with_pool(Pool::parse("10.98.16.0/20").expect("a pool"));
        run(cluster, &engine, 1).await;
        let plan = plan(&cluster.host("n1"), &cluster.pod(2), &on_network(cluster, 2), 0).expect("a plan");
        let error = engine.create(&plan).await.expect_err("there is one block").to_string();
        assert!(error.contains("--network-pool 10.98.16.0/20") && error.contains("docker network prune"), "{error}");
    })
    .await;
}
