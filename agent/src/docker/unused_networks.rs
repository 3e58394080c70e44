//! Removes networks that no container uses any more.
//!
//! Any agent of the engine may do it, also for networks whose maker is gone. A network that another agent needs at that
//! moment is made again by that agent: its container names the network, and a start that does not find it makes it.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::Ordering;
use std::time::Duration;

use contract::labels;
use tokio::time::Instant;
use tracing::{info, warn};

use super::{Engine, ListContainersOptionsBuilder, ListNetworksOptionsBuilder, READ};
use crate::fault::Error;

impl Engine {
    /// Removes the networks of this cluster that no container has used for `idle`, and says how many. Does nothing unless a
    /// container was removed since the last time: an engine is not asked in vain.
    pub async fn remove_unused_networks(&self, idle: Duration) -> Result<usize, Error> {
        let is_to_sweep = self.is_to_sweep.swap(false, Ordering::Relaxed);
        if !is_to_sweep && self.networks.lock().await.unused_since.is_empty() {
            return Ok(0);
        }
        let removed = self.sweep(idle).await;
        if removed.is_err() {
            self.is_to_sweep.store(true, Ordering::Relaxed);
        }
        removed
    }

    async fn sweep(&self, idle: Duration) -> Result<usize, Error> {
        let unused = self.unused_networks().await?;
        let mut removed = 0;
        for name in self.unused_for(idle, &unused).await {
            // Held for one network at a time: containers are made meanwhile.
            let mut networks = self.networks.lock().await;
            if networks.unused_since.remove(&name).is_none() {
                // A container of this agent has needed it since.
                continue;
            }
            networks.known.remove(&name);
            match self.remove_network(&name).await {
                Ok(()) => {
                    info!(network = %name, "removed: no container uses it");
                    removed += 1;
                }
                // Something that is no container of this list has joined it. It is looked at again after the next removal.
                Err(error @ Error::Refused { .. }) => warn!(network = %name, reason = %error, "cannot be removed"),
                Err(error) => return Err(error),
            }
        }
        Ok(removed)
    }

    /// Those of the unused networks that have been so for `idle`; remembers since when the others are.
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

    /// Names of the networks of this cluster that no container names, running or not, whichever cluster it belongs to.
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
