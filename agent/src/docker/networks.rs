//! Networks of pods, and containers whose reserved address is not available.
//!
//! Docker accepts a given address only on a network with an explicit subnet, so each network gets one from the agent's pool.
//! Docker lets two agents create two networks with one name, but bridge names are unique, so the bridge name is derived from
//! the network's name.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use contract::digest::Digest;
use contract::labels;
use tokio::time::Instant;
use tracing::{info, warn};

use super::{
    CHANGE, EndpointSettings, Engine, Ipam, IpamConfig, ListNetworksOptionsBuilder, Network, NetworkConnectRequest,
    NetworkCreateRequest, NetworkDisconnectRequest, POLL, READ,
};
use crate::address::Subnet;
use crate::fault::Error;
use crate::pool;

/// Docker's built-in networks.
const BUILT_IN: [&str; 5] = ["", "host", "none", "bridge", "default"];
/// Attempts to create a network; each may lose the subnet to another network.
const TRIES: u32 = 5;
/// Time for another agent to finish creating a network.
const CREATING: Duration = Duration::from_secs(5);
/// Time for a stopping container to release its address.
const RELEASING: Duration = Duration::from_secs(2);

#[derive(Debug, Default)]
pub(super) struct Networks {
    pub(super) known: BTreeMap<String, KnownNetwork>,
    /// Unused networks of this cluster.
    pub(super) unused_since: BTreeMap<String, Instant>,
}

/// An existing network.
#[derive(Debug, Clone, Copy)]
pub(super) struct KnownNetwork {
    /// Its subnet when it is split.
    split: Option<Subnet>,
    /// It has the label of a deployd cluster. Clusters that share an engine share the network of a namespace: refusing it would let
    /// the leftover network of a removed cluster block the namespace.
    is_ours: bool,
}

pub(super) fn is_built_in(name: &str) -> bool {
    BUILT_IN.contains(&name) || name.starts_with("container:")
}

/// Whether the error is about the container's reserved address.
pub(super) fn is_about_address(error: &Error) -> bool {
    is_taken(error)
        || error.mentions("user specified IP address")
        || error.mentions("does not belong to any of this network")
}

/// With a capital A the error is about a container's address; without, about a port of the machine.
fn is_taken(error: &Error) -> bool {
    error.mentions("Address already in use")
}

/// Whether the error is about a missing network.
pub(super) fn is_gone(error: &Error) -> bool {
    error.mentions("network") && error.mentions("not found")
}

/// Whether another agent of this engine created the network first.
fn is_lost_race(error: &Error) -> bool {
    error.status() == 409 || error.mentions("same bridge name")
}

impl KnownNetwork {
    fn joined(self, name: &str, joins_foreign: bool) -> Result<Option<Subnet>, Error> {
        if self.is_ours || joins_foreign {
            return Ok(self.split);
        }
        let text = format!(
            "the network {name} exists and was not created by deployd (rule networks); remove it, or allow it with \
             `deployctl policy set NAMESPACE LEVEL --allow-network {name}`"
        );
        Err(Error::Forbidden(text))
    }
}

impl Engine {
    /// Creates the network unless it exists; returns its subnet when it is split. Refuses a network of another owner unless
    /// `joins_foreign`: a namespace may have the name of a network that is not meant for its pods.
    pub(super) async fn ensure_network(&self, name: &str, joins_foreign: bool) -> Result<Option<Subnet>, Error> {
        if is_built_in(name) {
            return Ok(None);
        }
        let mut networks = self.networks.lock().await;
        networks.unused_since.remove(name);
        if let Some(known) = networks.known.get(name) {
            return known.joined(name, joins_foreign);
        }
        let network = match self.network(name).await? {
            Some(network) => network,
            None => self.create_missing_network(name).await?,
        };
        let is_ours = network.labels.as_ref().is_some_and(|labels| labels.contains_key(labels::CLUSTER));
        let known = KnownNetwork { split: split(&network), is_ours };
        networks.known.insert(name.to_owned(), known);
        known.joined(name, joins_foreign)
    }

    /// The network may be gone: the next container checks again.
    pub(super) async fn forget_network(&self, name: &str) {
        self.networks.lock().await.known.remove(name);
    }

    async fn create_missing_network(&self, name: &str) -> Result<Network, Error> {
        info!(network = name, "creating the network");
        let mut last = Error::Unreadable(format!("the engine does not show the network {name}"));
        let mut refused = Vec::new();
        for _ in 0..TRIES {
            let taken = self.taken().await?.into_iter().chain(refused.iter().copied()).collect::<Vec<Subnet>>();
            let subnet = self.pool.free(name, &taken).ok_or_else(|| Error::NoAddresses {
                network: name.to_owned(),
                pool: self.pool.to_string(),
                blocks: self.pool.blocks(),
            })?;
            match self.create_network(name, &bridge_name(name), addresses(subnet)).await {
                Err(error) if error.mentions("overlaps") => {
                    refused.push(subnet);
                    last = error;
                }
                Err(error) if is_lost_race(&error) => {
                    last = error;
                    if let Some(network) = self.wait_for_network(name).await? {
                        return Ok(network);
                    }
                }
                Err(error) => return Err(error),
                Ok(()) => {
                    if let Some(network) = self.network(name).await? {
                        return Ok(network);
                    }
                }
            }
        }
        Err(last)
    }

