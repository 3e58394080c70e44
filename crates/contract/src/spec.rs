//! What a user asks for: PodGroupSpec and its parts, with the field names deployd's clients send and read.
//!
//! Every field may be absent or `null` on input (see [`crate::lenient_json`]); on output every field is
//! present, because the Python clients index without asking.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize};

use crate::ranges;
use crate::rollout::{Amount, Drain, FailureAction, PodReplacement, Strategy, StrategyType, Topology, UpdatePolicy};
use crate::state::{DependencyPolicy, RestartPolicy};
use crate::time::{Timestamp, rfc3339};

/// `MinReadySeconds` of a group with a strategy that does not write it.
pub const DEFAULT_MIN_READY_SECONDS: i64 = 10;
/// `ProgressDeadlineSeconds` of a group that does not write it.
pub const DEFAULT_PROGRESS_DEADLINE_SECONDS: i64 = 600;

/// N numbered instances of one pod. `P` is what stands for the pod spec: the spec itself, or in etcd a reference to it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct PodGroupSpec<P = PodSpec> {
    /// Unique name, by convention `<app>.<proctype>.<proc>`.
    pub name: String,
    /// Namespace, by convention the app.
    pub namespace: String,
    /// Version; ours, whatever the client sends.
    pub version: u32,
    /// When the group was created.
    #[serde(with = "rfc3339")]
    pub created_at: Timestamp,
    /// When its spec last changed.
    #[serde(with = "rfc3339")]
    pub updated_at: Timestamp,
    /// What each instance is.
    pub pod: P,
    /// How many instances.
    pub num_instances: i64,
    /// When a container that ended is started again.
    pub restart_policy: RestartPolicy,
    /// How a spec change is made; one instance at a time unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strategy: Option<Strategy>,
    /// The deployment units it is spread over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topology: Option<Topology>,
    /// An instance counts as available after it has been ready for this many seconds. See [`PodGroupSpec::min_ready`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_ready_seconds: Option<i64>,
    /// How long a release may go without progress; 600 unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress_deadline_seconds: Option<i64>,
    /// Former revisions that are kept; 10 unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision_history_limit: Option<i64>,
    /// Nothing of a release starts; what `cmd=rollout&action=pause` says.
    #[serde(skip_serializing_if = "is_default")]
    pub paused: bool,
    /// When a pod that goes stops counting.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_replacement: Option<PodReplacement>,
    /// Whether a change may be made without another pod.
    #[serde(skip_serializing_if = "is_default")]
    pub update_policy: UpdatePolicy,
    /// What a failed rollout leads to. See [`PodGroupSpec::on_failure`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_action: Option<FailureAction>,
    /// How many pods may be missing at the deadline, count or percent of those committed; none unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_threshold: Option<Amount>,
    /// Restarts after which a new pod counts as failed; 3 unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fail_fast_restarts: Option<i64>,
    /// Named booleans that somebody outside sets: an instance is ready only when all are true.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub readiness_gates: Vec<String>,
    /// How an instance is taken out of service before its pod goes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drain: Option<Drain>,
}

impl<P> PodGroupSpec<P> {
    /// The same group with something else in place of the pod spec, and what was there before.
    pub fn replace_pod<Q>(self, pod: Q) -> (PodGroupSpec<Q>, P) {
        let Self {
            name,
            namespace,
            version,
            created_at,
            updated_at,
            pod: before,
            num_instances,
            restart_policy,
            strategy,
            topology,
            min_ready_seconds,
            progress_deadline_seconds,
            revision_history_limit,
            paused,
            pod_replacement,
            update_policy,
            failure_action,
            failure_threshold,
            fail_fast_restarts,
            readiness_gates,
            drain,
        } = self;
        let spec = PodGroupSpec {
            name,
            namespace,
            version,
            created_at,
            updated_at,
            pod,
            num_instances,
            restart_policy,
            strategy,
            topology,
            min_ready_seconds,
            progress_deadline_seconds,
            revision_history_limit,
            paused,
            pod_replacement,
            update_policy,
            failure_action,
            failure_threshold,
            fail_fast_restarts,
            readiness_gates,
            drain,
        };
        (spec, before)
    }
}

impl PodGroupSpec {
    /// The way its spec changes are made.
    pub fn strategy_type(&self) -> StrategyType {
        self.strategy.as_ref().map(|strategy| strategy.kind).unwrap_or_default()
    }

    /// Its spec changes are releases of the conductor; otherwise they are the serial upgrade.
    pub fn has_strategy(&self) -> bool {
        self.strategy_type() != StrategyType::Serial
    }

