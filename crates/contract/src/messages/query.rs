//! Queries that an apiserver sends to a scheduler or an agent, and their answers.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::access::audit::AuditPage;
use crate::access::join::{JoinTokenRecord, JoinedNode};
use crate::access::table::AccessTable;
use crate::backup::Page;
use crate::command::{Operation, Outcome, Refusal};
use crate::docker_inspect::ContainerDetail;
use crate::fence::Term;
use crate::history::ContainerEvent;
use crate::name::{CommandId, GroupName, NodeName};
use crate::node::{Cordon, NodePage};
use crate::pod_id::PodId;
use crate::policy::NamespacePolicy;
use crate::ports::StreamPort;
use crate::report::{EngineState, NodeFacts, PodFacts};
use crate::rollout_view::{PlanView, RevisionsView, RolloutView};
use crate::spec::{PodGroupSpec, PodSpec};
use crate::state::{HealthState, RunState, TargetState};
use crate::switches::{Constraint, EngineRecord};
use crate::time::Timestamp;

/// A query to the leader. A standby answers it when no leader is elected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Query {
    /// One group.
    Group {
        /// The group.
        name: GroupName,
        /// Asks the group's agents to inspect their containers again; the answer does not wait for them.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        refresh: bool,
    },
    /// One dependency pod.
    Dependency {
        /// The dependency pod.
        name: GroupName,
    },
    /// A page of groups in name order.
    Groups {
        /// Only groups of this namespace; none means all.
        namespace: Option<String>,
        /// Only groups after this name; none means from the start.
        after: Option<GroupName>,
        /// Maximal number of groups in the answer.
        limit: u32,
    },
    /// All nodes.
    Nodes,
    /// One node with its instances.
    Node {
        /// The node.
        name: NodeName,
    },
    /// The leader, and counts of groups, instances and nodes.
    Cluster,
    /// The outcome of a command.
    Operation {
        /// Id of the command.
        id: CommandId,
    },
    /// The callback URLs.
    Callbacks,
    /// The cluster-wide switches.
    Engine,
    /// The placement constraints.
    Constraints,
    /// The workload policies.
    Policies,
    /// The switch of access control and the tokens.
    Access {
        /// [`AccessTable::version`] that the client has; while it is current, the answer has no table.
        known: Option<String>,
    },
    /// The join tokens.
    JoinTokens,
    /// A node that joined.
    Joined {
        /// The node.
        node: NodeName,
    },
    /// A page of the audit log, read from etcd.
    Audit {
        /// Only records after this number.
        after: u64,
        /// Maximal number of records in the answer.
        limit: u32,
        /// Of the log of refused requests instead of that of commands.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        refused: bool,
    },
    /// All stream ports and the groups that own them.
    Ports,
    /// The current or last rollout of a group.
    Rollout {
        /// The group.
        name: GroupName,
    },
    /// The revisions of a group.
    Revisions {
        /// The group.
        name: GroupName,
    },
    /// A plan: what the rollout of a spec would do.
    Plan {
        /// The spec; the apiserver validated it.
        spec: Box<PodGroupSpec>,
        /// How long the client waits, in milliseconds from now; the scheduler does not compute the plan later. Absent
        /// from older apiservers.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        within_millis: Option<u64>,
    },
    /// When the containers of an instance started and stopped.
    History {
        /// The group.
        name: GroupName,
        /// The instance, from 1.
        instance: u32,
    },
    /// A page of all stored keys, read from etcd.
    Backup {
        /// The etcd revision to read at; none for the first page, which is read at the current one.
        revision: Option<i64>,
        /// Only keys after this one; none means from the start.
        after: Option<String>,
    },
}

/// An answer with its freshness.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reply {
    /// A standby answered because no leader is elected: the answer may be out of date.
    pub stale: bool,
    /// The answer.
    pub answer: Answer,
    /// Set when the scheduler is too busy to compute the answer: the client may retry after this many seconds. For
    /// older clients [`Self::answer`] contains the same as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<u32>,
    /// The scheduler knows [`Query::Access`] and checks the credentials of commands. Absent from versions without access
    /// control: a cluster with such a leader is open, and an apiserver does not send it queries that it cannot read.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub checks_access: bool,
    /// In the answer to [`Query::Callbacks`]: those that may have internal addresses now. Absent from older schedulers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub former_callbacks: Option<BTreeSet<String>>,
}

