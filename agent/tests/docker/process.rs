//! The whole agent: real bus, real engine, real ledger.

use std::time::{Duration, Instant};

use contract::order::OrderReply;
use contract::query::{InspectReply, InspectRequest};
use contract::report::Report;
use contract::state::RunState;
use contract::subjects;

use super::docker::{Cluster, in_cluster};
use super::node::{Node, PATIENCE, Process, order, runs, words, world};

#[tokio::test(flavor = "multi_thread")]
async fn an_order_is_applied_and_a_killed_container_restarts_without_delay() {
    in_cluster(async |cluster: &Cluster| {
        let (nats, home) = world().await;
        let mut node = Node::start(cluster, &nats, home.path()).await;
        let wanted = order(cluster, 1, 2);
        let fence = wanted.fence;
        assert_eq!(node.order(&wanted).await, OrderReply::Accepted { fence, digest: wanted.digest() });
        let (first, second) = (cluster.pod(1), cluster.pod(2));
        let report = node.until(|report| runs(report.pods.get(&first)) && runs(report.pods.get(&second))).await;
        assert_eq!(report.head.applied, fence);
        let container = report.pods[&first].containers[0].clone();
        assert!(container.running && !container.ip.is_empty());

        let killed = Instant::now();
        cluster.kill(&container.id).await;
        let again = |report: &Report| {
            report.pods.get(&first).is_some_and(|facts| facts.restarts == 1) && runs(report.pods.get(&first))
        };
        let facts = node.until(again).await.pods[&first].clone();
        println!("killed to reported running: {} ms", killed.elapsed().as_millis());
        assert_eq!(facts.containers[0].id, container.id);
        let down = facts.containers[0].started_at.since(facts.containers[0].finished_at);
        println!("down for {} ms by the engine's clock", down.as_millis());
        assert!(down < Duration::from_secs(5), "restarted only after {down:?}");

        assert!(matches!(node.order(&order(cluster, 2, 0)).await, OrderReply::Accepted { .. }));
        node.until(|report| report.pods.is_empty()).await;
        assert!(cluster.containers().await.is_empty());
        node.stop().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_agent_keeps_its_fence_and_its_containers() {
    in_cluster(async |cluster: &Cluster| {
        let (nats, home) = world().await;
        let mut node = Node::start(cluster, &nats, home.path()).await;
        node.order(&order(cluster, 5, 1)).await;
        let pod = cluster.pod(1);
        let before = node.until(|report| runs(report.pods.get(&pod))).await.pods[&pod].containers[0].clone();
        node.stop().await;
        assert!(cluster.is_running(&before.id).await, "an agent that stops leaves its containers running");

        let mut node = Node::start(cluster, &nats, home.path()).await;
        let stale = node.order(&order(cluster, 4, 0)).await;
        assert_eq!(stale, OrderReply::Stale { have: order(cluster, 5, 1).fence });
        let after = node.until(|report| runs(report.pods.get(&pod))).await.pods[&pod].containers[0].clone();
        assert_eq!((after.id, after.started_at), (before.id, before.started_at));
        node.stop().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn inspect_requests_are_answered_with_dockers_documents() {
    in_cluster(async |cluster: &Cluster| {
        let (nats, home) = world().await;
        let mut node = Node::start(cluster, &nats, home.path()).await;
        node.order(&order(cluster, 1, 2)).await;
        let (first, second) = (cluster.pod(1), cluster.pod(2));
        node.until(|report| runs(report.pods.get(&first)) && runs(report.pods.get(&second))).await;
        let question = InspectRequest { pods: vec![first.clone(), cluster.pod(9)] };
        let answer: InspectReply =
            node.bus.request(&subjects::inspect(&node.name), &question, PATIENCE).await.expect("an answer");
        assert_eq!(answer.pods.keys().collect::<Vec<_>>(), [&first]);
        let detail = &answer.pods[&first][0];
        assert!(detail.state.running && detail.name == format!("/{first}"));
        assert_eq!((detail.node.name.as_str(), detail.node.ip.as_str()), ("n1", "127.0.0.1"));
        node.stop().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_undecodable_order_is_refused_and_sent_as_a_dead_letter() {
    in_cluster(async |cluster: &Cluster| {
        let (nats, home) = world().await;
        let node = Node::start(cluster, &nats, home.path()).await;
        let mut letters = node.bus.subscribe(subjects::ALL_REPORTS).await.expect("subscribes");
        let reply: OrderReply =
            node.bus.request(&subjects::order(&node.name), &"nonsense", PATIENCE).await.expect("an answer");
        assert!(matches!(reply, OrderReply::Failed { .. }), "{reply:?}");
        let marked = async {
            loop {
                let message = letters.next().await.expect("a message");
                if message.header(subjects::DEAD_LETTER_HEADER) == Some("order") {
                    return message;
                }
            }
        };
        let letter = tokio::time::timeout(PATIENCE, marked).await.expect("in time");
        let letter: contract::notice::DeadLetter = letter.decode().expect("readable");
        assert!(letter.payload.contains("nonsense"), "{letter:?}");
        node.stop().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_killed_during_its_work_finishes_it_and_creates_nothing_twice() {
    const PODS: u32 = 8;
    in_cluster(async |cluster: &Cluster| {
        let (nats, home) = world().await;
        let words = words(cluster, &nats, home.path());
        let mut node = Node::of_process(&nats).await;
        let agent = Process::spawn(&words);
        node.until(|_| true).await;
        let began = Instant::now();
        assert!(matches!(node.order(&order(cluster, 1, PODS)).await, OrderReply::Accepted { .. }));
        node.until(|report| report.pods.values().any(|facts| !facts.containers.is_empty())).await;
        drop(agent);

        let _again = Process::spawn(&words);
        let all = |report: &Report| {
            report.pods.len() == PODS as usize && report.pods.values().all(|facts| facts.state == RunState::Success)
        };
        let report = node.until(all).await;
        println!("{PODS} pods in {} ms, with a kill between", began.elapsed().as_millis());
        assert!(report.pods.values().all(|facts| facts.restarts == 0), "nothing was restarted");
        assert_eq!(cluster.containers().await.len(), PODS as usize);
    })
    .await;
}
