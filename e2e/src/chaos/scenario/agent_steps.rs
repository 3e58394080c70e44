//! Kills an agent at each of its engine calls and starts it again: no container is left over or missing, and no foreign container is
//! touched.

use std::time::{Duration, Instant};

use reqwest::Method;
use testkit::random::Random;

use super::{Findings, Scenario, command, create, delete, group_on};
use crate::chaos::checks::Promise;
use crate::chaos::docker_proxy::{DockerProxy, EngineCall, KillPoint};
use crate::chaos::fault::InjectedFault;
use crate::chaos::foreign_containers::ForeignContainers;
use crate::cluster::docker::ContainerView;
use crate::cluster::extra_node::{Connections, Node};
use crate::cluster::{Cluster, Error, Request, eventually};

/// A surplus container after this time is an orphan.
const ORPHAN_AFTER: Duration = Duration::from_secs(30);
/// Enough for a start, an order and a restart on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);

/// Fields are dropped in sequence: the node before its proxy.
#[derive(Debug)]
pub(crate) struct AgentSteps {
    points: Vec<KillPoint>,
    node: Option<Node>,
    gate: Option<DockerProxy>,
    bystanders: Option<ForeignContainers>,
    findings: Findings,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    Running,
    Stopped,
    Gone,
}

impl Expected {
    fn of(step: EngineCall) -> Self {
        match step {
            EngineCall::Create | EngineCall::Start => Self::Running,
            EngineCall::Stop => Self::Stopped,
            EngineCall::Remove => Self::Gone,
        }
    }

    fn is_met(self, containers: &[ContainerView]) -> bool {
        match (self, containers) {
            (Self::Running, [one]) => one.running,
            (Self::Stopped, [one]) => !one.running,
            (Self::Stopped | Self::Gone, []) => true,
            (Self::Running | Self::Stopped | Self::Gone, _) => false,
        }
    }

    fn surplus(self, containers: &[ContainerView]) -> usize {
        let most = usize::from(self != Self::Gone);
        containers.len().saturating_sub(most)
    }
}

impl AgentSteps {
    pub(crate) fn new(points: Vec<KillPoint>) -> Self {
        Self { points, node: None, gate: None, bystanders: None, findings: Findings::default() }
    }

    /// Kills the agent at one point, restarts it and waits until the group is as requested.
    async fn die(&mut self, cluster: &Cluster, number: usize, point: KillPoint) -> Result<InjectedFault, Error> {
        let (Some(gate), Some(node)) = (&self.gate, &mut self.node) else { return Err(Error::State) };
        let (group, key) = (format!("step{number}-{}.web.web", cluster.tag()), number.to_string());
        let expected = Expected::of(point.step);
        let body = group_on(&group, 1, Some("hurt"), |_| {});
        if expected == Expected::Running {
            gate.arm(point);
            create(cluster, &key, body).await?;
        } else {
            create(cluster, &key, body).await?;
            until(cluster, &group, Expected::Running).await?;
            gate.arm(point);
            match expected {
                Expected::Gone => delete(cluster, &key, &group).await?,
                Expected::Running | Expected::Stopped => stop(cluster, &key, &group).await?,
            }
        }
        let what = format!("the agent reaches {point:?}");
        let killed = eventually(PATIENCE, &what, async || gate.killed()).await?;
        let happened = InjectedFault::now("agent killed at a step", &format!("{point:?}"));
        node.start_again(cluster).await?;
        if let Some(pid) = node.pid() {
            gate.watch(pid);
        }
        self.settle(cluster, &group, (point, killed)).await;
        if expected != Expected::Gone {
            delete(cluster, &key, &group).await?;
        }
        until(cluster, &group, Expected::Gone).await?;
        Ok(happened)
    }

