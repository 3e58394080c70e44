//! The clients of the original, which know no tokens, on a whole cluster: every request that console, lainctl, lain-monitor and
//! collectd make passes under exactly the binding that docs/security.md gives the client.
//!
//! They come through a proxy that the apiservers trust, because the user of this test is an admin.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use reqwest::{Client, Method};
use serde_json::{Value, json};

use crate::cluster::{Cluster, demo_group, eventually};

/// The addresses of the proxy, as every process of the cluster takes them from its environment.
pub(crate) const BEHIND_PROXY: [(&str, &str); 1] = [("DEPLOYD_BEHIND_PROXY", "127.0.9.0/24")];
const SOON: Duration = Duration::from_secs(60);

const CONSOLE: &str = "10.1.0.1";
const LAINCTL: &str = "10.2.0.1";
const COLLECTD: &str = "10.3.0.1";
const BINDINGS: [&str; 6] = [
    "--anonymous",
    "deployer@* from 10.1.0.0/16",
    "--anonymous",
    "operator@* from 10.2.0.0/16",
    "--anonymous",
    "monitor@* from 10.3.0.0/16",
];
const NAME: &str = "hello.web.web";

/// A client at an address of the proxy. `X-Forwarded-For` names the client that it speaks for.
pub(crate) fn through_proxy() -> Client {
    let address = IpAddr::from(Ipv4Addr::new(127, 0, 9, 1));
    fabric::http::client_with(Duration::from_secs(20), |builder| builder.local_address(address))
}

/// One of the clients.
struct OldClient<'a> {
    cluster: &'a Cluster,
    client: Client,
    /// Its address behind the proxy.
    address: &'static str,
}

impl<'a> OldClient<'a> {
    fn at(address: &'static str, cluster: &'a Cluster) -> Self {
        Self { cluster, client: through_proxy(), address }
    }

    async fn send(&self, method: &str, path: &str, body: Option<&Value>) -> (u16, String) {
        let method = Method::from_bytes(method.as_bytes()).expect("a method");
        let mut request = self.client.request(method, format!("{}{path}", self.cluster.api(0)));
        request = request.header("X-Forwarded-For", self.address);
        if let Some(body) = body {
            request = request.json(body);
        }
        let response = request.send().await.expect("the apiserver answers");
        (response.status().as_u16(), response.text().await.expect("a body"))
    }

    /// Sends a request that must be answered with `status`; waits while an operation holds the lock.
    async fn passes(&self, method: &str, path: &str, body: Option<&Value>, status: u16) -> String {
        eventually(SOON, &format!("{} {method} {path}", self.address), async || {
            let (seen, text) = self.send(method, path, body).await;
            assert!(seen == status || seen == 423, "{method} {path}: {seen} instead of {status}: {text}");
            (seen == status).then_some(text)
        })
        .await
    }

    async fn is_refused(&self, method: &str, path: &str) {
        let (status, text) = self.send(method, path, None).await;
        assert!([401, 403].contains(&status), "{} {method} {path}: {status} {text}", self.address);
    }
}

async fn console_works(console: &OldClient<'_>) {
    let mut spec = demo_group(NAME, 1);
    spec["Pod"]["Containers"][0]["Env"] = json!(["TZ=UTC", "LAIN_APPNAME=hello"]);
    let group = format!("/api/podgroups?name={NAME}");
    let read = format!("{group}&force_update=false");
    console.passes("GET", "/api/status", None, 200).await;
    console.passes("GET", &read, None, 404).await;
    console.passes("POST", "/api/podgroups", Some(&spec), 202).await;
    console.cluster.running(NAME, 1, SOON).await;
    let shown: Value = serde_json::from_str(&console.passes("GET", &read, None, 200).await).expect("JSON");
    // Console writes back what it read.
    let container = &shown["Spec"]["Pod"]["Containers"][0];
    assert_eq!(container["Env"], spec["Pod"]["Containers"][0]["Env"], "{shown}");
    console.passes("PATCH", &format!("{group}&cmd=spec"), Some(&shown["Spec"]["Pod"]), 202).await;
    console.passes("PATCH", &format!("{group}&num_instances=2&cmd=replica"), None, 202).await;
    for operation in ["restart", "stop", "start"] {
        let path = format!("{group}&instance=0&cmd=operation&optype={operation}");
        console.passes("PATCH", &path, None, 202).await;
    }
    let history = format!("/api/cntstatushistory?name={NAME}&instance=1");
    console.passes("GET", &history, None, 200).await;
    console.passes("GET", "/api/ports", None, 200).await;
    console.passes("POST", "/api/ports?cmd=validate", Some(&json!({"Ports": [9501]})), 200).await;
    dependencies_work(console, &spec["Pod"]).await;
}

async fn dependencies_work(console: &OldClient<'_>, pod: &Value) {
    let mut pod = pod.clone();
    pod["Name"] = json!("hello.portal.portal-db");
    let path = "/api/depends?name=hello.portal.portal-db";
    console.passes("GET", path, None, 404).await;
    console.passes("POST", "/api/depends", Some(&pod), 202).await;
    console.passes("GET", path, None, 200).await;
    console.passes("PUT", "/api/depends", Some(&pod), 202).await;
    console.passes("DELETE", path, None, 202).await;
}

async fn lainctl_works(lainctl: &OldClient<'_>) {
    let health = lainctl.passes("GET", "/api/status", None, 200).await;
    assert!(health.contains("\"status\""), "{health}");
    lainctl.passes("PATCH", "/api/constraints?type=node&value=node-2", None, 202).await;
    let drift = format!("/api/nodes?cmd=drift&from=node-1&pg={NAME}&pg_instance=1&force=true&to=node-3");
    lainctl.passes("PATCH", &drift, None, 202).await;
    lainctl.passes("DELETE", "/api/nodes?node=node-2", None, 202).await;
    lainctl.passes("DELETE", "/api/constraints?type=node&value=node-2", None, 202).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_clients_of_the_original_work_under_exactly_their_bindings() {
    let cluster = Cluster::start_with(&BEHIND_PROXY, &BINDINGS).await;
    let client = |address| OldClient::at(address, &cluster);
    let (console, lainctl, collectd) = (client(CONSOLE), client(LAINCTL), client(COLLECTD));
    console_works(&console).await;
    lainctl_works(&lainctl).await;
    // lain-monitor, and collectd's plugin.
    collectd.passes("GET", "/api/status", None, 200).await;
    collectd.passes("GET", "/debug/vars", None, 200).await;
    let group = format!("/api/podgroups?name={NAME}");
    client("10.4.0.1").is_refused("GET", "/api/status").await;
    collectd.is_refused("GET", &group).await;
    console.is_refused("DELETE", "/api/nodes?node=node-2").await;
    lainctl.is_refused("GET", "/api/tokens").await;
    console.passes("DELETE", &group, None, 202).await;
    console.passes("DELETE", "/api/podgroups?name=never.web.web", None, 404).await;
}
