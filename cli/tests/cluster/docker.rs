//! Docker for tests: lists the containers of a cluster, and stops, kills or removes them.

use std::collections::HashMap;
use std::path::Path;

use bollard::Docker;
use bollard::models::{ContainerCreateBody, NetworkDisconnectRequest};
use bollard::query_parameters::{
    CreateContainerOptionsBuilder, KillContainerOptionsBuilder, ListContainersOptionsBuilder,
    RemoveContainerOptionsBuilder,
};
use contract::labels;

pub(crate) struct Engine(Docker);

/// One container of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Workload {
    pub(crate) instance: u32,
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) node: String,
    pub(crate) running: bool,
}

impl Engine {
    pub(crate) async fn connect() -> Self {
        let docker = Docker::connect_with_local_defaults().expect("a Docker socket");
        docker.ping().await.expect("a Docker engine that answers: these tests need one");
        Self(docker)
    }

    /// The demo binary as an image, through the same hands as `deployctl up`.
    pub(crate) async fn ensure_image(repository: &str, binary: &Path) {
        let bytes = std::fs::read(binary)
            .unwrap_or_else(|error| panic!("{}: {error}; run deploy/build-demo", binary.display()));
        let engine = devcluster::docker::Engine::connect().await.expect("a Docker engine");
        engine.ensure_image(repository, "1", &bytes).await.expect("the image is made");
    }

    pub(crate) async fn of_cluster(&self, cluster: &str) -> Vec<Workload> {
        self.list(vec![format!("{}={cluster}", labels::CLUSTER)]).await
    }

    pub(crate) async fn of_group(&self, cluster: &str, group: &str) -> Vec<Workload> {
        self.list(vec![format!("{}={cluster}", labels::CLUSTER), format!("{}={group}", labels::POD_NAME)]).await
    }

    async fn list(&self, filters: Vec<String>) -> Vec<Workload> {
        let filters = HashMap::from([("label", filters)]);
        let options = ListContainersOptionsBuilder::new().all(true).filters(&filters).build();
        let containers = self.0.list_containers(Some(options)).await.expect("a list of containers");
        let mut found: Vec<Workload> = containers
            .into_iter()
            .map(|container| {
                let labels = container.labels.unwrap_or_default();
                let label = |key: &str| labels.get(key).cloned().unwrap_or_default();
                Workload {
                    instance: label(labels::INSTANCE).parse().unwrap_or(0),
                    id: container.id.unwrap_or_default(),
                    name: container.names.unwrap_or_default().concat().trim_start_matches('/').to_owned(),
                    node: label(labels::NODE),
                    running: container.state.is_some_and(|state| state.to_string() == "running"),
                }
            })
            .collect();
        found.sort();
        found
    }

    pub(crate) async fn kill(&self, id: &str) {
        let options = KillContainerOptionsBuilder::new().signal("KILL").build();
        self.0.kill_container(id, Some(options)).await.expect("the container is killed");
    }

    pub(crate) async fn remove(&self, id: &str) {
        let options = RemoveContainerOptionsBuilder::new().force(true).build();
        self.0.remove_container(id, Some(options)).await.expect("the container is removed");
    }

    /// Takes the container off every network it is on.
    pub(crate) async fn disconnect(&self, id: &str) {
        let seen = self.0.inspect_container(id, None).await.expect("the container");
        let networks = seen.network_settings.and_then(|settings| settings.networks).unwrap_or_default();
        assert!(!networks.is_empty(), "{id} is on no network");
        for name in networks.into_keys() {
            let request = NetworkDisconnectRequest { container: id.to_owned(), force: Some(true) };
            self.0.disconnect_network(&name, request).await.expect("it is disconnected");
        }
    }

    /// A container that is not ours; with our look-alike labels but another cluster.
    pub(crate) async fn foreign(&self, image: &str, name: &str, group: &str) -> String {
        let look_alike = [
            (labels::POD_NAME, group),
            (labels::POD_NAMESPACE, "demo"),
            (labels::INSTANCE, "1"),
            (labels::VERSION, "0"),
            (labels::DRIFT, "0"),
            (labels::CONTAINER_INDEX, "0"),
        ];
        let body = ContainerCreateBody {
            image: Some(image.to_owned()),
            labels: Some(look_alike.map(|(key, value)| (key.to_owned(), value.to_owned())).into()),
            ..Default::default()
        };
        let options = CreateContainerOptionsBuilder::new().name(name).build();
        let id = self.0.create_container(Some(options), body).await.expect("a foreign container").id;
        self.0.start_container(&id, None).await.expect("it starts");
        id
    }

    pub(crate) async fn runs(&self, id: &str) -> bool {
        let seen = self.0.inspect_container(id, None).await;
        seen.ok().and_then(|seen| seen.state).and_then(|state| state.running).unwrap_or(false)
    }

    /// When the container was last started, as the engine writes it.
    pub(crate) async fn started_at(&self, id: &str) -> Option<String> {
        self.0.inspect_container(id, None).await.ok()?.state?.started_at
    }
}
