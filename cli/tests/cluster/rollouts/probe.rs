//! Two clients send 20 requests a second to the ready instances, as a load balancer would, while a rollout replaces all of them:
//! one follows the list of ready instances immediately, one is late.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use contract::rollout_view::{RolloutStatus, RolloutView};
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::diary::{Diary, fewest_and_most};
use super::images::SECOND;
use super::rollout::{Rollout, group, pods, with_image};
use crate::cluster::{Cluster, eventually};

/// Twenty a second.
const PACE: Duration = Duration::from_millis(50);
/// Half the time an instance is shown as not ready before it goes: what a balancer may be behind.
const LATE: Duration = Duration::from_millis(500);

#[tokio::test(flavor = "multi_thread")]
async fn no_request_fails_while_every_instance_is_replaced() {
    let cluster = Cluster::start(&[]).await;
    let mut wanted = group(
        "probe.web.web",
        4,
        &json!({
            "Strategy": {"Type": "RollingUpdate", "MaxSurge": 1, "MaxUnavailable": 0},
            "Drain": {"GraceSeconds": 1},
        }),
    );
    // Without a health check an instance is ready when its setup time has passed: it must listen by then.
    wanted["Pod"]["SetupTime"] = 1.into();
    let release = Rollout::deployed(&cluster, &wanted).await;
    let (ready, _) = watch::channel(ports(&release.view().await.expect("a release")));
    let clients = [Duration::ZERO, LATE].map(|lag| Client::start(&ready, lag));
    eventually(Duration::from_secs(10), "requests are in flight", async || {
        clients.iter().all(|client| client.asked() >= 20).then_some(())
    })
    .await;

    let first = release.exactly(4).await;
    let diary = Diary::open(&cluster, release.name()).await;
    let before = clients.each_ref().map(Client::asked);
    release.change(&with_image(&wanted, SECOND)).await;
    release
        .until("release 1 is complete", |view| {
            ready.send_replace(ports(view));
            view.release == 1 && view.status == RolloutStatus::Complete
        })
        .await;
    let during = clients.each_ref().map(Client::asked);
    drop(ready);

    for (client, (before, during)) in clients.into_iter().zip(before.into_iter().zip(during)) {
        let answers = client.answers.await.expect("the client ends");
        println!("{} requests during the release, {} in all", during - before, answers.len());
        let failed: Vec<&String> = answers.iter().filter_map(|answer| answer.as_ref().err()).collect();
        assert!(failed.is_empty(), "{} of {} failed: {failed:#?}", failed.len(), answers.len());
        assert!(during - before >= 100, "only {} requests during the release", during - before);
        let answered = |version: &str| answers.iter().flatten().filter(|text| text.ends_with(version)).count();
        assert!(answered("instance 1\n") > 0 && answered(" version 2\n") > 0, "both versions answered");
    }
    let entries = diary.up_to(&release.exactly(4).await).await;
    assert_eq!(fewest_and_most(&entries, &first), (4, 5), "{entries:#?}");
}

/// Ports of the instances that are ready.
pub(super) fn ports(view: &RolloutView) -> Vec<u16> {
    pods(view).filter(|pod| pod.ready).flat_map(|pod| pod.node_ports.clone()).collect()
}

/// A client that sends requests to the ready instances round robin.
pub(super) struct Client {
    asked: Arc<AtomicUsize>,
    /// The answers, once the list of ready instances has ended.
    pub(super) answers: JoinHandle<Vec<Result<String, String>>>,
}

impl Client {
    /// A client that learns so much later than it is said which instances are ready.
    pub(super) fn start(ready: &watch::Sender<Vec<u16>>, lag: Duration) -> Self {
        let asked = Arc::new(AtomicUsize::new(0));
        let answers = fabric::tasks::spawn("client", ask(ready.subscribe(), lag, Arc::clone(&asked)));
        Self { asked, answers }
    }

    pub(super) fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

/// Sends requests to the ready instances round robin until the list of ready instances ends.
async fn ask(ready: watch::Receiver<Vec<u16>>, lag: Duration, asked: Arc<AtomicUsize>) -> Vec<Result<String, String>> {
    let client = reqwest::Client::builder().timeout(Duration::from_secs(5)).pool_max_idle_per_host(0).build();
    let client = client.expect("a client");
    let mut answers = Vec::new();
    let mut pace = tokio::time::interval(PACE);
    let mut said: VecDeque<(Instant, Vec<u16>)> = VecDeque::new();
    while ready.has_changed().is_ok() {
        pace.tick().await;
        said.push_back((Instant::now(), ready.borrow().clone()));
        while said.get(1).is_some_and(|(at, _)| at.elapsed() >= lag) {
            said.pop_front();
        }
        let ports = &said[0].1;
        let turn = asked.fetch_add(1, Ordering::Relaxed);
        let answer = match ports.get(turn % ports.len().max(1)) {
            Some(port) => get(&client, *port).await,
            None => Err("no instance is ready".to_owned()),
        };
        answers.push(answer);
    }
    answers
}

async fn get(client: &reqwest::Client, port: u16) -> Result<String, String> {
    let told = |error: reqwest::Error| format!("port {port}: {error:?}");
    let response = client.get(format!("http://127.0.0.1:{port}/")).send().await.map_err(told)?;
    response.error_for_status().map_err(told)?.text().await.map_err(told)
}
