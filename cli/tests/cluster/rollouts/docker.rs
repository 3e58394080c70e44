//! Docker for tests of rollouts: the events of the containers of a group, and images for one test.

use std::collections::HashMap;

use bollard::Docker;
use bollard::models::EventMessage;
use bollard::query_parameters::{CreateImageOptionsBuilder, EventsOptionsBuilder};
use contract::labels;
use contract::time::Timestamp;
use futures_util::{Stream, StreamExt as _, TryStreamExt as _};

fn connect() -> Docker {
    Docker::connect_with_local_defaults().expect("a Docker socket")
}

/// Each container of a group that is made, started or ends from now on: the engine's word and the container's name. The
/// engine counts in whole seconds, so it may begin with what happened just before.
pub(super) async fn happenings(cluster: &str, group: &str) -> impl Stream<Item = (String, String)> + Send + use<> {
    let docker = connect();
    let now = docker.info().await.expect("info").system_time.expect("a time");
    let since = (Timestamp::parse(&now).expect("a time").as_millis() / 1000).to_string();
    let of_group = vec![format!("{}={cluster}", labels::CLUSTER), format!("{}={group}", labels::POD_NAME)];
    let actions = ["create", "start", "die"].map(str::to_owned).to_vec();
    let filters = HashMap::from([("label", of_group), ("event", actions)]);
    let options = EventsOptionsBuilder::new().since(&since).filters(&filters).build();
    docker.events(Some(options)).filter_map(async |event| told(event.expect("an event")))
}

fn told(event: EventMessage) -> Option<(String, String)> {
    let name = event.actor?.attributes?.remove("name")?;
    Some((event.action?, name))
}

/// Makes `repository:tag` of one executable, beside the image it is a variant of: once for each of those, which is why a
/// label names it.
pub(super) async fn variant(image: &str, (repository, tag): (&str, &str), executable: &[u8], environment: &str) {
    const BESIDE: &str = "deployd-test.beside";
    let docker = connect();
    let beside = docker.inspect_image(image).await.expect("the usual image").id.expect("an id");
    let found = docker.inspect_image(&format!("{repository}:{tag}")).await.ok().and_then(|image| image.config?.labels);
    if found.is_some_and(|labels| labels.get(BESIDE) == Some(&beside)) {
        return;
    }
    let changes =
        vec!["ENTRYPOINT [\"/demo\"]".to_owned(), format!("ENV {environment}"), format!("LABEL {BESIDE}={beside}")];
    let options = CreateImageOptionsBuilder::new().from_src("-").repo(repository).tag(tag).changes(changes).build();
    let archive = bollard::body_full(devcluster::tar::of_one_executable("demo", executable).into());
    docker.create_image(Some(options), Some(archive), None).try_collect::<Vec<_>>().await.expect("the image is made");
}
