//! `deployctl up` when things are not as they should be, and how it ends.

use std::net::TcpListener;
use std::time::Duration;

use fabric::etcd::{Args, Store};
use reqwest::Method;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

use crate::cluster::{Cluster, demo_group, program, repository, text};

fn deployctl(folder: &TempDir, arguments: &[&str]) -> Command {
    let mut command = Command::new(program("deployctl"));
    command.current_dir(repository()).arg("--dir").arg(folder.path()).args(arguments).kill_on_drop(true);
    command
}

#[tokio::test(flavor = "multi_thread")]
async fn a_taken_port_is_an_error_that_names_its_holder_and_the_remedy() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("an address").port().to_string();
    let output = deployctl(&folder, &["up", "--detach", "--no-demo", "--port", &port]).output().await.expect("it runs");
    assert!(!output.status.success());
    for word in [port.as_str(), "taken", "--port"] {
        assert!(text(&output).contains(word), "{word}: {}", text(&output));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_engine_is_named_with_the_remedy() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let mut command = deployctl(&folder, &["up", "--detach", "--no-demo", "--port", "0"]);
    let output = command.env("DOCKER_HOST", "unix:///nowhere/docker.sock").output().await.expect("it runs");
    assert!(!output.status.success());
    assert!(text(&output).contains("Docker engine") && text(&output).contains("install"), "{}", text(&output));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_killed_supervisor_left_behind_is_taken_over_by_the_next_up() {
    let cluster = Cluster::start(&[]).await;
    cluster.accepted(Method::POST, "/api/podgroups", Some(&demo_group("left.web.web", 2))).await;
    cluster.running("left.web.web", 2, Duration::from_secs(60)).await;
    let before = cluster.exactly("left.web.web", 2, Duration::from_secs(10)).await;
    cluster.kill_supervisor();
    let output = cluster.deployctl(&["up", "--detach", "--no-demo", "--port", "0"]).await;
    assert!(output.status.success(), "{}", text(&output));
    cluster.running("left.web.web", 2, Duration::from_secs(60)).await;
    assert_eq!(cluster.exactly("left.web.web", 2, Duration::from_secs(10)).await, before, "nothing was restarted");
    // And a second `up` on a cluster that runs changes nothing.
    let output = cluster.deployctl(&["up", "--detach", "--no-demo", "--port", "0"]).await;
    assert!(output.status.success(), "{}", text(&output));
}

#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_stops_everything_and_leaves_no_container() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let mut up =
        deployctl(&folder, &["up", "--port", "0"]).stdout(std::process::Stdio::piped()).spawn().expect("it runs");
    let mut lines = BufReader::new(up.stdout.take().expect("its output")).lines();
    let ready = async {
        while let Some(line) = lines.next_line().await.expect("its output is text") {
            if line.contains("Ctrl-C stops") {
                return;
            }
        }
        panic!("it ended before it was ready");
    };
    tokio::time::timeout(Duration::from_secs(60), ready).await.expect("ready in time");
    let state = std::fs::read(folder.path().join("state.json")).expect("state.json");
    let state: serde_json::Value = serde_json::from_slice(&state).expect("JSON");
    let id = state["cluster"].as_str().expect("a cluster id").to_owned();
    let engine = crate::docker::Engine::connect().await;
    assert_eq!(engine.of_cluster(&id).await.len(), 3, "the demo runs");

    let pid = i32::try_from(up.id().expect("it runs")).expect("a pid");
    let pid = rustix::process::Pid::from_raw(pid).expect("a pid");
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("the signal is sent");
    let status = tokio::time::timeout(Duration::from_secs(30), up.wait()).await.expect("it ends in time");
    assert!(status.expect("it ends").success());
    assert_eq!(engine.of_cluster(&id).await, []);
    for child in state["children"].as_array().expect("children") {
        let pid = child["pid"].as_u64().expect("a pid");
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists(), "{} still runs", child["name"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn etcd_serves_only_owners_of_the_certificate_of_the_schedulers() {
    let cluster = Cluster::start(&["--nodes", "1"]).await;
    let url = cluster.state()["etcd"].as_str().expect("a URL").to_owned();
    let file = |name: &str| Some(cluster.folder().join("keys/etcd").join(name));
    let reads = async |args: Args| {
        let read = async { Store::connect(&args).await?.get(contract::keys::STORE).await };
        matches!(tokio::time::timeout(Duration::from_secs(5), read).await, Ok(Ok(Some(_))))
    };
    let (ca, cert, key) = (file("ca.pem"), file("client.pem"), file("client-key.pem"));
    assert!(reads(Args { ca: ca.clone(), cert, key, ..Args::at(&url) }).await);
    assert!(!reads(Args { ca, ..Args::at(&url) }).await, "without a certificate");
    assert!(!reads(Args::at(url.replace("https", "http"))).await, "unencrypted");
    // The port of other members is another door.
    let port = cluster.state()["ports"]["etcd-peer"].as_u64().expect("a port");
    let members = fabric::http::client(Duration::from_secs(5)).get(format!("http://127.0.0.1:{port}/members")).send();
    assert!(!members.await.is_ok_and(|answer| answer.status().is_success()));
}
