//! Questions an apiserver asks a scheduler or an agent, and the answers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::backup::Page;
use crate::command::{Operation, Outcome, Refusal};
use crate::docker_inspect::ContainerDetail;
use crate::fence::Term;
use crate::history::Event;
use crate::name::{CommandId, GroupName, NodeName};
use crate::node::{Cordon, NodePage};
use crate::pod_id::PodId;
use crate::ports::StreamPort;
use crate::report::{EngineState, NodeFacts, PodFacts};
use crate::rollout_view::{PlanView, RevisionsView, RolloutView};
use crate::spec::{PodGroupSpec, PodSpec};
use crate::state::{HealthState, RunState, TargetState};
use crate::switches::{Constraint, EngineRecord};
use crate::time::Timestamp;

/// A question to the leader; a standby answers it when there is no leader.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Query {
    /// One group.
    Group {
        /// Which.
        name: GroupName,
        /// Its nodes are asked to look at it anew; the answer does not wait for that.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        refresh: bool,
    },
    /// One dependency pod.
    Dependency {
        /// Which.
        name: GroupName,
    },
    /// Groups in name order.
    Groups {
        /// Only of this namespace.
        namespace: Option<String>,
        /// Only after this name.
        after: Option<GroupName>,
        /// At most so many.
        limit: u32,
    },
    /// All nodes.
    Nodes,
    /// One node.
    Node {
        /// Which.
        name: NodeName,
    },
    /// Who leads, and how much there is.
    Cluster,
    /// What became of a command.
    Operation {
        /// Which.
        id: CommandId,
    },
    /// The registered callbacks.
    Callbacks,
    /// The engine's switches.
    Engine,
    /// The constraints of every placement.
    Constraints,
    /// Who has which stream port.
    Ports,
    /// Where the release of a group stands.
    Rollout {
        /// Which group.
        name: GroupName,
    },
    /// The revisions of a group.
    Revisions {
        /// Which group.
        name: GroupName,
    },
    /// What a spec would do.
    Plan {
        /// What to run; validated.
        spec: Box<PodGroupSpec>,
        /// Milliseconds the client waits for the plan, from now on: it is not computed after that. Absent from a client of
        /// an older version.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        within_millis: Option<u64>,
    },
    /// When the containers of an instance started and stopped.
    History {
        /// Which group.
        name: GroupName,
        /// Which instance.
        instance: u32,
    },
    /// A page of everything stored, read from the store itself.
    Backup {
        /// The revision to read at; the present one for a first page.
        revision: Option<i64>,
        /// Only after this key.
        after: Option<String>,
    },
}

/// An answer with its freshness.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reply {
    /// A standby answered because nobody leads: the answer may be behind.
    pub stale: bool,
    /// The answer.
    pub answer: Answer,
    /// The scheduler has too much to compute now; the client may ask again after as many seconds. The answer says the same
    /// in words, for a client of an older version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<u32>,
}

impl Reply {
    /// An answer that is complete.
    pub fn new(stale: bool, answer: Answer) -> Self {
        Self { stale, answer, retry_after: None }
    }
}

/// The answer to a [`Query`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// To `Group`; none when there is no such group.
    Group(Option<Box<GroupView>>),
    /// To `Dependency`; none when there is no such dependency pod.
    Dependency(Option<Box<DependencyView>>),
    /// To `Groups`.
    Groups(Vec<GroupLine>),
    /// To `Nodes`.
    Nodes(Vec<NodeView>),
    /// To `Node`; none when there is no such node.
    Node(Option<Box<NodePage>>),
    /// To `Cluster`.
    Cluster(ClusterView),
    /// To `Operation`; none when the id is unknown.
    Operation(Option<Outcome>),
    /// To `Callbacks`.
    Callbacks(Vec<String>),
    /// To `Engine`.
    Engine(EngineRecord),
    /// To `Constraints`, in the order of their types.
    Constraints(Vec<Constraint>),
    /// To `Ports`, by source port.
    Ports(Vec<PortClaim>),
    /// To `Rollout`; none when there is no such group.
    Rollout(Option<Box<RolloutView>>),
    /// To `Revisions`; none when there is no such group.
    Revisions(Option<Box<RevisionsView>>),
    /// To `Plan`; why it would be refused.
    Plan(Result<Box<PlanView>, Refusal>),
    /// To `History`, oldest first; empty when nothing is known.
    History(Vec<Event>),
    /// To `Backup`; why it cannot be read.
    Backup(Result<Box<Page>, String>),
}

/// A stream port and the group that has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortClaim {
    /// The port.
    pub port: StreamPort,
    /// Namespace of the group.
    pub namespace: String,
    /// The group.
    pub group: GroupName,
}

