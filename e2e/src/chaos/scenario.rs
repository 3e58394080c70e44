//! What an experiment adds to a run: flags of the cluster, preparation, faults and findings.
//!
//! [`super::run`] adds control groups, the workload, the watch for duplicates and the check of every acknowledged command.

pub(crate) mod agent_steps;
pub(crate) mod engine_loss;
pub(crate) mod kills;
pub(crate) mod malformed;
pub(crate) mod node_cut;
pub(crate) mod server_outage;

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use testkit::random::Random;

use crate::chaos::checks::{BrokenPromise, Promise};
use crate::chaos::fault::InjectedFault;
use crate::chaos::workload::Load;
use crate::cluster::extra_node::PURPOSE;
use crate::cluster::specs::group;
use crate::cluster::{Answer, Cluster, Error, Request, eventually};

/// Timeout for a command to be accepted.
const SOON: Duration = Duration::from_secs(60);

pub(crate) trait Scenario {
    /// Further flags of `deployctl up`.
    fn flags(&self) -> &'static [&'static str] {
        &[]
    }

    fn load(&self) -> Load {
        Load::default()
    }

    /// Groups whose instances may run twice for a while.
    fn twice(&self) -> fn(&str) -> bool {
        |_| false
    }

    /// Prepares the experiment before the workload starts.
    async fn prepare(&mut self, _cluster: &Cluster) -> Result<(), Error> {
        Ok(())
    }

    /// Injects the faults while the workload runs.
    async fn inject_faults(&mut self, cluster: &Cluster, random: &mut Random) -> Result<Vec<InjectedFault>, Error>;

    /// Called when everything has settled.
    async fn findings(&mut self, _cluster: &Cluster) -> Result<Findings, Error> {
        Ok(Findings::default())
    }
}

#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) samples: Vec<Sample>,
    pub(crate) broken: Vec<BrokenPromise>,
}

/// One measurement; the figures combine those of the same name over all clusters.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sample {
    pub(crate) name: &'static str,
    pub(crate) goal: Option<&'static str>,
    pub(crate) value: Measured,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Measured {
    /// The figure is the sum.
    Count(usize),
    /// The figures are median and maximum.
    Time(Duration),
}

impl Findings {
    pub(crate) fn count(&mut self, name: &'static str, goal: Option<&'static str>, count: usize) {
        self.samples.push(Sample { name, goal, value: Measured::Count(count) });
    }

    pub(crate) fn time(&mut self, name: &'static str, goal: Option<&'static str>, time: Duration) {
        self.samples.push(Sample { name, goal, value: Measured::Time(time) });
    }

    pub(crate) fn broke(&mut self, promise: Promise, what: String) {
        self.broken.push(BrokenPromise { promise, what });
    }
}

/// A demo group on nodes of one purpose; `change` may modify its pod.
pub(crate) fn group_on(name: &str, count: u32, purpose: Option<&str>, change: impl FnOnce(&mut Value)) -> Value {
    let mut body = group(name, count);
    if let Some(purpose) = purpose {
        body["Pod"]["Filters"] = json!([format!("constraint:{PURPOSE}=={purpose}")]);
    }
    change(&mut body["Pod"]);
    body
}

/// Retries a command until it is accepted. One key takes effect once, and its refusal is final, so a refused command (the group may be
/// locked) gets a new key.
pub(crate) async fn command(cluster: &Cluster, key: &str, request: &Request) -> Result<(), Error> {
    let what = format!("{} {} is accepted", request.method, request.path);
    let (mut index, mut refusals) = (0, 0);
    eventually(SOON, &what, async || {
        index += 1;
        match cluster.api.call(index, request, Some(&format!("{key}-{refusals}"))).await {
            Answer::Said { status: 202, body } if body["queued"] != true => return Some(()),
            Answer::Said { status: 202 | 503, .. } | Answer::Nothing { .. } => {}
            Answer::Said { .. } => refusals += 1,
        }
        None
    })
    .await
}

pub(crate) async fn create(cluster: &Cluster, key: &str, body: Value) -> Result<(), Error> {
    let path = "/api/podgroups".to_owned();
    command(cluster, &format!("create-{key}"), &Request { method: Method::POST, path, body: Some(body) }).await
}

pub(crate) async fn delete(cluster: &Cluster, key: &str, name: &str) -> Result<(), Error> {
    let path = format!("/api/podgroups?name={name}");
    command(cluster, &format!("delete-{key}"), &Request { method: Method::DELETE, path, body: None }).await
}
