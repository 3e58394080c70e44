//! Killed and missing containers are repaired, and webhooks get a notice.

use std::time::{Duration, Instant};

use axum::extract::State;
use axum::routing::post;
use reqwest::{Method, StatusCode};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use crate::cluster::{Cluster, demo_group, eventually};

const SOON: Duration = Duration::from_secs(60);

/// A receiver of notices on a free port of this machine.
pub(crate) async fn receiver() -> (String, mpsc::Receiver<Value>) {
    let (sender, notices) = mpsc::channel(100);
    let take = async |State(sender): State<mpsc::Sender<Value>>, body: axum::Json<Value>| {
        // A test that has stopped listening has seen enough.
        let _ = sender.send(body.0).await;
    };
    let router = axum::Router::new().route("/callback", post(take)).with_state(sender);
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/callback", listener.local_addr().expect("an address"));
    fabric::tasks::spawn("receiver", async move { axum::serve(listener, router).await });
    (url, notices)
}

pub(crate) async fn told(notices: &mut mpsc::Receiver<Value>, message: &str) -> Value {
    let wait = async {
        loop {
            let notice = notices.recv().await.expect("the receiver lives");
            if notice["Message"] == message {
                return notice;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(20), wait).await.unwrap_or_else(|_| panic!("never told: {message}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_container_is_restarted_and_a_notice_is_sent() {
    let cluster = Cluster::start(&[]).await;
    let (url, mut notices) = receiver().await;
    let (status, body) = cluster.call(0, Method::POST, &format!("/api/notifies?callback={url}"), None).await;
    assert_eq!(status, StatusCode::ACCEPTED, "{body}");
    cluster.accepted(Method::POST, "/api/podgroups", Some(&demo_group("heal.web.web", 2))).await;
    cluster.running("heal.web.web", 2, SOON).await;
    let before = cluster.exactly("heal.web.web", 2, SOON).await;
    let started = cluster.engine.started_at(&before[0].id).await;
    cluster.engine.kill(&before[0].id).await;
    let killed = Instant::now();
    eventually(Duration::from_secs(10), "it runs again", async || {
        let again =
            cluster.engine.runs(&before[0].id).await && cluster.engine.started_at(&before[0].id).await != started;
        again.then_some(())
    })
    .await;
    println!("killed -> running again: {:?}", killed.elapsed());
    assert_eq!(cluster.exactly("heal.web.web", 2, SOON).await, before, "the same containers");
    let notice = told(&mut notices, "LAIN found pod down, ready to restart it").await;
    assert_eq!((&notice["PodName"], &notice["Namespace"]), (&"heal.web.web".into(), &"heal".into()));
    let group = eventually(SOON, "the restart is counted", async || {
        cluster.group(0, "heal.web.web").await.filter(|group| group.pods.iter().any(|pod| pod.restart_count == 1))
    })
    .await;
    assert_eq!(group.pods[0].drift_count, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_container_is_replaced_under_the_next_drift_count() {
    let cluster = Cluster::start(&[]).await;
    let (url, mut notices) = receiver().await;
    cluster.accepted(Method::POST, &format!("/api/notifies?callback={url}"), None).await;
    cluster.accepted(Method::POST, "/api/podgroups", Some(&demo_group("gone.web.web", 2))).await;
    cluster.running("gone.web.web", 2, SOON).await;
    let before = cluster.exactly("gone.web.web", 2, SOON).await;
    cluster.engine.remove(&before[1].id).await;
    let removed = Instant::now();
    let after = eventually(SOON, "instance 2 is replaced", async || {
        let now = cluster.engine.of_group(cluster.id(), "gone.web.web").await;
        now.iter().any(|c| c.name == "gone.web.web.v0-i2-d1" && c.running).then_some(now)
    })
    .await;
    println!("removed -> running anew: {:?}", removed.elapsed());
    assert_eq!(after[0], before[0], "instance 1 was not touched");
    cluster.exactly("gone.web.web", 2, SOON).await;
    told(&mut notices, "LAIN found pod missing, ready to redeployd it").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_loop_is_notified_and_restarted_with_back_off() {
    let cluster = Cluster::start(&[]).await;
    let (url, mut notices) = receiver().await;
    cluster.accepted(Method::POST, &format!("/api/notifies?callback={url}"), None).await;
    let mut group = demo_group("loop.web.web", 1);
    group["Pod"]["Containers"][0]["Env"] = serde_json::json!(["DEMO_EXIT_AFTER_MS=50", "DEMO_EXIT_CODE=3"]);
    cluster.accepted(Method::POST, "/api/podgroups", Some(&group)).await;
    told(&mut notices, "LAIN found pod restart too many times in a short period, will let it go").await;
    let exit = eventually(SOON, "three restarts at once, further ones with back-off", async || {
        let group = cluster.group(0, "loop.web.web").await?;
        group.pods[0].exit.clone().filter(|exit| exit.restarts >= 5 && exit.next_attempt.happened())
    })
    .await;
    assert_eq!((exit.code, exit.out_of_memory), (3, false));
    cluster.accepted(Method::DELETE, "/api/podgroups?name=loop.web.web", None).await;
    cluster.exactly("loop.web.web", 0, SOON).await;
}
