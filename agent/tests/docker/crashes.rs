//! Crash loops with the whole agent and real Docker.

use std::time::{Duration, Instant};

use contract::report::Report;

use super::docker::{Cluster, in_cluster};
use super::node::{Node, order, runs, world};

const OUTAGE: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread")]
async fn a_service_without_its_database_for_20_s_is_up_within_30_s_after_and_its_exit_is_reported() {
    in_cluster(async |cluster: &Cluster| {
        let (nats, home) = world().await;
        let mut node = Node::start(cluster, &nats, home.path()).await;
        let pod = cluster.pod(1);
        node.order(&order(cluster, 1, 1)).await;
        node.until(|report: &Report| runs(report.pods.get(&pod))).await;
        let began = Instant::now();
        let mut starts = 0;
        while began.elapsed() < OUTAGE {
            // A service without its database exits soon after each start.
            let facts = node.until(|report: &Report| runs(report.pods.get(&pod))).await.pods[&pod].clone();
            if began.elapsed() < OUTAGE {
                starts += 1;
                cluster.kill(&facts.containers[0].id).await;
                let down = node.until(|report: &Report| !runs(report.pods.get(&pod))).await.pods[&pod].clone();
                println!("{:?}: {:?}, next {}", began.elapsed(), down.present_exit(), down.next_attempt);
            }
        }
        let up = node.until(|report: &Report| runs(report.pods.get(&pod))).await.pods[&pod].clone();
        let after = began.elapsed().saturating_sub(OUTAGE);
        println!("up {after:?} after the outage, {starts} ends");
        assert!(after < Duration::from_secs(30), "{after:?}");
        assert!((5..30).contains(&starts), "three restarts at once, further ones with back-off: {starts}");
        let exit = up.last_exit().expect("it ended");
        assert_eq!((exit.code, exit.last_line.as_str()), (137, "demo listens on 8080"));
        assert!(up.is_crash_looping, "a crash loop until it ran for 10 min");
        node.stop().await;
    })
    .await;
}
