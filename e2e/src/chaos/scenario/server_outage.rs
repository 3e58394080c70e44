//! Deletes the command stream, or stops the store.

use std::time::{Duration, Instant};

use reqwest::Method;
use rustix::process::Signal;
use testkit::random::Random;
use tokio::task::JoinSet;

use super::{Findings, Scenario};
use crate::chaos::checks::Promise;
use crate::chaos::fault::InjectedFault;
use crate::chaos::workload::Load;
use crate::cluster::{Answer, Api, Cluster, Error, Request, eventually, signal};

pub(crate) const STREAM_DELETED: &str = "command stream deleted";
pub(crate) const STORE_BACK: &str = "store went on";
/// Part of the refusal while the store is away.
const REASON: &str = "the store (etcd) has not answered since";
/// Enough for a restart by the supervisor on a busy machine.
const BACK: Duration = Duration::from_secs(60);
const BETWEEN: Duration = Duration::from_secs(5);
const PROBE_EVERY: Duration = Duration::from_millis(300);

#[derive(Debug)]
pub(crate) enum ServerOutage {
    /// Deletes JetStream's files and kills the server.
    StreamLoss {
        times: usize,
    },
    StoreStop {
        lasting: Duration,
        heard: ProbeAnswers,
    },
}

/// The answers while the store was stopped.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ProbeAnswers {
    read: usize,
    queued: usize,
    refused: usize,
    refused_otherwise: usize,
    silent: usize,
    unclear: Vec<String>,
}

impl ProbeAnswers {
    fn note(&mut self, answer: &Answer) {
        match answer {
            Answer::Said { status: 200, .. } => self.read += 1,
            Answer::Said { status: 202, body } if body["queued"] == true => self.queued += 1,
            Answer::Said { status: 503, body }
                if body["message"].as_str().is_some_and(|text| text.contains(REASON)) =>
            {
                self.refused += 1;
            }
            Answer::Said { status: 503, body } if body["message"].as_str().is_some_and(|text| !text.is_empty()) => {
                self.refused_otherwise += 1;
            }
            Answer::Said { status, body } => self.unclear.push(format!("{status} {body}")),
            Answer::Nothing { .. } => self.silent += 1,
        }
    }
}

impl ServerOutage {
    pub(crate) fn store_stop(lasting: Duration) -> Self {
        Self::StoreStop { lasting, heard: ProbeAnswers::default() }
    }
}

impl Scenario for ServerOutage {
    fn load(&self) -> Load {
        match self {
            Self::StreamLoss { .. } => Load { patience: Duration::from_secs(120), ..Load::default() },
            // Commands wait for the store, so there must be more objects.
            Self::StoreStop { lasting, .. } => {
                let empty = u32::try_from(lasting.as_secs()).unwrap_or(60) * 25 + 100;
                Load { empty, patience: *lasting + Duration::from_secs(120), ..Load::default() }
            }
        }
    }

    async fn inject_faults(&mut self, cluster: &Cluster, _chance: &mut Random) -> Result<Vec<InjectedFault>, Error> {
        let mut happened = Vec::new();
        match self {
            Self::StreamLoss { times } => {
                for _ in 0..*times {
                    happened.push(lose_streams(cluster).await?);
                    tokio::time::sleep(BETWEEN).await;
                }
            }
            Self::StoreStop { lasting, heard } => {
                let etcd = eventually(BACK, "etcd runs", async || cluster.running("etcd")).await?;
                signal(&etcd, Signal::STOP);
                happened.push(InjectedFault::now("store stopped", "etcd"));
                *heard = listen(cluster, *lasting).await;
                signal(&etcd, Signal::CONT);
                happened.push(InjectedFault::now(STORE_BACK, "etcd"));
                tokio::time::sleep(2 * BETWEEN).await;
            }
        }
        Ok(happened)
    }

