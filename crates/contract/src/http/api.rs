//! Bodies of the HTTP API.
//!
//! Field names and shapes are those of the original API, so existing clients read them unchanged. "Addition" marks
//! fields and bodies that the original API does not have. The apiserver writes these types; `deployctl` and other
//! clients read them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::docker_inspect::ContainerDetail;
use crate::event::Event;
use crate::exit::Exit;
use crate::node::Cordon;
use crate::query::Overdue;
use crate::spec::{PodGroupSpec, PodSpec, PrevState};
use crate::state::{HealthState, RunState, TargetState};
use crate::time::{Timestamp, rfc3339};

/// Answer of `GET /api/podgroups`: one PodGroup with the observed state of its instances.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct PodGroupWithSpec {
    /// The desired state, as the user sent it and the leader completed it.
    pub spec: PodGroupSpec,
    /// Last known node and IP addresses; index k is instance k + 1.
    pub prev_state: Vec<PrevState>,
    /// The instances; index k is instance k + 1.
    pub pods: Vec<Pod>,
    /// Health of the group as a whole.
    pub healthst: HealthState,
    /// Run state of the group as a whole.
    pub state: RunState,
    /// Always false for a group; [`Pod::oom_killed`] has the value per instance.
    #[serde(rename = "OOMkilled")]
    pub oom_killed: bool,
    /// Error of the last operation; empty when it succeeded.
    pub last_error: String,
    /// When an operation last changed the group.
    #[serde(with = "rfc3339")]
    pub updated_at: Timestamp,
}

/// Answer of `GET /api/depends`: one dependency pod and where it runs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct NamespacePodsWithSpec {
    /// The desired state.
    pub spec: PodSpec,
    /// Running pods by the namespace they serve (the node's name when the pod serves the whole node); one pod per node.
    pub pods: BTreeMap<String, Vec<Pod>>,
}

/// One instance of a PodGroup, or one pod of a dependency.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Pod {
    /// Instance number, from 1; 0 for dependency pods.
    pub instance_no: u32,
    /// Containers in the order of the spec. Never empty: clients read index 0 without a check.
    pub containers: Vec<Container>,
    /// Health, as the container's health check reports it.
    pub healthst: HealthState,
    /// Run state.
    pub state: RunState,
    /// True when the kernel killed a container for exceeding its memory limit.
    #[serde(rename = "OOMkilled")]
    pub oom_killed: bool,
    /// Last error of this instance; empty when there is none.
    pub last_error: String,
    /// When the state last changed.
    #[serde(with = "rfc3339")]
    pub updated_at: Timestamp,
    /// The state the user wants: running or stopped.
    pub target_state: TargetState,
    /// How many times the instance was recreated under a new container name.
    pub drift_count: u32,
    /// Restarts in the current restart window, or since the crash loop began.
    pub restart_count: u32,
    /// When the agent last restarted it.
    #[serde(with = "rfc3339")]
    pub restart_at: Timestamp,
    /// Exit code and cause, when the instance is down and deployd did not stop it. Addition; absent otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit: Option<Exit>,
}

/// One container of a [`Pod`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Container {
    /// Docker's container id.
    pub id: String,
    /// The subset of `docker inspect` that clients read.
    pub runtime: ContainerDetail,
    /// Name of the node it runs on.
    pub node_name: String,
    /// IP address of that node.
    pub node_ip: String,
    /// IP address of the container on the pod's network.
    pub container_ip: String,
    /// Host port that Docker published for [`Self::container_port`]; 0 when none is published.
    pub node_port: u16,
    /// Port that the container's spec exposes.
    pub container_port: i64,
    /// Always `tcp`.
    pub protocol: String,
}

/// One row of `GET /api/nodes`. The fields after `UsedMemory` are additions.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Node {
    /// The node's name, as its agent was started with.
    #[serde(rename = "Name")]
    pub name: String,
    /// Address of the Docker engine.
    #[serde(rename = "Address")]
    pub address: String,
    /// Number of containers placed there.
    #[serde(rename = "Containers")]
    pub containers: u32,
    /// CPU cores.
    #[serde(rename = "CPUs")]
    pub cpus: u32,
    /// CPU cores reserved by placed instances, rounded up.
    #[serde(rename = "UsedCPUs")]
    pub used_cpus: u64,
    /// Memory, in bytes.
    #[serde(rename = "Memory")]
    pub memory: u64,
    /// Memory reserved by placed instances, in bytes.
    #[serde(rename = "UsedMemory")]
    pub used_memory: u64,
    /// Liveness: `alive`, `suspect`, `lost` or `unknown`.
    #[serde(rename = "State")]
    pub state: String,
    /// State of the Docker engine: `up`, `hung` or `down`.
    #[serde(rename = "Engine")]
    pub engine: String,
    /// Labels that placement constraints match.
    #[serde(rename = "Labels")]
    pub labels: BTreeMap<String, String>,
    /// Number of instances placed there.
    #[serde(rename = "Instances")]
    pub instances: u32,
    /// Present while the node is cordoned: user, time and reason. The leader places nothing new there.
    #[serde(rename = "Cordon", skip_serializing_if = "Option::is_none")]
    pub cordon: Option<Cordon>,
    /// True while the node waits for `deployctl node approve`: it gets neither orders nor instances.
    #[serde(rename = "Pending", default, skip_serializing_if = "std::ops::Not::not")]
    pub pending: bool,
    /// Docker's version.
    #[serde(rename = "EngineVersion")]
    pub engine_version: String,
    /// The agent's version.
    #[serde(rename = "AgentVersion")]
    pub agent_version: String,
}

