//! What the API carries: changes and reads as fast as a few clients can ask, through one apiserver and through three.
//!
//! The clients share the machine with everything they ask, so the figures are what is left for all of them together.

use std::process::Stdio;
use std::time::{Duration, Instant};

use fabric::etcd::{Args, Store};
use reqwest::{Client, Method};
use serde_json::{Value, json};
use tokio::process::{Child, Command};

use super::Error;
use super::chart::{Bar, Chart};
use super::deployd::accepted;
use super::progress::Progress;
use super::statistics::Sample;
use crate::cluster::{Cluster, Request, eventually};
use crate::request::group;

/// Clients that ask, each the next thing as soon as it has an answer.
const CLIENTS: usize = 32;
/// Requests of one client, at most.
const MOST: usize = 20_000;
const ANSWER: Duration = Duration::from_secs(10);
/// An apiserver starts in well under a second.
const READY: Duration = Duration::from_secs(30);

/// How the API is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Another spec of a group without instances: durable on the bus, decided, and stored in etcd.
    Change,
    /// One group, answered by the leader.
    Read,
}

/// What came of it.
#[derive(Debug, Default)]
struct Answers {
    times: Vec<Duration>,
    refused: usize,
}

/// Asks in both ways through one apiserver and through three.
pub(crate) async fn run(cluster: &Cluster, span: Duration, progress: &Progress) -> Result<Vec<Chart>, Error> {
    let groups: Vec<String> = (1..=CLIENTS).map(|n| format!("load{n}-{}.web.web", cluster.tag())).collect();
    for name in &groups {
        let body = Some(group(name, 0));
        accepted(cluster, &Request { method: Method::POST, path: "/api/podgroups".to_owned(), body }).await?;
    }
    let mut urls = cluster.api.urls().to_vec();
    let mut further = Vec::new();
    while urls.len() < 3 {
        let (child, url) = another(cluster, urls.len() + 1).await?;
        further.push(child);
        urls.push(url);
    }
    let (mut rates, mut waits, mut stored) = (Vec::new(), Vec::new(), Vec::new());
    for way in [Way::Change, Way::Read] {
        for count in [1, 3] {
            let label = format!("{}, {count} apiserver{}", way.word(), if count == 1 { "" } else { "s" });
            progress.begin(&format!("API: {label}"));
            let before = etcd_bytes(cluster).await;
            let (answers, took) = drive(&urls[..count], &groups, way, span).await;
            let after = etcd_bytes(cluster).await;
            progress.done();
            if answers.refused > 0 {
                eprintln!("API: {label}: {} were refused or not answered", answers.refused);
            }
            let times = Sample::of_times(&answers.times);
            let accepted = f64::from(u32::try_from(times.count()).unwrap_or(u32::MAX));
            // A compaction in between makes etcd smaller: then the figure means nothing and is left out.
            if let (Way::Change, Some(grown)) =
                (way, after.zip(before).and_then(|(after, before)| after.checked_sub(before)))
            {
                let bytes = f64::from(u32::try_from(grown).unwrap_or(u32::MAX));
                stored.push(Bar::of(&label, &Sample::of([bytes / accepted.max(1.0)])));
            }
            rates.push(Bar::of(&label, &Sample::of([accepted / took.as_secs_f64()])));
            waits.push(Bar::with(&format!("{label}, p50"), times.percentile(0.5), &Sample::default()));
            waits.push(Bar::with(&format!("{label}, p99"), times.percentile(0.99), &Sample::default()));
        }
    }
    drop(further);
    let title = |what: &str| format!("API, {CLIENTS} clients on the same machine: {what}");
    let chart = |name: &str, what: &str, unit, bars| Chart {
        name: name.to_owned(),
        title: title(what),
        unit,
        bars,
        goals: Vec::new(),
    };
    Ok(vec![
        chart("api-rate", "answers a second", "/s", rates),
        chart("api-wait", "time to an answer", "s", waits),
        chart("api-stored", "growth of etcd per change", "B", stored),
    ])
}

/// Bytes of etcd's database that hold data.
async fn etcd_bytes(cluster: &Cluster) -> Option<u64> {
    let store = Store::connect(&Args::at(cluster.etcd()?)).await.ok()?;
    Some(store.size().await.ok()?.in_use)
}

impl Way {
    fn word(self) -> &'static str {
        match self {
            Self::Change => "changes",
            Self::Read => "reads",
        }
    }
}

async fn drive(urls: &[String], groups: &[String], way: Way, span: Duration) -> (Answers, Duration) {
    let begun = Instant::now();
    let client = fabric::http::client(ANSWER);
    let clients = groups.iter().zip(urls.iter().cycle()).map(|(name, url)| {
        let (client, url, name) = (client.clone(), url.clone(), name.clone());
        fabric::tasks::spawn("bench client", async move { ask(&client, &url, &name, (way, begun + span)).await })
    });
    let mut all = Answers::default();
    for asked in clients.collect::<Vec<_>>() {
        match asked.await {
            Ok(answers) => {
                all.times.extend(answers.times);
                all.refused += answers.refused;
            }
            Err(_) => all.refused += 1,
        }
    }
    (all, begun.elapsed())
}

/// One client: asks until the time is up.
async fn ask(client: &Client, url: &str, name: &str, (way, end): (Way, Instant)) -> Answers {
    let mut answers = Answers::default();
    for number in 0..MOST {
        let sent = Instant::now();
        if sent >= end {
            break;
        }
        let call = match way {
            Way::Read => client.get(format!("{url}/api/podgroups?name={name}")),
            Way::Change => {
                client.patch(format!("{url}/api/podgroups?name={name}&cmd=spec")).json(&changed(name, number))
            }
        };
        let said = async {
            let response = call.send().await?;
            let status = response.status().as_u16();
            response.bytes().await.map(|_| status)
        };
        match (said.await, way) {
            (Ok(202), Way::Change) | (Ok(200), Way::Read) => answers.times.push(sent.elapsed()),
            (Ok(_) | Err(_), _) => answers.refused += 1,
        }
    }
    answers
}

/// The pod of a group with something new in it.
fn changed(name: &str, number: usize) -> Value {
    let mut pod = group(name, 0)["Pod"].take();
    pod["Labels"] = json!({"change": number.to_string()});
    pod
}

/// One more apiserver of the cluster, which ends with its handle.
async fn another(cluster: &Cluster, number: usize) -> Result<(Child, String), Error> {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).map_err(Error::Port)?;
    let address = listener.local_addr().map_err(Error::Port)?.to_string();
    drop(listener);
    let nats = cluster.nats().ok_or(crate::cluster::Error::State)?;
    let name = format!("apiserver-{number}");
    let child = Command::new(cluster.program("deployd-apiserver"))
        .args(["--name", &name, "--listen", &address, "--nats", &nats])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .map_err(crate::cluster::Error::Run)?;
    let ready = async || cluster.api.page(&address, "/readyz").await.map(drop);
    eventually(READY, "one more apiserver is ready", ready).await?;
    Ok((child, format!("http://{address}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_change_is_another_spec() {
        let (first, second) = (changed("load1-x.web.web", 1), changed("load1-x.web.web", 2));
        assert_ne!(first, second);
        assert_eq!(first["Name"], second["Name"]);
    }
}
