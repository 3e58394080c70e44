//! Nodes that wait for approval.
//!
//! A name that is neither in the store, nor accepted by the settings, nor approved gets no orders, and its reports change nothing:
//! a process with a key of the bus, or any process on an open bus, must not get the work and the environment of others by
//! calling itself a node. The leader lists such names until they fall silent.

use std::collections::BTreeMap;
use std::time::Duration;

use contract::name::NodeName;
use contract::report::{NodeFacts, ReportMessage};
use contract::time::Timestamp;

use crate::core::events;
use crate::core::io::{Effect, Settings};
use crate::core::leader::Leading;
use crate::core::state::State;

/// Names that are listed; when there are more, further ones wait unseen.
const MOST: usize = 256;

/// A node that waits.
#[derive(Debug)]
pub(in crate::core) struct PendingNode {
    pub(in crate::core) heard_at: Timestamp,
    /// What it last reported; empty until its next whole report.
    pub(in crate::core) facts: NodeFacts,
}

/// The nodes that wait.
#[derive(Debug, Default)]
pub(in crate::core) struct PendingNodes(BTreeMap<NodeName, PendingNode>);

impl PendingNodes {
    /// Those that were heard within `lost_after`.
    pub(in crate::core) fn all(
        &self,
        now: Timestamp,
        lost_after: Duration,
    ) -> impl Iterator<Item = (&NodeName, &PendingNode)> {
        self.0.iter().filter(move |(_, pending)| now.since(pending.heard_at) < lost_after)
    }

    /// Notes a report. Returns whether the node is new.
    fn note(&mut self, mut message: ReportMessage, now: Timestamp, lost_after: Duration) -> bool {
        let node = message.stamp().node.clone();
        self.0.retain(|_, pending| now.since(pending.heard_at) < lost_after);
        let is_new = !self.0.contains_key(&node);
        if is_new && self.0.len() >= MOST {
            return false;
        }
        let pending = self.0.entry(node).or_insert_with(|| PendingNode { heard_at: now, facts: NodeFacts::default() });
        pending.heard_at = now;
        if let Some(head) = message.head_mut() {
            head.facts.bound();
            pending.facts = std::mem::take(&mut head.facts);
        }
        is_new
    }
}

/// Whether the node gets orders: it joined with a token, its name is accepted or approved, or the store knows it. A report alone makes
/// no node known, and one that was removed with its key must join again.
pub(in crate::core) fn is_accepted(settings: &Settings, state: &State, node: &NodeName) -> bool {
    if state.joins.key(node).is_some() {
        return true;
    }
    if state.nodes.intent(node).is_some_and(|intent| intent.revoked) {
        return false;
    }
    settings.accepts(node)
        || state.nodes.record(node).is_some()
        || state.nodes.intent(node).is_some_and(|intent| intent.approved)
        // Its record cannot be read.
        || state.pods_on(node).next().is_some()
        || state.dependencies.containers_on(node) > 0
}

/// A node that waits for approval reported.
pub(super) fn note_pending(leading: &mut Leading<'_>, message: ReportMessage) {
    let node = message.stamp().node.clone();
    if leading.reports.pending.note(message, leading.now, leading.settings.lost_after) {
        let text = format!("wants to join and waits for approval (deployctl node approve {node})");
        leading.emit(vec![events::of_node(&node, text, leading.now)]);
        leading.effects.push(Effect::AskWhole { node });
    }
}

/// At the start of a leadership: drops what nodes that wait reported to this process as a standby.
pub(in crate::core) fn forget_pending(leading: &mut Leading<'_>) {
    let names = leading.reports.all().map(|(name, _)| name);
    let waiting = names.filter(|name| !is_accepted(leading.settings, leading.state, name));
    for name in waiting.cloned().collect::<Vec<NodeName>>() {
        leading.reports.forget(&name);
        leading.state.nodes.remove(&name);
    }
}
