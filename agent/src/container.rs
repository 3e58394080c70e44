//! Maps a pod spec to Docker's container settings, and Docker's inspect document to a [`ContainerSeen`]. Pure.
//!
//! Paths are joined like in the original, without normalization (`.../1//lain/logs`).

use std::collections::BTreeMap;

use contract::docker_inspect::ContainerDetail;
use contract::labels::{self, Owner};
use contract::pod_id::PodId;
use contract::spec::{ContainerSpec, HealthOptions, PodSpec};
use contract::state::HealthState;

use crate::core::io::{ContainerSeen, Phase};
use crate::device::Throttle;
use crate::policy::Restraints;
use crate::volumes::VolumeDir;

/// Length of a CPU accounting period, in microseconds.
pub const CPU_PERIOD: i64 = 1_000_000;
const NANOSECONDS: i64 = 1_000_000_000;
/// Log drivers that keep files on the node, without a limit of their own.
const BOUNDED_LOGS: [&str; 2] = ["json-file", "local"];

/// Settings of the node that apply to every container.
#[derive(Debug, Clone)]
pub struct Host {
    pub owner: Owner,
    pub volume_root: String,
    pub cloud_volume_root: String,
    /// CPU level 8 is half of these cores.
    pub quota_cores: u32,
    /// Published ports listen on this address; empty means all.
    pub publish_ip: String,
    /// Limits of one container on the node's block devices.
    pub throttles: Vec<Throttle>,
}

/// Everything needed to create one container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    pub name: String,
    pub image: String,
    pub labels: BTreeMap<String, String>,
    /// `KEY=value` in order.
    pub env: Vec<String>,
    pub command: Vec<String>,
    /// None means the image's.
    pub entrypoint: Option<Vec<String>>,
    /// Empty means the image's.
    pub user: String,
    /// Empty means the image's.
    pub working_dir: String,
    /// Paths declared as volumes.
    pub volumes: Vec<String>,
    /// `host:container` binds in order.
    pub binds: Vec<String>,
    /// `<port>/tcp`, when the pod has one.
    pub port: Option<String>,
    pub publish_ip: String,
    pub network: String,
    /// Reserved address; empty means any.
    pub address: String,
    pub dns_search: Vec<String>,
    /// Log driver and options; none means Docker's default.
    pub log: Option<(String, BTreeMap<String, String>)>,
    /// In bytes, swap included; 0 means unlimited.
    pub memory: i64,
    /// Share of [`CPU_PERIOD`].
    pub cpu_quota: i64,
    pub throttles: Vec<Throttle>,
    /// None means the image's.
    pub health: Option<HealthPlan>,
    /// Directories below the roots of volumes that `binds` mount.
    pub volume_dirs: Vec<VolumeDir>,
    /// None under `trusted`.
    pub restraints: Option<Restraints>,
}

impl Plan {
    /// The container under a policy: fewer rights, and bounded logs unless the spec bounds them.
    #[must_use]
    pub fn restrained(self, restraints: Option<Restraints>) -> Self {
        if restraints.is_none() {
            return self;
        }
        let (kind, mut config) = self.log.unwrap_or_else(|| ("json-file".to_owned(), BTreeMap::new()));
        if BOUNDED_LOGS.contains(&kind.as_str()) && !config.contains_key("max-size") {
            config.insert("max-size".to_owned(), "10m".to_owned());
            config.entry("max-file".to_owned()).or_insert_with(|| "3".to_owned());
        }
        Self { log: Some((kind, config)), restraints, ..self }
    }

    /// Whether it takes over an address or data, so that the previous container must be stopped completely first.
    pub fn inherits(&self) -> bool {
        !self.address.is_empty() || !self.binds.is_empty()
    }
}

/// A health check, times in nanoseconds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HealthPlan {
    /// In Docker's format.
    pub test: Vec<String>,
    /// Interval; 0 means Docker's default.
    pub interval: i64,
    pub timeout: i64,
    pub retries: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("the spec has no container {0}")]
    NoContainer(usize),
    /// The API refuses such specs; stored ones may be older than that check.
    #[error("volume {0} is outside its root")]
    Outside(String),
}

