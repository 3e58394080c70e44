//! Sends a thousand random requests, valid and invalid, to all routes: no process fails, and in the end the cluster has the
//! state that was accepted last.
//!
//! `DEPLOYD_SEED` chooses the sequence; a failure prints the one it had.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::docker::Hands;
use super::expected::{Expected, ExpectedDependency, ExpectedGroup};
use super::requests::{self, DEPENDENCIES, Dice, GROUPS, Request};
use super::rows::row::Seen;
use crate::cluster::{Cluster, IMAGE, eventually};
use crate::docker::Workload;

const REQUESTS: usize = 1000;
/// Between two requests, so that most operations are over before the next on the same group; the rest meet a lock.
const PACE: Duration = Duration::from_millis(50);
/// Every accepted change is in effect after this time.
const SETTLED: Duration = Duration::from_secs(120);
const SETTINGS: [(&str, &str); 3] =
    [("DEPLOYD_HEALTH_POLL", "1s"), ("DEPLOYD_EARLY_EXIT", "0s"), ("DEPLOYD_DEPENDENCY_GRACE", "2s")];

#[tokio::test(flavor = "multi_thread")]
async fn after_a_thousand_random_requests_the_cluster_is_what_was_accepted_last() {
    let seed = std::env::var("DEPLOYD_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(20_170_401);
    println!("DEPLOYD_SEED={seed}");
    let cluster = Cluster::start_with(&SETTINGS, &[]).await;
    let stranger = cluster.engine.foreign(IMAGE, &format!("{}-stranger", cluster.id()), GROUPS[0]).await;
    let started = cluster.engine.started_at(&stranger).await;
    let processes = cluster.processes();
    let began = Instant::now();
    let (expected, statuses) = sent(&cluster, seed).await;
    println!("{REQUESTS} requests in {:?}: {statuses:?}", began.elapsed());
    for (name, wanted) in &expected.groups {
        settles(&cluster, name, wanted).await;
    }
    let unwanted = |name: &&&str| !expected.groups.contains_key(**name);
    for name in GROUPS.iter().filter(unwanted) {
        cluster.exactly(name, 0, SETTLED).await;
    }
    for name in DEPENDENCIES {
        dependencies_settle(&cluster, name, &expected).await;
    }
    println!("settled after {:?}: {:#?}", began.elapsed(), expected);
    assert_eq!(cluster.processes(), processes, "no process was started again");
    for (name, log) in cluster.logs() {
        assert!(!log.contains("panicked at"), "{name} panicked:\n{log}");
    }
    assert_eq!((cluster.engine.runs(&stranger).await, cluster.engine.started_at(&stranger).await), (true, started));
    cluster.engine.remove(&stranger).await;
}

/// Sends everything, one after the other, to both apiservers in turn. In the end all switches are back.
async fn sent(cluster: &Cluster, seed: u64) -> (Expected, BTreeMap<u16, usize>) {
    let client = fabric::http::client(Duration::from_secs(10));
    let (mut dice, mut expected, mut statuses) = (Dice(seed), Expected::default(), BTreeMap::new());
    let mut pace = tokio::time::interval(PACE);
    let mut relief: Vec<Request> = Vec::new();
    for number in 0..REQUESTS {
        pace.tick().await;
        if number % 25 == 0 || number + 5 == REQUESTS {
            relief = requests::relief().into_iter().rev().collect();
        }
        let request = relief.pop().unwrap_or_else(|| requests::next(&mut dice));
        let mut asked = client.request(request.method.clone(), format!("{}{}", cluster.api(number % 2), request.path));
        if let Some(body) = &request.body {
            asked = asked.header("content-type", "application/json").body(body.clone());
        }
        let seen = Seen::of(asked).await;
        *statuses.entry(seen.status).or_default() += 1;
        is_an_answer_of_the_contract(&request, &seen);
        if seen.status == 202
            && let Some(change) = request.change
        {
            expected.accepted(change);
        }
    }
    (expected, statuses)
}

fn is_an_answer_of_the_contract(request: &Request, seen: &Seen) {
    let removing = seen.status == 500 && seen.text.contains("PodGroup is removing, need to wait for that");
    let known = [200, 202, 301, 307, 400, 403, 404, 405, 423].contains(&seen.status);
    assert!(known || removing, "{request:?}: {} {}", seen.status, seen.text);
    let queued = seen.json().ok().is_some_and(|body| body["queued"] == true);
    assert!(!queued, "a leader exists throughout: {request:?}: {}", seen.text);
}

/// Waits until a group is exactly what was accepted last, on the engine and by the API.
async fn settles(cluster: &Cluster, name: &str, wanted: &ExpectedGroup) {
    let hands = Hands::connect();
    let mut found = Vec::new();
    let settled = tokio::time::timeout(SETTLED, async {
        let mut pause = tokio::time::interval(Duration::from_millis(200));
        loop {
            pause.tick().await;
            found = cluster.engine.of_group(cluster.id(), name).await;
            if is_as_wanted(&hands, &found, name, wanted).await && is_shown(cluster, name, wanted).await {
                return;
            }
        }
    });
    if settled.await.is_err() {
        let shown = cluster.group(0, name).await;
        panic!("{name} is not {wanted:#?}\nbut {found:#?}\nand shown as {shown:#?}");
    }
}

async fn is_as_wanted(hands: &Hands, found: &[Workload], name: &str, wanted: &ExpectedGroup) -> bool {
    let running: Vec<&Workload> = found.iter().filter(|container| container.running).collect();
    let numbers: Vec<u32> = running.iter().map(|container| container.instance).collect();
    // A stopped instance may have its container or not; anything else that does not run is surplus.
    let surplus = found.iter().any(|container| !container.running && !wanted.stopped.contains(&container.instance));
    let version = format!("{name}.v{}-i", wanted.version);
    if numbers != wanted.running() || surplus || !running.iter().all(|container| container.name.starts_with(&version)) {
        return false;
    }
    for container in running {
        if hands.memory(&container.id).await != Some(wanted.memory) {
            return false;
        }
    }
    true
}

async fn is_shown(cluster: &Cluster, name: &str, wanted: &ExpectedGroup) -> bool {
    let Some(group) = cluster.group(1, name).await else { return false };
    let spec = (group.spec.version, group.spec.num_instances, group.spec.pod.containers[0].memory_limit);
    let stopped = group.pods.iter().filter(|pod| pod.target_state == contract::state::TargetState::Stop);
    let stopped: Vec<u32> = stopped.map(|pod| pod.instance_no).collect();
    spec == (wanted.version, i64::from(wanted.count), wanted.memory)
        && stopped.iter().eq(wanted.stopped.iter())
        && group.pods.len() == wanted.count as usize
}

/// Waits until a dependency pod runs beside every instance that needs it, once, and nowhere else.
async fn dependencies_settle(cluster: &Cluster, name: &str, expected: &Expected) {
    let hands = Hands::connect();
    let path = format!("/api/depends?name={name}");
    eventually(SETTLED, &format!("{name} is {:?}", expected.dependencies.get(name)), async || {
        let all = cluster.engine.of_cluster(cluster.id()).await;
        let users = |container: &&Workload| {
            name == DEPENDENCIES[0] && GROUPS[..2].iter().any(|group| container.name.starts_with(group))
        };
        let mut nodes: Vec<&str> = all.iter().filter(users).map(|container| container.node.as_str()).collect();
        nodes.sort_unstable();
        nodes.dedup();
        let mut dependencies: Vec<&Workload> =
            all.iter().filter(|container| container.name.starts_with(name)).collect();
        dependencies.sort_by(|one, other| one.node.cmp(&other.node));
        let beside = dependencies.iter().all(|pod| pod.running) && dependencies.iter().map(|pod| &*pod.node).eq(nodes);
        let (status, text) = cluster.call(0, reqwest::Method::GET, &path, None).await;
        let settled = match expected.dependencies.get(name) {
            Some(ExpectedDependency::Everywhere { memory }) => {
                let spec: Value = serde_json::from_str(&text).ok()?;
                let mut right = beside && spec["Spec"]["Containers"][0]["MemoryLimit"] == *memory;
                for pod in &dependencies {
                    right &= hands.memory(&pod.id).await == Some(*memory);
                }
                right
            }
            // Removed while used: it is still there. Removed and unused: it is gone.
            Some(ExpectedDependency::OnlyWhereUsed) => beside || (dependencies.is_empty() && status == 404),
            None => dependencies.is_empty() && status == 404,
        };
        settled.then_some(())
    })
    .await;
}
