//! The bodies of `/api/nodes/{name}`: one node with everything that is known of it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::api::Node;
use crate::node::DuplicateAgent;
use crate::state::{HealthState, RunState};
use crate::time::{Timestamp, rfc3339};

/// Body of `GET /api/nodes/{name}`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct NodeStatus {
    /// What the list says of it.
    #[serde(flatten)]
    pub node: Node,
    /// Address where published ports are reached.
    pub ip: String,
    /// The agent that speaks for it; empty for one that does not say.
    pub identity: String,
    /// When it was last heard; never when not by the scheduler that answered.
    #[serde(with = "rfc3339")]
    pub heard_at: Timestamp,
    /// What operators say of its labels: set to a value, or taken away.
    pub said_labels: BTreeMap<String, Option<String>>,
    /// It is being removed by force.
    pub removing: bool,
    /// Instances placed there, and those that have not left yet.
    pub pods: Vec<PodOnNode>,
    /// Another agent that reports under this name and is not listened to.
    #[serde(rename = "Twin")]
    pub duplicate_agent: Option<DuplicateAgent>,
}

/// An instance on a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct PodOnNode {
    /// Name of the pod.
    pub name: String,
    /// Its PodGroup.
    pub pod_group: String,
    /// Its number.
    pub instance: u32,
    /// Its state.
    pub state: RunState,
    /// Its health.
    #[serde(rename = "Healthst")]
    pub health: HealthState,
    /// It is bound to its data: only force moves it.
    pub bound: bool,
    /// It is placed elsewhere or nowhere and has not left yet.
    pub leaving: bool,
    /// What keeps it from being well, or from leaving.
    pub why: String,
}
