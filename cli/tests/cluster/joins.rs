//! A node joins with a token, works, and loses its access: real processes from the token to the closed connection.

use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

use contract::api::Node;
use fabric::local::free_port;
use fabric::nats::{Args, Bus};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::process::{Child, Command};

use crate::cluster::{Cluster, demo_group, eventually, program, text};

const SOON: Duration = Duration::from_secs(30);

/// A machine on which `deployd-agent join` runs.
struct Machine {
    home: tempfile::TempDir,
    name: &'static str,
}

impl Machine {
    fn new(name: &'static str) -> Self {
        Self { home: tempfile::tempdir().expect("a folder"), name }
    }

    fn folder(&self) -> PathBuf {
        self.home.path().join("join")
    }

    async fn join(&self, cluster: &Cluster, token: &Path) -> Output {
        let mut command = Command::new(program("deployd-agent"));
        command.args(["join", "--api", cluster.api(0), "--name", self.name, "--label", "rack=7", "--token-file"]);
        command.arg(token).arg("--into").arg(self.folder()).env_clear();
        command.output().await.expect("it runs")
    }

    async fn joined(&self, cluster: &Cluster, token: &Path) {
        let output = self.join(cluster, token).await;
        assert!(output.status.success(), "{}", text(&output));
    }

    /// The agent, as its unit starts it.
    fn agent(&self, cluster: &Cluster) -> Child {
        let settings = std::fs::read_to_string(self.folder().join("agent.env")).expect("settings");
        let home = self.home.path();
        let log = std::fs::File::create(home.join("log")).expect("a log");
        let mut command = Command::new(program("deployd-agent"));
        command.env_clear().envs(settings.lines().filter_map(|line| line.split_once('=')));
        command.args(["--cluster", cluster.id(), "--advertise-ip", "127.0.0.1", "--publish-ip", "127.0.0.1"]);
        command.args(["--listen", &format!("127.0.0.1:{}", free_port())]);
        for (flag, name) in
            [("--state-dir", "state"), ("--volume-root", "volumes"), ("--cloud-volume-root", "cloud-volumes")]
        {
            command.arg(flag).arg(home.join(name));
        }
        command.stderr(log.try_clone().expect("a log")).stdout(log).kill_on_drop(true);
        command.spawn().expect("the agent starts")
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.home.path().join("log")).unwrap_or_default()
    }

    async fn connects(&self, cluster: &Cluster) -> bool {
        let url = cluster.state()["nats"].as_str().expect("a URL").to_owned();
        let args = Args { credentials_file: Some(self.folder().join("agent.nk")), ..Args::at(url) };
        Bus::connect(&args, "test").await.is_ok()
    }
}

async fn node(cluster: &Cluster, name: &str) -> Option<Node> {
    let (_, nodes) = cluster.call(0, Method::GET, "/api/nodes", None).await;
    let nodes: Vec<Node> = serde_json::from_str(&nodes).ok()?;
    nodes.into_iter().find(|node| node.name == name)
}

async fn uses(cluster: &Cluster) -> u64 {
    let (_, tokens) = cluster.call(0, Method::GET, "/api/jointokens", None).await;
    serde_json::from_str::<Value>(&tokens).expect("JSON")[0]["Uses"].as_u64().expect("uses")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_joins_with_a_token_runs_instances_and_is_cut_off_when_it_is_removed() {
    let cluster = Cluster::start(&["--nodes", "1"]).await;
    let token = cluster.folder().join("join.token");
    let words = ["node", "token", "create", "--names", "rack-*", "--labels", "unit=cell-r", "--uses", "2", "--output"];
    let made = cluster.deployctl(&[&words[..], &[token.to_str().expect("a path")]].concat()).await;
    assert!(made.status.success(), "{}", text(&made));

    let machine = Machine::new("rack-1");
    machine.joined(&cluster, &token).await;
    machine.joined(&cluster, &token).await;
    assert_eq!(uses(&cluster).await, 1, "the same key again takes no use");
    let other = Machine::new("rack-1").join(&cluster, &token).await;
    assert!(!other.status.success() && text(&other).contains("known with another key"), "{}", text(&other));
    let wrong = Machine::new("web-1").join(&cluster, &token).await;
    assert!(!wrong.status.success() && text(&wrong).contains("rack-*"), "{}", text(&wrong));

    assert!(machine.connects(&cluster).await, "NATS knows the key when the command returns");
    let mut agent = machine.agent(&cluster);
    eventually(SOON, "the node is alive", async || {
        if let Ok(Some(ended)) = agent.try_wait() {
            panic!("the agent ended: {ended}: {}", machine.log());
        }
        node(&cluster, "rack-1").await.filter(|node| node.state == "alive" && !node.pending)
    })
    .await;
    let name = format!("joined{}.web.web", std::process::id());
    let mut group = demo_group(&name, 2);
    group["Pod"]["Filters"] = json!(["constraint:unit==cell-r", "constraint:rack==7"]);
    cluster.accepted(Method::POST, "/api/podgroups", Some(&group)).await;
    cluster.running(&name, 2, Duration::from_secs(60)).await;
    let placed = cluster.exactly(&name, 2, Duration::from_secs(20)).await;
    assert!(placed.iter().all(|workload| workload.node == "rack-1"), "{placed:?}");
    cluster.accepted(Method::DELETE, &format!("/api/podgroups?name={name}"), None).await;
    cluster.exactly(&name, 0, Duration::from_secs(60)).await;

    // Its agent runs and reports.
    let removed = cluster.deployctl(&["node", "remove", "rack-1"]).await;
    assert!(removed.status.success(), "{}", text(&removed));
    eventually(SOON, "the connection is closed", async || {
        machine.log().contains("connection to NATS lost").then_some(())
    })
    .await;
    assert!(!machine.connects(&cluster).await, "the key is refused");
    eventually(SOON, "the node is gone", async || {
        node(&cluster, "rack-1").await.is_none_or(|node| node.pending).then_some(())
    })
    .await;
    assert!(node(&cluster, "node-1").await.is_some_and(|node| node.state == "alive"), "others stay connected");

    // The token of a removed node ends with its access, but its name is free for another key.
    let next = Machine::new("rack-1");
    let old_token = next.join(&cluster, &token).await;
    assert!(!old_token.status.success(), "{}", text(&old_token));
    let made = cluster
        .deployctl(&[&words[..], &[cluster.folder().join("new.token").to_str().expect("a path")]].concat())
        .await;
    assert!(made.status.success(), "{}", text(&made));
    next.joined(&cluster, &cluster.folder().join("new.token")).await;
    assert!(next.connects(&cluster).await, "NATS knows the new key");
    assert!(!machine.connects(&cluster).await);
}
