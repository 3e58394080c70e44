//! The hands on the Docker engine, and the only file that knows its client library.
//!
//! Every call has a deadline and tells the pulse whether the engine lives. Reads, changes and ends have their own
//! places in line, so an end that waits for its grace holds nobody up. The surprise: the engine names a missing network,
//! and an address that cannot be had, only at start.

mod calls;
mod create;
mod images;
mod in_progress;
mod logs;
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

use bollard::errors::Error as EngineError;
use bollard::models::{
    ContainerCreateBody, ContainerInspectResponse, ContainerStateStatusEnum, ContainerUpdateBody, EndpointIpamConfig,
    EndpointSettings, HealthConfig, HostConfig, HostConfigLogConfig, Ipam, IpamConfig, Network, NetworkConnectRequest,
    NetworkCreateRequest, NetworkDisconnectRequest, NetworkingConfig, PortBinding, ThrottleDevice,
};
use bollard::query_parameters::{
    CreateContainerOptionsBuilder, CreateImageOptionsBuilder, EventsOptionsBuilder, ListContainersOptionsBuilder,
    ListNetworksOptionsBuilder, LogsOptionsBuilder, RemoveContainerOptionsBuilder, StopContainerOptionsBuilder,
};
use bollard::{API_DEFAULT_VERSION, Docker};
use contract::docker_inspect::ContainerDetail;
use contract::labels;
use futures_util::StreamExt as _;
use tokio::sync::{Semaphore, mpsc};
use tracing::warn;

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

/// Inspect and list.
const READ: Duration = Duration::from_secs(5);
/// Create and start: the engine needs a few hundred milliseconds, a loaded one several seconds.
const CHANGE: Duration = Duration::from_secs(30);
/// What a stop or removal gets beyond its grace.
const STOP_SLACK: Duration = Duration::from_secs(10);
/// Reads at a time: they are cheap, and must not wait behind creates.
const READS: usize = 8;
/// Between two looks at something another process of this engine is finishing.
const POLL: Duration = Duration::from_millis(100);

/// The facts of the machine the engine tells.
#[derive(Debug, Clone, Default)]
pub struct Machine {
    /// Cores.
    pub cores: u32,
    /// Memory in bytes.
    pub memory: u64,
    /// The engine's version.
    pub version: String,
    /// Its labels, and what it says of itself.
    pub labels: BTreeMap<String, String>,
}

/// The engine.
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
    /// Held while a network is made or removed, so that this agent makes each once.
    networks: tokio::sync::Mutex<Networks>,
    pulls: Pulls,
    pool: Pool,
    /// A container was removed, or this process began: a network may be without one.
    is_to_sweep: AtomicBool,
    /// The engine takes MemorySwappiness: those on cgroup v2 warn about it or refuse it, and have no use for it.
    swappiness: AtomicBool,
}