    /// Measures the time from the kill until the group is as expected.
    async fn settle(&mut self, cluster: &Cluster, group: &str, (point, killed): (KillPoint, Instant)) {
        let expected = Expected::of(point.step);
        let mut orphans = 0;
        loop {
            let found = of_group(cluster, group).await;
            let is_met = found.as_ref().is_some_and(|found| expected.is_met(found));
            let found = found.unwrap_or_default();
            if killed.elapsed() >= ORPHAN_AFTER && !is_met {
                orphans = expected.surplus(&found);
            }
            if is_met {
                self.findings.time("agent killed: everything as asked", Some("<= 30 s"), killed.elapsed());
                break;
            }
            if killed.elapsed() > PATIENCE {
                let promise = if expected.surplus(&found) > 0 { Promise::Once } else { Promise::Kept };
                self.findings.broke(promise, format!("{point:?}: {expected:?} was requested, found {found:?}"));
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        self.findings.count("orphans 30 s after an agent was killed", Some("0"), orphans);
    }
}

impl Scenario for AgentSteps {
    fn flags(&self) -> &'static [&'static str] {
        &["--nodes", "2"]
    }

    async fn prepare(&mut self, cluster: &Cluster) -> Result<(), Error> {
        let socket = cluster.run_folder().join("proxy.sock");
        let gate = DockerProxy::open(&socket, devcluster::docker::socket()).map_err(Error::Run)?;
        let nats = cluster.nats().ok_or(Error::State)?;
        let node = Node::join(cluster, Connections { nats, engine: socket, group: "private" }).await?;
        if let Some(pid) = node.pid() {
            gate.watch(pid);
        }
        (self.node, self.gate) = (Some(node), Some(gate));
        self.bystanders = Some(ForeignContainers::start(&cluster.id).await?);
        Ok(())
    }

    async fn inject_faults(&mut self, cluster: &Cluster, _chance: &mut Random) -> Result<Vec<InjectedFault>, Error> {
        let mut happened = Vec::new();
        for (number, point) in self.points.clone().into_iter().enumerate() {
            happened.push(self.die(cluster, number, point).await?);
        }
        Ok(happened)
    }

    async fn findings(&mut self, cluster: &Cluster) -> Result<Findings, Error> {
        let mut findings = std::mem::take(&mut self.findings);
        let left = cluster.engine.of_cluster(&cluster.id).await?;
        let left: Vec<&ContainerView> = left.iter().filter(|seen| seen.group.starts_with("step")).collect();
        if !left.is_empty() {
            findings.broke(Promise::Once, format!("left over: {left:?}"));
        }
        let (Some(gate), Some(bystanders)) = (&self.gate, &self.bystanders) else { return Ok(findings) };
        let mut touched = bystanders.disturbed().await;
        touched.extend(
            gate.changed().into_iter().filter(|id| bystanders.has(id)).map(|id| format!("asked to change {id}")),
        );
        findings.count("foreign containers touched", Some("0"), touched.len());
        for what in touched {
            findings.broke(Promise::Spared, format!("a foreign container: {what}"));
        }
        Ok(findings)
    }
}

async fn of_group(cluster: &Cluster, group: &str) -> Option<Vec<ContainerView>> {
    let all = cluster.engine.of_cluster(&cluster.id).await.ok()?;
    Some(all.into_iter().filter(|seen| seen.group == group).collect())
}

async fn until(cluster: &Cluster, group: &str, expected: Expected) -> Result<(), Error> {
    let what = format!("{group} is {expected:?}");
    eventually(PATIENCE, &what, async || {
        let found = of_group(cluster, group).await?;
        expected.is_met(&found).then_some(())
    })
    .await
}

async fn stop(cluster: &Cluster, key: &str, group: &str) -> Result<(), Error> {
    let path = format!("/api/podgroups?name={group}&cmd=operation&optype=stop&instance=0");
    command(cluster, &format!("stop-{key}"), &Request { method: Method::PATCH, path, body: None }).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(running: bool) -> ContainerView {
        let (group, node, name) = ("g".to_owned(), "n".to_owned(), "c".to_owned());
        ContainerView { group, instance: 1, version: 0, node, name, id: "1".to_owned(), running }
    }

    #[test]
    fn what_is_wanted_is_met_by_exactly_that() {
        let (runs, stands) = ([seen(true)], [seen(false)]);
        let both = [seen(true), seen(false)];
        assert!(Expected::Running.is_met(&runs) && Expected::Stopped.is_met(&stands));
        assert!(Expected::Gone.is_met(&[]) && Expected::Stopped.is_met(&[]));
        assert!(
            !Expected::Running.is_met(&[]) && !Expected::Running.is_met(&stands) && !Expected::Running.is_met(&both)
        );
        assert!(!Expected::Gone.is_met(&stands) && !Expected::Stopped.is_met(&runs));
        assert_eq!(
            [Expected::Gone.surplus(&runs), Expected::Running.surplus(&both), Expected::Running.surplus(&runs)],
            [1, 1, 0]
        );
    }
}