    async fn findings(&mut self, _cluster: &Cluster) -> Result<Findings, Error> {
        let mut findings = Findings::default();
        if let Self::StoreStop { heard, .. } = self {
            findings.count("store away: reads answered by a standby", None, heard.read);
            findings.count("store away: commands queued (202)", Some("0"), heard.queued);
            findings.count("store away: 503 with its reason", Some(">= 1"), heard.refused);
            findings.count("store away: 503 for another reason", Some("0"), heard.refused_otherwise);
            findings.count("store away: no answer in 8 s", Some("0"), heard.silent);
            findings.count("store away: answers that are not clear", Some("0"), heard.unclear.len());
            if heard.refused == 0 {
                findings.broke(Promise::Kept, "no command was refused because the store is away".to_owned());
            }
            for what in &heard.unclear {
                findings.broke(Promise::Kept, format!("an answer while the store was away: {what}"));
            }
        }
        Ok(findings)
    }
}

/// Stops the server while its files are deleted, so that it writes nothing, and kills it.
async fn lose_streams(cluster: &Cluster) -> Result<InjectedFault, Error> {
    let nats = eventually(BACK, "nats-server runs", async || cluster.running("nats")).await?;
    let store = cluster.run_folder().join("nats").join("jetstream");
    signal(&nats, Signal::STOP);
    let removed = std::fs::remove_dir_all(&store);
    signal(&nats, Signal::KILL);
    let happened = InjectedFault::now(STREAM_DELETED, "nats");
    removed.map_err(|source| Error::Prepare { path: store, source })?;
    let other = async || cluster.running("nats").filter(|process| process.pid != nats.pid);
    eventually(BACK, "nats-server runs again", other).await?;
    eventually(BACK, "there is a leader", async || cluster.api.leader().await).await?;
    Ok(happened)
}

/// Probes the API, after the lease of the leader has expired.
async fn listen(cluster: &Cluster, lasting: Duration) -> ProbeAnswers {
    const LEASE: Duration = Duration::from_secs(6);
    let end = Instant::now() + lasting;
    tokio::time::sleep(LEASE.min(lasting)).await;
    let group = format!("/api/podgroups?name=calm1-{}.web.web", cluster.tag());
    let mut heard = ProbeAnswers::default();
    // Bounded by the timeout of an answer.
    let mut in_flight = JoinSet::new();
    let mut tick = tokio::time::interval(PROBE_EVERY);
    let mut number = 0;
    loop {
        tokio::select! {
            // Later answers are about the time after the outage.
            () = tokio::time::sleep_until(end.into()) => return heard,
            Some(Ok((read, written))) = in_flight.join_next() => {
                heard.note(&read);
                heard.note(&written);
            }
            _ = tick.tick() => {
                number += 1;
                in_flight.spawn(probe(cluster.api.clone(), number, group.clone()));
            }
        }
    }
}

async fn probe(api: Api, number: usize, group: String) -> (Answer, Answer) {
    // A few types, set repeatedly: the cluster keeps 64, and the workload uses thirty.
    let path = format!("/api/constraints?type=probe{}&value=on&equal=false&soft=true", number % 8);
    let write = Request { method: Method::PATCH, path, body: None };
    let key = format!("probe-{number}");
    tokio::join!(api.get(number, &group), api.call(number, &write, Some(&key)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_answer_is_clear_when_it_says_what_became_of_the_request() {
        let said = |status, body| Answer::Said { status, body };
        let mut heard = ProbeAnswers::default();
        for answer in [
            said(200, json!({})),
            said(202, json!({"queued": true})),
            said(503, json!({"message": format!("{REASON} 2026-11-16T00:00:00Z")})),
            said(503, json!({"message": "no scheduler answered"})),
            Answer::Nothing { why: "deadline".to_owned() },
        ] {
            heard.note(&answer);
        }
        assert_eq!((heard.read, heard.queued, heard.refused, heard.silent, heard.unclear.len()), (1, 1, 1, 1, 0));
        assert_eq!(heard.refused_otherwise, 1);
        for answer in
            [said(202, json!({})), said(503, json!({})), said(500, json!({"message": "?"})), said(404, json!({}))]
        {
            heard.note(&answer);
        }
        assert_eq!(heard.unclear.len(), 4, "accepted without the store, no reason, a failure, a denial");
    }
}
