//! Looks all the time whether an instance runs twice at once: what is in order at the end may not have been before.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fabric::shutdown::Shutdown;

use crate::cluster::docker::{ContainerView, Engine};

const EVERY: Duration = Duration::from_millis(500);

/// Looks until `stop`; every pair of running containers of one instance is told once, unless its group `may_run_twice`.
pub(crate) async fn watch(
    engine: &Engine,
    cluster: &str,
    may_run_twice: impl Fn(&str) -> bool,
    stop: Shutdown,
) -> Vec<String> {
    let mut told: BTreeSet<Vec<String>> = BTreeSet::new();
    let mut found = Vec::new();
    let mut tick = tokio::time::interval(EVERY);
    loop {
        tokio::select! {
            () = stop.wait() => return found,
            _ = tick.tick() => {}
        }
        let Ok(seen) = engine.of_cluster(cluster).await else { continue };
        for copies in doubles(&seen).into_iter().filter(|copies| !may_run_twice(&copies[0].group)) {
            let mut running = 0;
            for copy in &copies {
                running += usize::from(engine.is_running(&copy.id).await);
            }
            if running > 1 && told.insert(copies.iter().map(|seen| seen.id.clone()).collect()) {
                found.push(format!("an instance ran twice at once: {copies:?}"));
            }
        }
    }
}

fn doubles(seen: &[ContainerView]) -> Vec<Vec<&ContainerView>> {
    let mut running: BTreeMap<(&str, u32), Vec<&ContainerView>> = BTreeMap::new();
    for one in seen.iter().filter(|one| one.running) {
        running.entry((one.group.as_str(), one.instance)).or_default().push(one);
    }
    running.into_values().filter(|copies| copies.len() > 1).collect()
}
