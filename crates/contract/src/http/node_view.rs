//! Body of `/api/nodes/{name}`: one node with details. Addition to the original API.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::api::Node;
use crate::node::DuplicateAgent;
use crate::state::{HealthState, RunState};
use crate::time::{Timestamp, rfc3339};

/// Answer of `GET /api/nodes/{name}`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct NodeStatus {
    /// The fields of `GET /api/nodes`.
    #[serde(flatten)]
    pub node: Node,
    /// IP address on which published ports are reachable.
    pub ip: String,
    /// Identity of its agent; empty for agents that do not send one.
    pub identity: String,
    /// When the answering scheduler last received a report; never if it has not.
    #[serde(with = "rfc3339")]
    pub heard_at: Timestamp,
    /// Labels that operators set; `null` hides a label of the agent.
    pub said_labels: BTreeMap<String, Option<String>>,
    /// The node is decommissioned and will be forgotten.
    pub removing: bool,
    /// Instances placed there, and instances that moved away but still have containers there.
    pub pods: Vec<PodOnNode>,
    /// Another agent that reports under this name; the scheduler ignores its reports.
    #[serde(rename = "Twin")]
    pub duplicate_agent: Option<DuplicateAgent>,
}

/// One instance on a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct PodOnNode {
    /// Name of the pod.
    pub name: String,
    /// Name of its group.
    pub pod_group: String,
    /// Instance number, from 1.
    pub instance: u32,
    /// Run state.
    pub state: RunState,
    /// Health, as its health check reports it.
    #[serde(rename = "Healthst")]
    pub health: HealthState,
    /// Stateful: it moves only with `force`.
    pub bound: bool,
    /// It is placed elsewhere or nowhere, and its containers have not been removed here yet.
    pub leaving: bool,
    /// Why it is unhealthy or cannot leave; empty when there is no problem.
    pub why: String,
}