    /// How long an instance must be ready before it counts as available. Groups with a strategy wait 10 s unless the spec
    /// says otherwise, so that a program that exits a few seconds after its start never counts. The default is at most half
    /// of the progress deadline: with `ProgressDeadlineSeconds: 8` it is 4 s. A serial group has no such wait.
    pub fn min_ready(&self) -> Duration {
        let default = if self.has_strategy() { DEFAULT_MIN_READY_SECONDS.min(self.progress_deadline() / 2) } else { 0 };
        Duration::from_secs(u64::try_from(self.min_ready_seconds.unwrap_or(default)).unwrap_or(0))
    }

    /// Seconds a rollout may go without progress.
    pub fn progress_deadline(&self) -> i64 {
        self.progress_deadline_seconds.unwrap_or(DEFAULT_PROGRESS_DEADLINE_SECONDS)
    }

    /// What a failed rollout leads to: a rollback unless the spec says otherwise.
    pub fn on_failure(&self) -> FailureAction {
        self.failure_action.unwrap_or(FailureAction::Rollback)
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Containers that are placed together.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct PodSpec {
    /// Equal to the group's name.
    pub name: String,
    /// Namespace.
    pub namespace: String,
    /// Equal to the group's version.
    pub version: u32,
    /// When it was created.
    #[serde(with = "rfc3339")]
    pub created_at: Timestamp,
    /// When it last changed.
    #[serde(with = "rfc3339")]
    pub updated_at: Timestamp,
    /// Docker network; empty means the one called like the namespace.
    pub network: String,
    /// The containers, in the order they are created.
    pub containers: Vec<ContainerSpec>,
    /// Placement expressions such as `constraint:group==default`.
    pub filters: Vec<String>,
    /// Extra container labels.
    pub labels: BTreeMap<String, String>,
    /// Dependency pods this pod needs beside it.
    pub dependencies: Vec<Dependency>,
    /// A JSON object as text.
    pub annotation: String,
    /// Bound to its node for good.
    pub stateful: bool,
    /// Seconds until an instance without health check counts as ready.
    pub setup_time: i64,
    /// Seconds between the request to stop and the kill.
    pub kill_timeout: i64,
    /// Echoed as the client sent it.
    pub prev_state: PrevState,
    /// Health check.
    pub health_config: HealthConfig,
}

/// One container of a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ContainerSpec {
    /// Informational.
    pub name: String,
    /// Informational.
    pub namespace: String,
    /// Informational.
    pub version: u32,
    /// Informational.
    #[serde(with = "rfc3339")]
    pub created_at: Timestamp,
    /// Informational.
    #[serde(with = "rfc3339")]
    pub updated_at: Timestamp,
    /// Image reference.
    pub image: String,
    /// `KEY=value` entries.
    pub env: Vec<String>,
    /// User to run as; empty means the image's.
    pub user: String,
    /// Working directory; empty means the image's.
    pub working_dir: String,
    /// DNS search domains.
    pub dns_search: Vec<String>,
    /// Container paths that live on the node per instance.
    pub volumes: Vec<String>,
    /// `host:container` binds taken verbatim.
    pub system_volumes: Vec<String>,
    /// Directories on shared storage.
    pub cloud_volumes: Vec<CloudVolume>,
    /// Command; empty means the image's.
    pub command: Vec<String>,
    /// Entrypoint; `null` means the image's.
    pub entrypoint: Option<Vec<String>>,
    /// CPU level 0..8.
    pub cpu_limit: i64,
    /// Memory in bytes; 0 means unlimited.
    pub memory_limit: i64,
    /// The one TCP port; 0 means none.
    pub expose: i64,
    /// Log driver.
    pub log_config: LogConfig,
}

/// A dependency pod by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Dependency {
    /// Name of the dependency pod.
    pub pod_name: String,
    /// How far it is shared.
    pub policy: DependencyPolicy,
}

/// Where an instance last was.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PrevState {
    /// Node.
    #[serde(rename = "NodeName")]
    pub node_name: String,
    /// Addresses, one per container.
    #[serde(rename = "IPs")]
    pub ips: Vec<String>,
}

/// Health check of a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HealthConfig {
    /// Shell command; `none` switches the image's own check off.
    pub cmd: String,
    /// Timing.
    pub options: HealthOptions,
}

/// Timing of a health check, in seconds; values below the minimum are raised to it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HealthOptions {
    /// Between two checks.
    pub interval: i64,
    /// Of one check.
    pub timeout: i64,
    /// Failures in a row until unhealthy.
    pub retries: i64,
}

/// Directories on shared storage.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct CloudVolume {
    /// `multi`: one directory per instance; `single`: one for all.
    #[serde(rename = "Type")]
    pub kind: String,
    /// Container paths.
    pub dirs: Vec<String>,
}

/// Docker log driver.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct LogConfig {
    /// Driver; empty means the engine's default.
    #[serde(rename = "Type")]
    pub kind: String,
    /// Driver options. Answers show none of them as `null`, as the original does.
    #[serde(deserialize_with = "null_is_empty")]
    pub config: BTreeMap<String, String>,
}