/// Plans container `index` of `pod`.
pub fn plan(host: &Host, pod: &PodId, spec: &PodSpec, index: usize) -> Result<Plan, Error> {
    let container = spec.containers.get(index).ok_or(Error::NoContainer(index))?;
    check_places(spec, container)?;
    Ok(Plan {
        name: pod.container_name(index, spec.containers.len()),
        image: container.image.clone(),
        labels: labels::of(&host.owner, pod, spec, index),
        env: environment(pod, spec, container),
        command: container.command.clone(),
        entrypoint: container.entrypoint.clone(),
        user: container.user.clone(),
        working_dir: container.working_dir.clone(),
        volumes: declared_volumes(container),
        binds: binds(host, pod, spec, container, index),
        port: (container.expose > 0).then(|| format!("{}/tcp", container.expose)),
        publish_ip: host.publish_ip.clone(),
        network: spec.network_name().to_owned(),
        address: String::new(),
        dns_search: container.dns_search.clone(),
        log: (!container.log_config.kind.is_empty())
            .then(|| (container.log_config.kind.clone(), container.log_config.config.clone())),
        memory: container.memory(),
        cpu_quota: cpu_quota(container, host.quota_cores),
        throttles: host.throttles.clone(),
        health: health(spec),
        volume_dirs: volume_dirs(host, pod, spec, container, index),
        restraints: None,
    })
}

fn environment(pod: &PodId, spec: &PodSpec, container: &ContainerSpec) -> Vec<String> {
    let ours = [
        format!("DEPLOYD_POD_INSTANCE_NO={}", pod.instance),
        format!("DEPLOYD_POD_NAME={}", pod.group),
        format!("DEPLOYD_POD_NAMESPACE={}", spec.namespace),
    ];
    container.env.iter().cloned().chain(ours).collect()
}

fn declared_volumes(container: &ContainerSpec) -> Vec<String> {
    let mounted = |bind: &String| bind.split(':').nth(1).map(str::to_owned);
    container.volumes.iter().cloned().chain(container.system_volumes.iter().filter_map(mounted)).collect()
}

/// Rejects paths that leave the root.
fn check_places(spec: &PodSpec, container: &ContainerSpec) -> Result<(), Error> {
    let clouds = container.cloud_volumes.iter().flat_map(|volume| &volume.dirs);
    let mut places = std::iter::once(&spec.namespace).chain(&container.volumes).chain(clouds);
    let leaves = |place: &&String| place.contains(':') || place.split('/').any(|part| part == "..");
    places.find(leaves).map_or(Ok(()), |place| Err(Error::Outside(place.clone())))
}

fn binds(host: &Host, pod: &PodId, spec: &PodSpec, container: &ContainerSpec, index: usize) -> Vec<String> {
    let bound = |(dir, path): (VolumeDir, &String)| format!("{}{}:{path}", dir.root, dir.path);
    let local = local_dirs(host, pod, spec, container, index).map(bound);
    let cloud = cloud_dirs(host, pod, spec, container).map(bound);
    local.chain(container.system_volumes.iter().cloned()).chain(cloud).collect()
}

fn volume_dirs(host: &Host, pod: &PodId, spec: &PodSpec, container: &ContainerSpec, index: usize) -> Vec<VolumeDir> {
    let both = local_dirs(host, pod, spec, container, index).chain(cloud_dirs(host, pod, spec, container));
    both.map(|(dir, _)| dir).collect()
}

/// The directories of a container's volumes, with the paths at which it mounts them.
fn local_dirs<'a>(
    host: &Host,
    pod: &PodId,
    spec: &PodSpec,
    container: &'a ContainerSpec,
    index: usize,
) -> impl Iterator<Item = (VolumeDir, &'a String)> {
    let place = format!("/{}/{}/{}", spec.namespace, pod.group, pod.instance);
    let part = if spec.containers.len() > 1 { format!("/c{index}") } else { String::new() };
    let root = host.volume_root.clone();
    container
        .volumes
        .iter()
        .map(move |path| (VolumeDir { root: root.clone(), path: format!("{place}{part}/{path}") }, path))
}