impl Engine {
    /// The engine behind `socket`; nothing is asked yet.
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
            is_to_sweep: AtomicBool::new(true),
            swappiness: AtomicBool::new(true),
        }
    }

    /// The same, with networks made from these ranges.
    #[must_use]
    pub fn with_pool(self, pool: Pool) -> Self {
        Self { pool, ..self }
    }

    /// Asks for a sign of life.
    pub async fn ping(&self, limit: Duration) -> Result<(), Error> {
        self.call(limit, async |docker| docker.ping().await).await.map(drop)
    }

    /// What the machine is and has.
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

    /// Every container of this node, as it is.
    pub async fn inventory(&self) -> Result<Vec<ContainerSeen>, Error> {
        let ids = self.list(None).await?;
        let looks = futures_util::stream::iter(ids).map(async |id| self.look(&id).await).buffer_unordered(READS);
        let seen: Vec<Result<Option<ContainerSeen>, Error>> = looks.collect().await;
        // A container that left between the list and the look is simply not there.
        seen.into_iter().filter_map(Result::transpose).collect()
    }

    /// One container of this node; none when it is gone or not ours.
    pub async fn look(&self, id: &str) -> Result<Option<ContainerSeen>, Error> {
        let Some((detail, phase)) = self.inspect(id).await? else { return Ok(None) };
        Ok(seen(&self.host.owner, &detail, phase))
    }

    /// Whether a step works on the container and will tell what became of it.
    pub fn is_at_work_on(&self, id: &str) -> bool {
        self.in_progress.has(id)
    }

    /// The inspect documents of one group's containers on this node.
    pub async fn details(&self, group: &str) -> Result<Vec<ContainerDetail>, Error> {
        let ids = self.list(Some(group)).await?;
        let looks = futures_util::stream::iter(ids).map(async |id| self.inspect(&id).await).buffer_unordered(READS);
        let found: Vec<Result<Option<(ContainerDetail, Phase)>, Error>> = looks.collect().await;
        found.into_iter().filter_map(Result::transpose).map(|found| found.map(|(detail, _)| detail)).collect()
    }

    /// Gives a container the limits of `plan`, running or not; none when it is gone.
    pub async fn update(&self, id: &str, plan: &Plan) -> Result<Option<ContainerSeen>, Error> {
        let _place = self.changes.acquire().await;
        match self.call(CHANGE, async |docker| docker.update_container(id, requests::update(plan)).await).await {
            Err(error) if error.status() == 404 => Ok(None),
            Err(error) => Err(error),
            Ok(()) => self.look(id).await,
        }
    }

    /// Starts a container; none when it is gone.
    pub async fn start(&self, id: &str) -> Result<Option<ContainerSeen>, Error> {
        let _place = self.changes.acquire().await;
        let work = self.in_progress.begin(id);
        let started = self.start_made(id).await;
        drop(work);
        match started {
            Err(error) if error.status() == 404 && !error.says("network") => Ok(None),
            Err(error) => Err(error),
            Ok(()) => self.look(id).await,
        }
    }

    /// Asks a container to end and kills it after the grace; none when it is gone.
    pub async fn stop(&self, id: &str, grace: Duration) -> Result<Option<ContainerSeen>, Error> {
        let mut place = self.stops.acquire().await;
        let work = self.in_progress.begin(id);
        let is_there = self.end(&work, grace, &mut place).await?;
        drop((work, place));
        if is_there { self.look(id).await } else { Ok(None) }
    }

    /// Whether the container is still there after its end.
    async fn end(&self, work: &Work<'_>, grace: Duration, place: &mut StopSlot<'_>) -> Result<bool, Error> {
        let seconds = i32::try_from(grace.as_secs()).unwrap_or(i32::MAX);
        let options = StopContainerOptionsBuilder::new().t(seconds).build();
        let limit = grace + STOP_SLACK;
        let answer = self.call(limit, async |docker| docker.stop_container(work.id(), Some(options)).await);
        match place.hold(work.died(), answer).await {
            // It had ended before.
            Err(error) if error.status() == 304 => Ok(true),
            Err(error) if error.status() == 404 => Ok(false),
            ended => ended.map(|()| true),
        }
    }

    /// Removes a container, after a stop with grace. It is gone when this returns well.
    pub async fn remove(&self, id: &str, grace: Duration) -> Result<(), Error> {
        let mut place = self.stops.acquire().await;
        let work = self.in_progress.begin(id);
        match self.end(&work, grace, &mut place).await {
            Ok(false) => return Ok(()),
            Ok(true) => {}
            // The engine refuses to stop it: removal by force is what is left.
            Err(refused @ Error::Refused { .. }) => warn!(container = %id, reason = %refused, "cannot stop"),
            Err(error) => return Err(error),
        }
        drop(place);
        self.discard(id).await
    }

    /// Removes a container that has ended, or whatever it does.
    async fn discard(&self, id: &str) -> Result<(), Error> {
        let _place = self.changes.acquire().await;
        let options = || RemoveContainerOptionsBuilder::new().force(true).v(false).build();
        let removed = self.call(CHANGE, async |docker| docker.remove_container(id, Some(options())).await).await;
        self.is_to_sweep.store(true, Ordering::Relaxed);
        match removed {
            Err(error) if error.status() == 404 => Ok(()),
            Err(error) if error.status() == 409 => self.wait_until_gone(id).await,
            other => other,
        }
    }

    /// Tells which containers something happened to, until the engine ends the stream. `since` is the engine's time
    /// in nanoseconds and moves on with each event.
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

    async fn list(&self, group: Option<&str>) -> Result<Vec<String>, Error> {
        let _place = self.reads.acquire().await;
        let mut filters = self.own_filters();
        if let (Some(group), Some(of_label)) = (group, filters.get_mut("label")) {
            of_label.push(format!("{}={group}", labels::POD_NAME));
        }
        let options = || ListContainersOptionsBuilder::new().all(true).filters(&filters).build();
        let found = self.call(READ, async |docker| docker.list_containers(Some(options())).await).await?;
        Ok(found.into_iter().filter_map(|summary| summary.id).collect())
    }

    async fn inspect(&self, id: &str) -> Result<Option<(ContainerDetail, Phase)>, Error> {
        let _place = self.reads.acquire().await;
        match self.call(READ, async |docker| docker.inspect_container(id, None).await).await {
            Err(error) if error.status() == 404 => Ok(None),
            Err(error) => Err(error),
            Ok(document) => {
                let phase = phase(&document);
                let value = serde_json::to_value(document).map_err(|error| Error::Unreadable(error.to_string()))?;
                let mut detail: ContainerDetail =
                    contract::lenient_json::from_value(value).map_err(|error| Error::Unreadable(error.to_string()))?;
                // Newer engines tell the address per network only; clients read the one at the top.
                detail.network_settings.ip_address = address(&detail);
                Ok(Some((detail, phase)))
            }
        }
    }

    async fn start_made(&self, id: &str) -> Result<(), Error> {
        let started = match self.begin(id).await {
            Err(error) if error.says("network") && error.says("not found") => {
                let Some((detail, _)) = self.inspect(id).await? else { return Err(error) };
                self.forget_network(&detail.host_config.network_mode).await;
                self.ensure_network(&detail.host_config.network_mode).await?;
                self.begin(id).await
            }
            other => other,
        };
        match started {
            Err(error) if networks::is_about_address(&error) => self.begin_elsewhere(id, error).await,
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