    /// Ranges in use: other networks of the engine and routes of the machine.
    async fn taken(&self) -> Result<Vec<Subnet>, Error> {
        let all = self.call(READ, async |docker| docker.list_networks(None).await).await?;
        let configs = all.into_iter().filter_map(|network| network.ipam?.config).flatten();
        let subnets = configs.filter_map(|config| Subnet::parse(&config.subnet?));
        Ok(subnets.chain(pool::routes()).collect())
    }

    async fn create_network(&self, name: &str, bridge: &str, ipam: Ipam) -> Result<(), Error> {
        let cluster = [(labels::CLUSTER.to_owned(), self.host.owner.cluster.clone())];
        let request = NetworkCreateRequest {
            name: name.to_owned(),
            driver: Some("bridge".to_owned()),
            labels: Some(cluster.into()),
            options: Some([("com.docker.network.bridge.name".to_owned(), bridge.to_owned())].into()),
            ipam: Some(ipam),
            ..Default::default()
        };
        self.call(CHANGE, async |docker| docker.create_network(request).await).await.map(drop)
    }

    pub(super) async fn remove_network(&self, name: &str) -> Result<(), Error> {
        match self.call(CHANGE, async |docker| docker.remove_network(name).await).await {
            Err(error) if error.status() == 404 => Ok(()),
            other => other,
        }
    }

    /// Waits for a network that another agent of this engine may be creating.
    async fn wait_for_network(&self, name: &str) -> Result<Option<Network>, Error> {
        let deadline = tokio::time::Instant::now() + CREATING;
        loop {
            let found = self.network(name).await?;
            if found.is_some() || tokio::time::Instant::now() >= deadline {
                return Ok(found);
            }
            tokio::time::sleep(POLL).await;
        }
    }

    async fn network(&self, name: &str) -> Result<Option<Network>, Error> {
        let filters: HashMap<String, Vec<String>> = [("name".to_owned(), vec![name.to_owned()])].into();
        let options = ListNetworksOptionsBuilder::new().filters(&filters).build();
        let found = self.call(READ, async |docker| docker.list_networks(Some(options)).await).await?;
        Ok(found.into_iter().find(|network| network.name.as_deref() == Some(name)))
    }

    /// Starts a container whose reserved address is in use. Waits up to 2 s for the previous container to release it; then
    /// takes any address, and the facts report the difference.
    pub(super) async fn begin_with_any_address(&self, id: &str, mut refusal: Error) -> Result<(), Error> {
        let deadline = tokio::time::Instant::now() + RELEASING;
        while is_taken(&refusal) && tokio::time::Instant::now() < deadline {
            tokio::time::sleep(POLL).await;
            match self.begin(id).await {
                Err(error) if is_about_address(&error) => refusal = error,
                other => return other,
            }
        }
        let Some((detail, _)) = self.inspect(id).await? else { return Err(refusal) };
        let network = &detail.host_config.network_mode;
        warn!(container = %detail.name, %network, reason = %refusal, "it cannot have its address and gets another");
        let leave = NetworkDisconnectRequest { container: id.to_owned(), force: Some(true) };
        self.call(CHANGE, async |docker| docker.disconnect_network(network, leave).await).await?;
        let join =
            NetworkConnectRequest { container: id.to_owned(), endpoint_config: Some(EndpointSettings::default()) };
        self.call(CHANGE, async |docker| docker.connect_network(network, join).await).await?;
        self.begin(id).await
    }
}

/// IP settings of a split network.
fn addresses(subnet: Subnet) -> Ipam {
    let config = IpamConfig {
        subnet: Some(subnet.to_string()),
        ip_range: Some(subnet.engine_half()),
        gateway: Some(subnet.gateway().to_string()),
        ..Default::default()
    };
    Ipam { config: Some(vec![config]), ..Default::default() }
}

/// The subnet of a network that is split like ours.
fn split(network: &Network) -> Option<Subnet> {
    let config = config(network)?;
    let subnet = Subnet::parse(config.subnet.as_deref()?).filter(|subnet| subnet.is_large())?;
    (config.ip_range == Some(subnet.engine_half())).then_some(subnet)
}

fn config(network: &Network) -> Option<IpamConfig> {
    network.ipam.as_ref()?.config.as_ref()?.first().cloned()
}

/// Docker refuses a second network with the same bridge name. The kernel allows 15 bytes.
fn bridge_name(network: &str) -> String {
    let digest = Digest::of(network).to_string();
    format!("dd-{}", &digest[..12])
}
