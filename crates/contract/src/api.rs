//! Bodies of the HTTP API as deployd's clients read them.

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

/// `GET /api/podgroups`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct PodGroupWithSpec {
    /// Desired state.
    pub spec: PodGroupSpec,
    /// Last known node and addresses, by instance.
    pub prev_state: Vec<PrevState>,
    /// The instances; index k is instance k + 1.
    pub pods: Vec<Pod>,
    /// Health of the whole.
    pub healthst: HealthState,
    /// State of the whole.
    pub state: RunState,
    /// Always false for a group.
    #[serde(rename = "OOMkilled")]
    pub oom_killed: bool,
    /// What went wrong last; empty when nothing did.
    pub last_error: String,
    /// Last operation.
    #[serde(with = "rfc3339")]
    pub updated_at: Timestamp,
}

/// `GET /api/depends`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct NamespacePodsWithSpec {
    /// Desired state.
    pub spec: PodSpec,
    /// Where it runs, by the namespace it serves (the node's name when it serves the whole node); one pod per node.
    pub pods: BTreeMap<String, Vec<Pod>>,
}

/// One instance.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Pod {
    /// Instance number; 0 for dependency pods.
    pub instance_no: u32,
    /// Containers; never empty, because clients take the first unasked.
    pub containers: Vec<Container>,
    /// Health.
    pub healthst: HealthState,
    /// State.
    pub state: RunState,
    /// Ended for memory.
    #[serde(rename = "OOMkilled")]
    pub oom_killed: bool,
    /// What went wrong last.
    pub last_error: String,
    /// Last change.
    #[serde(with = "rfc3339")]
    pub updated_at: Timestamp,
    /// What the user wants.
    pub target_state: TargetState,
    /// How often it was created anew.
    pub drift_count: u32,
    /// Restarts in the present window.
    pub restart_count: u32,
    /// Last restart.
    #[serde(with = "rfc3339")]
    pub restart_at: Timestamp,
    /// How it ended, when it is down and its end was not ordered. An addition of ours; absent otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit: Option<Exit>,
}

/// One container.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Container {
    /// The engine's id.
    pub id: String,
    /// The engine's own view.
    pub runtime: ContainerDetail,
    /// Node.
    pub node_name: String,
    /// Address of the node.
    pub node_ip: String,
    /// Address on the pod's network.
    pub container_ip: String,
    /// Published port; 0 when none.
    pub node_port: u16,
    /// Exposed port of the spec.
    pub container_port: i64,
    /// Always `tcp`.
    pub protocol: String,
}

/// One row of `GET /api/nodes`; the members after `UsedMemory` are additions of ours.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Node {
    /// Name.
    #[serde(rename = "Name")]
    pub name: String,
    /// Address of the engine.
    #[serde(rename = "Address")]
    pub address: String,
    /// Containers placed there.
    #[serde(rename = "Containers")]
    pub containers: u32,
    /// Cores.
    #[serde(rename = "CPUs")]
    pub cpus: u32,
    /// Cores given away, rounded up.
    #[serde(rename = "UsedCPUs")]
    pub used_cpus: u64,
    /// Memory in bytes.
    #[serde(rename = "Memory")]
    pub memory: u64,
    /// Memory given away in bytes.
    #[serde(rename = "UsedMemory")]
    pub used_memory: u64,
    /// `alive`, `suspect`, `lost` or `unknown`.
    #[serde(rename = "State")]
    pub state: String,
    /// `up`, `hung` or `down`.
    #[serde(rename = "Engine")]
    pub engine: String,
    /// Labels that constraints match.
    #[serde(rename = "Labels")]
    pub labels: BTreeMap<String, String>,
    /// Instances placed there.
    #[serde(rename = "Instances")]
    pub instances: u32,
    /// Why nothing new is placed there.
    #[serde(rename = "Cordon", skip_serializing_if = "Option::is_none")]
    pub cordon: Option<Cordon>,
    /// The engine's version.
    #[serde(rename = "EngineVersion")]
    pub engine_version: String,
    /// The agent's version.
    #[serde(rename = "AgentVersion")]
    pub agent_version: String,
}

/// Body of an accepted mutation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Accepted {
    /// Where to look.
    pub check_url: String,
    /// What will happen.
    pub message: String,
    /// Id of the operation, for `GET /api/operations?id=`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub operation: String,
    /// Durable, but no leader has decided yet.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub queued: bool,
}

