//! deployd as a contestant of the race: a whole cluster with one node on the local engine, told through its API.

use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};

use super::Error;
use super::contestant::{First, Pace, Task};
use super::docker::{MEMORY, NETWORK, RUN, VERSION};
use crate::cluster::{Answer, Cluster, IMAGE, Request};

/// A group that is still settling refuses the next command for a moment.
const SETTLES: Duration = Duration::from_secs(60);
/// One node, as one engine is; enough cores that hundreds of instances find room by their quotas.
pub(crate) const ONE_NODE: [&str; 6] = ["--nodes", "1", "--node-cpus", "512", "--node-memory", "17179869184"];

/// The group that is raced.
#[derive(Debug)]
pub(crate) struct Deployd {
    pub(crate) cluster: Cluster,
    /// Value of the run's label.
    pub(crate) mark: String,
}

impl Deployd {
    fn group(&self) -> String {
        format!("bench-{}.web.web", self.cluster.tag())
    }

    /// What has to be said before the clock starts: how many at a time the next update takes.
    pub(crate) async fn prepare(&self, task: Task) -> Result<(), Error> {
        let Task::Update { pace, .. } = task else { return Ok(()) };
        let path = format!("/api/podgroups?name={}&cmd=strategy", self.group());
        let body = Some(json!({"Strategy": strategy(pace)}));
        accepted(&self.cluster, &Request { method: Method::PATCH, path, body }).await.map(drop)
    }

    /// Gives the task; `version` is the one that stands there before. Says when it was sent.
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

/// Sends a command until it is accepted; says when the accepted one was sent. Only a lock is waited for.
pub(crate) async fn accepted(cluster: &Cluster, request: &Request) -> Result<Instant, Error> {
    let begun = Instant::now();
    loop {
        let sent = Instant::now();
        match cluster.api.call(0, request, None).await {
            Answer::Said { status: 202, .. } => return Ok(sent),
            // A name is free when the last container of its former owner is gone.
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

/// A group of the demo on the network and within the limits every contestant has.
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
