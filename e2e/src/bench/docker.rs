//! The engine as the benchmarks use it: containers by hand, Swarm mode, and what happens, told as it happens.
//!
//! Everything made here carries the label of its run, and what carries it is removed at the end, however the run ended. The
//! image is named by its id: then nobody asks a registry for it.

mod raw;
mod swarm;
mod watch;

use std::collections::HashMap;
use std::time::Duration;

use bollard::Docker;
use bollard::errors::Error as EngineError;
use bollard::models::{
    ContainerCreateBody, EventMessage, HostConfig, Limit, LocalNodeState, NetworkAttachmentConfig, ServiceSpec,
    ServiceSpecMode, ServiceSpecModeReplicated, ServiceSpecUpdateConfig, ServiceSpecUpdateConfigFailureActionEnum,
    ServiceSpecUpdateConfigOrderEnum, SwarmInitRequest, SwarmSpec, SwarmSpecOrchestration, TaskSpec,
    TaskSpecContainerSpec, TaskSpecResources, TaskSpecRestartPolicy, TaskSpecRestartPolicyConditionEnum,
};
use bollard::query_parameters::{
    CreateContainerOptionsBuilder, EventsOptionsBuilder, LeaveSwarmOptionsBuilder, ListContainersOptionsBuilder,
    RemoveContainerOptionsBuilder, StopContainerOptionsBuilder, UpdateServiceOptionsBuilder,
};

pub(crate) use raw::{Concurrency, Raw};
pub(crate) use swarm::{Swarm, SwarmMembership};
pub(crate) use watch::EventWatch;

/// Deadline of one call: a loaded engine needs seconds, a hung one is noticed.
const CALL: Duration = Duration::from_secs(120);
/// Grace of every contestant between the request to end and the kill; the demo ends at once.
const GRACE_SECONDS: i32 = 10;
/// Label of everything made by a run; its value is the run and the contestant.
pub(crate) const RUN: &str = "proof.bench";
/// Label that tells versions apart, the same for every contestant.
pub(crate) const VERSION: &str = "proof.version";
/// Memory of every container.
pub(crate) const MEMORY: i64 = 8 * 1024 * 1024;
/// deployd's CPU level 1: half a core.
const CPU_PERIOD: i64 = 1_000_000;
const CPU_QUOTA: i64 = CPU_PERIOD / 2;
/// The engine's own bridge, for every contestant.
pub(crate) const NETWORK: &str = "bridge";

/// What the engine would not do.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("the engine cannot {doing}")]
    Engine {
        doing: &'static str,
        #[source]
        source: EngineError,
    },
    #[error("the engine did not {doing} in {} s", CALL.as_secs())]
    Silent { doing: &'static str },
    #[error("this engine is part of a swarm already, and it is left alone: benchmarks need an engine outside of one")]
    SwarmActive,
    #[error("not within {} s: {what}; {containers}", within.as_secs())]
    Late { what: String, within: Duration, containers: String },
    #[error("the engine tells no more what happens")]
    Deaf,
}

/// The local engine.
#[derive(Debug, Clone)]
pub(crate) struct BenchEngine {
    docker: Docker,
    run: String,
}

/// What the machine says of itself.
#[derive(Debug, Clone, Default, serde::Serialize)]
pub(crate) struct EngineFacts {
    pub(crate) version: String,
    pub(crate) kernel: String,
    pub(crate) storage: String,
    pub(crate) memory: i64,
}

impl BenchEngine {
    pub(crate) fn connect(run: &str) -> Result<Self, Error> {
        let path = devcluster::docker::socket().display().to_string();
        let docker = Docker::connect_with_unix(&path, CALL.as_secs(), bollard::API_DEFAULT_VERSION);
        let docker = docker.map_err(|source| Error::Engine { doing: "be reached", source })?;
        Ok(Self { docker, run: run.to_owned() })
    }

    /// Label of what one contestant of this run makes.
    pub(crate) fn mark(&self, contestant: &str) -> String {
        format!("{}-{contestant}", self.run)
    }

    /// What the engine and its machine are.
    pub(crate) async fn facts(&self) -> Result<EngineFacts, Error> {
        let info = call("tell what it is", self.docker.info()).await?;
        Ok(EngineFacts {
            version: info.server_version.unwrap_or_default(),
            kernel: info.kernel_version.unwrap_or_default(),
            storage: info.driver.unwrap_or_default(),
            memory: info.mem_total.unwrap_or(0),
        })
    }

    /// Id of an image that is there.
    pub(crate) async fn image_id(&self, name: &str) -> Result<String, Error> {
        let image = call("find the demo image", self.docker.inspect_image(name)).await?;
        Ok(image.id.unwrap_or_else(|| name.to_owned()))
    }

    /// Ends a container at once, as a crash would.
    pub(crate) async fn kill(&self, id: &str) -> Result<(), Error> {
        call("kill a container", self.docker.kill_container(id, None)).await
    }

    /// Starts a container that ended.
    pub(crate) async fn start(&self, id: &str) -> Result<(), Error> {
        call("start a container", self.docker.start_container(id, None)).await
    }

    /// Ids of the containers of one contestant.
    pub(crate) async fn containers(&self, contestant: &str) -> Result<Vec<String>, Error> {
        let filters = HashMap::from([("label", vec![format!("{RUN}={}", self.mark(contestant))])]);
        let options = ListContainersOptionsBuilder::new().all(true).filters(&filters).build();
        let list = call("list containers", self.docker.list_containers(Some(options))).await?;
        Ok(list.into_iter().filter_map(|container| container.id).collect())
    }

    /// Tells from now on what happens to the containers of one contestant.
    pub(crate) fn watch(&self, contestant: &str) -> EventWatch {
        EventWatch::begin(self.docker.clone(), self.mark(contestant))
    }
}

/// One call with its deadline.
async fn call<T>(doing: &'static str, asked: impl Future<Output = Result<T, EngineError>>) -> Result<T, Error> {
    match tokio::time::timeout(CALL, asked).await {
        Ok(answer) => answer.map_err(|source| Error::Engine { doing, source }),
        Err(_) => Err(Error::Silent { doing }),
    }
}

/// Whether the engine answered with this status.
fn says(error: &Error, status: u16) -> bool {
    match error {
        Error::Engine { source: EngineError::DockerResponseServerError { status_code, .. }, .. } => {
            *status_code == status
        }
        _ => false,
    }
}
