//! Stream ports belong to one group; starts and stops are remembered over the death of a leader.

use std::time::Duration;

use contract::api::{StatusMessage, StreamProc};
use contract::state::RunState;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::cluster::{Cluster, IMAGE, demo_group, eventually};

const SOON: Duration = Duration::from_secs(60);

fn with_port(name: &str, srcport: u16) -> Value {
    let mut group = demo_group(name, 1);
    let annotation = json!({"ports": [{"srcport": srcport, "dstport": 8080, "proto": "tcp"}]});
    group["Pod"]["Annotation"] = annotation.to_string().into();
    group
}

/// The owners of ports as one of the apiservers tells them.
async fn owners(cluster: &Cluster, api: usize) -> Vec<(u16, String)> {
    let (status, body) = cluster.call(api, Method::GET, "/api/ports", None).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    let rows: Vec<StreamProc> = serde_json::from_str(&body).expect("rows");
    rows.into_iter().map(|row| (row.srcport, row.proc_name)).collect()
}

async fn validate(cluster: &Cluster, port: u16) -> (u16, String) {
    let body = json!({"Ports": [port]});
    let (status, text) = cluster.call(0, Method::POST, "/api/ports?cmd=validate", Some(&body)).await;
    (status.as_u16(), text)
}

async fn history(cluster: &Cluster, name: &str) -> Vec<StatusMessage> {
    let path = format!("/api/cntstatushistory?name={name}&instance=1");
    let (status, body) = cluster.call(1, Method::GET, &path, None).await;
    match status {
        StatusCode::OK => serde_json::from_str(&body).expect("rows"),
        StatusCode::SERVICE_UNAVAILABLE => Vec::new(),
        other => panic!("{path}: {other} {body}"),
    }
}

async fn kill_leader(cluster: &Cluster) {
    let (leader, term) = eventually(SOON, "a scheduler leads", async || cluster.leader().await).await;
    cluster.kill(&leader);
    eventually(SOON, "another term", async || cluster.leader().await.filter(|(_, now)| *now > term)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_has_one_owner_and_an_instance_that_waits_for_it_starts_when_it_is_free() {
    let cluster = Cluster::start(&[]).await;
    assert_eq!(owners(&cluster, 0).await, []);
    cluster.accepted(Method::POST, "/api/podgroups", Some(&with_port("port.first.web", 9001))).await;
    cluster.running("port.first.web", 1, SOON).await;
    cluster.accepted(Method::POST, "/api/podgroups", Some(&with_port("port.second.web", 9001))).await;
    let told = "Cannot start podgroup port.second.web, some ports like [9001] were alerady in used!";
    let refused = async || {
        let group = cluster.group(1, "port.second.web").await.expect("it exists");
        assert_eq!((group.state, group.last_error.as_str()), (RunState::Fail, told));
        for api in [0, 1] {
            assert_eq!(owners(&cluster, api).await, [(9001, "port.first.web".to_owned())]);
        }
    };
    refused().await;
    assert_eq!(validate(&cluster, 9002).await, (200, "null\n".to_owned()));
    let (status, text) = validate(&cluster, 9001).await;
    assert!(status == 400 && text.contains("Conflicted ports: [9001]"), "{status} {text}");
    kill_leader(&cluster).await;
    refused().await;
    assert_eq!(cluster.engine.of_group(cluster.id(), "port.second.web").await, [], "nothing of it was started");
    cluster.accepted(Method::DELETE, "/api/podgroups?name=port.first.web", None).await;
    let group = cluster.running("port.second.web", 1, SOON).await;
    assert_eq!(group.last_error, "");
    cluster.exactly("port.second.web", 1, SOON).await;
    cluster.exactly("port.first.web", 0, SOON).await;
    assert_eq!(owners(&cluster, 1).await, [(9001, "port.second.web".to_owned())]);
}

#[tokio::test(flavor = "multi_thread")]
async fn starts_and_stops_are_remembered_over_the_death_of_the_leader() {
    let cluster = Cluster::start(&[]).await;
    cluster.accepted(Method::POST, "/api/podgroups", Some(&demo_group("past.web.web", 1))).await;
    cluster.running("past.web.web", 1, SOON).await;
    let container = cluster.exactly("past.web.web", 1, SOON).await.remove(0);
    cluster.engine.kill(&container.id).await;
    let before = eventually(SOON, "a start, a stop and a start", async || {
        let rows = history(&cluster, "past.web.web").await;
        (rows.len() == 3).then_some(rows)
    })
    .await;
    let words: Vec<&str> = before.iter().map(|row| row.status.as_str()).collect();
    assert_eq!(words, ["start", "stop", "start"]);
    for row in &before {
        assert_eq!(row.from, format!("{IMAGE} node:{}", container.node));
        assert!(row.action == row.status && row.time > 1_700_000_000, "{row:?}");
    }
    // Stored or not: the standby heard the same reports.
    kill_leader(&cluster).await;
    assert_eq!(history(&cluster, "past.web.web").await, before);
}
