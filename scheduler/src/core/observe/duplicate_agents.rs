//! Two agents under one node name: decides which of them to accept.
//!
//! The accepted agent keeps the name until it has been silent for `suspect_after`. Reports of another agent are counted,
//! explained in an event and otherwise ignored, on the leader and on standbys alike. So a reinstalled machine is accepted once
//! its predecessor is suspect, and a restarted agent, which keeps its identity, immediately. Agents without an identity are
//! older than this rule and always accepted.

use std::collections::BTreeMap;
use std::time::Duration;

use contract::keys::{self, Key};
use contract::name::NodeName;
use contract::node::DuplicateAgent;
use contract::report::ReportMessage;
use contract::time::Timestamp;

use crate::core::Core;

/// Interval of events about a duplicate agent that keeps reporting.
const REPORT_AGAIN_AFTER: Duration = Duration::from_secs(300);

/// Agents that are not listened to, by the name they use.
#[derive(Debug, Default)]
pub(in crate::core) struct DuplicateAgents {
    by_node: BTreeMap<NodeName, (DuplicateAgent, Timestamp)>,
    /// Messages that were ignored.
    ignored: u64,
}

impl DuplicateAgents {
    /// The duplicate agent of a node, if it reported within `lately`.
    pub(in crate::core) fn of(&self, node: &NodeName, now: Timestamp, lately: Duration) -> Option<&DuplicateAgent> {
        self.by_node
            .get(node)
            .map(|(duplicate_agent, _)| duplicate_agent)
            .filter(|duplicate_agent| now.since(duplicate_agent.at) < lately)
    }
    pub(super) fn forget(&mut self, node: &NodeName) {
        self.by_node.remove(node);
    }

    /// Notes a message of a duplicate agent. True when an event is due.
    fn note(&mut self, message: &ReportMessage, now: Timestamp) -> bool {
        self.ignored += 1;
        let stamp = message.stamp();
        let (duplicate_agent, reported_at) = self.by_node.entry(stamp.node.clone()).or_default();
        if *duplicate_agent.identity != *stamp.identity {
            *duplicate_agent = DuplicateAgent { identity: stamp.identity.to_string(), ..DuplicateAgent::default() };
            *reported_at = Timestamp::NEVER;
        }
        duplicate_agent.at = now;
        if let Some(address) = address_of(message) {
            address.clone_into(&mut duplicate_agent.address);
        }
        let is_due = !reported_at.happened() || now.since(*reported_at) >= REPORT_AGAIN_AFTER;
        if is_due {
            *reported_at = now;
        }
        is_due
    }
}

fn address_of(message: &ReportMessage) -> Option<&str> {
    match message {
        ReportMessage::Whole(report) => Some(&report.head.facts.ip),
        ReportMessage::Delta(delta) => Some(&delta.head.facts.ip),
        ReportMessage::Heartbeat(_) => None,
    }
}

impl Core {
    /// Reports that were ignored because another agent has their node's name.
    pub fn ignored_reports(&self) -> u64 {
        self.reports.duplicate_agents.ignored
    }

    /// Whether the message comes from a duplicate agent and is ignored; with the text of the event, if one is due.
    pub(in crate::core) fn is_from_duplicate_agent(&mut self, message: &ReportMessage) -> Option<Option<String>> {
        let stamp = message.stamp();
        let heard =
            self.reports.get(&stamp.node).and_then(|observed| Some((observed.identity.as_str(), observed.heard_at?)));
        let (known, since) = match heard {
            Some(heard) => heard,
            // The accepted agent may not have reported to this process yet: it gets the same time.
            None => {
                let record = self.state.nodes.record(&stamp.node).filter(|record| !record.lost)?;
                (record.identity.as_str(), self.listening_since?)
            }
        };
        let is_same = known.is_empty() || stamp.identity.is_empty() || *known == *stamp.identity;
        if is_same || self.now.since(since) >= self.settings.suspect_after {
            return None;
        }
        let host = self.state.nodes.get(&stamp.node).map(|host| host.facts.ip.clone()).unwrap_or_default();
        let known = known.to_owned();
        if !self.reports.duplicate_agents.note(message, self.now) {
            return Some(None);
        }
        let at = address_of(message).unwrap_or("an unknown address");
        Some(Some(format!(
            "a second agent ({} at {at}) reports under this name and is ignored; the one that has it is {known} at {host}: \
             stop one of them, or give it another --name",
            stamp.identity
        )))
    }

    /// On a standby: the deletion of a node's record means that the node was removed, so its report is dropped.
    pub(in crate::core) fn note_removed(&mut self, key: &str) {
        if let Key::Node(node) = keys::parse(key)
            && !self.stored.contains_key(key)
        {
            self.reports.forget(&node);
        }
    }
}
