//! Starts and restarts somebody asked for, and dependency pods, with the whole agent and the real engine.

use std::time::Instant;

use contract::order::{Order, OrderReply};
use contract::pod_id::PodId;
use contract::report::{PodFacts, Report};
use contract::state::RunState;
use futures_util::StreamExt as _;

use super::docker::{Cluster, engine_time, in_cluster};
use super::node::{Node, Process, order, runs, words, world};

/// The order for one instance, of which so many starts and restarts were asked for.
fn asked(cluster: &Cluster, generation: u64, starts: u32, restarts: u32) -> Order {
    let mut order = order(cluster, generation, 1);
    for assignment in order.pods.values_mut() {
        (assignment.starts_requested, assignment.restarts_requested) = (starts, restarts);
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

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_ends_and_starts_the_same_container_once() {
    in_cluster(async |cluster: &Cluster| {
        let (nats, home) = world().await;
        let mut node = Node::start(cluster, &nats, home.path()).await;
        let pod = cluster.pod(1);
        obey(&node, &asked(cluster, 1, 0, 0)).await;
        let before = until(&mut node, &pod, up).await.containers[0].clone();
        let (since, began) = (engine_time(), Instant::now());
        obey(&node, &asked(cluster, 2, 0, 1)).await;
        let after = until(&mut node, &pod, |facts| facts.restarts_done == 1).await;
        println!("restart asked to answered: {} ms", began.elapsed().as_millis());
        assert_eq!((after.state, after.restarts, after.is_crash_looping), (RunState::Success, 1, false));
        assert_eq!(after.containers[0].id, before.id);
        assert!(after.containers[0].started_at > before.started_at);
        assert_eq!(cluster.starts(&before.id, &since).await, 1);
        node.stop().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_looping_pod_is_started_by_hand_with_new_immediate_restarts() {
    in_cluster(async |cluster: &Cluster| {
        let (nats, home) = world().await;
        let mut node = Node::start(cluster, &nats, home.path()).await;
        let pod = cluster.pod(1);
        obey(&node, &asked(cluster, 1, 0, 0)).await;
        for restarts in 0..=3 {
            let facts = until(&mut node, &pod, |facts| up(facts) && facts.restarts == restarts).await;
            cluster.kill(&facts.containers[0].id).await;
        }
        let down = until(&mut node, &pod, |facts| facts.is_crash_looping).await;
        assert_eq!((down.state, down.restarts), (RunState::Exit, 3));
        obey(&node, &asked(cluster, 2, 1, 0)).await;
        let started = until(&mut node, &pod, |facts| facts.starts_done == 1).await;
        assert_eq!((started.state, started.restarts, started.is_crash_looping), (RunState::Success, 1, false));
        cluster.kill(&started.containers[0].id).await;
        until(&mut node, &pod, |facts| up(facts) && facts.restarts == 2).await;
        node.stop().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_cannot_work_is_answered_in_the_engines_words() {
    in_cluster(async |cluster: &Cluster| {
        let (nats, home) = world().await;
        let mut node = Node::start(cluster, &nats, home.path()).await;
        let pod = cluster.pod(1);
        let broken = |generation, starts| {
            let mut order = asked(cluster, generation, starts, 0);
            for spec in order.specs.values_mut() {
                std::sync::Arc::make_mut(spec).containers[0].entrypoint = Some(vec!["/no-such-program".to_owned()]);
            }
            order
        };
        obey(&node, &broken(1, 0)).await;
        let failed = until(&mut node, &pod, |facts| facts.state == RunState::Fail).await;
        assert!(failed.last_error.contains("no-such-program"), "{failed:?}");
        obey(&node, &broken(2, 1)).await;
        let answered = until(&mut node, &pod, |facts| facts.starts_done == 1).await;
        assert_eq!((answered.state, answered.last_error), (RunState::Fail, failed.last_error));
        node.stop().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dependency_pod_that_was_taken_away_is_made_again_at_once_under_its_name() {
    in_cluster(async |cluster: &Cluster| {
        let (nats, home) = world().await;
        let mut node = Node::start(cluster, &nats, home.path()).await;
        let mut wanted = order(cluster, 1, 0);
        let group = format!("{}-n1-hello", cluster.id).parse().expect("a name");
        let beside = PodId { group, instance: 0, version: 1, drift: 0 };
        wanted.specs.insert(beside.spec_key(), std::sync::Arc::new(cluster.spec(1)));
        wanted.pods.insert(beside.clone(), super::node::always());
        obey(&node, &wanted).await;
        let first = until(&mut node, &beside, up).await.containers[0].id.clone();
        let taken = Instant::now();
        cluster.remove(&first).await;
        let again = until(&mut node, &beside, |facts| up(facts) && facts.containers[0].id != first).await;
        println!("taken away to reported running: {} ms", taken.elapsed().as_millis());
        let document = cluster.inspect(&again.containers[0].id).await.expect("inspects");
        assert_eq!(document["Name"], format!("/{}-n1-hello.v1-i0-d0", cluster.id));
        assert_eq!(cluster.containers().await.len(), 1);
        node.stop().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_killed_at_any_moment_of_a_restart_restarts_once() {
    in_cluster(async |cluster: &Cluster| {
        let (nats, home) = world().await;
        let words = words(cluster, &nats, home.path());
        let mut node = Node::of_process(&nats).await;
        let mut agent = Process::spawn(&words);
        node.until(|_| true).await;
        let pod = cluster.pod(1);
        obey(&node, &asked(cluster, 1, 0, 0)).await;
        let id = until(&mut node, &pod, up).await.containers[0].id.clone();
        // The moments: the order is on disk, the container is asked to end, it ended, it was started.
        for (round, moment) in (1..).zip([None, Some("kill"), Some("die"), Some("start")].repeat(3)) {
            let since = engine_time();
            let mut happenings = Box::pin(cluster.happenings(&id, &since));
            obey(&node, &asked(cluster, 1 + u64::from(round), 0, round)).await;
            if let Some(moment) = moment {
                while happenings.next().await.is_some_and(|action| action != moment) {}
            }
            drop(agent);
            agent = Process::spawn(&words);
            let facts = until(&mut node, &pod, |facts| facts.restarts_done == round && up(facts)).await;
            assert_eq!(cluster.starts(&id, &since).await, 1, "killed at {moment:?}");
            assert_eq!((facts.restarts, &facts.containers[0].id), (round, &id), "killed at {moment:?}");
        }
    })
    .await;
}
