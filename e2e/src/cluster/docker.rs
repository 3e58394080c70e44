//! The engine as the proof sees it: which containers of a cluster there are, and since when they run. Beyond looking it only
//! starts and removes bystanders.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use bollard::Docker;
use bollard::models::{ContainerCreateBody, HostConfig};
use bollard::query_parameters::{
    CreateContainerOptionsBuilder, ListContainersOptionsBuilder, RemoveContainerOptionsBuilder,
};
use contract::labels;
use tokio::time::timeout;

/// Deadline of one look.
const LOOK: Duration = Duration::from_secs(10);

/// Deadline of one change.
const CHANGE: Duration = Duration::from_secs(30);

/// Why nothing was seen.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("cannot reach the Docker engine")]
    Engine(#[source] bollard::errors::Error),
    #[error("the Docker engine did not answer in {} s", LOOK.as_secs())]
    Silent,
}

/// An engine.
#[derive(Debug, Clone)]
pub(crate) struct Engine(Docker);

/// One container of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ContainerView {
    pub(crate) group: String,
    pub(crate) instance: u32,
    pub(crate) version: u32,
    pub(crate) node: String,
    pub(crate) name: String,
    pub(crate) id: String,
    pub(crate) running: bool,
}

impl Engine {
    pub(crate) fn connect() -> Result<Self, Error> {
        Self::connect_to(&devcluster::docker::socket())
    }

    /// The engine behind another socket.
    pub(crate) fn connect_to(socket: &Path) -> Result<Self, Error> {
        let docker =
            Docker::connect_with_unix(&socket.display().to_string(), LOOK.as_secs(), bollard::API_DEFAULT_VERSION);
        docker.map(Self).map_err(Error::Engine)
    }

    /// Every container of a cluster, running or not, in order.
    pub(crate) async fn of_cluster(&self, cluster: &str) -> Result<Vec<ContainerView>, Error> {
        let filters = HashMap::from([("label", vec![format!("{}={cluster}", labels::CLUSTER)])]);
        let options = ListContainersOptionsBuilder::new().all(true).filters(&filters).build();
        let list = timeout(LOOK, self.0.list_containers(Some(options))).await.map_err(|_| Error::Silent)?;
        let mut seen: Vec<ContainerView> = list.map_err(Error::Engine)?.into_iter().map(seen).collect();
        seen.sort();
        Ok(seen)
    }

    /// When a container was last started, as the engine writes it; none when it is gone.
    pub(crate) async fn started_at(&self, id: &str) -> Option<String> {
        let seen = timeout(LOOK, self.0.inspect_container(id, None)).await.ok()?;
        seen.ok()?.state?.started_at
    }

    /// Whether a container runs by its own state. The list shows a container as running until the engine has tidied up after its
    /// end, about 0.1 s longer.
    pub(crate) async fn is_running(&self, id: &str) -> bool {
        let seen = timeout(LOOK, self.0.inspect_container(id, None)).await;
        let state = seen.ok().and_then(Result::ok).and_then(|seen| seen.state);
        state.and_then(|state| state.running).unwrap_or(false)
    }

    /// Starts a container without a network and returns its id.
    pub(crate) async fn run(&self, name: &str, image: &str, labels: HashMap<String, String>) -> Result<String, Error> {
        let options = CreateContainerOptionsBuilder::new().name(name).build();
        let host_config = Some(HostConfig { network_mode: Some("none".to_owned()), ..HostConfig::default() });
        let image = Some(image.to_owned());
        let body = ContainerCreateBody { image, labels: Some(labels), host_config, ..ContainerCreateBody::default() };
        let running = async {
            let id = self.0.create_container(Some(options), body).await?.id;
            self.0.start_container(&id, None).await?;
            Ok(id)
        };
        timeout(CHANGE, running).await.map_err(|_| Error::Silent)?.map_err(Error::Engine)
    }

    /// Removes a container, running or not, by id or name.
    pub(crate) async fn remove(&self, id: &str) -> Result<(), Error> {
        let options = RemoveContainerOptionsBuilder::new().force(true).build();
        let removed = timeout(CHANGE, self.0.remove_container(id, Some(options))).await;
        removed.map_err(|_| Error::Silent)?.map_err(Error::Engine)
    }
}

fn seen(container: bollard::models::ContainerSummary) -> ContainerView {
    let labels = container.labels.unwrap_or_default();
    let label = |key: &str| labels.get(key).cloned().unwrap_or_default();
    ContainerView {
        group: label(labels::POD_NAME),
        instance: label(labels::INSTANCE).parse().unwrap_or(0),
        version: label(labels::VERSION).parse().unwrap_or(0),
        node: label(labels::NODE),
        name: container.names.unwrap_or_default().concat().trim_start_matches('/').to_owned(),
        id: container.id.unwrap_or_default(),
        running: container.state.is_some_and(|state| state.to_string() == "running"),
    }
}