impl Reply {
    /// A complete answer.
    pub fn new(stale: bool, answer: Answer) -> Self {
        Self { stale, answer, retry_after: None, checks_access: true, former_callbacks: None }
    }
}

/// The answer to the [`Query`] of the same name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// None when the group does not exist.
    Group(Option<Box<GroupView>>),
    /// None when the dependency pod does not exist.
    Dependency(Option<Box<DependencyView>>),
    /// In name order.
    Groups(Vec<GroupLine>),
    /// In name order.
    Nodes(Vec<NodeView>),
    /// None when the node does not exist.
    Node(Option<Box<NodePage>>),
    /// Counts and warnings.
    Cluster(ClusterView),
    /// None when the id is unknown: never seen, not decided yet, or expired.
    Operation(Option<Outcome>),
    /// The URLs in sorted order.
    Callbacks(Vec<String>),
    /// The switches.
    Engine(EngineRecord),
    /// Sorted by type.
    Constraints(Vec<Constraint>),
    /// Sorted by namespace; `*` is first.
    Policies(Vec<NamespacePolicy>),
    /// None when the version that the query named is current.
    Access(Option<Box<AccessTable>>),
    /// Sorted by id.
    JoinTokens(Vec<JoinTokenRecord>),
    /// None when no node of this name joined with a token.
    Joined(Option<Box<JoinedNode>>),
    /// The page, or why it cannot be read.
    Audit(Result<Box<AuditPage>, String>),
    /// Sorted by source port.
    Ports(Vec<PortClaim>),
    /// None when the group does not exist.
    Rollout(Option<Box<RolloutView>>),
    /// None when the group does not exist.
    Revisions(Option<Box<RevisionsView>>),
    /// The plan, or why the leader would refuse the spec.
    Plan(Result<Box<PlanView>, Refusal>),
    /// Oldest first; empty when nothing is known.
    History(Vec<ContainerEvent>),
    /// The page, or why it cannot be read.
    Backup(Result<Box<Page>, String>),
}

/// A stream port and the group that owns it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortClaim {
    /// Source port, target port and protocol.
    pub port: StreamPort,
    /// Namespace of the group.
    pub namespace: String,
    /// Name of the group.
    pub group: GroupName,
}

/// One group as the scheduler knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupView {
    /// Desired state.
    pub spec: PodGroupSpec,
    /// Run state of the group as a whole.
    pub state: RunState,
    /// Health of the group as a whole.
    pub health: HealthState,
    /// Error of the last operation; empty when it succeeded.
    pub last_error: String,
    /// When an operation last changed the group.
    pub updated_at: Timestamp,
    /// The operation that holds the group's lock, if any.
    pub operation: Option<Operation>,
    /// The instances in number order.
    pub pods: Vec<PodView>,
}

/// One instance as the scheduler knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodView {
    /// Group, revision, instance and drift count.
    pub id: PodId,
    /// The node it is placed on; none while it is pending.
    pub node: Option<NodeName>,
    /// IP address of that node; empty if unknown.
    pub node_ip: String,
    /// The state the user wants: running or stopped.
    pub target: TargetState,
    /// State, health and containers as the agent reported them; without a report they are derived from the placement.
    pub facts: PodFacts,
    /// Last known IP addresses, one per container; also while it is down.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
}

/// One dependency pod as the scheduler knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DependencyView {
    /// Desired state.
    pub spec: PodSpec,
    /// Running pods by the namespace they serve; the node's name when the pod serves the whole node.
    pub pods: BTreeMap<String, Vec<PodView>>,
}

