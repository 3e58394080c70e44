//! What `up` and `down` need of the local Docker engine: is it there, the demo image, and removing what a cluster left.
//!
//! Only containers and networks that carry the label of the cluster are touched. Every call has a deadline: an engine
//! can hang while its socket still accepts connections.

use std::collections::HashMap;
use std::future::Future;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bollard::Docker;
use bollard::query_parameters::{
    CreateImageOptionsBuilder, ListContainersOptionsBuilder, ListNetworksOptionsBuilder, RemoveContainerOptionsBuilder,
    StopContainerOptionsBuilder,
};
use contract::labels;
use futures_util::{StreamExt, TryStreamExt, stream};
use tokio::time::timeout;

use crate::tar;

/// Deadline of a call that only looks.
const LOOK: Duration = Duration::from_secs(5);
/// Deadline of a call that changes something.
const CHANGE: Duration = Duration::from_secs(30);
/// Seconds a container gets between stop and kill when the cluster goes down: a person is waiting.
const STOP_GRACE: i32 = 3;
/// Containers removed at once: beyond this the engine only gets slower.
const AT_ONCE: usize = 8;
/// Label of the demo image that says from which binary it was made.
const MADE_FROM: &str = "deployd.demo.digest";

/// Why the engine did not do something.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No engine.
    #[error(
        "no Docker engine answers; start it (`systemctl start docker`), or install it with your package manager \
         (Debian: `apt-get install docker.io`), and see that this user may use it"
    )]
    Missing(#[source] bollard::errors::Error),
    /// The engine does not answer.
    #[error("the Docker engine did not answer in {} s while {doing}; restart it if it hangs", deadline.as_secs())]
    Silent {
        /// What we were doing.
        doing: String,
        /// How long we waited.
        deadline: Duration,
    },
    /// The engine refused.
    #[error("the Docker engine failed while {doing}")]
    Failed {
        /// What we were doing.
        doing: String,
        /// Its answer.
        #[source]
        source: bollard::errors::Error,
    },
}

/// The local engine.
#[derive(Debug, Clone)]
pub struct Engine {
    docker: Docker,
}

/// Where the engine listens: as `DOCKER_HOST` says if that is a socket, else the usual place.
pub fn socket() -> PathBuf {
    let host = std::env::var("DOCKER_HOST").unwrap_or_default();
    PathBuf::from(host.strip_prefix("unix://").unwrap_or("/var/run/docker.sock"))
}

/// What was removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Removed {
    /// Containers.
    pub containers: usize,
    /// Networks.
    pub networks: usize,
}

impl Engine {
    /// Finds the engine and asks whether it is well.
    pub async fn connect() -> Result<Self, Error> {
        Self::connect_to(&socket()).await
    }

    /// The same for the engine behind another socket.
    pub async fn connect_to(socket: &Path) -> Result<Self, Error> {
        let path = socket.display().to_string();
        let docker =
            Docker::connect_with_unix(&path, CHANGE.as_secs(), bollard::API_DEFAULT_VERSION).map_err(Error::Missing)?;
        match timeout(LOOK, docker.ping()).await {
            Ok(Ok(_)) => Ok(Self { docker }),
            Ok(Err(error)) => Err(Error::Missing(error)),
            Err(_) => Err(Error::Silent { doing: "being asked whether it is there".to_owned(), deadline: LOOK }),
        }
    }

    /// Makes `repository:tag` an image that holds only `binary` and runs it; nothing happens when it already does.
    /// Returns whether the image had to be made.
    pub async fn ensure_image(&self, repository: &str, tag: &str, binary: &[u8]) -> Result<bool, Error> {
        let digest = digest(binary);
        let reference = format!("{repository}:{tag}");
        if self.made_from(&reference).await?.as_deref() == Some(digest.as_str()) {
            return Ok(false);
        }
        let changes = vec!["ENTRYPOINT [\"/demo\"]".to_owned(), format!("LABEL {MADE_FROM}={digest}")];
        let options = CreateImageOptionsBuilder::new().from_src("-").repo(repository).tag(tag).changes(changes).build();
        let archive = bollard::body_full(tar::of_one_executable("demo", binary).into());
        let import = self.docker.create_image(Some(options), Some(archive), None).try_collect::<Vec<_>>();
        within(CHANGE, &format!("importing the image {reference}"), import).await?;
        Ok(true)
    }

    async fn made_from(&self, reference: &str) -> Result<Option<String>, Error> {
        let inspect = async {
            match self.docker.inspect_image(reference).await {
                Ok(image) => Ok(image.config.and_then(|config| config.labels?.remove(MADE_FROM))),
                Err(error) if is_gone(&error) => Ok(None),
                Err(error) => Err(error),
            }
        };
        within(LOOK, &format!("looking for the image {reference}"), inspect).await
    }

