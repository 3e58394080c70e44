//! The adapter for the Docker engine; only this module uses its client library.
//!
//! Every call has a deadline and updates [`EngineHealth`]. Reads, changes and stops have separate limits, so a stop that
//! waits for its grace delays nothing else. Docker reports a missing network, or a reserved address that is in use, only at
//! start.

mod calls;
mod create;
mod exec;
mod images;
mod in_progress;
mod logs;
mod mounts;
mod networks;
mod pulls;
mod requests;
mod stop_slots;
mod unused_networks;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bollard::container::LogOutput;
use bollard::errors::Error as EngineError;
use bollard::exec::StartExecResults;
use bollard::models::{
    ContainerCreateBody, ContainerInspectResponse, ContainerStateStatusEnum, ContainerUpdateBody, EndpointIpamConfig,
    EndpointSettings, ExecConfig, HealthConfig, HostConfig, HostConfigLogConfig, Ipam, IpamConfig, Network,
    NetworkConnectRequest, NetworkCreateRequest, NetworkDisconnectRequest, NetworkingConfig, PortBinding,
    ThrottleDevice,
};
use bollard::query_parameters::{
    CreateContainerOptionsBuilder, CreateImageOptionsBuilder, EventsOptionsBuilder, ListContainersOptionsBuilder,
    ListNetworksOptionsBuilder, LogsOptions, LogsOptionsBuilder, RemoveContainerOptionsBuilder,
    StopContainerOptionsBuilder,
};
use bollard::{API_DEFAULT_VERSION, Docker};
use contract::docker_inspect::ContainerDetail;
use contract::labels;
use futures_util::StreamExt as _;
use tokio::sync::{Semaphore, mpsc};
use tracing::warn;

pub use logs::LogSource;

use crate::circuit::Sign;
use crate::container::{Host, Plan, address, seen};
use crate::core::io::{ContainerSeen, Phase};
use crate::engine_health::EngineHealth;
use crate::fault::Error;
use crate::pool::Pool;
use in_progress::{InProgress, Work};
use networks::Networks;
use pulls::Pulls;
use stop_slots::{StopSlot, StopSlots};

/// Deadline of inspect and list.
const READ: Duration = Duration::from_secs(5);
/// Deadline of create and start: Docker needs a few hundred milliseconds, under load several seconds.
const CHANGE: Duration = Duration::from_secs(30);
/// Deadline of a stop or removal beyond its grace.
const STOP_SLACK: Duration = Duration::from_secs(10);
/// Concurrent reads: they are cheap and must not wait behind creates.
const READS: usize = 8;
/// Polling interval for something that another client of the engine is finishing.
const POLL: Duration = Duration::from_millis(100);

/// Docker's facts about the machine.
#[derive(Debug, Clone, Default)]
pub struct Machine {
    pub cores: u32,
    /// In bytes.
    pub memory: u64,
    pub version: String,
    /// Docker's labels, and name, storage driver, operating system and kernel.
    pub labels: BTreeMap<String, String>,
}

#[derive(Debug)]
pub struct Engine {
    socket: PathBuf,
    host: Host,
    health: EngineHealth,
    client: Mutex<Option<Docker>>,
    reads: Semaphore,
    changes: Semaphore,
    stops: StopSlots,
    in_progress: InProgress,
    /// Held while a network is created or removed, so that this agent creates each once.
    networks: tokio::sync::Mutex<Networks>,
    pulls: Pulls,
    pool: Pool,
    /// A container was removed since the last sweep (or the process is new): a network may be unused.
    sweep_is_due: AtomicBool,
    /// Docker accepts MemorySwappiness; on cgroup v2 it warns or refuses.
    swappiness: AtomicBool,
}

