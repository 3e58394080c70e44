//! Stream ports belong to one group, also after the death of a leader.

use std::time::Duration;

use contract::api::StreamProc;
use contract::state::RunState;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::cluster::{Cluster, demo_group};

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
    cluster.lose_leader().await;
    refused().await;
    assert_eq!(cluster.engine.of_group(cluster.id(), "port.second.web").await, [], "nothing of it was started");
    cluster.accepted(Method::DELETE, "/api/podgroups?name=port.first.web", None).await;
    let group = cluster.running("port.second.web", 1, SOON).await;
    assert_eq!(group.last_error, "");
    cluster.exactly("port.second.web", 1, SOON).await;
    cluster.exactly("port.first.web", 0, SOON).await;
    assert_eq!(owners(&cluster, 1).await, [(9001, "port.second.web".to_owned())]);
}
