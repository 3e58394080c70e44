//! Faults of processes: kill, stop, and the wait until each is over.
//!
//! The supervisor restarts a killed process after 1 s, and with a growing back-off if it ran less than 10 s. A leader is killed
//! only while a standby is ready, so that the experiment measures a takeover and not the back-off.

use std::time::{Duration, Instant};

use devcluster::state::ProcessKind;
use rustix::process::Signal;
use testkit::random::Random;

use crate::cluster::{Cluster, Error, eventually, signal};

/// Longer than the lease of 5 s, so that a standby leads before the stopped leader continues.
const STOPPED_FOR: Duration = Duration::from_millis(7_500);
/// The longest back-off, plus a start on a busy machine.
const BACK: Duration = Duration::from_secs(45);
const TAKE_OVER: Duration = Duration::from_secs(45);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    KillLeader,
    TermLeader,
    StopLeader,
    /// `kill -9` of the process of that name.
    Kill(String),
    /// A fault of another experiment.
    Other(&'static str),
}

impl InjectedFault {
    pub(crate) fn now(what: &'static str, who: &str) -> Self {
        Self { fault: Fault::Other(what), at: Instant::now(), who: who.to_owned() }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct InjectedFault {
    pub(crate) fault: Fault,
    pub(crate) at: Instant,
    pub(crate) who: String,
}

/// Random rounds over all processes, `count` kills in total.
pub(crate) fn any_kills(count: usize, random: &mut Random) -> Vec<Fault> {
    let names = ["etcd", "nats", "scheduler-1", "scheduler-2", "agent-1", "agent-2", "agent-3"];
    let names: Vec<&str> = names.into_iter().chain(["apiserver-1", "apiserver-2", "notifier"]).collect();
    let mut faults = Vec::new();
    while faults.len() < count {
        let round = random.shuffled(names.clone());
        faults.extend(round.into_iter().map(|name| Fault::Kill(name.to_owned())));
    }
    faults.truncate(count);
    faults
}

pub(crate) async fn perform(cluster: &Cluster, fault: &Fault, random: &mut Random) -> Result<InjectedFault, Error> {
    let happened = match fault {
        Fault::Other(what) => InjectedFault::now(what, ""),
        Fault::KillLeader => depose(cluster, fault, Signal::KILL).await?,
        Fault::TermLeader => depose(cluster, fault, Signal::TERM).await?,
        Fault::StopLeader => depose(cluster, fault, Signal::STOP).await?,
        Fault::Kill(name) => {
            let what = format!("{name} runs before it is killed");
            let process = eventually(BACK, &what, async || cluster.running(name)).await?;
            signal(&process, Signal::KILL);
            InjectedFault { fault: fault.clone(), at: Instant::now(), who: name.clone() }
        }
    };
    // The next fault comes at a random moment of the recovery.
    let pause = match fault {
        Fault::Kill(_) => 1_000 + random.index(2_000),
        Fault::KillLeader | Fault::TermLeader | Fault::StopLeader | Fault::Other(_) => 300 + random.index(700),
    };
    tokio::time::sleep(Duration::from_millis(u64::try_from(pause).unwrap_or(0))).await;
    Ok(happened)
}

/// Signals the leader and waits until a standby leads.
async fn depose(cluster: &Cluster, fault: &Fault, how: Signal) -> Result<InjectedFault, Error> {
    let what = "there is a leader and a ready standby";
    let (leader, term) = eventually(BACK, what, async || {
        let leader = cluster.api.leader().await?;
        standby_is_ready(cluster, &leader.0).await.then_some(leader)
    })
    .await?;
    let process = eventually(BACK, "the leader runs", async || cluster.running(&leader)).await?;
    signal(&process, how);
    let at = Instant::now();
    let next =
        eventually(TAKE_OVER, "a standby leads", async || cluster.api.leader().await.filter(|(_, now)| *now > term))
            .await;
    if how == Signal::STOP {
        tokio::time::sleep_until((at + STOPPED_FOR).into()).await;
        signal(&process, Signal::CONT);
        // The stopped leader sends what it had pending.
        tokio::time::sleep(Duration::from_millis(1_500)).await;
    }
    next?;
    Ok(InjectedFault { fault: fault.clone(), at, who: leader })
}

async fn standby_is_ready(cluster: &Cluster, leader: &str) -> bool {
    let schedulers = cluster.children().into_iter().filter(|child| child.role == ProcessKind::Scheduler);
    let mut ready = 0;
    for child in schedulers.filter(|child| child.name != leader && child.pid.is_some()) {
        ready += usize::from(cluster.api.page(&child.listen, "/readyz").await.is_some());
    }
    ready > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_process_is_killed_equally_often() {
        let faults = any_kills(30, &mut Random::new(1));
        let etcd = faults.iter().filter(|fault| **fault == Fault::Kill("etcd".to_owned())).count();
        assert_eq!((faults.len(), etcd), (30, 3));
    }
}
