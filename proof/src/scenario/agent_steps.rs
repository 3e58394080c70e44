//! An agent is killed at each step of its work with the engine, and started again: nothing is left over, nothing is missing, and
//! nobody else's container is touched.

use std::time::{Duration, Instant};

use reqwest::Method;

use super::{Findings, Scenario, command, create, delete, group_on};
use crate::bystanders::Bystanders;
use crate::chance::Chance;
use crate::checks::Promise;
use crate::cluster::{Cluster, Error, Request, eventually};
use crate::docker::Seen;
use crate::fault::Happened;
use crate::gate::{Gate, Point, Step};
use crate::node::{Node, Ways};

/// What is left over after this is an orphan.
const ORPHAN_AFTER: Duration = Duration::from_secs(30);
/// A start, an order and a restart on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);

/// The experiment. The node goes before its gate.
#[derive(Debug)]
pub(crate) struct AgentSteps {
    points: Vec<Point>,
    node: Option<Node>,
    gate: Option<Gate>,
    bystanders: Option<Bystanders>,
    findings: Findings,
}

/// What there shall be of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Running,
    Stopped,
    Gone,
}

impl Wanted {
    fn of(step: Step) -> Self {
        match step {
            Step::Create | Step::Start => Self::Running,
            Step::Stop => Self::Stopped,
            Step::Remove => Self::Gone,
        }
    }

    fn is_met(self, containers: &[Seen]) -> bool {
        match (self, containers) {
            (Self::Running, [one]) => one.running,
            (Self::Stopped, [one]) => !one.running,
            (Self::Stopped | Self::Gone, []) => true,
            (Self::Running | Self::Stopped | Self::Gone, _) => false,
        }
    }

    /// Containers beyond those that shall be there.
    fn surplus(self, containers: &[Seen]) -> usize {
        let most = usize::from(self != Self::Gone);
        containers.len().saturating_sub(most)
    }
}

impl AgentSteps {
    pub(crate) fn new(points: Vec<Point>) -> Self {
        Self { points, node: None, gate: None, bystanders: None, findings: Findings::default() }
    }

    /// Kills the agent at one point, starts it again and waits until everything is as asked.
    async fn die(&mut self, cluster: &Cluster, number: usize, point: Point) -> Result<Happened, Error> {
        let (Some(gate), Some(node)) = (&self.gate, &mut self.node) else { return Err(Error::State) };
        let (group, key) = (format!("step{number}-{}.web.web", cluster.tag()), number.to_string());
        let wanted = Wanted::of(point.step);
        let body = group_on(&group, 1, Some("hurt"), |_| {});
        if wanted == Wanted::Running {
            gate.arm(point);
            create(cluster, &key, body).await?;
        } else {
            create(cluster, &key, body).await?;
            until(cluster, &group, Wanted::Running).await?;
            gate.arm(point);
            match wanted {
                Wanted::Gone => delete(cluster, &key, &group).await?,
                Wanted::Running | Wanted::Stopped => stop(cluster, &key, &group).await?,
            }
        }
        let what = format!("the agent comes to {point:?}");
        let killed = eventually(PATIENCE, &what, async || gate.killed()).await?;
        let happened = Happened::now("agent killed at a step", &format!("{point:?}"));
        node.start_again(cluster).await?;
        if let Some(pid) = node.pid() {
            gate.watch(pid);
        }
        self.settle(cluster, &group, (point, killed)).await;
        if wanted != Wanted::Gone {
            delete(cluster, &key, &group).await?;
        }
        until(cluster, &group, Wanted::Gone).await?;
        Ok(happened)
    }

    /// Waits until the group is as wanted and notes how long that took since the kill.
    async fn settle(&mut self, cluster: &Cluster, group: &str, (point, killed): (Point, Instant)) {
        let wanted = Wanted::of(point.step);
        let mut orphans = 0;
        loop {
            let found = of_group(cluster, group).await;
            let is_met = found.as_ref().is_some_and(|found| wanted.is_met(found));
            let found = found.unwrap_or_default();
            if killed.elapsed() >= ORPHAN_AFTER && !is_met {
                orphans = wanted.surplus(&found);
            }
            if is_met {
                self.findings.time("agent killed: everything as asked", Some("<= 30 s"), killed.elapsed());
                break;
            }
            if killed.elapsed() > PATIENCE {
                let promise = if wanted.surplus(&found) > 0 { Promise::Once } else { Promise::Kept };
                self.findings.broke(promise, format!("{point:?}: {wanted:?} was asked for, found {found:?}"));
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
        let socket = cluster.run_folder().join("gate.sock");
        let gate = Gate::open(&socket, devcluster::docker::socket()).map_err(Error::Run)?;
        let nats = cluster.nats().ok_or(Error::State)?;
        let node = Node::join(cluster, Ways { nats, engine: socket, group: "private" }).await?;
        if let Some(pid) = node.pid() {
            gate.watch(pid);
        }
        (self.node, self.gate) = (Some(node), Some(gate));
        self.bystanders = Some(Bystanders::start(&cluster.id).await?);
        Ok(())
    }

    async fn hurt(&mut self, cluster: &Cluster, _chance: &mut Chance) -> Result<Vec<Happened>, Error> {
        let mut happened = Vec::new();
        for (number, point) in self.points.clone().into_iter().enumerate() {
            happened.push(self.die(cluster, number, point).await?);
        }
        Ok(happened)
    }

    async fn findings(&mut self, cluster: &Cluster) -> Result<Findings, Error> {
        let mut findings = std::mem::take(&mut self.findings);
        let left = cluster.engine.of_cluster(&cluster.id).await?;
        let left: Vec<&Seen> = left.iter().filter(|seen| seen.group.starts_with("step")).collect();
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

async fn of_group(cluster: &Cluster, group: &str) -> Option<Vec<Seen>> {
    let all = cluster.engine.of_cluster(&cluster.id).await.ok()?;
    Some(all.into_iter().filter(|seen| seen.group == group).collect())
}

async fn until(cluster: &Cluster, group: &str, wanted: Wanted) -> Result<(), Error> {
    let what = format!("{group} is {wanted:?}");
    eventually(PATIENCE, &what, async || {
        let found = of_group(cluster, group).await?;
        wanted.is_met(&found).then_some(())
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

    fn seen(running: bool) -> Seen {
        let (group, node, name) = ("g".to_owned(), "n".to_owned(), "c".to_owned());
        Seen { group, instance: 1, version: 0, node, name, id: "1".to_owned(), running }
    }

    #[test]
    fn what_is_wanted_is_met_by_exactly_that() {
        let (runs, stands) = ([seen(true)], [seen(false)]);
        let both = [seen(true), seen(false)];
        assert!(Wanted::Running.is_met(&runs) && Wanted::Stopped.is_met(&stands));
        assert!(Wanted::Gone.is_met(&[]) && Wanted::Stopped.is_met(&[]));
        assert!(!Wanted::Running.is_met(&[]) && !Wanted::Running.is_met(&stands) && !Wanted::Running.is_met(&both));
        assert!(!Wanted::Gone.is_met(&stands) && !Wanted::Stopped.is_met(&runs));
        assert_eq!(
            [Wanted::Gone.surplus(&runs), Wanted::Running.surplus(&both), Wanted::Running.surplus(&runs)],
            [1, 1, 0]
        );
    }
}
