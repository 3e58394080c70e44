//! Which process was down when, to explain a pause without accepted writes.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use fabric::shutdown::Shutdown;

use crate::cluster::Cluster;

const EVERY: Duration = Duration::from_millis(200);
const LEADERLESS: &str = "no leader";
/// Shorter downtimes explain nothing.
const SHORTEST_SHOWN: Duration = Duration::from_millis(300);

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Downtime(BTreeMap<String, Vec<(Instant, Instant)>>);

impl Downtime {
    pub(crate) async fn watch(cluster: &Cluster, stop: Shutdown) -> Self {
        let (processes, leader) = tokio::join!(watch_processes(cluster, &stop), watch_leader(cluster, &stop));
        let mut all = processes;
        all.0.extend(leader.0);
        all
    }

    fn note(&mut self, name: &str, from: Instant, until: Instant) {
        let all = self.0.entry(name.to_owned()).or_default();
        match all.last_mut().filter(|last| last.1 >= from) {
            Some(last) => last.1 = until,
            None => all.push((from, until)),
        }
    }

    /// Downtimes between two moments, the longest first.
    pub(crate) fn between(&self, from: Instant, until: Instant) -> Vec<(String, Duration)> {
        let within =
            |(begun, ended): &(Instant, Instant)| (*ended).min(until).saturating_duration_since((*begun).max(from));
        let total = |all: &Vec<(Instant, Instant)>| all.iter().map(within).sum::<Duration>();
        let mut away: Vec<(String, Duration)> = self.0.iter().map(|(name, all)| (name.clone(), total(all))).collect();
        away.retain(|(_, time)| *time >= SHORTEST_SHOWN);
        away.sort_by_key(|(_, time)| std::cmp::Reverse(*time));
        away
    }
}

async fn watch_processes(cluster: &Cluster, stop: &Shutdown) -> Downtime {
    let (mut seen, mut last) = (Downtime::default(), Instant::now());
    let mut tick = tokio::time::interval(EVERY);
    loop {
        tokio::select! {
            () = stop.wait() => return seen,
            _ = tick.tick() => {}
        }
        let now = Instant::now();
        for child in cluster.children().into_iter().filter(|child| child.pid.is_none()) {
            seen.note(&child.name, last, now);
        }
        last = now;
    }
}

async fn watch_leader(cluster: &Cluster, stop: &Shutdown) -> Downtime {
    let (mut seen, mut heard) = (Downtime::default(), Instant::now());
    let mut tick = tokio::time::interval(EVERY);
    loop {
        let leader = async {
            tick.tick().await;
            cluster.api.leader().await
        };
        tokio::select! {
            () = stop.wait() => return seen,
            leader = leader => {
                let now = Instant::now();
                if leader.is_none() {
                    seen.note(LEADERLESS, heard, now);
                }
                heard = now;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adjacent_downtimes_are_merged_and_cut_to_the_requested_span() {
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let mut seen = Downtime::default();
        seen.note("etcd", at(1), at(2));
        seen.note("etcd", at(2), at(5));
        seen.note("nats", at(8), at(20));
        assert_eq!(seen.0["etcd"], [(at(1), at(5))]);
        let seconds = |name: &str, seconds| (name.to_owned(), Duration::from_secs(seconds));
        assert_eq!(seen.between(at(3), at(14)), [seconds("nats", 6), seconds("etcd", 2)]);
        assert_eq!(seen.between(at(6), at(7)), []);
    }
}
