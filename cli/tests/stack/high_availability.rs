//! Three of everything: one NATS server, one etcd member, the leader and one apiserver are killed in turn under commands.
//!
//! The short form of the promise: each command is tried again for as long as an operator's tool would, and none may fail; every one that was
//! accepted must be there at the end, and no workload may notice.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use contract::state::RunState;
use reqwest::Method;

use crate::cluster::eventually;
use crate::project::{Project, docker, inspect};

/// How long a command is tried: half of what `deployctl` gives one.
const DEADLINE: Duration = Duration::from_secs(60);
/// Callbacks at most; the last kill is over long before.
const MOST: usize = 2000;
const BETWEEN: Duration = Duration::from_millis(100);
/// Callbacks that stand at a time: fewer than a cluster takes.
const KEPT: usize = 20;
/// How long the test sends commands after the kill: longer than any election.
const WITHOUT: Duration = Duration::from_secs(8);

/// What became of the commands.
#[derive(Debug, Default)]
struct Tally {
    accepted: usize,
    /// The callbacks there must be in the end.
    standing: BTreeSet<String>,
    failed: Vec<String>,
    tries: usize,
    longest: Duration,
}

#[tokio::test(flavor = "multi_thread")]
async fn no_command_fails_while_any_one_process_is_killed() {
    let project = Arc::new(Project::new("ha", &["docker-compose.yml", "docker-compose.ha.yml"]));
    project.up().await;
    let before = project.workloads();
    assert_eq!(before.len(), 2);

    let enough = Arc::new(AtomicBool::new(false));
    let commands = fabric::tasks::spawn("commands", send(project.clone(), enough.clone()));
    let leader = leader(&project).await;
    for service in ["nats", "etcd", &leader, "apiserver-2"] {
        let id = project.container(service);
        docker(&["kill", &id]);
        tokio::time::sleep(WITHOUT).await;
        docker(&["start", &id]);
        back(&project, service, &id).await;
    }
    enough.store(true, Ordering::Relaxed);
    let tally = commands.await.expect("the commands end");
    println!(
        "{} commands accepted, {} tries, longest {:?}, {} failed",
        tally.accepted,
        tally.tries,
        tally.longest,
        tally.failed.len()
    );
    assert_eq!(tally.failed, Vec::<String>::new());
    assert!(tally.accepted > 20, "{tally:?}");

    eventually(DEADLINE, "every accepted command is in effect", async || {
        let (status, body) = project.call(Method::GET, "/api/notifies", None).await?;
        let known: BTreeSet<String> = serde_json::from_str(&body).unwrap_or_default();
        (status.is_success() && known == tally.standing).then_some(())
    })
    .await;
    assert_eq!(project.workloads(), before, "no workload noticed");
    let path = format!("/api/podgroups?name={}", project.group);
    let (_, body) = project.call(Method::GET, &path, None).await.expect("an answer");
    let group: contract::api::PodGroupWithSpec = serde_json::from_str(&body).expect("a group");
    assert!(group.pods.iter().all(|pod| pod.state == RunState::Success && pod.drift_count == 0), "{body}");
}

async fn leader(project: &Project) -> String {
    eventually(DEADLINE, "a scheduler leads", async || {
        let leader = project.cluster().await?["leader"].as_str()?.to_owned();
        (!leader.is_empty()).then_some(leader)
    })
    .await
}

/// Waits until what was killed is back: servers are asked from inside the stack, ours have a health check.
async fn back(project: &Project, service: &str, id: &str) {
    match service {
        "nats" | "etcd" => {
            let said = project.composed(&["run", "--rm", "servers"]);
            assert_eq!(said, "", "health says nothing when all is well");
        }
        _ => project.healthy(service).await,
    }
    assert_eq!(inspect("{{.State.Running}}", id).as_deref(), Some("true"));
}

/// Sends commands, one after the other: callbacks come, and go when twenty others have come.
async fn send(project: Arc<Project>, enough: Arc<AtomicBool>) -> Tally {
    let mut tally = Tally::default();
    for number in 0..MOST {
        if enough.load(Ordering::Relaxed) {
            break;
        }
        // Spreads them over all the kills, however fast the machine is.
        tokio::time::sleep(BETWEEN).await;
        let callback = callback(number);
        if try_until_accepted(&project, &mut tally, Method::POST, &callback).await {
            tally.standing.insert(callback);
        }
        let Some(oldest) = number.checked_sub(KEPT).map(self::callback) else { continue };
        if try_until_accepted(&project, &mut tally, Method::DELETE, &oldest).await {
            tally.standing.remove(&oldest);
        }
    }
    tally
}

/// A name that never resolves.
fn callback(number: usize) -> String {
    format!("http://callback.invalid/{number}")
}

/// Tries one command until it is accepted or its deadline has passed.
async fn try_until_accepted(project: &Project, tally: &mut Tally, method: Method, callback: &str) -> bool {
    let path = format!("/api/notifies?callback={callback}");
    let key = format!("{}-{method}-{}", project.group, callback.rsplit('/').next().expect("a number"));
    let (started, mut last) = (Instant::now(), None);
    while started.elapsed() < DEADLINE {
        tally.tries += 1;
        last = project.call(method.clone(), &path, Some(&key)).await;
        if last.as_ref().is_some_and(|(status, _)| status.is_success()) {
            tally.accepted += 1;
            tally.longest = tally.longest.max(started.elapsed());
            return true;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    tally.failed.push(format!("{method} {callback}: {last:?}"));
    false
}
