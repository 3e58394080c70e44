//! What operators say of a node, who may speak for one, and what is told about one.
//!
//! The agent's own facts stay what they are; what operators say lies over them. So a word about labels is one function,
//! [`NodeIntent::labels_over`], and whoever asks for the labels of a node gets its result.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::name::NodeName;
use crate::pod_id::PodId;
use crate::query::NodeView;
use crate::state::{HealthState, RunState};
use crate::time::{Timestamp, rfc3339};
use crate::validate::{Flaw, LONGEST_CAUSE};

/// Labels one change may name, and labels operators may have said of one node.
pub const MOST_LABELS: usize = 64;
/// Longest key of a label, in bytes.
pub const LONGEST_KEY: usize = 128;
/// Longest value of a label, in bytes.
pub const LONGEST_VALUE: usize = 256;
/// In constraints this key means the node's name, so no label can have it.
const NAME_KEY: &str = "node";

/// What operators say of one node: `/deployd/state/intent/node/<name>`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeIntent {
    /// Nothing new is placed there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cordon: Option<Cordon>,
    /// Labels that are set; none hides the agent's own.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, Option<String>>,
    /// It will not return and is forgotten once nothing is placed there any more.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub removing: bool,
}

/// Why nothing new is placed on a node. Also part of the bodies of the API.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Cordon {
    /// Who said so, as far as known.
    pub by: String,
    /// When.
    #[serde(with = "rfc3339")]
    pub at: Timestamp,
    /// Why, in their words.
    pub why: String,
}

impl Cordon {
    /// The reason placement gives for leaving the node out.
    pub fn reason(&self) -> String {
        if self.why.is_empty() { "cordoned".to_owned() } else { format!("cordoned ({})", self.why) }
    }
}

impl NodeIntent {
    /// Nothing is said.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The labels of a node whose agent reports `own`.
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

    /// Says something about labels of a node whose agent reports `own`. What the agent says anyway need not be remembered.
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

/// What operators ask to change about a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum NodeChange {
    /// Nothing new is placed there; what runs there stays.
    Cordon {
        /// Why, in the asker's words.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        why: String,
    },
    /// New work is placed there again.
    Uncordon,
    /// As `Cordon`, and what runs there moves elsewhere.
    Drain {
        /// Why, in the asker's words.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        why: String,
        /// Even what is bound to its data.
        force: bool,
    },
    /// Labels change: one with a value is set, one without is taken away.
    Label {
        /// Which.
        labels: BTreeMap<String, Option<String>>,
    },
    /// The node is forgotten.
    Remove {
        /// Even though instances are placed there: it will not return.
        force: bool,
    },
}

impl NodeChange {
    /// Every flaw of what is asked.
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
            Self::Uncordon | Self::Remove { .. } => {}
        }
        if flaws.is_empty() { Ok(()) } else { Err(flaws) }
    }
}

/// What is wrong with a label's key: constraints must be able to name it.
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

/// An agent that speaks for a node: its question whether somebody else does, and the answer of one who does.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Presence {
    /// Made once for each state directory.
    pub identity: String,
    /// Run of the agent process.
    pub incarnation: String,
    /// The machine's own name.
    pub host: String,
    /// Where the node is reached.
    pub address: String,
    /// When the process began.
    pub since: Timestamp,
    /// It asked, and nobody else was there; otherwise it is still asking.
    pub settled: bool,
}

impl Presence {
    /// Whether `other`, who answered, keeps the name: whoever has it already, and of two who ask at once the earlier one.
    pub fn yields_to(&self, other: &Self) -> bool {
        let order = |one: &Self| (one.since, one.incarnation.clone());
        self.incarnation != other.incarnation && (other.settled || order(other) < order(self))
    }
}

/// One node with everything that is known of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodePage {
    /// The node.
    pub node: NodeView,
    /// What operators say of its labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub said: BTreeMap<String, Option<String>>,
    /// The agent that speaks for it; empty for one that is older than this.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub identity: String,
    /// When it was last heard by whoever answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heard_at: Option<Timestamp>,
    /// It is being removed by force.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub removing: bool,
    /// Instances placed there, and those that have not left yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pods: Vec<NodePod>,
    /// Another agent that reports under this name and is not listened to.
    #[serde(rename = "twin", default, skip_serializing_if = "Option::is_none")]
    pub duplicate_agent: Option<DuplicateAgent>,
}

/// An instance on a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodePod {
    /// Which.
    pub pod: PodId,
    /// Its state.
    pub state: RunState,
    /// Its health.
    pub health: HealthState,
    /// It is bound to its data: only force moves it.
    pub bound: bool,
    /// It is placed elsewhere or nowhere and has not left yet.
    pub leaving: bool,
    /// What keeps it from being well, or from leaving; empty when nothing does.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
}

/// A second agent under a name that is taken.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct DuplicateAgent {
    /// Its identity.
    pub identity: String,
    /// Where it says it is reached; empty when it did not say yet.
    pub address: String,
    /// When it was last heard and not listened to.
    #[serde(with = "rfc3339")]
    pub at: Timestamp,
}

/// What a node is called where it must be named with its flaw.
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
    fn what_operators_say_lies_over_what_the_agent_says() {
        let own = labels(&[("rack", "1"), ("zone", "a")]);
        let mut intent = NodeIntent::default();
        assert_eq!(intent.labels_over(&own), own);
        intent.set_labels(&said(&[("rack", None), ("zone", Some("b")), ("disk", Some("ssd")), ("gone", None)]), &own);
        assert_eq!(intent.labels_over(&own), labels(&[("zone", "b"), ("disk", "ssd")]));
        // Saying again what the agent says, and taking back what only operators said, leaves nothing to remember.
        intent.set_labels(&said(&[("rack", Some("1")), ("zone", Some("a")), ("disk", None)]), &own);
        assert_eq!(intent.labels_over(&own), own);
        assert!(intent.is_empty());
    }

    #[test]
    fn every_flaw_of_a_change_is_told_at_once() {
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
        assert!(early.yields_to(&agent("a", 2, true)), "who has the name keeps it");
        assert!(!early.yields_to(&early.clone()), "nobody yields to itself");
    }
}
