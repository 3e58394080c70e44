//! Desired state as users write it: PodGroupSpec and its parts, with the field names of the original API.
//!
//! On input every field may be absent or `null` (see [`crate::lenient_json`]). On output every field of the original
//! API is present, because Python clients read them without a check.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize};

use crate::check::Check;
use crate::ranges;
use crate::rollout::{Amount, Drain, FailureAction, PodReplacement, Strategy, StrategyType, Topology, UpdatePolicy};
use crate::state::{DependencyPolicy, RestartPolicy};
use crate::time::{Timestamp, rfc3339};

/// Default of `MinReadySeconds` for groups with a strategy, in seconds.
pub const DEFAULT_MIN_READY_SECONDS: i64 = 10;
/// Default of `ProgressDeadlineSeconds`, in seconds.
pub const DEFAULT_PROGRESS_DEADLINE_SECONDS: i64 = 600;

/// N numbered instances of one pod. `P` stands for the pod spec: the spec itself, or in etcd a reference to it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct PodGroupSpec<P = PodSpec> {
    /// Unique name, by convention `<app>.<proctype>.<proc>`.
    pub name: String,
    /// Namespace, by convention the app.
    pub namespace: String,
    /// Revision of the pod spec. The leader assigns it and ignores what the client sends.
    pub version: u32,
    /// When the group was created.
    #[serde(with = "rfc3339")]
    pub created_at: Timestamp,
    /// When its spec last changed.
    #[serde(with = "rfc3339")]
    pub updated_at: Timestamp,
    /// The pod spec of every instance.
    pub pod: P,
    /// Desired number of instances.
    pub num_instances: i64,
    /// When the agent restarts a container that exited.
    pub restart_policy: RestartPolicy,
    /// How a spec change is rolled out; default: one instance at a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strategy: Option<Strategy>,
    /// The deployment units that the instances are divided over; default none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topology: Option<Topology>,
    /// An instance counts as available after it has been ready for this many seconds. See [`PodGroupSpec::min_ready`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_ready_seconds: Option<i64>,
    /// How long a rollout may make no progress, in seconds; default 600.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress_deadline_seconds: Option<i64>,
    /// Number of earlier revisions to keep; default 10.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision_history_limit: Option<i64>,
    /// Pauses the rollout, like `cmd=rollout&action=pause`.
    #[serde(skip_serializing_if = "is_default")]
    pub paused: bool,
    /// When a terminating pod stops counting toward the total; the default depends on the strategy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_replacement: Option<PodReplacement>,
    /// Whether a pod may be updated in place.
    #[serde(skip_serializing_if = "is_default")]
    pub update_policy: UpdatePolicy,
    /// What happens after a rollout failed. See [`PodGroupSpec::on_failure`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_action: Option<FailureAction>,
    /// Pods of a batch that may be unavailable at the deadline; a count, or a percentage of the pods to update. Default
    /// 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_threshold: Option<Amount>,
    /// Restarts after which a new pod counts as failed; default 3.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fail_fast_restarts: Option<i64>,
    /// Readiness gates: booleans that an external system sets. An instance is ready only when all of them are true.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub readiness_gates: Vec<String>,
    /// How an instance is drained before its pod is replaced or removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drain: Option<Drain>,
}

impl<P> PodGroupSpec<P> {
    /// Replaces the pod spec; returns the new group and the old pod spec.
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
    /// The strategy in effect.
    pub fn strategy_type(&self) -> StrategyType {
        self.strategy.as_ref().map(|strategy| strategy.kind).unwrap_or_default()
    }

    /// Whether the group uses a rollout strategy; otherwise it upgrades one instance at a time.
    pub fn has_strategy(&self) -> bool {
        self.strategy_type() != StrategyType::Serial
    }

    /// How long an instance must be ready before it counts as available. Groups with a strategy wait 10 s by default,
    /// so that a program that exits a few seconds after its start never counts. The default is at most half of the
    /// progress deadline: with `ProgressDeadlineSeconds: 8` it is 4 s. A group without a strategy does not wait.
    pub fn min_ready(&self) -> Duration {
        let default = if self.has_strategy() { DEFAULT_MIN_READY_SECONDS.min(self.progress_deadline() / 2) } else { 0 };
        Duration::from_secs(u64::try_from(self.min_ready_seconds.unwrap_or(default)).unwrap_or(0))
    }

    /// How long a rollout may make no progress, in seconds.
    pub fn progress_deadline(&self) -> i64 {
        self.progress_deadline_seconds.unwrap_or(DEFAULT_PROGRESS_DEADLINE_SECONDS)
    }

