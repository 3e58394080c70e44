//! deployd as a contestant: a cluster with one node on the local engine, driven through its API.

use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};

use super::Error;
use super::contestant::{First, Pace, Task};
use super::docker::{MEMORY, NETWORK, RUN, VERSION};
use crate::cluster::{Answer, Cluster, IMAGE, Request};

/// How long a command is retried while the group is locked.
const SETTLES: Duration = Duration::from_secs(60);
/// One node with enough cores for hundreds of instances.
pub(crate) const ONE_NODE: [&str; 6] = ["--nodes", "1", "--node-cpus", "512", "--node-memory", "17179869184"];

#[derive(Debug)]
pub(crate) struct Deployd {
    pub(crate) cluster: Cluster,
    pub(crate) mark: String,
}

impl Deployd {
    fn group(&self) -> String {
        format!("bench-{}.web.web", self.cluster.tag())
    }

    /// Sets the parallelism of the next update, before the clock starts.
    pub(crate) async fn prepare(&self, task: Task) -> Result<(), Error> {
        let Task::Update { pace, .. } = task else { return Ok(()) };
        let path = format!("/api/podgroups?name={}&cmd=strategy", self.group());
        let body = Some(json!({"Strategy": strategy(pace)}));
        accepted(&self.cluster, &Request { method: Method::PATCH, path, body }).await.map(drop)
    }

    /// Returns when the command was sent; `version` is the current one.
    pub(crate) async fn perform(&self, task: Task, version: u32) -> Result<Instant, Error> {
        let name = self.group();
        let request = match task {
            Task::Start { count } => {
                let body = Some(group(&name, count, &pod(&name, &self.mark, version)));
                Request { method: Method::POST, path: "/api/podgroups".to_owned(), body }
            }
            Task::Grow { to, .. } => {
                let path = format!("/api/podgroups?name={name}&cmd=replica&num_instances={to}");
                Request { method: Method::PATCH, path, body: None }
            }
            Task::Update { version, .. } => {
                let path = format!("/api/podgroups?name={name}&cmd=spec");
                Request { method: Method::PATCH, path, body: Some(pod(&name, &self.mark, version)) }
            }
            Task::Remove { .. } => {
                Request { method: Method::DELETE, path: format!("/api/podgroups?name={name}"), body: None }
            }
        };
        accepted(&self.cluster, &request).await
    }
}

/// Lets the namespace use the network of the engine that all contestants use.
pub(crate) async fn trust(cluster: &Cluster) -> Result<(), Error> {
    let (path, body) = ("/api/policies?namespace=bench".to_owned(), Some(json!({"Level": "trusted"})));
    accepted(cluster, &Request { method: Method::PUT, path, body }).await.map(drop)
}

/// Retries a command while the group is locked; returns when the accepted one was sent.
pub(crate) async fn accepted(cluster: &Cluster, request: &Request) -> Result<Instant, Error> {
    let begun = Instant::now();
    loop {
        let sent = Instant::now();
        match cluster.api.call(0, request, None).await {
            Answer::Said { status: 202, .. } => return Ok(sent),
            // A name is free when the last container of the removed group is gone.
            Answer::Said { status: 423 | 405, .. } if begun.elapsed() < SETTLES => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Answer::Said { status, body } => {
                let what = format!("{} {}", request.method, request.path);
                return Err(Error::Refused { what, status, body: body.to_string() });
            }
            Answer::Nothing { why } => {
                return Err(Error::Unanswered { what: format!("{} {}", request.method, request.path), why });
            }
        }
    }
}

/// A demo group with the network and limits of every contestant.
pub(crate) fn group(name: &str, count: u32, pod: &Value) -> Value {
    json!({
        "Name": name, "Namespace": "bench", "NumInstances": count, "RestartPolicy": 1, "MinReadySeconds": 0, "FailureAction": "Hold", "Strategy": strategy(Pace::new(First::Old, 10)), "Pod": pod,
    })
}

fn strategy(pace: Pace) -> Value {
    let (surge, unavailable) = match pace.first {
        First::Old => (0, pace.at_a_time),
        First::New => (pace.at_a_time, 0),
    };
    json!({"Type": "RollingUpdate", "MaxSurge": surge, "MaxUnavailable": unavailable})
}

pub(crate) fn pod(name: &str, mark: &str, version: u32) -> Value {
    json!({
        "Name": name, "Namespace": "bench", "Annotation": "{}", "KillTimeout": 10, "Network": NETWORK,
        "Labels": {RUN: mark, VERSION: version.to_string()},
        "Filters": ["constraint:group==default"],
        "Containers": [{"Image": IMAGE, "CpuLimit": 1, "MemoryLimit": MEMORY, "Expose": 0}],
    })
}