fn null_is_empty<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, String>, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

impl PodSpec {
    /// The Docker network the pod's containers join.
    pub fn network_name(&self) -> &str {
        if self.network.is_empty() { &self.namespace } else { &self.network }
    }

    /// Stateful in the wide sense: the flag, or a volume other than `/lain/logs`.
    pub fn is_stateful(&self) -> bool {
        let keeps_data = |c: &ContainerSpec| !c.volumes.is_empty() && c.volumes != ["/lain/logs"];
        self.stateful || self.containers.iter().any(keeps_data)
    }

    /// What its containers are made of, in their order.
    pub fn images(&self) -> impl Iterator<Item = &str> {
        self.containers.iter().map(|container| container.image.as_str())
    }

    /// Memory all containers may use together, in bytes.
    pub fn memory(&self) -> u64 {
        let limits = self.containers.iter().map(|container| container.memory().unsigned_abs());
        limits.fold(0, u64::saturating_add)
    }

    /// CPU all containers may use together, in thousandths of a core. Level 8 is half of `quota_cores`;
    /// no level, or one below 1, counts as 2.
    pub fn cpu_millis(&self, quota_cores: u32) -> u64 {
        let level = |c: &ContainerSpec| match c.cpu_limit {
            ..1 => 2,
            level => ranges::CPU_LIMIT.used(level).unsigned_abs(),
        };
        // A level is at most 8 and there are fewer than 2^32 cores: a product fits 46 bits.
        self.containers.iter().map(|c| level(c) * u64::from(quota_cores) * 1000 / 16).fold(0, u64::saturating_add)
    }

    /// How long an instance gets between stop and kill; 10 s when it is not set.
    pub fn kill_grace(&self) -> Duration {
        Duration::from_secs(ranges::KILL_TIMEOUT.used(self.kill_timeout).unsigned_abs())
    }

    /// How long an instance without a health check takes to be ready.
    pub fn setup(&self) -> Duration {
        Duration::from_secs(ranges::SETUP_TIME.used(self.setup_time).unsigned_abs())
    }
}

impl ContainerSpec {
    /// The memory limit in bytes; 0 means unlimited.
    pub fn memory(&self) -> i64 {
        ranges::MEMORY_LIMIT.used(self.memory_limit)
    }
}

impl HealthOptions {
    /// The options as they are used.
    #[must_use]
    pub fn used(&self) -> Self {
        Self {
            interval: ranges::HEALTH_INTERVAL.used(self.interval),
            timeout: ranges::HEALTH_TIMEOUT.used(self.timeout),
            retries: ranges::HEALTH_RETRIES.used(self.retries),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn container(cpu: i64, volumes: &[&str]) -> ContainerSpec {
        ContainerSpec {
            cpu_limit: cpu,
            volumes: volumes.iter().map(|v| (*v).to_owned()).collect(),
            ..Default::default()
        }
    }

    #[test]
    fn the_log_volume_alone_does_not_make_a_pod_stateful() {
        let pod = |v: &[&str]| PodSpec { containers: vec![container(1, v)], ..Default::default() };
        assert!(!pod(&["/lain/logs"]).is_stateful());
        assert!(!pod(&[]).is_stateful());
        assert!(pod(&["/lain/logs", "/data"]).is_stateful());
        assert!(PodSpec { stateful: true, ..pod(&[]) }.is_stateful());
    }

    #[test]
    fn numbers_of_any_size_make_sums_that_fit() {
        let large = ContainerSpec { cpu_limit: i64::MAX, memory_limit: i64::MAX, ..Default::default() };
        let pod =
            PodSpec { containers: vec![large; 16], setup_time: i64::MAX, kill_timeout: i64::MAX, ..Default::default() };
        assert_eq!((pod.memory(), pod.cpu_millis(u32::MAX)), (16 << 50, 16 * 8 * u64::from(u32::MAX) * 1000 / 16));
        assert_eq!((pod.setup().as_secs(), pod.kill_grace().as_secs()), (300, 120));
        let below = PodSpec { setup_time: i64::MIN, kill_timeout: i64::MIN, ..Default::default() };
        assert_eq!((below.setup().as_secs(), below.kill_grace().as_secs()), (0, 10));
    }

    #[test]
    fn cpu_levels_are_sixteenths_of_the_quota_cores_and_default_to_two() {
        let pod = |levels: &[i64]| PodSpec {
            containers: levels.iter().map(|l| container(*l, &[])).collect(),
            ..Default::default()
        };
        assert_eq!(pod(&[1]).cpu_millis(8), 500);
        assert_eq!(pod(&[0]).cpu_millis(8), 1000);
        assert_eq!(pod(&[99, 1]).cpu_millis(8), 4500);
    }
}
