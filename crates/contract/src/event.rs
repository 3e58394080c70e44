//! Events: what happened in the cluster and why, for people who ask later or watch.
//!
//! An event explains; nothing is decided from it, and losing one loses an explanation. The leader tells it once what it
//! tells of is stored.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::name::{GroupName, NodeName};
use crate::time::{Timestamp, rfc3339};

/// Something that happened. Also one entry of `GET /api/events`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Event {
    /// When it was decided or seen.
    #[serde(with = "rfc3339")]
    pub at: Timestamp,
    /// What kind of thing.
    pub kind: Kind,
    /// The group, or dependency pod, it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupName>,
    /// The instance it is about; 0 when it is about the whole.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub instance: u32,
    /// The node it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeName>,
    /// One sentence.
    pub message: String,
    /// Why an instance has no place: every node with every reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub reasons: BTreeMap<NodeName, Vec<String>>,
}

/// What kind of thing happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Kind {
    /// A command was accepted.
    Accepted,
    /// A command was refused.
    Refused,
    /// An operation on a group began or ended.
    Operation,
    /// An instance got a place, another version, or left a node.
    Placed,
    /// An instance found no place.
    Unplaceable,
    /// Something went wrong with an instance; callbacks are told the same.
    Incident,
    /// An upgrade was taken back.
    RolledBack,
    /// A release of a group opened, went on, waits, was held or ended.
    Release,
    /// A node joined, went silent, was lost or came back.
    Node,
    /// One of the engine's switches or a constraint changed.
    Engine,
    /// A scheduler took over.
    Leader,
    /// An object is not reconciled because of an error, or is again.
    Quarantined,
}

impl Kind {
    /// Every kind, in the order of declaration.
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

    /// The word users filter by.
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
    /// Reads the word, in any case.
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
    fn every_kind_is_written_as_its_word_and_read_back() {
        for kind in Kind::ALL {
            assert_eq!(serde_json::to_value(kind).expect("a word"), kind.word());
            assert_eq!(Kind::from_word(&kind.word().to_lowercase()), Some(kind));
        }
        assert_eq!(Kind::from_word("other"), None);
    }
}