impl Engine {
    /// Does not connect yet.
    pub fn new(socket: PathBuf, host: Host, concurrency: usize, health: EngineHealth) -> Self {
        Self {
            socket,
            host,
            health,
            client: Mutex::new(None),
            reads: Semaphore::new(READS),
            changes: Semaphore::new(concurrency.max(1)),
            stops: StopSlots::default(),
            in_progress: InProgress::default(),
            networks: tokio::sync::Mutex::default(),
            pulls: Pulls::default(),
            pool: Pool::default(),
            sweep_is_due: AtomicBool::new(true),
            swappiness: AtomicBool::new(true),
        }
    }

    /// Creates networks from these ranges.
    #[must_use]
    pub fn with_pool(self, pool: Pool) -> Self {
        Self { pool, ..self }
    }

    pub async fn ping(&self, limit: Duration) -> Result<(), Error> {
        self.call(limit, async |docker| docker.ping().await).await.map(drop)
    }

    pub async fn machine(&self) -> Result<Machine, Error> {
        let info = self.call(READ, async |docker| docker.info().await).await?;
        let mut labels: BTreeMap<String, String> = [
            ("name", info.name),
            ("storagedriver", info.driver),
            ("operatingsystem", info.operating_system),
            ("kernelversion", info.kernel_version),
        ]
        .into_iter()
        .filter_map(|(key, value)| Some((key.to_owned(), value?)))
        .collect();
        let own = info.labels.unwrap_or_default();
        labels.extend(own.iter().filter_map(|l| l.split_once('=')).map(|(k, v)| (k.to_owned(), v.to_owned())));
        Ok(Machine {
            cores: u32::try_from(info.ncpu.unwrap_or(0)).unwrap_or(0),
            memory: u64::try_from(info.mem_total.unwrap_or(0)).unwrap_or(0),
            version: info.server_version.unwrap_or_default(),
            labels,
        })
    }

    /// All containers of this node.
    pub async fn inventory(&self) -> Result<Vec<ContainerSeen>, Error> {
        let ids = self.list(&[]).await?;
        let inspections = futures_util::stream::iter(ids).map(async |id| self.seen(&id).await).buffer_unordered(READS);
        let seen: Vec<Result<Option<ContainerSeen>, Error>> = inspections.collect().await;
        // A container that was removed between the list and its inspection is left out.
        seen.into_iter().filter_map(Result::transpose).collect()
    }

    /// One container of this node; none when it is gone or another node's.
    pub async fn seen(&self, id: &str) -> Result<Option<ContainerSeen>, Error> {
        let Some((detail, phase)) = self.inspect(id).await? else { return Ok(None) };
        Ok(seen(&self.host.owner, &detail, phase))
    }

    /// Whether an action on the container is in progress; it will report the container itself.
    pub fn is_in_progress(&self, id: &str) -> bool {
        self.in_progress.has(id)
    }

    /// The inspect documents of one group's containers on this node.
    pub async fn details(&self, group: &str) -> Result<Vec<ContainerDetail>, Error> {
        let ids = self.list(&[(labels::POD_NAME, group)]).await?;
        let inspections =
            futures_util::stream::iter(ids).map(async |id| self.inspect(&id).await).buffer_unordered(READS);
        let found: Vec<Result<Option<(ContainerDetail, Phase)>, Error>> = inspections.collect().await;
        found.into_iter().filter_map(Result::transpose).map(|found| found.map(|(detail, _)| detail)).collect()
    }

    /// Applies the limits of `plan` to a container, running or not; none when it is gone.
    pub async fn update(&self, id: &str, plan: &Plan) -> Result<Option<ContainerSeen>, Error> {
        let _permit = self.changes.acquire().await;
        match self.call(CHANGE, async |docker| docker.update_container(id, requests::update(plan)).await).await {
            Err(error) if error.status() == 404 => Ok(None),
            Err(error) => Err(error),
            Ok(()) => self.seen(id).await,
        }
    }