/// One group in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupLine {
    /// Name of the group.
    pub name: GroupName,
    /// Namespace of the group.
    pub namespace: String,
    /// Revision of the pod spec that the group is at or on its way to.
    pub version: u32,
    /// Desired number of instances.
    pub wanted: u32,
    /// Number of instances that run.
    pub running: u32,
    /// Run state of the group as a whole.
    pub state: RunState,
    /// The operation that holds the lock. Only lists show groups that are being removed.
    pub operation: Option<Operation>,
    /// Error of the last operation; empty when it succeeded.
    pub last_error: String,
    /// Number of ready instances; none from schedulers that do not count them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<u32>,
    /// Instances that have not become ready in time; at most [`MOST_OVERDUE`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overdue: Vec<Overdue>,
    /// Images of the pod spec; none from schedulers that do not list them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<String>,
    /// When the group was created; never from schedulers that do not list it.
    #[serde(default, skip_serializing_if = "Timestamp::is_never")]
    pub created_at: Timestamp,
}

/// Limit of overdue instances listed per group.
pub const MOST_OVERDUE: usize = 5;

/// An instance that has not been ready for longer than `SetupTime + MinReadySeconds + 30 s`, or that is crash-looping.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Overdue {
    /// Instance number, from 1.
    pub instance: u32,
    /// Why it is not ready, and for how long.
    pub why: String,
}

/// One node as the scheduler knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeView {
    /// Name of the node.
    pub name: NodeName,
    /// Whether its agent reports in time.
    pub liveness: Liveness,
    /// State of its Docker engine.
    pub engine: EngineState,
    /// What its agent reported about the machine.
    pub facts: NodeFacts,
    /// CPU reserved by placed instances, in thousandths of a core.
    pub used_cpu_millis: u64,
    /// Memory reserved by placed instances, in bytes.
    pub used_memory: u64,
    /// Number of containers placed there.
    pub containers: u32,
    /// Number of instances placed there.
    #[serde(default)]
    pub instances: u32,
    /// Present while the node is cordoned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cordon: Option<Cordon>,
    /// It waits for approval and gets neither orders nor instances.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pending: bool,
}

/// Whether a node's agent reports in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Liveness {
    /// The last heartbeat arrived in time.
    Alive,
    /// A few heartbeats are missing. Instances stay.
    Suspect,
    /// No heartbeat for the node timeout: the leader moves its instances to other nodes.
    Lost,
    /// Known from etcd; no heartbeat since this leader took over.
    Unknown,
}

/// Answer to [`Query::Cluster`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterView {
    /// Name of the scheduler that answered.
    pub scheduler: String,
    /// Its term, if it leads.
    pub term: Option<Term>,
    /// Number of PodGroups.
    pub groups: u64,
    /// Desired number of instances over all groups.
    pub instances: u64,
    /// Number of instances that run.
    pub running: u64,
    /// Number of nodes whose agent reports in time.
    pub nodes_alive: u64,
    /// Number of known nodes, in any state.
    pub nodes: u64,
    /// Number of nodes that follow another store than this scheduler's, or a later state of it.
    #[serde(rename = "estranged", default, skip_serializing_if = "is_zero")]
    pub foreign_store: u64,
    /// The last restore, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restored: Option<CommandId>,
    /// Problems of the control plane itself, one sentence each with the remedy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Objects that the leader does not reconcile because of an error; at most 100.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quarantined: Vec<QuarantinedView>,
}

/// An object that the leader does not reconcile because of an error. Its instances are not moved, updated or removed;
/// agents still restart its containers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuarantinedView {
    /// Group, dependency or node.
    pub kind: QuarantinedKind,
    /// Name of the object.
    pub name: String,
    /// The error that caused the quarantine.
    pub reason: String,
    /// When the quarantine began.
    pub since: Timestamp,
}

/// Kinds of objects that can be quarantined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum QuarantinedKind {
    /// A PodGroup.
    Group,
    /// A dependency pod.
    Dependency,
    /// A node.
    Node,
}

impl QuarantinedKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Group, Self::Dependency, Self::Node];

    /// The word that the API shows.
    pub fn word(self) -> &'static str {
        match self {
            Self::Group => "group",
            Self::Dependency => "dependency",
            Self::Node => "node",
        }
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A query to an agent: `docker inspect` of these pods.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InspectRequest {
    /// The pods; each must run on this agent's node.
    pub pods: Vec<PodId>,
}

/// Answer to an [`InspectRequest`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct InspectReply {
    /// Details by pod, containers in the order of the spec. Pods without containers are missing.
    pub pods: BTreeMap<PodId, Vec<ContainerDetail>>,
}
