//! Throughput and latency of changes and reads, through one apiserver and through three.
//!
//! Clients and servers share the machine.

use std::process::Stdio;
use std::time::{Duration, Instant};

use contract::bus::Member;
use devcluster::plan::OWN_USER;
use fabric::etcd::Store;
use reqwest::{Client, Method};
use serde_json::{Value, json};
use tokio::process::{Child, Command};

use super::Error;
use super::deployd::accepted;
use super::figure::{Figure, Row};
use super::progress::Progress;
use crate::cluster::specs::group;
use crate::cluster::{Cluster, Request, eventually, process};

/// Parallel clients; each sends its next request when it has the answer to the last.
const CLIENTS: usize = 32;
/// Requests of one client, at most.
const MOST: usize = 20_000;
const ANSWER: Duration = Duration::from_secs(10);
/// An apiserver starts in well under a second.
const READY: Duration = Duration::from_secs(30);

/// The kind of request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Another spec of a group without instances: durable on the bus, decided, and stored in etcd.
    Change,
    /// One group, answered by the leader.
    Read,
}

#[derive(Debug, Default)]
struct Answers {
    /// When each answer arrived, since the begin of the run, and how long the client waited for it.
    times: Vec<(Duration, Duration)>,
    refused: usize,
}

/// Measures both kinds of requests through one apiserver and through three.
pub(crate) async fn run(cluster: &Cluster, span: Duration, progress: &Progress) -> Result<Vec<Figure>, Error> {
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
            let accepted = f64::from(u32::try_from(answers.times.len()).unwrap_or(u32::MAX));
            // No figure when etcd compacted meanwhile and became smaller.
            if let (Way::Change, Some(grown)) =
                (way, after.zip(before).and_then(|(after, before)| after.checked_sub(before)))
            {
                let bytes = f64::from(u32::try_from(grown).unwrap_or(u32::MAX));
                stored.push(Row::of(&label, [bytes / accepted.max(1.0)]));
            }
            rates.push(Row::of(&label, per_second(&answers.times, took)));
            waits.push(Row::of(&label, answers.times.iter().map(|(_, wait)| wait.as_secs_f64())));
        }
    }
    drop(further);
    let figure = |name: &str, what: &str, unit, rows| {
        Figure::new(name, format!("API, {CLIENTS} clients on the same machine: {what}"), unit, rows)
    };
    Ok(vec![
        figure("api-rate", "answers in each second", "/s", rates),
        figure("api-wait", "time to an answer", "s", waits),
        figure("api-stored", "growth of etcd per change", "B", stored),
    ])
}

/// The answers in each full second of the run.
fn per_second(answers: &[(Duration, Duration)], took: Duration) -> Vec<f64> {
    let in_second = |second: u64| answers.iter().filter(|(at, _)| at.as_secs() == second).count();
    (0..took.as_secs()).map(|second| f64::from(u32::try_from(in_second(second)).unwrap_or(u32::MAX))).collect()
}

/// Bytes of etcd's database that hold data.
async fn etcd_bytes(cluster: &Cluster) -> Option<u64> {
    let store = Store::connect(&cluster.etcd()?).await.ok()?;
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
        fabric::tasks::spawn("bench client", async move { ask(&client, &url, &name, (way, begun, span)).await })
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

/// One client: sends requests for `span` from `begun` on.
async fn ask(client: &Client, url: &str, name: &str, (way, begun, span): (Way, Instant, Duration)) -> Answers {
    let mut answers = Answers::default();
    for number in 0..MOST {
        let sent = Instant::now();
        if sent >= begun + span {
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
            (Ok(202), Way::Change) | (Ok(200), Way::Read) => answers.times.push((begun.elapsed(), sent.elapsed())),
            (Ok(_) | Err(_), _) => answers.refused += 1,
        }
    }
    answers
}

/// The pod of a group with a label that no earlier request had.
fn changed(name: &str, number: usize) -> Value {
    let mut pod = group(name, 0)["Pod"].take();
    pod["Labels"] = json!({"change": number.to_string()});
    pod
}

/// Starts one more apiserver of the cluster; dropping the handle kills it.
async fn another(cluster: &Cluster, number: usize) -> Result<(Child, String), Error> {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).map_err(Error::Port)?;
    let address = listener.local_addr().map_err(Error::Port)?.to_string();
    drop(listener);
    let nats = cluster.nats().ok_or(crate::cluster::Error::State)?;
    let name = format!("apiserver-{number}");
    let child = Command::new(cluster.program("deployd-apiserver"))
        .args(["--name", &name, "--listen", &address, "--nats", &nats, "--anonymous", OWN_USER])
        .arg("--nats-credentials-file")
        .arg(cluster.keys().bus(&process(Member::Apiserver, "apiserver-1")?))
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
    fn the_rate_counts_the_answers_of_each_full_second() {
        let answers = [100, 900, 1_500, 2_100].map(|at| (Duration::from_millis(at), Duration::ZERO));
        assert_eq!(per_second(&answers, Duration::from_millis(2_500)), [2.0, 1.0]);
    }

    #[test]
    fn every_change_is_another_spec() {
        let (first, second) = (changed("load1-x.web.web", 1), changed("load1-x.web.web", 2));
        assert_ne!(first, second);
        assert_eq!(first["Name"], second["Name"]);
    }
}
