//! Waits until every process of a cluster is ready and every node is alive. The error names the process, the reason and the end
//! of its log.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::api::{self, Api};
use crate::endpoint;
use crate::output::progress::Progress;
use devcluster::state::{self, Child, Cluster};
use devcluster::{child, probe};

const LOOK: Duration = Duration::from_millis(100);
/// Lines of a log that are shown.
const LINES: usize = 12;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{name} is not ready after {} s: {reason}\nthe end of {}:\n{tail}", after.as_secs(), log.display())]
    Process { name: String, reason: String, after: Duration, log: PathBuf, tail: String },
    #[error("the cluster is not ready after {} s: {reason}; the logs are in {}", after.as_secs(), logs.display())]
    Cluster { reason: String, after: Duration, logs: PathBuf },
    #[error(transparent)]
    State(#[from] state::Error),
    #[error(transparent)]
    Api(#[from] api::Error),
}

enum Missing {
    Nothing,
    Processes(Vec<(String, String)>),
    Cluster(String),
}

/// Waits until the cluster of `dir` is ready.
pub async fn wait(dir: &Path, span: Duration, progress: &Progress) -> Result<Cluster, Error> {
    let started = Instant::now();
    let client = probe::client();
    loop {
        let cluster = Cluster::load(dir)?;
        let missing = match &cluster {
            Some(cluster) if cluster.supervisor.is_some() => look(&client, cluster).await?,
            Some(_) | None => Missing::Cluster("the supervisor has not started yet".to_owned()),
        };
        let over = started.elapsed() >= span;
        let broken =
            cluster.as_ref().and_then(|cluster| cluster.children.iter().find(|child| refuses_its_settings(child)));
        if let Some(broken) = broken {
            let reason = format!("it refuses its settings ({})", broken.last_exit.as_deref().unwrap_or_default());
            return Err(process_error(dir, broken.name.clone(), reason, started.elapsed()));
        }
        match (missing, cluster) {
            (Missing::Nothing, Some(cluster)) => return Ok(cluster),
            (Missing::Nothing, None) => {}
            (Missing::Processes(mut processes), _) if over => {
                let (name, reason) = processes.swap_remove(0);
                return Err(process_error(dir, name, reason, started.elapsed()));
            }
            (Missing::Cluster(reason), _) if over => {
                return Err(Error::Cluster { reason, after: started.elapsed(), logs: dir.join("logs") });
            }
            (Missing::Processes(processes), _) => {
                let names: Vec<&str> = processes.iter().map(|(name, _)| name.as_str()).collect();
                progress.update(&format!("waiting for {}", names.join(", ")));
            }
            (Missing::Cluster(reason), _) => progress.update(&reason),
        }
        sleep(LOOK).await;
    }
}

async fn look(client: &reqwest::Client, cluster: &Cluster) -> Result<Missing, Error> {
    let processes = probe::not_ready(client, &cluster.children).await;
    if !processes.is_empty() {
        return Ok(Missing::Processes(processes));
    }
    let api = Api::new(&endpoint::urls(cluster))?;
    let alive = match api.nodes().await {
        Ok(nodes) => nodes.iter().filter(|node| cluster.nodes.contains(&node.name) && node.state == "alive").count(),
        Err(error) => return Ok(Missing::Cluster(error.to_string())),
    };
    if alive < cluster.nodes.len() {
        return Ok(Missing::Cluster(format!("{alive} of {} nodes are alive", cluster.nodes.len())));
    }
    match api.cluster().await {
        Ok(status) if status.leader.is_empty() => Ok(Missing::Cluster("no scheduler leads yet".to_owned())),
        Ok(_) => Ok(Missing::Nothing),
        Err(error) => Ok(Missing::Cluster(error.to_string())),
    }
}

/// Whether the process exited because of its settings; another start would fail too.
fn refuses_its_settings(child: &Child) -> bool {
    let refused = format!("exit status: {}", fabric::process::BAD_CONFIG);
    child.last_exit.as_deref() == Some(refused.as_str())
}

fn process_error(dir: &Path, name: String, reason: String, after: Duration) -> Error {
    let log = dir.join("logs").join(format!("{name}.log"));
    let tail = child::last_lines(dir, &name, LINES);
    Error::Process { name, reason, after, log, tail }
}
