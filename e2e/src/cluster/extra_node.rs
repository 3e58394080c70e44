//! A node of our own: one more agent that joins a cluster, whose way to the bus and to the engine is the experiment's.
//!
//! The cluster's supervisor does not know it, so it is started again exactly when the experiment says. Dropping it kills
//! it; its containers go with the cluster.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::{Child, Command};

use crate::cluster::{Cluster, Error, eventually};

/// Label with the purpose of a node: `calm` nodes belong to the cluster, the `hurt` node to the experiment.
pub(crate) const PURPOSE: &str = "proof";
/// Its name: the next after the two the cluster has itself.
pub(crate) const NAME: &str = "node-3";
/// How long a node may take to be heard.
const JOINED: Duration = Duration::from_secs(45);

/// What the node is given.
#[derive(Debug, Clone)]
pub(crate) struct Connections {
    /// URL of the bus.
    pub(crate) nats: String,
    /// Socket of the engine.
    pub(crate) engine: PathBuf,
    /// Value of the label `group`: `default` is where the workload's groups go.
    pub(crate) group: &'static str,
}

/// The node.
#[derive(Debug)]
pub(crate) struct Node {
    ways: Connections,
    agent: Child,
}

impl Node {
    /// Starts the agent and waits until the cluster hears it.
    pub(crate) async fn join(cluster: &Cluster, ways: Connections) -> Result<Self, Error> {
        let agent = start(cluster, &ways)?;
        let node = Self { ways, agent };
        eventually(JOINED, "the node joined", async || (cluster.api.node(NAME).await?.state == "alive").then_some(()))
            .await?;
        Ok(node)
    }

    /// Process of the agent.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.agent.id()
    }

    /// Waits for the end of an agent that was killed and starts it again.
    pub(crate) async fn start_again(&mut self, cluster: &Cluster) -> Result<(), Error> {
        let within = Duration::from_secs(10);
        let late = |_| Error::Late { what: "the killed agent is gone".to_owned(), within };
        tokio::time::timeout(within, self.agent.wait()).await.map_err(late)?.map_err(Error::Run)?;
        self.agent = start(cluster, &self.ways)?;
        Ok(())
    }
}

fn start(cluster: &Cluster, ways: &Connections) -> Result<Child, Error> {
    let home = cluster.run_folder().join("nodes").join(NAME);
    let prepare = |source| Error::Prepare { path: home.clone(), source };
    std::fs::create_dir_all(home.join("state")).map_err(prepare)?;
    let log = devcluster::child::open_log(&cluster.run_folder(), NAME).map_err(prepare)?;
    let mut command = Command::new(cluster.program("deployd-agent"));
    command.args(["--name", NAME, "--cluster", &cluster.id, "--nats", &ways.nats]);
    command.args(["--memory", "2147483648", "--cpus", "2", "--listen", "127.0.0.1:0"]);
    command.args(["--publish-ip", "127.0.0.1", "--advertise-ip", "127.0.0.1"]);
    command.args([
        "--label".to_owned(),
        format!("group={}", ways.group),
        "--label".to_owned(),
        format!("{PURPOSE}=hurt"),
    ]);
    command.arg("--state-dir").arg(home.join("state")).arg("--docker").arg(&ways.engine);
    command.arg("--volume-root").arg(home.join("volumes")).arg("--cloud-volume-root").arg(home.join("cloud"));
    command.stdin(Stdio::null()).stdout(log.try_clone().map_err(prepare)?).stderr(log);
    command.process_group(0).kill_on_drop(true).spawn().map_err(Error::Run)
}
