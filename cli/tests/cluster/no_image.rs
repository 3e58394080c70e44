//! 5,000 instances whose image cannot be pulled: no other group waits for them, and they can be deleted.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use contract::api::OperationStatus;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::cluster::{Cluster, demo_group, eventually};

const SOON: Duration = Duration::from_secs(60);
/// Half of the other groups are decided within this time.
const LIMIT: Duration = Duration::from_secs(1);
/// Each of them is: the clients of the original give up after 10 s. The burst in which thousands of pulls fail together takes both
/// cores for a moment; the slowest decision took 1.3 to 5.5 s on two cores in a debug build (n = 9).
const LONGEST: Duration = Duration::from_secs(8);

fn assert_quick(times: &[Duration]) {
    let slow = times.iter().filter(|time| **time > LIMIT).count();
    let is_bounded = times.iter().all(|time| *time <= LONGEST);
    assert!(is_bounded && slow <= times.len() / 2, "decisions took longer than {LIMIT:?} or {LONGEST:?}: {times:?}");
}
const LARGE: &str = "large.web.web";
const INSTANCES: u32 = 5_000;
/// Failed instances at which the decisions of other groups are measured again.
const MANY: usize = 1_000;
const SAMPLES: u32 = 4;

/// 76 characters on a registry that refuses connections.
fn image() -> String {
    let image = format!("127.0.0.1:1/{}:1", "x".repeat(62));
    assert_eq!(image.len(), 76);
    image
}

fn large() -> Value {
    let mut group = demo_group(LARGE, INSTANCES);
    group["Pod"]["Containers"][0]["Image"] = json!(image());
    group
}

/// Sends a command and returns how long it takes until its outcome is Accepted.
async fn decided(cluster: &Cluster, method: Method, path: &str, body: Option<&Value>) -> Duration {
    let sent = Instant::now();
    let (status, answer) = cluster.call(0, method.clone(), path, body).await;
    assert_eq!(status, StatusCode::ACCEPTED, "{method} {path}: {answer}");
    let answer: Value = serde_json::from_str(&answer).expect("JSON");
    let operation = answer["operation"].as_str().expect("an operation").to_owned();
    eventually(SOON, &format!("{method} {path} is decided"), async || {
        let (status, outcome) = cluster.call(0, Method::GET, &format!("/api/operations?id={operation}"), None).await;
        if status != StatusCode::OK {
            return None;
        }
        let outcome: OperationStatus = serde_json::from_str(&outcome).expect("an OperationStatus");
        assert_eq!(outcome.state, "accepted", "{method} {path}: {}", outcome.message);
        Some(())
    })
    .await;
    sent.elapsed()
}

/// Creates `SAMPLES` groups without instances and gives each its first one: the time of every decision.
async fn samples(cluster: &Cluster, prefix: &str) -> Vec<Duration> {
    let mut times = Vec::new();
    for number in 0..SAMPLES {
        let name = format!("{prefix}{number}.web.web");
        times.push(decided(cluster, Method::POST, "/api/podgroups", Some(&demo_group(&name, 0))).await);
        let path = format!("/api/podgroups?name={name}&cmd=replica&num_instances=1");
        times.push(decided(cluster, Method::PATCH, &path, None).await);
    }
    times
}

/// Instances of the large group for which an agent has failed to pull the image, now or before: the scheduler moves an instance
/// that fails, and its next attempt clears its error.
fn failed(cluster: &Cluster) -> usize {
    let logs = cluster.logs();
    let lines = logs.iter().flat_map(|(_, log)| log.lines()).filter(|line| line.contains("cannot be pulled"));
    let instance = |line| str::split_whitespace(line).find_map(|word| word.strip_prefix("instance=large.web.web/"));
    lines.filter_map(instance).collect::<BTreeSet<&str>>().len()
}

/// A cluster in which many instances of the large group have failed already, and the decisions of other groups until then.
async fn failing() -> (Cluster, Vec<Duration>) {
    let cluster = Cluster::start(&["--nodes", "2", "--node-cpus", "5000", "--node-memory", "274877906944"]).await;
    cluster.accepted(Method::POST, "/api/podgroups", Some(&large())).await;
    let times = samples(&cluster, "early").await;
    eventually(SOON, "many instances have failed", async || (failed(&cluster) >= MANY).then_some(())).await;
    (cluster, times)
}

/// Kills the leader and waits for the next one.
async fn fail_over(cluster: &Cluster) {
    let (leader, term) = eventually(SOON, "a scheduler leads", async || cluster.leader().await).await;
    cluster.kill(&leader);
    eventually(SOON, "a new leader", async || cluster.leader().await.filter(|(_, now)| *now > term)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn five_thousand_instances_without_an_image_hold_up_no_decision_and_are_deleted_also_after_a_leader_kill() {
    let (cluster, mut times) = failing().await;
    let failing_since = Instant::now();
    times.extend(samples(&cluster, "during").await);
    println!("decisions while the group fails: {times:?}");
    assert_quick(&times);
    fail_over(&cluster).await;
    let times = samples(&cluster, "late").await;
    println!("decisions of the new leader: {times:?}");
    assert_quick(&times);
    cluster.running("early0.web.web", 1, SOON).await;
    println!("another group runs {:?} after {MANY} instances failed", failing_since.elapsed());
    let took = decided(&cluster, Method::DELETE, &format!("/api/podgroups?name={LARGE}"), None).await;
    assert!(took <= LIMIT, "the DELETE was decided after {took:?}");
    let since = Instant::now();
    eventually(SOON, "the name is free", async || {
        let (status, _) = cluster.call(0, Method::POST, "/api/podgroups", Some(&demo_group(LARGE, 1))).await;
        (status == StatusCode::ACCEPTED).then_some(())
    })
    .await;
    println!("the DELETE was decided after {took:?}, and the name was free {:?} later", since.elapsed());
    cluster.running(LARGE, 1, SOON).await;
}
