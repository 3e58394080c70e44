//! Events: explanations of what happened in the cluster, for people.
//!
//! No decision depends on an event, so losing one loses only an explanation. The leader publishes an event after the
//! change it explains is committed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::name::{GroupName, NodeName};
use crate::time::{Timestamp, rfc3339};

/// One event. Also a row of `GET /api/events`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Event {
    /// When the leader decided or observed it.
    #[serde(with = "rfc3339")]
    pub at: Timestamp,
    /// Kind of event; users filter by it.
    pub kind: Kind,
    /// The group or dependency pod it concerns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupName>,
    /// Namespace of the group when it happened: another group may have its name later. Empty if the leader did not know it. Absent from
    /// older schedulers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The instance it concerns, from 1; 0 for the group as a whole.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub instance: u32,
    /// The node it concerns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeName>,
    /// The explanation, one sentence.
    pub message: String,
    /// For an unschedulable instance: the reasons by node.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub reasons: BTreeMap<NodeName, Vec<String>>,
}

/// Kinds of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Kind {
    /// The leader accepted a command.
    Accepted,
    /// The leader refused a command.
    Refused,
    /// An operation on a group began or ended.
    Operation,
    /// An instance was placed, changed its revision, or left a node.
    Placed,
    /// An instance is unschedulable.
    Unplaceable,
    /// A failure of an instance; callbacks receive the same as a notice.
    Incident,
    /// An upgrade was rolled back.
    RolledBack,
    /// A rollout started, progressed, waits, paused, failed or ended.
    Release,
    /// A node joined, missed heartbeats, was lost or returned.
    Node,
    /// A cluster-wide switch or a constraint changed.
    Engine,
    /// A scheduler became leader.
    Leader,
    /// An object was quarantined or released from quarantine.
    Quarantined,
}

impl Kind {
    /// All kinds, in the order of declaration.
    pub const ALL: [Self; 12] = [
        Self::Accepted,
        Self::Refused,
        Self::Operation,
        Self::Placed,
        Self::Unplaceable,
        Self::Incident,
        Self::RolledBack,
        Self::Release,
        Self::Node,
        Self::Engine,
        Self::Leader,
        Self::Quarantined,
    ];

    /// The word that users filter by.
    pub fn word(self) -> &'static str {
        match self {
            Self::Accepted => "Accepted",
            Self::Refused => "Refused",
            Self::Operation => "Operation",
            Self::Placed => "Placed",
            Self::Unplaceable => "Unplaceable",
            Self::Incident => "Incident",
            Self::RolledBack => "RolledBack",
            Self::Release => "Release",
            Self::Node => "Node",
            Self::Engine => "Engine",
            Self::Leader => "Leader",
            Self::Quarantined => "Quarantined",
        }
    }
    /// Parses the word, ignoring case.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.word().eq_ignore_ascii_case(word))
    }
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_round_trips_as_its_word() {
        for kind in Kind::ALL {
            assert_eq!(serde_json::to_value(kind).expect("a word"), kind.word());
            assert_eq!(Kind::from_word(&kind.word().to_lowercase()), Some(kind));
        }
        assert_eq!(Kind::from_word("other"), None);
    }
}