    /// Stops and removes every container and network of a cluster.
    pub async fn remove_cluster(&self, cluster: &str) -> Result<Removed, Error> {
        let ids = self.containers(cluster).await?;
        let removals = ids.iter().map(|id| self.remove_container(id));
        let results: Vec<Result<(), Error>> = stream::iter(removals).buffer_unordered(AT_ONCE).collect().await;
        let containers = results.len();
        results.into_iter().collect::<Result<(), Error>>()?;
        Ok(Removed { containers, networks: self.remove_networks(cluster).await? })
    }

    /// Ids of the cluster's containers, running or not.
    pub async fn containers(&self, cluster: &str) -> Result<Vec<String>, Error> {
        let options = ListContainersOptionsBuilder::new().all(true).filters(&of_cluster(cluster)).build();
        let list = within(LOOK, "listing containers", self.docker.list_containers(Some(options))).await?;
        Ok(list.into_iter().filter_map(|container| container.id).collect())
    }

    async fn remove_container(&self, id: &str) -> Result<(), Error> {
        let work = async {
            let stop = StopContainerOptionsBuilder::new().t(STOP_GRACE).build();
            gone_is_fine(self.docker.stop_container(id, Some(stop)).await)?;
            let remove = RemoveContainerOptionsBuilder::new().force(true).v(true).build();
            gone_is_fine(self.docker.remove_container(id, Some(remove)).await)
        };
        within(CHANGE, &format!("removing the container {id}"), work).await
    }

    /// Removes the cluster's networks; one that something else has joined stays.
    async fn remove_networks(&self, cluster: &str) -> Result<usize, Error> {
        let options = ListNetworksOptionsBuilder::new().filters(&of_cluster(cluster)).build();
        let list = within(LOOK, "listing networks", self.docker.list_networks(Some(options))).await?;
        let mut removed = 0;
        for id in list.into_iter().filter_map(|network| network.id) {
            let work = async { Ok(self.docker.remove_network(&id).await.is_ok()) };
            removed += usize::from(within(CHANGE, &format!("removing the network {id}"), work).await?);
        }
        Ok(removed)
    }
}

async fn within<T>(
    deadline: Duration,
    doing: &str,
    work: impl Future<Output = Result<T, bollard::errors::Error>>,
) -> Result<T, Error> {
    match timeout(deadline, work).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(source)) => Err(Error::Failed { doing: doing.to_owned(), source }),
        Err(_) => Err(Error::Silent { doing: doing.to_owned(), deadline }),
    }
}

fn of_cluster(cluster: &str) -> HashMap<String, Vec<String>> {
    HashMap::from([("label".to_owned(), vec![format!("{}={cluster}", labels::CLUSTER)])])
}

fn is_gone(error: &bollard::errors::Error) -> bool {
    matches!(error, bollard::errors::Error::DockerResponseServerError { status_code: 404, .. })
}

/// Removed by somebody else, or being removed right now, is as good as removed by us.
fn gone_is_fine(result: Result<(), bollard::errors::Error>) -> Result<(), bollard::errors::Error> {
    match result {
        Err(bollard::errors::Error::DockerResponseServerError { status_code: 304 | 404 | 409, .. }) => Ok(()),
        other => other,
    }
}

/// Tells two binaries apart; another compiler may compute another digest, which costs one needless import.
fn digest(binary: &[u8]) -> String {
    let mut hasher = DefaultHasher::new();
    binary.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A real engine: `./deploy/test` provides one, and without it this test fails rather than being skipped.
    #[tokio::test]
    async fn an_image_is_imported_once_and_again_when_its_binary_changes() {
        let engine = Engine::connect().await.unwrap();
        let tag = format!("test-{}", std::process::id());
        let made = [
            engine.ensure_image("deployd/clitest", &tag, b"one").await,
            engine.ensure_image("deployd/clitest", &tag, b"one").await,
            engine.ensure_image("deployd/clitest", &tag, b"two").await,
        ];
        let reference = format!("deployd/clitest:{tag}");
        let entrypoint = engine.docker.inspect_image(&reference).await.unwrap().config.unwrap().entrypoint;
        let none = None::<bollard::query_parameters::RemoveImageOptions>;
        engine.docker.remove_image(&reference, none, None).await.unwrap();
        assert_eq!(made.map(Result::unwrap), [true, false, true]);
        assert_eq!(entrypoint, Some(vec!["/demo".to_owned()]));
    }

    #[tokio::test]
    async fn a_cluster_without_containers_is_removed_at_once() {
        let engine = Engine::connect().await.unwrap();
        let cluster = format!("no-such-cluster-{}", std::process::id());
        assert_eq!(engine.remove_cluster(&cluster).await.unwrap(), Removed::default());
    }
}