    /// Starts a container; none when it is gone.
    pub async fn start(&self, id: &str) -> Result<Option<ContainerSeen>, Error> {
        let _permit = self.changes.acquire().await;
        self.recheck_binds(id).await?;
        let work = self.in_progress.begin(id);
        let started = self.start_made(id).await;
        drop(work);
        match started {
            Err(error) if error.status() == 404 && !error.mentions("network") => Ok(None),
            Err(error) => Err(error),
            Ok(()) => self.seen(id).await,
        }
    }

    /// Stops a container and kills it after the grace; none when it is gone.
    pub async fn stop(&self, id: &str, grace: Duration) -> Result<Option<ContainerSeen>, Error> {
        let mut slot = self.stops.acquire().await;
        let work = self.in_progress.begin(id);
        let is_there = self.end(&work, grace, &mut slot).await?;
        drop((work, slot));
        if is_there { self.seen(id).await } else { Ok(None) }
    }

    /// Stops a container; false when it is gone.
    async fn end(&self, work: &Work<'_>, grace: Duration, slot: &mut StopSlot<'_>) -> Result<bool, Error> {
        let seconds = i32::try_from(grace.as_secs()).unwrap_or(i32::MAX);
        let options = StopContainerOptionsBuilder::new().t(seconds).build();
        let limit = grace + STOP_SLACK;
        let answer = self.call(limit, async |docker| docker.stop_container(work.id(), Some(options)).await);
        match slot.hold(work.died(), answer).await {
            // Already stopped.
            Err(error) if error.status() == 304 => Ok(true),
            Err(error) if error.status() == 404 => Ok(false),
            ended => ended.map(|()| true),
        }
    }

    /// Stops and removes a container.
    pub async fn remove(&self, id: &str, grace: Duration) -> Result<(), Error> {
        let mut slot = self.stops.acquire().await;
        let work = self.in_progress.begin(id);
        match self.end(&work, grace, &mut slot).await {
            Ok(false) => return Ok(()),
            Ok(true) => {}
            // Docker refuses to stop it: remove it by force.
            Err(refused @ Error::Refused { .. }) => {
                warn!(container = %id, reason = %refused, "could not stop the container; removing it by force")
            }
            Err(error) => return Err(error),
        }
        drop(slot);
        self.discard(id).await
    }

    /// Removes a container by force.
    async fn discard(&self, id: &str) -> Result<(), Error> {
        let _permit = self.changes.acquire().await;
        let options = || RemoveContainerOptionsBuilder::new().force(true).v(false).build();
        let removed = self.call(CHANGE, async |docker| docker.remove_container(id, Some(options())).await).await;
        self.sweep_is_due.store(true, Ordering::Relaxed);
        match removed {
            Err(error) if error.status() == 404 => Ok(()),
            Err(error) if error.status() == 409 => self.wait_until_gone(id).await,
            other => other,
        }
    }

    /// Sends the ids of containers with events until Docker ends the stream. `since` is Docker's time in nanoseconds and
    /// advances with each event.
    pub async fn watch(&self, since: &mut Option<i64>, changed: &mpsc::Sender<String>) -> Result<(), Error> {
        let mut filters = self.own_filters();
        filters.insert("type".to_owned(), vec!["container".to_owned()]);
        let kinds = ["start", "die", "oom", "destroy", "pause", "unpause", "health_status"];
        filters.insert("event".to_owned(), kinds.map(str::to_owned).to_vec());
        let mut options = EventsOptionsBuilder::new().filters(&filters);
        if let Some(nanoseconds) = *since {
            options = options.since(&format!("{}.{:09}", nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000));
        }
        let docker = self.docker()?;
        let mut events = std::pin::pin!(docker.events(Some(options.build())));
        while let Some(event) = events.next().await {
            let event = event.map_err(|error| self.judge(&error))?;
            *since = event.time_nano.or(*since);
            let Some(id) = event.actor.and_then(|actor| actor.id) else { continue };
            if event.action.as_deref() == Some("die") {
                self.in_progress.note_death(&id, event.time_nano.unwrap_or(0));
            }
            if changed.send(id).await.is_err() {
                return Ok(());
            }
        }
        self.health.note(Sign::Unconnected);
        Err(Error::Unconnected("the event stream ended".to_owned()))
    }

