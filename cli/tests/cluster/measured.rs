//! What security costs: printed, and bounded. The goals are `up` ready in 3 s and 2 ms more from POST to order; the limits here leave room for
//! a machine with two cores that runs other tests at the same time. `proof bench` measures the same on a calm machine.

use std::time::{Duration, Instant};

use contract::bus::Member;
use contract::subjects;
use reqwest::Method;
use serde_json::json;

use crate::cluster::{Cluster, demo_group, text};

const COMMANDS: usize = 20;
const SOON: Duration = Duration::from_secs(30);
/// From the start of `deployctl up --detach` to its end.
const UP: Duration = Duration::from_secs(6);
/// From POST to order, half of the commands.
const HALF: Duration = Duration::from_millis(50);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_with_everything_enabled_is_ready_soon_and_a_command_is_an_order_within_milliseconds() {
    let cluster = Cluster::start(&[]).await;
    let down = cluster.deployctl(&["down"]).await;
    assert!(down.status.success(), "{}", text(&down));
    let started = Instant::now();
    let up = cluster.deployctl(&["up", "--detach", "--no-demo", "--port", "0"]).await;
    let took = started.elapsed();
    let ready = text(&up).lines().find(|line| line.contains("ready after")).unwrap_or_default().trim().to_owned();
    println!("up: {ready} ({:.2} s with the start of deployctl)", took.as_secs_f64());
    assert!(up.status.success() && took < UP, "{took:?}: {}", text(&up));

    let agent = cluster.bus(Member::Agent, "node-1").await;
    let mut orders = agent.subscribe(&subjects::order(&"node-1".parse().expect("a name"))).await.expect("subscribes");
    agent.flush().await.expect("flushes");
    let mut times = Vec::new();
    for number in 0..COMMANDS {
        let name = format!("timed.web.number-{number}");
        let mut group = demo_group(&name, 1);
        group["Pod"]["Filters"] = json!(["constraint:node==node-1"]);
        let sent = Instant::now();
        let posted = cluster.accepted(Method::POST, "/api/podgroups", Some(&group));
        let heard = async {
            while let Some(order) = orders.next().await {
                if String::from_utf8_lossy(&order.payload).contains(&name) {
                    return sent.elapsed();
                }
            }
            panic!("the bus ended");
        };
        let ((), heard) = tokio::join!(posted, tokio::time::timeout(SOON, heard));
        times.push(heard.expect("an order in time"));
        cluster.exactly(&name, 1, SOON).await;
    }
    times.sort_unstable();
    let (half, last) = (times[COMMANDS / 2], times[COMMANDS - 1]);
    println!("POST to order: p50 {half:.1?}, slowest {last:.1?} of {COMMANDS}");
    assert!(half < HALF, "{times:?}");
}
