//! Runs one cluster: control groups, a workload, faults, and the check of every promise.

use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use devcluster::state::ProcessKind;
use fabric::shutdown::Shutdown;
use testkit::random::Random;

use crate::chaos::checks::{self, BrokenPromise, Promise};
use crate::chaos::control_groups::ControlGroups;
use crate::chaos::downtime::Downtime;
use crate::chaos::duplicate_watch;
use crate::chaos::experiment::Trial;
use crate::chaos::fault::InjectedFault;
use crate::chaos::model::CommandOutcome;
use crate::chaos::scenario::agent_steps::AgentSteps;
use crate::chaos::scenario::engine_loss::EngineLoss;
use crate::chaos::scenario::kills::Kills;
use crate::chaos::scenario::malformed::Malformed;
use crate::chaos::scenario::node_cut::NodeCut;
use crate::chaos::scenario::server_outage::ServerOutage;
use crate::chaos::scenario::{Findings, Sample, Scenario};
use crate::chaos::workload::{self, Journal};
use crate::cluster::extra_node::PURPOSE;
use crate::cluster::{Cluster, Error};

/// The workload runs this long before the first fault and after the last.
const AROUND: Duration = Duration::from_secs(2);
/// A difference that lasts this long after the last command is permanent; far beyond the goal, because the machine may be slow.
const SETTLED: Duration = Duration::from_secs(180);

#[derive(Debug)]
pub(crate) struct ClusterReport {
    pub(crate) happened: Vec<InjectedFault>,
    pub(crate) journal: Journal,
    pub(crate) span: Duration,
    /// From the last command until everything agreed.
    pub(crate) settled: Duration,
    pub(crate) broken: Vec<BrokenPromise>,
    pub(crate) stale: Stale,
    pub(crate) samples: Vec<Sample>,
    pub(crate) downtime: Downtime,
}

/// What deposed leaders attempted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Stale {
    /// Orders that agents refused for their fence.
    pub(crate) orders_refused: u64,
    /// Orders that differ under one fence: two leaders with one term.
    pub(crate) conflicts: u64,
    /// Transactions that etcd refused for their fence.
    pub(crate) writes_refused: u64,
}

pub(crate) async fn run(name: &str, trial: &Trial, seed: u64) -> Result<ClusterReport, Error> {
    match trial.clone() {
        Trial::Kills(faults) => through(name, Kills(faults), seed).await,
        Trial::NodeCut { cuts } => through(name, NodeCut::new(cuts), seed).await,
        Trial::EngineLoss { faults } => through(name, EngineLoss::new(faults), seed).await,
        Trial::AgentSteps { points } => through(name, AgentSteps::new(points), seed).await,
        Trial::StreamLoss { times } => through(name, ServerOutage::StreamLoss { times }, seed).await,
        Trial::StoreStop { lasting } => through(name, ServerOutage::store_stop(lasting), seed).await,
        Trial::Malformed { each } => through(name, Malformed::new(each), seed).await,
    }
}

/// Keeps the logs if a promise was broken.
async fn through(name: &str, mut scenario: impl Scenario, seed: u64) -> Result<ClusterReport, Error> {
    let mut random = Random::new(seed);
    let calm = format!("{PURPOSE}=calm");
    let cluster = Cluster::start_with(&[&["--label", &calm], scenario.flags()].concat()).await?;
    let result = Box::pin(inject_faults(&cluster, &mut scenario, &mut random)).await;
    // What the scenario made goes before its cluster.
    drop(scenario);
    let failed = !matches!(&result, Ok(report) if report.broken.is_empty());
    if failed {
        let folder = logs_folder(name, seed);
        match cluster.keep_logs(&folder) {
            Ok(()) => eprintln!("{name}: the logs of the processes are kept in {}", folder.display()),
            Err(error) => eprintln!("{name}: the logs cannot be kept in {}: {error}", folder.display()),
        }
        if let Ok(report) = &result
            && let Err(error) = std::fs::write(folder.join("journal.txt"), story(report))
        {
            eprintln!("{name}: the journal cannot be kept: {error}");
        }
    }
    result
}

