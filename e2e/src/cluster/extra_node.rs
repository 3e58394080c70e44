//! One more agent that joins a cluster; the experiment controls its connections to bus and engine.
//!
//! The cluster's supervisor does not know it, so only the experiment restarts it. Dropping it kills it; its containers go with the
//! cluster.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use contract::bus::Member;
use tokio::process::{Child, Command};

use crate::cluster::{Cluster, Error, eventually, process};

/// Label with the purpose of a node: `calm` nodes belong to the cluster, the `hurt` node to the experiment.
pub(crate) const PURPOSE: &str = "proof";
/// The next name after the two nodes of the cluster.
pub(crate) const NAME: &str = "node-3";
const JOINED: Duration = Duration::from_secs(45);

#[derive(Debug, Clone)]
pub(crate) struct Connections {
    pub(crate) nats: String,
    pub(crate) engine: PathBuf,
    /// Value of the label `group`; the groups of the workload require `default`.
    pub(crate) group: &'static str,
}

#[derive(Debug)]
pub(crate) struct Node {
    connections: Connections,
    agent: Child,
}

impl Node {
    /// Starts the agent and waits until the cluster receives its reports.
    pub(crate) async fn join(cluster: &Cluster, connections: Connections) -> Result<Self, Error> {
        let agent = start(cluster, &connections)?;
        let node = Self { connections, agent };
        eventually(JOINED, "the node joined", async || (cluster.api.node(NAME).await?.state == "alive").then_some(()))
            .await?;
        Ok(node)
    }

    pub(crate) fn pid(&self) -> Option<u32> {
        self.agent.id()
    }

    /// Waits for the exit of the killed agent and starts it again.
    pub(crate) async fn start_again(&mut self, cluster: &Cluster) -> Result<(), Error> {
        let within = Duration::from_secs(10);
        let late = |_| Error::Late { what: "the killed agent is gone".to_owned(), within };
        tokio::time::timeout(within, self.agent.wait()).await.map_err(late)?.map_err(Error::Run)?;
        self.agent = start(cluster, &self.connections)?;
        Ok(())
    }
}

fn start(cluster: &Cluster, connections: &Connections) -> Result<Child, Error> {
    let home = cluster.run_folder().join("nodes").join(NAME);
    let prepare = |source| Error::Prepare { path: home.clone(), source };
    std::fs::create_dir_all(home.join("state")).map_err(prepare)?;
    let log = devcluster::child::open_log(&cluster.run_folder(), NAME).map_err(prepare)?;
    let mut command = Command::new(cluster.program("deployd-agent"));
    command.args(["--name", NAME, "--cluster", &cluster.id, "--nats", &connections.nats]);
    command.arg("--nats-credentials-file").arg(cluster.keys().bus(&process(Member::Agent, NAME)?));
    command.arg("--order-keys-file").arg(cluster.keys().public());
    command.args(["--memory", "2147483648", "--cpus", "2", "--listen", "127.0.0.1:0"]);
    command.args(["--publish-ip", "127.0.0.1", "--advertise-ip", "127.0.0.1"]);
    command.args([
        "--label".to_owned(),
        format!("group={}", connections.group),
        "--label".to_owned(),
        format!("{PURPOSE}=hurt"),
    ]);
    command.arg("--state-dir").arg(home.join("state")).arg("--docker").arg(&connections.engine);
    command.arg("--volume-root").arg(home.join("volumes")).arg("--cloud-volume-root").arg(home.join("cloud"));
    command.stdin(Stdio::null()).stdout(log.try_clone().map_err(prepare)?).stderr(log);
    command.process_group(0).kill_on_drop(true).spawn().map_err(Error::Run)
}
