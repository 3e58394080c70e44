//! Kills and stops the Docker engine of a node: the node keeps reporting, and no restart counts against a budget.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use contract::api::PodGroupWithSpec;
use contract::bus::Member;
use contract::state::RunState;
use contract::subjects;
use fabric::tasks::{Scoped, spawn_scoped};
use rustix::process::Signal;
use testkit::random::Random;

use super::{Findings, Scenario, create, group_on};
use crate::chaos::checks::Promise;
use crate::chaos::control_groups::ControlGroups;
use crate::chaos::fault::InjectedFault;
use crate::cluster::docker::Engine;
use crate::cluster::dockerd::Dockerd;
use crate::cluster::extra_node::{Connections, NAME, Node};
use crate::cluster::{Answer, Cluster, Error, eventually, make_image_in, process};

const INSTANCES: usize = 4;
/// Several heartbeats.
const AWAY: Duration = Duration::from_secs(12);
/// Three unanswered calls of 5 s make the engine count as hung.
const STOPPED: Duration = Duration::from_secs(22);
/// Enough for starts and restarts on a busy machine.
const PATIENCE: Duration = Duration::from_secs(180);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EngineFault {
    /// Killed; its containers keep running.
    KillKeeping,
    /// Killed; its containers stop when it starts again.
    KillLosing,
    /// Stopped, so that calls hang.
    Stop,
}

/// Fields are dropped in sequence: the node before its engine.
#[derive(Debug)]
pub(crate) struct EngineLoss {
    faults: Vec<EngineFault>,
    node: Option<Node>,
    reports: Option<Reports>,
    dockerd: Option<Dockerd>,
    findings: Findings,
}

/// Arrival times of the node's reports.
#[derive(Debug)]
struct Reports {
    heard: Arc<Mutex<Vec<Instant>>>,
    _task: Scoped,
}

impl Reports {
    async fn listen(cluster: &Cluster) -> Result<Self, Error> {
        let bus = cluster.bus(&process(Member::Scheduler, "scheduler-1")?).await?;
        let node = NAME.parse().map_err(|_| Error::State)?;
        let heard: Arc<Mutex<Vec<Instant>>> = Arc::default();
        let mut all =
            bus.subscribe(&subjects::report(&node)).await.map_err(|error| Error::Run(std::io::Error::other(error)))?;
        let list = Arc::clone(&heard);
        let task = spawn_scoped("reports", async move {
            while all.next().await.is_some() {
                list.lock().unwrap_or_else(PoisonError::into_inner).push(Instant::now());
            }
        });
        Ok(Self { heard, _task: task })
    }

    fn longest_gap(&self, from: Instant, until: Instant) -> Duration {
        let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        longest_gap(&heard, from, until)
    }
}

fn longest_gap(heard: &[Instant], from: Instant, until: Instant) -> Duration {
    let within = heard.iter().copied().filter(|at| *at > from && *at < until);
    let all: Vec<Instant> = [from].into_iter().chain(within).chain([until]).collect();
    all.windows(2).map(|pair| pair[1].duration_since(pair[0])).max().unwrap_or_default()
}

impl EngineLoss {
    pub(crate) fn new(faults: Vec<EngineFault>) -> Self {
        Self { faults, node: None, reports: None, dockerd: None, findings: Findings::default() }
    }

    async fn lose(&mut self, cluster: &Cluster, fault: EngineFault) -> Result<(), Error> {
        let Some(dockerd) = &mut self.dockerd else { return Err(Error::State) };
        let engine = Engine::connect_to(&dockerd.socket())?;
        let before = ControlGroups::of(&engine, &cluster.id, |_| true).await?;
        let counted = restarts_counted(cluster).await?;
        let from = Instant::now();
        let reported = match fault {
            EngineFault::KillKeeping | EngineFault::KillLosing => {
                dockerd.kill().await?;
                let reported = reported_within(cluster, from, AWAY).await;
                dockerd.begin(fault == EngineFault::KillKeeping).await?;
                reported
            }
            EngineFault::Stop => {
                dockerd.signal(Signal::STOP);
                let reported = reported_within(cluster, from, STOPPED).await;
                dockerd.signal(Signal::CONT);
                reported
            }
        };
        let back = Instant::now();
        self.findings.count("outages of the engine shown by reports", None, usize::from(reported));
        if let Some(reports) = &self.reports {
            let gap = reports.longest_gap(from, back);
            self.findings.time("engine away: longest time between two reports", Some("<= 6 s"), gap);
        }
        match eventually(PATIENCE, "all instances run again", async || well(cluster, &engine).await).await {
            Ok(()) => self.findings.time("engine back: everything as asked", Some("<= 60 s"), back.elapsed()),
            Err(error) => self.findings.broke(Promise::Kept, format!("{fault:?}: {error}")),
        }
        let disturbed = before.disturbed(&ControlGroups::of(&engine, &cluster.id, |_| true).await?);
        if fault != EngineFault::KillLosing {
            self.findings.count("containers disturbed though their engine kept them", Some("0"), disturbed.len());
            for what in disturbed {
                self.findings.broke(Promise::Spared, format!("{fault:?}: {what}"));
            }
        }
        let more = restarts_counted(cluster).await?.saturating_sub(counted);
        self.findings.count("restarts counted against budgets", Some("0"), more);
        if more > 0 {
            self.findings.broke(Promise::Spared, format!("{fault:?}: {more} restarts were counted against budgets"));
        }
        Ok(())
    }
}