/// Body of every error.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Failure {
    /// What is wrong and what to do.
    pub message: String,
    /// The same text again, as clients expect.
    pub data: String,
}

/// `GET /api/podgroups?all=true` and `?namespace=`: one page of the groups in name order (ours).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct PodGroupList {
    /// The groups of this page.
    pub pod_groups: Vec<PodGroupLine>,
    /// Pass it as `after=` to get the next page; empty at the end.
    pub next: String,
}

/// One group of a [`PodGroupList`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct PodGroupLine {
    /// Name.
    pub name: String,
    /// Namespace.
    pub namespace: String,
    /// Version.
    pub version: u32,
    /// Instances wanted.
    pub num_instances: u32,
    /// Instances running.
    pub running: u32,
    /// State of the whole.
    pub state: RunState,
    /// The operation in progress, such as `Removing`; empty when none is.
    pub operation: String,
    /// What went wrong last.
    pub last_error: String,
    /// Instances that are ready; absent when the scheduler does not count them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<u32>,
    /// Instances that have not been ready for too long; not all of them when there are many.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub overdue: Vec<Overdue>,
}

/// `GET /api/operations?id=` (ours).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperationStatus {
    /// Id of the operation.
    pub operation: String,
    /// `accepted` or `refused`.
    pub state: String,
    /// Why it was refused; empty when it was not.
    pub message: String,
    /// When it was decided.
    #[serde(with = "rfc3339")]
    pub decided_at: Timestamp,
}

/// `GET /api/cluster` (ours).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClusterStatus {
    /// The apiserver that answered.
    pub apiserver: String,
    /// Its version.
    pub version: String,
    /// The scheduler that leads; empty when a standby answered.
    pub leader: String,
    /// The leader's term; 0 when a standby answered.
    pub term: u64,
    /// The scheduler that answered.
    pub answered_by: String,
    /// Groups.
    pub groups: u64,
    /// Instances wanted.
    pub instances: u64,
    /// Instances running.
    pub running: u64,
    /// All nodes.
    pub nodes: u64,
    /// Nodes that are heard.
    pub nodes_alive: u64,
    /// Nodes that obey another store than the scheduler's: etcd was wiped or set back.
    #[serde(rename = "estranged")]
    pub foreign_store: u64,
    /// The restore that put everything in place; empty when there was none.
    pub restored: String,
    /// What is wrong with the control plane itself, one sentence each with the remedy.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Objects that are not reconciled because of an error; the first hundred of them.
    pub quarantined: Vec<Quarantined>,
}

/// One object of [`ClusterStatus::quarantined`]. Its containers are left alone.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Quarantined {
    /// `group`, `dependency` or `node`.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// The error.
    pub reason: String,
    /// When the quarantine began.
    #[serde(with = "rfc3339")]
    pub since: Timestamp,
}

/// One row of `GET /api/ports`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StreamProc {
    /// Port the outside connects to.
    pub srcport: u16,
    /// Port of the containers it leads to.
    pub dstport: u16,
    /// `tcp` or `udp`.
    pub proto: String,
    /// Namespace of the group.
    #[serde(rename = "NameSpace")]
    pub namespace: String,
    /// The group.
    #[serde(rename = "ProcName")]
    pub proc_name: String,
}

/// Body of `POST /api/ports?cmd=validate`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct PortsToValidate {
    /// The source ports in question.
    pub ports: Vec<i64>,
}

/// One row of `GET /api/cntstatushistory`; empty members are left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StatusMessage {
    /// `start` or `stop`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub status: String,
    /// `<image> node:<node>`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub from: String,
    /// Seconds since 1970.
    pub time: i64,
    /// What the engine calls it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub action: String,
}

/// Body of `GET /api/events`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Events {
    /// Oldest first.
    pub events: Vec<Event>,
}

/// Body of `GET /api/deadletters`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct DeadLetters {
    /// Newest last.
    pub dead_letters: Vec<Letter>,
}

/// A message nobody could read or deliver.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Letter {
    /// Where it arrived.
    pub subject: String,
    /// Why it could not be read, or not be delivered.
    pub reason: String,
    /// The beginning of the message, as text.
    pub payload: String,
    /// When.
    #[serde(with = "rfc3339")]
    pub at: Timestamp,
}