fn cloud_dirs<'a>(
    host: &Host,
    pod: &PodId,
    spec: &PodSpec,
    container: &'a ContainerSpec,
) -> impl Iterator<Item = (VolumeDir, &'a String)> {
    let group = format!("/{}/{}", spec.namespace, pod.group);
    let (root, number) = (host.cloud_volume_root.clone(), pod.instance);
    container.cloud_volumes.iter().flat_map(move |volume| {
        let instance = if volume.kind == "multi" { format!("/{number}") } else { String::new() };
        let (root, place) = (root.clone(), format!("{group}{instance}"));
        volume.dirs.iter().map(move |path| (VolumeDir { root: root.clone(), path: format!("{place}/{path}") }, path))
    })
}
fn cpu_quota(container: &ContainerSpec, quota_cores: u32) -> i64 {
    let alone = PodSpec { containers: vec![container.clone()], ..PodSpec::default() };
    // Computed in thousandths of a core, which are microseconds of the period: no rounding.
    i64::try_from(alone.cpu_millis(quota_cores.saturating_mul(1000))).unwrap_or(i64::MAX)
}

fn health(spec: &PodSpec) -> Option<HealthPlan> {
    let HealthOptions { interval, timeout, retries } = spec.health_config.options.used();
    let command = match spec.health_config.cmd.as_str() {
        "none" => return Some(HealthPlan { test: vec!["NONE".to_owned()], ..HealthPlan::default() }),
        // A check in the annotation is one of the agent's.
        "" => return None,
        command => format!("{command} || exit 1"),
    };
    Some(HealthPlan {
        test: vec!["CMD-SHELL".to_owned(), command],
        interval: interval.saturating_mul(NANOSECONDS),
        timeout: timeout.saturating_mul(NANOSECONDS),
        retries,
    })
}

/// Converts an inspect document; none when the container is not `owner`'s.
pub fn seen(owner: &Owner, detail: &ContainerDetail, phase: Phase) -> Option<ContainerSeen> {
    let texts = detail.config.labels.as_ref()?;
    let identity = labels::identify(owner, |key| texts.get(key).map(String::as_str))?;
    Some(ContainerSeen {
        id: detail.id.clone(),
        identity,
        phase,
        health: health_state(detail),
        exit_code: detail.state.exit_code,
        oom_killed: detail.state.oom_killed,
        error: detail.state.error.clone(),
        started_at: detail.state.started_at,
        finished_at: detail.state.finished_at,
        ip: address(detail),
        node_port: node_port(detail),
        spec_digest: texts.get(labels::SPEC_DIGEST).cloned().unwrap_or_default(),
        last_line: String::new(),
    })
}

/// Address on the container's own network, or on any.
pub fn address(detail: &ContainerDetail) -> String {
    let networks = &detail.network_settings.networks;
    let first = || networks.values().find(|endpoint| !endpoint.ip_address.is_empty());
    let own = networks.get(&detail.host_config.network_mode).filter(|endpoint| !endpoint.ip_address.is_empty());
    own.or_else(first).map(|endpoint| endpoint.ip_address.clone()).unwrap_or_default()
}

fn node_port(detail: &ContainerDetail) -> u16 {
    let bindings = detail.network_settings.ports.values().flatten().flatten();
    bindings.filter_map(|binding| binding.host_port.parse().ok()).find(|port| *port != 0).unwrap_or(0)
}

fn health_state(detail: &ContainerDetail) -> HealthState {
    // Docker's words; an unknown one counts as no health check.
    match detail.state.health.as_ref().map(|health| health.status.as_str()) {
        Some("starting") => HealthState::Starting,
        Some("healthy") => HealthState::Healthy,
        Some("unhealthy") => HealthState::Unhealthy,
        Some(_) | None => HealthState::None,
    }
}

#[cfg(test)]
#[path = "container_tests.rs"]
mod tests;