    /// What happens after a rollout failed; default: a rollback.
    pub fn on_failure(&self) -> FailureAction {
        self.failure_action.unwrap_or(FailureAction::Rollback)
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Containers that are placed together on one node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct PodSpec {
    /// Equal to the group's name.
    pub name: String,
    /// Namespace of the group.
    pub namespace: String,
    /// Revision: equal to the group's version.
    pub version: u32,
    /// When it was created.
    #[serde(with = "rfc3339")]
    pub created_at: Timestamp,
    /// When it last changed.
    #[serde(with = "rfc3339")]
    pub updated_at: Timestamp,
    /// Docker network; empty means the network named like the namespace.
    pub network: String,
    /// The containers, in the order they are created.
    pub containers: Vec<ContainerSpec>,
    /// Placement constraints, for example `constraint:group==default`.
    pub filters: Vec<String>,
    /// Additional container labels.
    pub labels: BTreeMap<String, String>,
    /// Dependency pods that must run on the same node.
    pub dependencies: Vec<Dependency>,
    /// A JSON object as text; [`crate::ports`] reads the stream ports from it.
    pub annotation: String,
    /// The pod stays on its node; only a forced move takes it elsewhere. See [`PodSpec::is_stateful`].
    pub stateful: bool,
    /// Seconds after the start until an instance without a health check counts as ready.
    pub setup_time: i64,
    /// Seconds between SIGTERM and SIGKILL; 0 means 10.
    pub kill_timeout: i64,
    /// Returned as the client sent it; not used.
    pub prev_state: PrevState,
    /// Health check of the containers.
    pub health_config: HealthConfig,
}

/// One container of a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ContainerSpec {
    /// Stored and returned, not used.
    pub name: String,
    /// Stored and returned, not used.
    pub namespace: String,
    /// Stored and returned, not used.
    pub version: u32,
    /// Stored and returned, not used.
    #[serde(with = "rfc3339")]
    pub created_at: Timestamp,
    /// Stored and returned, not used.
    #[serde(with = "rfc3339")]
    pub updated_at: Timestamp,
    /// Image reference.
    pub image: String,
    /// Environment: `KEY=value` entries.
    pub env: Vec<String>,
    /// User to run as; empty means the image's.
    pub user: String,
    /// Working directory; empty means the image's.
    pub working_dir: String,
    /// DNS search domains.
    pub dns_search: Vec<String>,
    /// Container paths that are stored on the node, one directory per instance.
    pub volumes: Vec<String>,
    /// Bind mounts `host:container`, passed to Docker unchanged.
    pub system_volumes: Vec<String>,
    /// Directories on shared storage.
    pub cloud_volumes: Vec<CloudVolume>,
    /// Command; empty means the image's.
    pub command: Vec<String>,
    /// Entrypoint; `null` means the image's.
    pub entrypoint: Option<Vec<String>>,
    /// CPU level from 0 to 8; level 8 is half of the node's cores. See [`PodSpec::cpu_millis`].
    pub cpu_limit: i64,
    /// Memory limit in bytes; 0 means unlimited.
    pub memory_limit: i64,
    /// The TCP port to publish; 0 means none.
    pub expose: i64,
    /// Docker log driver.
    pub log_config: LogConfig,
}

/// A reference to a dependency pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Dependency {
    /// Name of the dependency pod.
    pub pod_name: String,
    /// Whether pods of other namespaces on the node share it.
    pub policy: DependencyPolicy,
}

/// Last known place of an instance.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PrevState {
    /// Name of the node.
    #[serde(rename = "NodeName")]
    pub node_name: String,
    /// IP addresses, one per container.
    #[serde(rename = "IPs")]
    pub ips: Vec<String>,
}

/// Health checks of a pod: one that Docker runs, and those that the agent performs. A container is healthy when all that it
/// has pass.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HealthConfig {
    /// Shell command that Docker runs in each container; `none` disables the check of the image.
    pub cmd: String,
    /// Timing of `cmd`.
    pub options: HealthOptions,
    /// The container has started. Until it passes, the two other checks wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub startup: Option<Check>,
    /// The instance can serve.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub readiness: Option<Check>,
    /// The container works; otherwise the agent restarts it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub liveness: Option<Check>,
}

/// Timing of a health check. Values below the minimum of [`ranges`] are raised to it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HealthOptions {
    /// Seconds between two checks.
    pub interval: i64,
    /// Timeout of one check, in seconds.
    pub timeout: i64,
    /// Consecutive failures until the container is unhealthy.
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
    /// Driver; empty means Docker's default.
    #[serde(rename = "Type")]
    pub kind: String,
    /// Driver options. Answers show an empty map as `null`, as the original API does.
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

    /// Whether the pod has data on its node: the flag, or a volume other than `/lain/logs`.
    pub fn is_stateful(&self) -> bool {
        let keeps_data = |c: &ContainerSpec| !c.volumes.is_empty() && c.volumes != ["/lain/logs"];
        self.stateful || self.containers.iter().any(keeps_data)
    }

    /// The images of its containers, in their order.
    pub fn images(&self) -> impl Iterator<Item = &str> {
        self.containers.iter().map(|container| container.image.as_str())
    }

    /// Sum of the memory limits, in bytes.
    pub fn memory(&self) -> u64 {
        let limits = self.containers.iter().map(|container| container.memory().unsigned_abs());
        limits.fold(0, u64::saturating_add)
    }

    /// CPU of all containers, in thousandths of a core. A level is a sixteenth of `quota_cores`: level 8 of 8 cores is
    /// 4,000. A level below 1 counts as 2.
    pub fn cpu_millis(&self, quota_cores: u32) -> u64 {
        let level = |c: &ContainerSpec| match c.cpu_limit {
            ..1 => 2,
            level => ranges::CPU_LIMIT.used(level).unsigned_abs(),
        };
        // A level is at most 8 and `quota_cores` is below 2^32: the product fits 46 bits.
        self.containers.iter().map(|c| level(c) * u64::from(quota_cores) * 1000 / 16).fold(0, u64::saturating_add)
    }

    /// Time between SIGTERM and SIGKILL; default 10 s.
    pub fn kill_grace(&self) -> Duration {
        Duration::from_secs(ranges::KILL_TIMEOUT.used(self.kill_timeout).unsigned_abs())
    }

    /// Time after the start until an instance without a health check is ready.
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
    /// The options clamped to their ranges.
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
    fn sums_of_extreme_numbers_do_not_overflow() {
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