impl Scenario for EngineLoss {
    fn flags(&self) -> &'static [&'static str] {
        &["--nodes", "2"]
    }

    async fn prepare(&mut self, cluster: &Cluster) -> Result<(), Error> {
        let dockerd = Dockerd::start(true).await?;
        let socket = dockerd.socket();
        self.dockerd = Some(dockerd);
        make_image_in(&socket).await?;
        let nats = cluster.nats().ok_or(Error::State)?;
        self.node = Some(Node::join(cluster, Connections { nats, engine: socket.clone(), group: "private" }).await?);
        self.reports = Some(Reports::listen(cluster).await?);
        let count = u32::try_from(INSTANCES).unwrap_or(1);
        create(cluster, "engine", group_on(&name(cluster), count, Some("hurt"), |_| {})).await?;
        let engine = Engine::connect_to(&socket)?;
        eventually(PATIENCE, "the group runs in the engine to be lost", async || well(cluster, &engine).await).await
    }

    async fn inject_faults(&mut self, cluster: &Cluster, _chance: &mut Random) -> Result<Vec<InjectedFault>, Error> {
        let mut happened = Vec::new();
        for fault in self.faults.clone() {
            happened.push(InjectedFault::now("engine lost", NAME));
            self.lose(cluster, fault).await?;
        }
        Ok(happened)
    }

    async fn findings(&mut self, _cluster: &Cluster) -> Result<Findings, Error> {
        Ok(std::mem::take(&mut self.findings))
    }
}

fn name(cluster: &Cluster) -> String {
    format!("engine-{}.web.web", cluster.tag())
}

async fn group(cluster: &Cluster) -> Option<PodGroupWithSpec> {
    let Answer::Said { status: 200, body } =
        cluster.api.get(0, &format!("/api/podgroups?name={}", name(cluster))).await
    else {
        return None;
    };
    serde_json::from_value(body).ok()
}

async fn well(cluster: &Cluster, engine: &Engine) -> Option<()> {
    let running = engine.of_cluster(&cluster.id).await.ok()?;
    let group = group(cluster).await?;
    let said = group.pods.iter().filter(|pod| pod.state == RunState::Success).count();
    let exact = running.len() == INSTANCES && running.iter().all(|seen| seen.running);
    (exact && said == INSTANCES).then_some(())
}

/// Restarts of all instances in the current window.
async fn restarts_counted(cluster: &Cluster) -> Result<usize, Error> {
    let group = eventually(PATIENCE, "the group can be read", async || group(cluster).await).await?;
    Ok(group.pods.iter().map(|pod| pod.restart_count as usize).sum())
}

/// Waits for `lasting`; whether a report showed meanwhile that the engine is away.
async fn reported_within(cluster: &Cluster, from: Instant, lasting: Duration) -> bool {
    let away = async || (cluster.api.node(NAME).await?.engine != "up").then_some(());
    let reported = eventually(lasting, "the reports say that the engine is away", away).await.is_ok();
    tokio::time::sleep_until((from + lasting).into()).await;
    reported
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_at_either_end_is_a_gap_too() {
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let gap = |heard: &[u64]| {
            longest_gap(&heard.iter().map(|second| at(*second)).collect::<Vec<_>>(), at(10), at(20)).as_secs()
        };
        assert_eq!(gap(&[]), 10);
        assert_eq!(gap(&[3, 13, 15, 17, 30]), 3);
        assert_eq!(gap(&[11, 12]), 8);
        assert_eq!(gap(&[18, 19]), 8);
    }
}
