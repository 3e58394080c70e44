//! Records all Docker events of the containers of a group in order, because a poll may miss some.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use contract::pod_id::PodId;
use fabric::tasks::Scoped;
use futures_util::StreamExt as _;

use super::docker;
use crate::cluster::{Cluster, eventually};
use crate::docker::Workload;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    Created,
    Started,
    Ended,
}

/// One line of the diary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) action: Action,
    pub(super) pod: PodId,
}

/// Kept from when it is opened until it is dropped.
pub(super) struct Diary {
    entries: Arc<Mutex<Vec<Entry>>>,
    _keeper: Scoped,
}

impl Diary {
    /// Opens it.
    pub(super) async fn open(cluster: &Cluster, group: &str) -> Self {
        let happenings = docker::happenings(cluster.id(), group).await;
        let entries = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&entries);
        let keeper = fabric::tasks::spawn_scoped("diary", async move {
            let mut happenings = std::pin::pin!(happenings);
            while let Some((action, name)) = happenings.next().await {
                let entry = entry(&action, &name);
                kept.lock().unwrap_or_else(PoisonError::into_inner).extend(entry);
            }
        });
        Self { entries, _keeper: keeper }
    }

    /// All of it, once it tells of the start of each of `running`.
    pub(super) async fn up_to(&self, running: &[Workload]) -> Vec<Entry> {
        let wanted: BTreeSet<&str> = running.iter().map(|container| container.name.as_str()).collect();
        eventually(Duration::from_secs(10), "the engine tells of every start", async || {
            let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let started = entries.iter().filter(|entry| entry.action == Action::Started);
            let started: BTreeSet<String> = started.map(|entry| entry.pod.to_string()).collect();
            wanted.iter().all(|name| started.contains(*name)).then_some(entries)
        })
        .await
    }
}

/// The fewest and the most containers that ran at a time, beginning with `first`.
pub(super) fn fewest_and_most(entries: &[Entry], first: &[Workload]) -> (usize, usize) {
    let mut running: BTreeSet<String> = first.iter().map(|container| container.name.clone()).collect();
    let (mut fewest, mut most) = (running.len(), running.len());
    for entry in entries {
        match entry.action {
            Action::Created => {}
            Action::Started => {
                running.insert(entry.pod.to_string());
            }
            Action::Ended => {
                running.remove(&entry.pod.to_string());
            }
        }
        (fewest, most) = (fewest.min(running.len()), most.max(running.len()));
    }
    (fewest, most)
}

fn entry(action: &str, name: &str) -> Option<Entry> {
    let action = match action {
        "create" => Action::Created,
        "start" => Action::Started,
        "die" => Action::Ended,
        _ => return None,
    };
    Some(Entry { action, pod: name.parse().expect("a container is called after its pod") })
}
