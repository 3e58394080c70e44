//! Removes unused networks.
//!
//! Any agent of the engine may remove them, also those of an agent that is gone. If another agent needs the network at this
//! moment, its start of a container does not find it and creates it again.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::Ordering;
use std::time::Duration;

use contract::labels;
use tokio::time::Instant;
use tracing::{info, warn};

use super::{Engine, ListContainersOptionsBuilder, ListNetworksOptionsBuilder, READ};
use crate::fault::Error;

impl Engine {
    /// Removes the networks of this cluster that were unused for `idle`; returns their number. Does nothing unless a container
    /// was removed since the last call.
    pub async fn remove_unused_networks(&self, idle: Duration) -> Result<usize, Error> {
        let sweep_is_due = self.sweep_is_due.swap(false, Ordering::Relaxed);
        if !sweep_is_due && self.networks.lock().await.unused_since.is_empty() {
            return Ok(0);
        }
        let removed = self.sweep(idle).await;
        if removed.is_err() {
            self.sweep_is_due.store(true, Ordering::Relaxed);
        }
        removed
    }

    async fn sweep(&self, idle: Duration) -> Result<usize, Error> {
        let unused = self.unused_networks().await?;
        let mut removed = 0;
        for name in self.unused_for(idle, &unused).await {
            // Locked per network, so that containers can be created in between.
            let mut networks = self.networks.lock().await;
            if networks.unused_since.remove(&name).is_none() {
                // A container of this agent uses it again.
                continue;
            }
            networks.known.remove(&name);
            match self.remove_network(&name).await {
                Ok(()) => {
                    info!(network = %name, "removed an unused network");
                    removed += 1;
                }
                // In use by something outside the list. Retried after the next removal of a container.
                Err(error @ Error::Refused { .. }) => {
                    warn!(network = %name, reason = %error, "could not remove an unused network")
                }
                Err(error) => return Err(error),
            }
        }
        Ok(removed)
    }

    /// The networks that have been unused for `idle`; records since when the others are.
    async fn unused_for(&self, idle: Duration, unused: &BTreeSet<String>) -> Vec<String> {
        let mut networks = self.networks.lock().await;
        let now = Instant::now();
        networks.unused_since.retain(|name, _| unused.contains(name));
        for name in unused {
            networks.unused_since.entry(name.clone()).or_insert(now);
        }
        let is_due = |since: &Instant| now.duration_since(*since) >= idle;
        networks.unused_since.iter().filter(|(_, since)| is_due(since)).map(|(name, _)| name.clone()).collect()
    }

    /// Networks of this cluster that no container of any cluster uses, running or not.
    async fn unused_networks(&self) -> Result<BTreeSet<String>, Error> {
        let label = format!("{}={}", labels::CLUSTER, self.host.owner.cluster);
        let filters: HashMap<String, Vec<String>> = [("label".to_owned(), vec![label])].into();
        let options = ListNetworksOptionsBuilder::new().filters(&filters).build();
        let own = self.call(READ, async |docker| docker.list_networks(Some(options)).await).await?;
        let mut unused: BTreeSet<String> = own.into_iter().filter_map(|network| network.name).collect();
        if unused.is_empty() {
            return Ok(unused);
        }
        let options = ListContainersOptionsBuilder::new().all(true).build();
        let containers = self.call(READ, async |docker| docker.list_containers(Some(options)).await).await?;
        for container in containers {
            let joined = container.network_settings.and_then(|settings| settings.networks).unwrap_or_default();
            let made_for = container.host_config.and_then(|host| host.network_mode);
            for name in joined.into_keys().chain(made_for) {
                unused.remove(&name);
            }
        }
        Ok(unused)
    }
}
