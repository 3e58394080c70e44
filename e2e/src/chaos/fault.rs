//! What is done to a cluster: who is killed or stopped, when it counts as over, and when each thing happened.
//!
//! The supervisor starts what was killed again after a second, and after ever longer waits what ran less than ten. A leader is
//! killed only while a standby is ready, so that what is measured is a take-over and not the supervisor's patience.

use std::time::{Duration, Instant};

use devcluster::state::Role;
use rustix::process::Signal;

use crate::chaos::random::Random;
use crate::cluster::{Cluster, Error, eventually, signal};

/// Longer than the lease of 5 s: the others may lead before the stopped one goes on.
const STOPPED_FOR: Duration = Duration::from_millis(7_500);
/// The longest back-off that is reached, and a start on a busy machine.
const BACK: Duration = Duration::from_secs(45);
const TAKE_OVER: Duration = Duration::from_secs(45);

/// One thing done to a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    KillLeader,
    TermLeader,
    StopLeader,
    /// `kill -9` of the process of that name.
    Kill(String),
    /// What an experiment of its own kind did.
    Other(&'static str),
}

impl InjectedFault {
    /// Something that an experiment did just now.
    pub(crate) fn now(what: &'static str, who: &str) -> Self {
        Self { fault: Fault::Other(what), at: Instant::now(), who: who.to_owned() }
    }
}

/// A fault that happened.
#[derive(Debug, Clone)]
pub(crate) struct InjectedFault {
    pub(crate) fault: Fault,
    pub(crate) at: Instant,
    pub(crate) who: String,
}

/// Kills of every process in turn, `count` in all, in an order random gives.
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

/// Does it and waits until it is over.
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
    // The next one comes at any moment of what this one caused.
    let pause = match fault {
        Fault::Kill(_) => 1_000 + random.below(2_000),
        Fault::KillLeader | Fault::TermLeader | Fault::StopLeader | Fault::Other(_) => 300 + random.below(700),
    };
    tokio::time::sleep(Duration::from_millis(u64::try_from(pause).unwrap_or(0))).await;
    Ok(happened)
}

/// Takes the leader away and waits until another leads.
async fn depose(cluster: &Cluster, fault: &Fault, how: Signal) -> Result<InjectedFault, Error> {
    let what = "somebody leads and a standby is ready";
    let (leader, term) = eventually(BACK, what, async || {
        let leader = cluster.api.leader().await?;
        standby_is_ready(cluster, &leader.0).await.then_some(leader)
    })
    .await?;
    let process = eventually(BACK, "the leader runs", async || cluster.running(&leader)).await?;
    signal(&process, how);
    let at = Instant::now();
    let next =
        eventually(TAKE_OVER, "another one leads", async || cluster.api.leader().await.filter(|(_, now)| *now > term))
            .await;
    if how == Signal::STOP {
        tokio::time::sleep_until((at + STOPPED_FOR).into()).await;
        signal(&process, Signal::CONT);
        // Whatever it still wanted to do it does in its first moments.
        tokio::time::sleep(Duration::from_millis(1_500)).await;
    }
    next?;
    Ok(InjectedFault { fault: fault.clone(), at, who: leader })
}

async fn standby_is_ready(cluster: &Cluster, leader: &str) -> bool {
    let schedulers = cluster.children().into_iter().filter(|child| child.role == Role::Scheduler);
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