    async fn wait_until_gone(&self, id: &str) -> Result<(), Error> {
        let gone = async {
            while self.inspect(id).await?.is_some() {
                tokio::time::sleep(POLL).await;
            }
            Ok(())
        };
        tokio::time::timeout(STOP_SLACK, gone).await.unwrap_or(Err(Error::TimedOut(STOP_SLACK)))
    }

    /// The containers of this node with these labels.
    async fn list(&self, of: &[(&str, &str)]) -> Result<Vec<String>, Error> {
        let _permit = self.reads.acquire().await;
        let mut filters = self.own_filters();
        if let Some(of_label) = filters.get_mut("label") {
            of_label.extend(of.iter().map(|(label, value)| format!("{label}={value}")));
        }
        let options = || ListContainersOptionsBuilder::new().all(true).filters(&filters).build();
        let found = self.call(READ, async |docker| docker.list_containers(Some(options())).await).await?;
        Ok(found.into_iter().filter_map(|summary| summary.id).collect())
    }

    async fn inspect(&self, id: &str) -> Result<Option<(ContainerDetail, Phase)>, Error> {
        let _permit = self.reads.acquire().await;
        match self.call(READ, async |docker| docker.inspect_container(id, None).await).await {
            Err(error) if error.status() == 404 => Ok(None),
            Err(error) => Err(error),
            Ok(document) => {
                let phase = phase(&document);
                let value = serde_json::to_value(document).map_err(|error| Error::Unreadable(error.to_string()))?;
                let mut detail: ContainerDetail =
                    contract::lenient_json::from_value(value).map_err(|error| Error::Unreadable(error.to_string()))?;
                // Newer engines give the address per network only; clients read the top-level field.
                detail.network_settings.ip_address = address(&detail);
                Ok(Some((detail, phase)))
            }
        }
    }

    async fn start_made(&self, id: &str) -> Result<(), Error> {
        let started = match self.begin(id).await {
            Err(error) if error.mentions("network") && error.mentions("not found") => {
                let Some((detail, _)) = self.inspect(id).await? else { return Err(error) };
                self.forget_network(&detail.host_config.network_mode).await;
                self.ensure_network(&detail.host_config.network_mode, true).await?;
                self.begin(id).await
            }
            other => other,
        };
        match started {
            Err(error) if networks::is_about_address(&error) => self.begin_with_any_address(id, error).await,
            other => other,
        }
    }

    async fn begin(&self, id: &str) -> Result<(), Error> {
        match self.call(CHANGE, async |docker| docker.start_container(id, None).await).await {
            // Already running.
            Err(error) if error.status() == 304 => Ok(()),
            other => other,
        }
    }

    fn own_filters(&self) -> HashMap<String, Vec<String>> {
        let owner = &self.host.owner;
        let both = vec![format!("{}={}", labels::CLUSTER, owner.cluster), format!("{}={}", labels::NODE, owner.node)];
        [("label".to_owned(), both)].into()
    }
}

fn phase(document: &ContainerInspectResponse) -> Phase {
    match document.state.as_ref().and_then(|state| state.status) {
        Some(
            ContainerStateStatusEnum::RUNNING | ContainerStateStatusEnum::PAUSED | ContainerStateStatusEnum::STOPPING,
        ) => Phase::Running,
        Some(ContainerStateStatusEnum::RESTARTING | ContainerStateStatusEnum::EXITED) => Phase::Exited,
        Some(ContainerStateStatusEnum::REMOVING) => Phase::Removing,
        Some(ContainerStateStatusEnum::DEAD) => Phase::Dead,
        Some(ContainerStateStatusEnum::CREATED | ContainerStateStatusEnum::EMPTY) | None => Phase::Created,
    }
}
