//! What an experiment is to a trial: how its cluster is started, what is put there first, what is done to it, and what was seen.
//!
//! The trial brings the rest: calm groups, the workload, the watch for copies and the check of every acknowledged command.

pub(crate) mod agent_steps;
pub(crate) mod engine_loss;
pub(crate) mod kills;
pub(crate) mod malformed;
pub(crate) mod node_cut;
pub(crate) mod server_outage;

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use crate::chaos::checks::{BrokenPromise, Promise};
use crate::chaos::fault::InjectedFault;
use crate::chaos::random::Random;
use crate::chaos::workload::Load;
use crate::cluster::extra_node::PURPOSE;
use crate::cluster::specs::group;
use crate::cluster::{Answer, Cluster, Error, Request, eventually};

/// How long a command of an experiment may take to be accepted, and a group to be as asked.
const SOON: Duration = Duration::from_secs(60);

/// What one experiment does.
pub(crate) trait Scenario {
    /// Further flags of `deployctl up`.
    fn flags(&self) -> &'static [&'static str] {
        &[]
    }

    /// What is asked of the cluster meanwhile.
    fn load(&self) -> Load {
        Load::default()
    }

    /// Says of which groups two running containers of one instance are no broken promise.
    fn twice(&self) -> fn(&str) -> bool {
        |_| false
    }

    /// Puts in place what the experiment needs, before the workload begins.
    async fn prepare(&mut self, _cluster: &Cluster) -> Result<(), Error> {
        Ok(())
    }

    /// Does it, while commands are sent.
    async fn inject_faults(&mut self, cluster: &Cluster, random: &mut Random) -> Result<Vec<InjectedFault>, Error>;

    /// What was seen, once everything has come to rest.
    async fn findings(&mut self, _cluster: &Cluster) -> Result<Findings, Error> {
        Ok(Findings::default())
    }
}

/// What an experiment saw beyond what every trial looks at.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) samples: Vec<Sample>,
    pub(crate) broken: Vec<BrokenPromise>,
}

/// One measurement; those of one name are put together over all clusters.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sample {
    pub(crate) name: &'static str,
    pub(crate) goal: Option<&'static str>,
    pub(crate) value: Measured,
}

/// What was measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Measured {
    /// Added up.
    Count(usize),
    /// The middle one and the longest are shown.
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

/// A group of the demo on nodes of one purpose; `change` may alter its pod.
pub(crate) fn group_on(name: &str, count: u32, purpose: Option<&str>, change: impl FnOnce(&mut Value)) -> Value {
    let mut body = group(name, count);
    if let Some(purpose) = purpose {
        body["Pod"]["Filters"] = json!([format!("constraint:{PURPOSE}=={purpose}")]);
    }
    change(&mut body["Pod"]);
    body
}

/// Sends one command until it is accepted. Under one key it takes effect once; a refusal stands, so what was refused, because
/// the group is locked for a moment, is asked anew under another key.
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

/// Asks for a group.
pub(crate) async fn create(cluster: &Cluster, key: &str, body: Value) -> Result<(), Error> {
    let path = "/api/podgroups".to_owned();
    command(cluster, &format!("create-{key}"), &Request { method: Method::POST, path, body: Some(body) }).await
}

/// Asks that a group go.
pub(crate) async fn delete(cluster: &Cluster, key: &str, name: &str) -> Result<(), Error> {
    let path = format!("/api/podgroups?name={name}");
    command(cluster, &format!("delete-{key}"), &Request { method: Method::DELETE, path, body: None }).await
}
