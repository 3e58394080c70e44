//! One cluster from its start to its end: calm groups, a workload, faults, and the check of everything that was promised.

use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use cli::up::state::Role;
use fabric::shutdown::Shutdown;

use crate::calm::Calm;
use crate::chance::Chance;
use crate::checks::{self, Broken, Promise};
use crate::cluster::{Cluster, Error};
use crate::copies;
use crate::fault::{self, Fault, Happened};
use crate::model::Verdict;
use crate::workload::{self, Journal};

/// Commands go on this long before the first fault and after the last.
const AROUND: Duration = Duration::from_secs(2);
/// Everything agrees this long after the last command; a restart by the supervisor and a few starts fit in.
const SETTLED: Duration = Duration::from_secs(60);

/// What was seen in one cluster.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) happened: Vec<Happened>,
    pub(crate) journal: Journal,
    /// How long commands were sent.
    pub(crate) span: Duration,
    /// From the last command until everything agreed.
    pub(crate) settled: Duration,
    pub(crate) broken: Vec<Broken>,
    pub(crate) stale: Stale,
}

/// What deposed leaders tried, and what came of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Stale {
    /// Orders that agents refused for their fence.
    pub(crate) orders_refused: u64,
    /// Orders that differ under one fence: two leaders with one term.
    pub(crate) conflicts: u64,
    /// Transactions that etcd refused for their fence.
    pub(crate) writes_refused: u64,
}

/// Runs one cluster through `faults`.
pub(crate) async fn run(name: &str, faults: &[Fault], seed: u64) -> Result<Report, Error> {
    let mut chance = Chance::new(seed);
    let cluster = Cluster::start().await?;
    let result = hurt(&cluster, faults, &mut chance).await;
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

async fn hurt(cluster: &Cluster, faults: &[Fault], chance: &mut Chance) -> Result<Report, Error> {
    let calm = Calm::deploy(cluster).await?;
    let (stop, stop_looking) = (Shutdown::new(), Shutdown::new());
    let begun = Instant::now();
    let sending = workload::run(cluster.api.clone(), chance.clone(), cluster.tag(), stop.clone());
    let looking = copies::watch(cluster.engine.clone(), cluster.id.clone(), stop_looking.clone());
    let hurting = async {
        tokio::time::sleep(AROUND).await;
        let mut happened = Vec::new();
        let mut result = Ok(());
        for one in faults {
            match fault::perform(cluster, one, chance).await {
                Ok(done) => happened.push(done),
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
        }
        tokio::time::sleep(AROUND).await;
        stop.trigger();
        (happened, begun.elapsed(), result)
    };
    let checking = async {
        let (journal, (happened, span, result)) = tokio::join!(sending, hurting);
        let (broken, settled) = checks::settle(cluster, &journal.objects, SETTLED).await;
        stop_looking.trigger();
        (journal, happened, span, result, broken, settled)
    };
    let (doubles, (journal, happened, span, result, mut broken, settled)) = tokio::join!(looking, Box::pin(checking));
    result?;
    broken.extend(doubles.into_iter().map(|what| Broken { promise: Promise::Once, what }));
    broken.extend(contradictions(&journal));
    let disturbed = calm.disturbed(&Calm::look(cluster).await?);
    broken.extend(disturbed.into_iter().map(|what| Broken { promise: Promise::Undisturbed, what }));
    let stale = stale(cluster).await;
    if stale.conflicts > 0 {
        let what = format!("{} orders differ under one fence", stale.conflicts);
        broken.push(Broken { promise: Promise::Fenced, what });
    }
    Ok(Report { happened, journal, span, settled, broken, stale })
}

/// Commands and faults in the order in which they happened, with milliseconds from the first.
fn story(report: &Report) -> String {
    let mut lines: Vec<(Instant, String)> = Vec::new();
    for Happened { fault, at, who } in &report.happened {
        lines.push((*at, format!("FAULT {fault:?} {who}")));
    }
    for entry in &report.journal.entries {
        let took = entry.decided.duration_since(entry.sent).as_millis();
        let text = format!("{} {} {:?} -> {:?} after {took} ms", entry.object, entry.key, entry.change, entry.verdict);
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

/// Answers that cannot be true, and commands whose outcome nobody ever said.
fn contradictions(journal: &Journal) -> Vec<Broken> {
    let mut broken = Vec::new();
    for entry in &journal.entries {
        let about = format!("{}: {} {:?} -> {:?}", entry.object, entry.key, entry.change, entry.verdict);
        if let Some(contradiction) = &entry.contradiction {
            let promise = if entry.repeated { Promise::Once } else { Promise::Kept };
            broken.push(Broken { promise, what: format!("{about}: {contradiction}") });
        }
        if let Verdict::Unknown { last } = &entry.verdict {
            broken.push(Broken { promise: Promise::Kept, what: format!("{about}: never decided, last answer {last}") });
        }
    }
    broken
}

/// The counters of agents and schedulers; those of a process that was killed began anew with it.
async fn stale(cluster: &Cluster) -> Stale {
    let mut stale = Stale::default();
    for child in cluster.children() {
        let page = cluster.api.page(&child.listen, "/metrics").await.unwrap_or_default();
        match child.role {
            Role::Agent => {
                stale.orders_refused += counter(&page, "deployd_agent_orders_total{verdict=\"stale\"}");
                stale.conflicts += counter(&page, "deployd_agent_orders_total{verdict=\"conflict\"}");
            }
            Role::Scheduler => {
                stale.writes_refused += counter(&page, "deployd_scheduler_commits_total{result=\"Fenced\"}");
            }
            Role::Etcd | Role::Nats | Role::Apiserver | Role::Notifier => {}
        }
    }
    stale
}

fn counter(page: &str, name: &str) -> u64 {
    let value = page.lines().find_map(|line| line.strip_prefix(name));
    value.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
}

/// Beside the programs, where a build keeps what it makes.
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
        let page = "a_total{verdict=\"stale\"} 3\na_total{verdict=\"stale2\"} 9\n";
        assert_eq!(counter(page, "a_total{verdict=\"stale\"}"), 3);
        assert_eq!(counter(page, "a_total{verdict=\"none\"}"), 0);
    }
}
