//! Nodes: what operators set (cordon, drain, labels), how two agents with the same name settle who stays, and node
//! details.
//!
//! Operators' labels override those of the agent; [`NodeIntent::labels_over`] computes the result.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::name::NodeName;
use crate::pod_id::PodId;
use crate::query::NodeView;
use crate::state::{HealthState, RunState};
use crate::time::{Timestamp, rfc3339};
use crate::validate::{Flaw, LONGEST_CAUSE};

/// Limit of labels per change, and of labels that operators may set on one node.
pub const MOST_LABELS: usize = 64;
/// Longest key of a label, in bytes.
pub const LONGEST_KEY: usize = 128;
/// Longest value of a label, in bytes.
pub const LONGEST_VALUE: usize = 256;
/// Reserved: in constraints `node` means the node's name.
const NAME_KEY: &str = "node";

/// What operators set on one node: `/deployd/state/intent/node/<name>`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeIntent {
    /// Present while the node is cordoned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cordon: Option<Cordon>,
    /// Labels by key; none hides a label of the agent.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, Option<String>>,
    /// The node is decommissioned: it will not return, and the leader forgets it when no instance is placed there any
    /// more.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub removing: bool,
    /// An operator approved the node, whether the schedulers accept its name without that or not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub approved: bool,
    /// The node is removed together with the key that it joined with: its reports do not count until it joins again.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub revoked: bool,
}

/// A cordon: the planner places nothing new on the node. Also part of API bodies.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Cordon {
    /// The user, as far as the apiserver knows.
    pub by: String,
    /// When the node was cordoned.
    #[serde(with = "rfc3339")]
    pub at: Timestamp,
    /// The user's reason; empty when not given.
    pub why: String,
}

impl Cordon {
    /// The reason that placement reports for excluding the node.
    pub fn reason(&self) -> String {
        if self.why.is_empty() { "cordoned".to_owned() } else { format!("cordoned ({})", self.why) }
    }
}

impl NodeIntent {
    /// True when operators set nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The effective labels of a node whose agent reports `own`.
    pub fn labels_over(&self, own: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        let mut labels = own.clone();
        for (key, value) in &self.labels {
            match value {
                Some(value) => drop(labels.insert(key.clone(), value.clone())),
                None => drop(labels.remove(key)),
            }
        }
        labels
    }

    /// Sets or hides labels of a node whose agent reports `own`. An entry equal to the agent's label is not stored.
    pub fn set_labels(&mut self, said: &BTreeMap<String, Option<String>>, own: &BTreeMap<String, String>) {
        for (key, value) in said {
            if value.as_ref() == own.get(key) {
                self.labels.remove(key);
            } else {
                self.labels.insert(key.clone(), value.clone());
            }
        }
    }
}

/// A change that an operator requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum NodeChange {
    /// Place nothing new there; running instances stay.
    Cordon {
        /// The user's reason; empty when not given.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        why: String,
    },
    /// Ends a cordon.
    Uncordon,
    /// Cordons the node and moves its instances to other nodes.
    Drain {
        /// The user's reason; empty when not given.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        why: String,
        /// Also move stateful instances, which are otherwise bound to the data on their node.
        force: bool,
    },
    /// Sets and hides labels.
    Label {
        /// Labels by key; none hides the label.
        labels: BTreeMap<String, Option<String>>,
    },
    /// Accepts a node that waits for approval, or the name of one that will join.
    Approve,
    /// Forgets the node.
    Remove {
        /// Also when instances are placed there: the node will not return.
        force: bool,
    },
}

impl NodeChange {
    /// Checks the change and returns every flaw.
    pub fn validate(&self) -> Result<(), Vec<Flaw>> {
        let mut flaws = Vec::new();
        let mut add = |field: String, problem: String| flaws.push(Flaw { field, problem });
        match self {
            Self::Cordon { why } | Self::Drain { why, .. } => {
                if why.len() > LONGEST_CAUSE {
                    add("why".to_owned(), format!("at most {LONGEST_CAUSE} bytes are kept but it has {}", why.len()));
                }
                if why.chars().any(char::is_control) {
                    add("why".to_owned(), "must be one line of text; take the control characters out".to_owned());
                }
            }
            Self::Label { labels } => {
                if labels.is_empty() {
                    add("labels".to_owned(), "none are named; give KEY=VALUE to set or KEY- to take away".to_owned());
                }
                if labels.len() > MOST_LABELS {
                    add("labels".to_owned(), format!("at most {MOST_LABELS} at a time, {} are named", labels.len()));
                }
                for (key, value) in labels.iter().take(MOST_LABELS) {
                    let problems = key_problem(key).into_iter().chain(value.as_deref().and_then(value_problem));
                    problems.for_each(|problem| add(format!("labels[{key:?}]"), problem));
                }
            }
            Self::Uncordon | Self::Approve | Self::Remove { .. } => {}
        }
        if flaws.is_empty() { Ok(()) } else { Err(flaws) }
    }
}

/// Checks a label's key: constraints must be able to name it.
fn key_problem(key: &str) -> Option<String> {
    if key.eq_ignore_ascii_case(NAME_KEY) {
        return Some(format!("{key:?} means the node's name in constraints; choose another key"));
    }
    if key.len() > LONGEST_KEY {
        return Some(format!("the key has {} bytes, at most {LONGEST_KEY} are kept", key.len()));
    }
    let mut letters = key.chars();
    let first = letters.next().is_some_and(|letter| letter.is_ascii_alphabetic() || letter == '_');
    let rest = letters.all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.' | '/'));
    let problem = "the key must start with a letter or _ and be made of letters, digits, '-', '_', '.' and '/'";
    (!first || !rest).then(|| problem.to_owned())
}

