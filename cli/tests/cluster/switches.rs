//! What holds the whole cluster back: read-only, maintenance, a sleeping guard, a stopped engine. Each is
//! set through one apiserver, holds through the other, and survives the leader.

use std::time::{Duration, Instant};

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::cluster::{Cluster, demo_group, eventually};

const SOON: Duration = Duration::from_secs(60);
/// How long nothing must happen before a test believes that nothing will: several heartbeats of an agent.
const QUIET: Duration = Duration::from_secs(8);

impl Cluster {
    /// A change that must be in effect when it is answered.
    pub(crate) async fn switched(&self, api: usize, method: Method, path: &str, body: Option<&Value>) -> String {
        let (status, text) = self.call(api, method.clone(), path, body).await;
        assert!(status.is_success(), "{method} {path}: {status} {text}");
        text
    }

    /// The leader is killed, and another one leads.
    pub(crate) async fn lose_leader(&self) {
        let (leader, term) = eventually(SOON, "a scheduler leads", async || self.leader().await).await;
        self.kill(&leader);
        eventually(SOON, "another one leads", async || self.leader().await.filter(|(_, now)| *now > term)).await;
    }

    /// Nothing happens for a while: every look in that time must find the same.
    pub(crate) async fn stays<T: PartialEq + std::fmt::Debug>(&self, expected: T, mut look: impl AsyncFnMut() -> T) {
        let until = Instant::now() + QUIET;
        let mut pause = tokio::time::interval(Duration::from_millis(250));
        while Instant::now() < until {
            pause.tick().await;
            assert_eq!(look().await, expected);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_only_cluster_refuses_changes_in_plain_text_through_every_apiserver_and_after_a_failover() {
    let cluster = Cluster::start(&[]).await;
    let group = demo_group("calm.web.web", 1);
    let create = async |api| cluster.call(api, Method::POST, "/api/podgroups", Some(&group)).await;
    let refused = (StatusCode::FORBIDDEN, "Do ReadOnly Permitted.\n".to_owned());
    let text = cluster.switched(0, Method::PATCH, "/api/engine/config", Some(&json!({"readonly": true}))).await;
    assert_eq!(serde_json::from_str::<Value>(&text).expect("JSON"), json!({"readonly": true, "maintenance": false}));
    assert_eq!((create(0).await, create(1).await), (refused.clone(), refused.clone()));
    cluster.lose_leader().await;
    assert_eq!((create(0).await, create(1).await), (refused.clone(), refused.clone()));
    let (status, config) = cluster.call(1, Method::GET, "/api/engine/config", None).await;
    assert_eq!((status, config.contains("\"readonly\": true")), (StatusCode::OK, true), "{config}");
    assert_eq!(cluster.engine.of_group(cluster.id(), "calm.web.web").await, []);
    cluster.switched(1, Method::PATCH, "/api/engine/config", Some(&json!({"readonly": false}))).await;
    // After read-only is switched off, every apiserver accepts changes.
    let (status, body) = create(0).await;
    assert_eq!(status, StatusCode::ACCEPTED, "{body}");
    cluster.running("calm.web.web", 1, SOON).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_maintenance_exited_containers_stay_down_and_missing_ones_are_replaced() {
    let cluster = Cluster::start(&[]).await;
    cluster.accepted(Method::POST, "/api/podgroups", Some(&demo_group("shop.web.web", 2))).await;
    cluster.running("shop.web.web", 2, SOON).await;
    cluster.switched(0, Method::PATCH, "/api/engine/maintenance?on=true", None).await;
    let before = cluster.exactly("shop.web.web", 2, SOON).await;
    // The order reaches the nodes a moment after the answer: a container killed before it would be started again.
    let killed = &before[0];
    let mut down_since = Instant::now();
    eventually(SOON, "an ended container stays down", async || {
        if cluster.engine.runs(&killed.id).await {
            cluster.engine.kill(&killed.id).await;
            down_since = Instant::now();
        }
        (down_since.elapsed() > Duration::from_secs(2)).then_some(())
    })
    .await;
    cluster.engine.remove(&before[1].id).await;
    eventually(SOON, "instance 2 is replaced", async || {
        let now = cluster.engine.of_group(cluster.id(), "shop.web.web").await;
        now.iter().any(|c| c.name == "shop.web.web.v0-i2-d1" && c.running).then_some(())
    })
    .await;
    cluster.stays(false, async || cluster.engine.runs(&killed.id).await).await;
    cluster.switched(1, Method::PATCH, "/api/engine/maintenance", None).await;
    cluster.exactly("shop.web.web", 2, SOON).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sleeping_guard_leaves_a_removed_container_alone_and_mends_it_when_it_wakes() {
    let cluster = Cluster::start(&[]).await;
    cluster.accepted(Method::POST, "/api/podgroups", Some(&demo_group("doze.web.web", 1))).await;
    cluster.running("doze.web.web", 1, SOON).await;
    let before = cluster.exactly("doze.web.web", 1, SOON).await;
    let text = cluster.switched(0, Method::POST, "/api/guard?work=false", None).await;
    assert_eq!(text, "{\n  \"successed\": \"OK\"\n}\n");
    let (_, guard) = cluster.call(1, Method::GET, "/api/guard", None).await;
    assert_eq!(guard, "{\n  \"guard\": \"sleeping\"\n}\n");
    cluster.engine.remove(&before[0].id).await;
    cluster.stays(Vec::new(), async || cluster.engine.of_group(cluster.id(), "doze.web.web").await).await;
    let group = cluster.group(1, "doze.web.web").await.expect("the group");
    assert!(group.last_error.contains("the guard sleeps"), "{}", group.last_error);
    cluster.lose_leader().await;
    cluster.stays(Vec::new(), async || cluster.engine.of_group(cluster.id(), "doze.web.web").await).await;
    cluster.switched(1, Method::POST, "/api/guard?work=true", None).await;
    let after = cluster.exactly("doze.web.web", 1, SOON).await;
    assert_eq!(after[0].name, "doze.web.web.v0-i1-d1");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_engine_accepts_and_waits_and_a_started_one_does_it_all() {
    let cluster = Cluster::start(&[]).await;
    cluster.accepted(Method::POST, "/api/podgroups", Some(&demo_group("old.web.web", 1))).await;
    cluster.running("old.web.web", 1, SOON).await;
    let old = cluster.exactly("old.web.web", 1, SOON).await;
    let text = cluster.switched(0, Method::PATCH, "/api/status", Some(&json!({"status": "stop"}))).await;
    assert_eq!(text, "\"Accept\"\n");
    let status = async |api| cluster.call(api, Method::GET, "/api/status", None).await;
    let stopped = (StatusCode::OK, "{\n  \"status\": \"stopped\"\n}\n".to_owned());
    assert_eq!((status(0).await, status(1).await), (stopped.clone(), stopped.clone()));
    cluster.accepted(Method::POST, "/api/podgroups", Some(&demo_group("new.web.web", 2))).await;
    cluster.accepted(Method::DELETE, "/api/podgroups?name=old.web.web", None).await;
    let all = async || cluster.engine.of_cluster(cluster.id()).await;
    cluster.stays(old.clone(), all).await;
    cluster.lose_leader().await;
    assert_eq!(status(0).await, stopped);
    cluster.stays(old, all).await;
    cluster.switched(1, Method::PATCH, "/api/status", Some(&json!({"status": "start"}))).await;
    cluster.exactly("new.web.web", 2, SOON).await;
    cluster.exactly("old.web.web", 0, SOON).await;
}
