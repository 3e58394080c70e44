//! Docker for the acceptance scenarios: a container's configuration, its exit, and a container that looks like ours.

use std::collections::HashMap;

use bollard::Docker;
use bollard::models::{ContainerCreateBody, EventMessage};
use bollard::query_parameters::{CreateContainerOptionsBuilder, EventsOptionsBuilder};
use contract::labels;
use contract::pod_id::PodId;
use contract::time::Timestamp;
use futures_util::StreamExt as _;

pub(crate) struct Hands(Docker);

impl Hands {
    pub(crate) fn connect() -> Self {
        Self(Docker::connect_with_local_defaults().expect("a Docker socket"))
    }

    /// Memory limit of a container in bytes.
    pub(crate) async fn memory(&self, id: &str) -> Option<i64> {
        self.0.inspect_container(id, None).await.ok()?.host_config?.memory
    }

    /// A running container that says it is `pod` of this node and cluster.
    pub(super) async fn imitate(&self, cluster: &str, node: &str, pod: &PodId) -> String {
        let said = [
            (labels::POD_NAME, pod.group.to_string()),
            (labels::POD_NAMESPACE, "demo".to_owned()),
            (labels::INSTANCE, pod.instance.to_string()),
            (labels::VERSION, pod.version.to_string()),
            (labels::DRIFT, pod.drift.to_string()),
            (labels::CONTAINER_INDEX, "0".to_owned()),
            (labels::CLUSTER, cluster.to_owned()),
            (labels::NODE, node.to_owned()),
        ];
        let body = ContainerCreateBody {
            image: Some(crate::cluster::IMAGE.to_owned()),
            labels: Some(said.map(|(key, value)| (key.to_owned(), value)).into()),
            ..Default::default()
        };
        let options = CreateContainerOptionsBuilder::new().name(&pod.to_string()).build();
        let id = self.0.create_container(Some(options), body).await.expect("a look-alike").id;
        self.0.start_container(&id, None).await.expect("it starts");
        id
    }

    /// Whole seconds since 1970 by the engine's clock.
    pub(super) async fn now(&self) -> i64 {
        let time = self.0.info().await.expect("info").system_time.expect("a time");
        Timestamp::parse(&time).expect("a time").as_millis() / 1000
    }

    /// The signals and exit codes of a container from `since` until now, in order.
    pub(super) async fn end_of(&self, id: &str, since: i64) -> Vec<String> {
        let filters = HashMap::from([("container", vec![id]), ("event", vec!["kill", "die"])]);
        // The engine takes whole seconds only: it answers when the present one is over.
        let (since, until) = (since.to_string(), (self.now().await + 1).to_string());
        let options = EventsOptionsBuilder::new().since(&since).until(&until).filters(&filters).build();
        let told = |event: EventMessage| {
            let attributes = event.actor.and_then(|actor| actor.attributes).unwrap_or_default();
            let of = |key: &str| attributes.get(key).map(|value| format!("{key} {value}"));
            of("signal").or_else(|| of("exitCode")).unwrap_or_default()
        };
        self.0.events(Some(options)).map(|event| told(event.expect("an event"))).collect().await
    }
}