/// One group as the scheduler knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupView {
    /// What is wanted.
    pub spec: PodGroupSpec,
    /// State of the whole.
    pub state: RunState,
    /// Health of the whole.
    pub health: HealthState,
    /// What went wrong last; empty when nothing did.
    pub last_error: String,
    /// Last operation.
    pub updated_at: Timestamp,
    /// The operation that holds the lock.
    pub operation: Option<Operation>,
    /// The instances in number order.
    pub pods: Vec<PodView>,
}

/// One instance as the scheduler knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodView {
    /// Which pod.
    pub id: PodId,
    /// Where it was placed.
    pub node: Option<NodeName>,
    /// Address of that node.
    pub node_ip: String,
    /// What the user wants of it.
    pub target: TargetState,
    /// State, health, containers as reported; what no node told is derived from the placement.
    pub facts: PodFacts,
    /// Last known addresses, one per container, also while it is down.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
}

/// One dependency pod as the scheduler knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DependencyView {
    /// What is wanted.
    pub spec: PodSpec,
    /// Where it runs, by the namespace it serves; the node's name when it serves the whole node.
    pub pods: BTreeMap<String, Vec<PodView>>,
}

/// One group in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupLine {
    /// Name.
    pub name: GroupName,
    /// Namespace.
    pub namespace: String,
    /// Version.
    pub version: u32,
    /// Instances wanted.
    pub wanted: u32,
    /// Instances running.
    pub running: u32,
    /// State of the whole.
    pub state: RunState,
    /// The operation that holds the lock; a group that is being removed is only seen here.
    pub operation: Option<Operation>,
    /// What went wrong last.
    pub last_error: String,
    /// Instances that are ready; none from a scheduler that does not count them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<u32>,
    /// Instances that have not been ready for too long, at most [`MOST_OVERDUE`] of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overdue: Vec<Overdue>,
}

/// Overdue instances that are named of one group.
pub const MOST_OVERDUE: usize = 5;

/// An instance that has not been ready for longer than `SetupTime + MinReadySeconds + 30 s`, or that is crash-looping.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Overdue {
    /// Its number.
    pub instance: u32,
    /// What keeps it from being ready, and for how long.
    pub why: String,
}

/// One node as the scheduler knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeView {
    /// Name.
    pub name: NodeName,
    /// Whether it is heard.
    pub liveness: Liveness,
    /// How its engine is.
    pub engine: EngineState,
    /// What it has.
    pub facts: NodeFacts,
    /// CPU given away, in thousandths of a core.
    pub used_cpu_millis: u64,
    /// Memory given away, in bytes.
    pub used_memory: u64,
    /// Containers placed there.
    pub containers: u32,
    /// Instances placed there.
    #[serde(default)]
    pub instances: u32,
    /// Why nothing new is placed there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cordon: Option<Cordon>,
}

/// Whether a node is heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Liveness {
    /// Heard in time.
    Alive,
    /// Silent for longer than a few heartbeats.
    Suspect,
    /// Silent for so long that its work is given to others.
    Lost,
    /// Known from the store, not heard since this leader began to listen.
    Unknown,
}

/// The cluster at a glance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterView {
    /// Name of the scheduler that answered.
    pub scheduler: String,
    /// Its term when it leads.
    pub term: Option<Term>,
    /// Groups.
    pub groups: u64,
    /// Instances wanted.
    pub instances: u64,
    /// Instances running.
    pub running: u64,
    /// Nodes by liveness.
    pub nodes_alive: u64,
    /// All nodes.
    pub nodes: u64,
    /// Nodes that obey another store than this scheduler's, or a later state of it.
    #[serde(rename = "estranged", default, skip_serializing_if = "is_zero")]
    pub foreign_store: u64,
    /// The restore that put everything in place, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restored: Option<CommandId>,
    /// What is wrong with the control plane itself, one sentence each with the remedy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Objects that are not reconciled because of an error; the first hundred of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quarantined: Vec<QuarantinedView>,
}

/// An object that is not reconciled because of an error. Its containers are left alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuarantinedView {
    /// What it is.
    pub kind: QuarantinedKind,
    /// Its name.
    pub name: String,
    /// The error.
    pub reason: String,
    /// When the quarantine began.
    pub since: Timestamp,
}

/// What can be quarantined.
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
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::Group, Self::Dependency, Self::Node];

    /// The word shown to users.
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

/// A question to an agent: the engine's own view of these pods.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InspectRequest {
    /// Which pods.
    pub pods: Vec<PodId>,
}

/// The engine's own view, by pod; containers in index order.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct InspectReply {
    /// Pods found.
    pub pods: BTreeMap<PodId, Vec<ContainerDetail>>,
}
