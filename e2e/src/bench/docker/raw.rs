//! The engine's own API used as well as it can be: create and start, so many at a time as is fastest.

use futures_util::{StreamExt as _, TryStreamExt as _};

use super::{
    BenchEngine, CPU_PERIOD, CPU_QUOTA, ContainerCreateBody, CreateContainerOptionsBuilder, Error, GRACE_SECONDS,
    HashMap, HostConfig, MEMORY, NETWORK, RUN, RemoveContainerOptionsBuilder, StopContainerOptionsBuilder, VERSION,
    call, says,
};
use crate::bench::contestant::{Contestant, First, Task};

/// Containers made by hand.
#[derive(Debug, Clone)]
pub(crate) struct Raw {
    pub(crate) engine: BenchEngine,
    /// Id of the image.
    pub(crate) image: String,
    /// How many are made at a time, and how many removed.
    pub(crate) at_a_time: Concurrency,
}

/// The concurrency that was found to be best.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Concurrency {
    pub(crate) starts: u32,
    pub(crate) removals: u32,
}

impl Raw {
    /// Does the task; returns when the engine has answered every call. `version` is the one that stands there before.
    pub(crate) async fn perform(&self, task: Task, version: u32) -> Result<(), Error> {
        let Concurrency { starts, removals } = self.at_a_time;
        match task {
            Task::Start { count } => self.each(1..=count, starts, async |n| self.make(n, version).await).await,
            Task::Grow { from, to } => self.each(from + 1..=to, starts, async |n| self.make(n, version).await).await,
            Task::Update { count, version: next, pace } => {
                let renew = async |number| match pace.first {
                    First::Old => {
                        self.remove(number, version).await?;
                        self.make(number, next).await
                    }
                    First::New => {
                        self.make(number, next).await?;
                        self.remove(number, version).await
                    }
                };
                self.each(1..=count, pace.at_a_time, renew).await
            }
            Task::Remove { count } => self.each(1..=count, removals, async |n| self.remove(n, version).await).await,
        }
    }

    async fn each(
        &self,
        numbers: impl Iterator<Item = u32>,
        at_a_time: u32,
        work: impl AsyncFn(u32) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let works =
            futures_util::stream::iter(numbers).map(|number| work(number)).buffer_unordered(at_a_time.max(1) as usize);
        works.try_collect::<Vec<()>>().await.map(drop)
    }

    fn name(&self, number: u32, version: u32) -> String {
        format!("{}-{number}-v{version}", self.engine.mark(Contestant::Raw.word()))
    }

    async fn make(&self, number: u32, version: u32) -> Result<(), Error> {
        let options = CreateContainerOptionsBuilder::new().name(&self.name(number, version)).build();
        let docker = &self.engine.docker;
        let made = call("create a container", docker.create_container(Some(options), self.body(version))).await?;
        call("start a container", docker.start_container(&made.id, None)).await
    }

    async fn remove(&self, number: u32, version: u32) -> Result<(), Error> {
        let (docker, name) = (&self.engine.docker, self.name(number, version));
        let stop = StopContainerOptionsBuilder::new().t(GRACE_SECONDS).build();
        call("stop a container", docker.stop_container(&name, Some(stop))).await?;
        remove(docker, &name).await
    }

    /// What every contestant gives its containers: image, limits, network, and labels that tell versions apart.
    fn body(&self, version: u32) -> ContainerCreateBody {
        ContainerCreateBody {
            image: Some(self.image.clone()),
            labels: Some(HashMap::from([
                (RUN.to_owned(), self.engine.mark(Contestant::Raw.word())),
                (VERSION.to_owned(), version.to_string()),
            ])),
            host_config: Some(HostConfig {
                network_mode: Some(NETWORK.to_owned()),
                memory: Some(MEMORY),
                memory_swap: Some(MEMORY),
                cpu_period: Some(CPU_PERIOD),
                cpu_quota: Some(CPU_QUOTA),
                ..Default::default()
            }),
            ..Default::default()
        }
    }
}

impl BenchEngine {
    /// Removes what is left of one contestant, running or not.
    pub(crate) async fn remove_leftovers(&self, contestant: Contestant) -> Result<usize, Error> {
        let left = self.containers(contestant.word()).await?;
        let count = left.len();
        let works = futures_util::stream::iter(left).map(async |id| remove(&self.docker, &id).await);
        works.buffer_unordered(8).try_collect::<Vec<()>>().await?;
        Ok(count)
    }
}

/// It is gone, or on its way, when this returns well.
async fn remove(docker: &super::Docker, id: &str) -> Result<(), Error> {
    let options = RemoveContainerOptionsBuilder::new().force(true).v(true).build();
    match call("remove a container", docker.remove_container(id, Some(options))).await {
        Err(error) if says(&error, 404) || says(&error, 409) => Ok(()),
        other => other,
    }
}