async fn inject_faults(
    cluster: &Cluster,
    scenario: &mut impl Scenario,
    random: &mut Random,
) -> Result<ClusterReport, Error> {
    scenario.prepare(cluster).await?;
    let calm = ControlGroups::deploy(cluster).await?;
    let (stop, stop_looking) = (Shutdown::new(), Shutdown::new());
    let begun = Instant::now();
    let asked = (cluster.tag(), scenario.load());
    let sending = workload::run(cluster.api.clone(), random.clone(), asked, stop.clone());
    let may_run_twice = scenario.twice();
    let looking = duplicate_watch::watch(&cluster.engine, &cluster.id, may_run_twice, stop_looking.clone());
    let timing = Downtime::watch(cluster, stop_looking.clone());
    let injecting = async {
        tokio::time::sleep(AROUND).await;
        let result = scenario.inject_faults(cluster, random).await;
        tokio::time::sleep(AROUND).await;
        stop.trigger();
        (begun.elapsed(), result)
    };
    let checking = async {
        let (journal, (span, result)) = tokio::join!(sending, injecting);
        let (broken, settled) = checks::settle(cluster, &journal.objects, SETTLED).await;
        stop_looking.trigger();
        (journal, span, result, broken, settled)
    };
    let (doubles, downtime, (journal, span, result, mut broken, settled)) =
        tokio::join!(looking, timing, Box::pin(checking));
    let happened = result?;
    broken.extend(doubles.into_iter().map(|what| BrokenPromise { promise: Promise::Once, what }));
    broken.extend(contradictions(&journal));
    let disturbed = calm.disturbed(&ControlGroups::look(cluster).await?);
    broken.extend(disturbed.into_iter().map(|what| BrokenPromise { promise: Promise::Undisturbed, what }));
    let stale = stale(cluster).await;
    if stale.conflicts > 0 {
        let what = format!("{} orders differ under one fence", stale.conflicts);
        broken.push(BrokenPromise { promise: Promise::Fenced, what });
    }
    let Findings { samples, broken: found } = scenario.findings(cluster).await?;
    broken.extend(found);
    Ok(ClusterReport { happened, journal, span, settled, broken, stale, samples, downtime })
}

/// Commands and faults by time, in milliseconds since the first.
fn story(report: &ClusterReport) -> String {
    let mut lines: Vec<(Instant, String)> = Vec::new();
    for InjectedFault { fault, at, who } in &report.happened {
        lines.push((*at, format!("FAULT {fault:?} {who}")));
    }
    for entry in &report.journal.entries {
        let took = entry.decided.duration_since(entry.sent).as_millis();
        let text = format!("{} {} {:?} -> {:?} after {took} ms", entry.object, entry.key, entry.change, entry.outcome);
        lines.push((entry.sent, text));
    }
    lines.sort();
    let first = lines.first().map(|(at, _)| *at);
    let line = |(at, text): &(Instant, String)| {
        let since = first.map_or(0, |first| at.duration_since(first).as_millis());
        format!("{since:>7} {text}\n")
    };
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_millis());
    let ago = first.map_or(0, |first| first.elapsed().as_millis());
    let broken = report.broken.iter().map(|broken| format!("BROKEN {broken:?}\n")).collect::<String>();
    format!("0 is {} ms since 1970\n{}{broken}", now - ago, lines.iter().map(line).collect::<String>())
}

/// Contradictory outcomes, and commands without an outcome.
fn contradictions(journal: &Journal) -> Vec<BrokenPromise> {
    let mut broken = Vec::new();
    for entry in &journal.entries {
        let about = format!("{}: {} {:?} -> {:?}", entry.object, entry.key, entry.change, entry.outcome);
        if let Some(contradiction) = &entry.contradiction {
            let promise = if entry.repeated { Promise::Once } else { Promise::Kept };
            broken.push(BrokenPromise { promise, what: format!("{about}: {contradiction}") });
        }
        if let CommandOutcome::Unknown { last } = &entry.outcome {
            broken.push(BrokenPromise {
                promise: Promise::Kept,
                what: format!("{about}: never decided, last answer {last}"),
            });
        }
    }
    broken
}

/// Counters of a killed process start at zero again.
async fn stale(cluster: &Cluster) -> Stale {
    let mut stale = Stale::default();
    for child in cluster.children() {
        let page = cluster.api.page(&child.listen, "/metrics").await.unwrap_or_default();
        match child.role {
            ProcessKind::Agent => {
                stale.orders_refused += counter(&page, "deployd_agent_orders_total{decision=\"stale\"}");
                stale.conflicts += counter(&page, "deployd_agent_orders_total{decision=\"conflict\"}");
            }
            ProcessKind::Scheduler => {
                stale.writes_refused += counter(&page, "deployd_scheduler_commits_total{result=\"Fenced\"}");
            }
            ProcessKind::Etcd | ProcessKind::Nats | ProcessKind::Apiserver | ProcessKind::Notifier => {}
        }
    }
    stale
}

fn counter(page: &str, name: &str) -> u64 {
    let value = page.lines().find_map(|line| line.strip_prefix(name));
    value.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
}

/// In the target folder of the build.
fn logs_folder(name: &str, seed: u64) -> PathBuf {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let target = std::env::current_exe().ok().and_then(|exe| Some(exe.parent()?.parent()?.to_owned()));
    target.unwrap_or_else(std::env::temp_dir).join("chaos").join(format!("{name}-seed{seed}-{now}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_is_read_by_its_whole_name() {
        let page = "a_total{decision=\"stale\"} 3\na_total{decision=\"stale2\"} 9\n";
        assert_eq!(counter(page, "a_total{decision=\"stale\"}"), 3);
        assert_eq!(counter(page, "a_total{decision=\"none\"}"), 0);
    }
}