fn value_problem(value: &str) -> Option<String> {
    if value.len() > LONGEST_VALUE {
        return Some(format!("the value has {} bytes, at most {LONGEST_VALUE} are kept", value.len()));
    }
    value.chars().any(char::is_control).then(|| "the value must not hold control characters".to_owned())
}

/// An agent announcing itself under a node name. A starting agent asks whether another agent has the name; that agent
/// answers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Presence {
    /// Random id, created once per state directory.
    pub identity: String,
    /// Random id of this agent process.
    pub incarnation: String,
    /// Host name of the machine.
    pub host: String,
    /// IP address of the node.
    pub address: String,
    /// When the process started.
    pub since: Timestamp,
    /// True after the agent asked and no other agent answered: the name is its own.
    pub settled: bool,
}

impl Presence {
    /// Whether this agent must give up the name to `other`: a settled agent keeps it, otherwise the one that started
    /// first.
    pub fn yields_to(&self, other: &Self) -> bool {
        let order = |one: &Self| (one.since, one.incarnation.clone());
        self.incarnation != other.incarnation && (other.settled || order(other) < order(self))
    }
}

/// Answer to [`crate::query::Query::Node`]: one node with details.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodePage {
    /// State and resources.
    pub node: NodeView,
    /// Labels that operators set; none hides a label of the agent.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub said: BTreeMap<String, Option<String>>,
    /// Identity of its agent; empty for agents that do not send one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub identity: String,
    /// When the answering scheduler last received a report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heard_at: Option<Timestamp>,
    /// The node is decommissioned and will be forgotten.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub removing: bool,
    /// Instances placed there, and instances that moved away but still have containers there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pods: Vec<NodePod>,
    /// Another agent that reports under this name; the scheduler ignores its reports.
    #[serde(rename = "twin", default, skip_serializing_if = "Option::is_none")]
    pub duplicate_agent: Option<DuplicateAgent>,
}

/// One instance on a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodePod {
    /// The pod.
    pub pod: PodId,
    /// Run state.
    pub state: RunState,
    /// Health, as its health check reports it.
    pub health: HealthState,
    /// Stateful: it moves only with `force`.
    pub bound: bool,
    /// It is placed elsewhere or nowhere, and its containers have not been removed here yet.
    pub leaving: bool,
    /// Why it is unhealthy or cannot leave; empty when there is no problem.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
}

/// A second agent under a name that another agent has.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct DuplicateAgent {
    /// Identity of that agent.
    pub identity: String,
    /// Its IP address; empty when not reported yet.
    pub address: String,
    /// When the scheduler last ignored a report of it.
    #[serde(with = "rfc3339")]
    pub at: Timestamp,
}

/// The error for a node that does not exist.
pub fn unknown(node: &NodeName) -> String {
    format!("Node {node} not existed; `deployctl node list` shows those that do")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }
    fn said(pairs: &[(&str, Option<&str>)]) -> BTreeMap<String, Option<String>> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), value.map(str::to_owned))).collect()
    }

    #[test]
    fn labels_of_operators_override_labels_of_the_agent() {
        let own = labels(&[("rack", "1"), ("zone", "a")]);
        let mut intent = NodeIntent::default();
        assert_eq!(intent.labels_over(&own), own);
        intent.set_labels(&said(&[("rack", None), ("zone", Some("b")), ("disk", Some("ssd")), ("gone", None)]), &own);
        assert_eq!(intent.labels_over(&own), labels(&[("zone", "b"), ("disk", "ssd")]));
        // Setting the agent's own value again, and hiding a label that only operators set, leaves nothing to store.
        intent.set_labels(&said(&[("rack", Some("1")), ("zone", Some("a")), ("disk", None)]), &own);
        assert_eq!(intent.labels_over(&own), own);
        assert!(intent.is_empty());
    }

    #[test]
    fn all_flaws_of_a_node_change_are_reported_together() {
        let labels = said(&[("node", Some("x")), ("1a", Some("a\nb")), ("ok", Some("fine")), ("", None)]);
        let flaws = NodeChange::Label { labels }.validate().expect_err("flaws");
        let fields: Vec<&str> = flaws.iter().map(|flaw| flaw.field.as_str()).collect();
        assert_eq!(fields, ["labels[\"\"]", "labels[\"1a\"]", "labels[\"1a\"]", "labels[\"node\"]"]);
        assert!(NodeChange::Label { labels: BTreeMap::new() }.validate().is_err());
        let why = format!("a\n{}", "x".repeat(LONGEST_CAUSE));
        assert_eq!(NodeChange::Drain { why, force: false }.validate().expect_err("flaws").len(), 2);
        assert_eq!(NodeChange::Cordon { why: "disk swap".to_owned() }.validate(), Ok(()));
        assert_eq!(NodeChange::Remove { force: true }.validate(), Ok(()));
    }

    #[test]
    fn of_two_agents_exactly_one_yields() {
        let agent = |incarnation: &str, since, settled| Presence {
            incarnation: incarnation.to_owned(),
            since: Timestamp::from_millis(since),
            settled,
            ..Presence::default()
        };
        let (early, late) = (agent("b", 1, false), agent("a", 2, false));
        assert!(late.yields_to(&early) && !early.yields_to(&late));
        let (one, other) = (agent("a", 1, false), agent("b", 1, false));
        assert!(other.yields_to(&one) && !one.yields_to(&other));
        assert!(early.yields_to(&agent("a", 2, true)), "a settled agent keeps the name");
        assert!(!early.yields_to(&early.clone()), "an agent does not yield to itself");
    }
}