/// Body of a `202 Accepted` answer to a change.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Accepted {
    /// URL under which the client can observe the change.
    pub check_url: String,
    /// Text of the original API that describes what will happen.
    pub message: String,
    /// Id of the operation, for `GET /api/operations?id=`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub operation: String,
    /// True when JetStream stored the command but no leader decided it before the answer was due.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub queued: bool,
}

/// Body of every error answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Failure {
    /// The problem and its remedy.
    pub message: String,
    /// The same text again: clients of the original API read either field.
    pub data: String,
}

/// Answer of `GET /api/podgroups?all=true` and `?namespace=`: one page of the groups in name order. Addition.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct PodGroupList {
    /// The groups of this page.
    pub pod_groups: Vec<PodGroupLine>,
    /// The client passes it as `after=` to get the next page; empty on the last page.
    pub next: String,
}

/// One group of a [`PodGroupList`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct PodGroupLine {
    /// The group's name.
    pub name: String,
    /// The group's namespace.
    pub namespace: String,
    /// Revision of the pod spec that the group is at or on its way to.
    pub version: u32,
    /// Desired number of instances.
    pub num_instances: u32,
    /// Number of instances that run.
    pub running: u32,
    /// Run state of the group as a whole.
    pub state: RunState,
    /// The operation that holds the group's lock, for example `Removing`; empty when none does.
    pub operation: String,
    /// Error of the last operation; empty when it succeeded.
    pub last_error: String,
    /// Number of ready instances; absent in answers of schedulers that do not count them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<u32>,
    /// Instances that have not become ready in time; truncated when there are many.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub overdue: Vec<Overdue>,
    /// Images of the containers, in the order of the spec.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<String>,
    /// When the group was created.
    #[serde(with = "rfc3339", skip_serializing_if = "Timestamp::is_never")]
    pub created_at: Timestamp,
}

/// Answer of `GET /api/operations?id=`: the outcome of one command. Addition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperationStatus {
    /// Id of the operation, as in [`Accepted::operation`].
    pub operation: String,
    /// `accepted` or `refused`.
    pub state: String,
    /// Reason of the refusal; empty when the leader accepted it.
    pub message: String,
    /// When the leader decided it.
    #[serde(with = "rfc3339")]
    pub decided_at: Timestamp,
}

/// Answer of `GET /api/cluster`: the leader, counts and problems. Addition.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClusterStatus {
    /// Name of the apiserver that answered.
    pub apiserver: String,
    /// Version of that apiserver.
    pub version: String,
    /// Name of the leading scheduler; empty when a standby answered.
    pub leader: String,
    /// The leader's term; 0 when a standby answered.
    pub term: u64,
    /// Name of the scheduler that answered: the leader, or a standby while no leader is elected.
    pub answered_by: String,
    /// Number of PodGroups.
    pub groups: u64,
    /// Desired number of instances over all groups.
    pub instances: u64,
    /// Number of instances that run.
    pub running: u64,
    /// Number of known nodes, in any state.
    pub nodes: u64,
    /// Number of nodes whose agent reports in time.
    pub nodes_alive: u64,
    /// Number of nodes that follow another store than the scheduler's, because etcd was wiped or reset to an older
    /// state.
    #[serde(rename = "estranged")]
    pub foreign_store: u64,
    /// Id of the restore that produced the present state; empty when the state was never restored.
    pub restored: String,
    /// Problems of the control plane itself, one sentence each with the remedy.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Objects that the leader does not reconcile because of an error; at most 100.
    pub quarantined: Vec<Quarantined>,
}

/// One object of [`ClusterStatus::quarantined`]. The agents leave its containers alone.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Quarantined {
    /// `group`, `dependency` or `node`.
    pub kind: String,
    /// Name of the object.
    pub name: String,
    /// The error that caused the quarantine.
    pub reason: String,
    /// When the quarantine began.
    #[serde(with = "rfc3339")]
    pub since: Timestamp,
}

/// One row of `GET /api/ports`: a stream port and the group that owns it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StreamProc {
    /// Port that clients outside the cluster connect to; one group of the cluster owns it.
    pub srcport: u16,
    /// Port of the containers that the traffic is forwarded to.
    pub dstport: u16,
    /// `tcp` or `udp`.
    pub proto: String,
    /// Namespace of the group that owns the port.
    #[serde(rename = "NameSpace")]
    pub namespace: String,
    /// Name of the group that owns the port.
    #[serde(rename = "ProcName")]
    pub proc_name: String,
}

/// Body of `POST /api/ports?cmd=validate`: which source ports are free?
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct PortsToValidate {
    /// The source ports to check.
    pub ports: Vec<i64>,
}

/// One row of `GET /api/cntstatushistory`. Empty fields are omitted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StatusMessage {
    /// `start` or `stop`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub status: String,
    /// Image and node: `<image> node:<node>`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub from: String,
    /// When it happened, in seconds since 1970.
    pub time: i64,
    /// Docker's name of the event.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub action: String,
}

/// Answer of `GET /api/events`. Addition.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Events {
    /// The events, oldest first.
    pub events: Vec<Event>,
}

/// Answer of `GET /api/deadletters`. Addition.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct DeadLetters {
    /// The letters, newest last.
    pub dead_letters: Vec<Letter>,
}

/// One dead letter: a message that a process could not decode, or a notice that it could not deliver.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Letter {
    /// NATS subject the message arrived on.
    pub subject: String,
    /// Why decoding or delivery failed.
    pub reason: String,
    /// The first bytes of the message, as text.
    pub payload: String,
    /// When the message was set aside.
    #[serde(with = "rfc3339")]
    pub at: Timestamp,
}
