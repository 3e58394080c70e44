//! Every node: as a candidate for placement, sorted for it, with its stored record and the settings of operators.
//!
//! Code that changes the capacity or the use of a node goes through [`Nodes::get_mut`], so the sorted order stays correct.
//! Liveness is not part of the order: placement checks it for each candidate.
//!
//! The facts of a node are those that its agent reports, with the labels and the cordon that operators set on top, so placement,
//! constraints, rollouts and views see the same.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;

use contract::name::NodeName;
use contract::node::NodeIntent;
use contract::record::NodeRecord;
use contract::report::NodeFacts;
use contract::time::Timestamp;
use planner::placement::{Candidate, LoadRanking, Need};

use super::State;

/// Every node known from the store or from its reports.
#[derive(Debug, Default)]
pub(in crate::core) struct Nodes {
    by_name: BTreeMap<NodeName, Candidate>,
    ranking: LoadRanking,
    /// Node records as stored, or about to be.
    records: BTreeMap<NodeName, NodeRecord>,
    /// Settings of operators: cordon, labels, removal.
    intents: BTreeMap<NodeName, NodeIntent>,
    /// Nodes that are forgotten once nothing is placed there.
    removing: BTreeSet<NodeName>,
    /// Nodes that belong to another store.
    foreign: BTreeSet<NodeName>,
}

impl Nodes {
    /// A node, to change anything about it.
    pub(in crate::core) fn get_mut(&mut self, name: &NodeName) -> Option<&mut Candidate> {
        self.ranking.touch(name);
        self.by_name.get_mut(name)
    }
    /// The liveness of a node, to change it.
    pub(in crate::core) fn hear(&mut self, name: &NodeName) -> Option<&mut contract::query::Liveness> {
        self.by_name.get_mut(name).map(|host| &mut host.liveness)
    }
    /// A node is known from now on.
    pub(in crate::core) fn insert(&mut self, name: NodeName, host: Candidate) {
        self.ranking.forget();
        self.by_name.insert(name, host);
    }
    /// A node is not known any longer, and its record is deleted. The operator's settings stay.
    pub(in crate::core) fn remove(&mut self, name: &NodeName) {
        self.ranking.forget();
        self.by_name.remove(name);
        self.records.remove(name);
    }
    /// Brings the order for one need up to date.
    pub(in crate::core) fn prepare(&mut self, need: Need) {
        self.ranking.prepare(&self.by_name, need);
    }
    /// The nodes sorted for placement, for the last prepared need.
    pub(in crate::core) fn ranking(&self) -> &LoadRanking {
        &self.ranking
    }

    pub(in crate::core) fn record(&self, name: &NodeName) -> Option<&NodeRecord> {
        self.records.get(name)
    }
    pub(in crate::core) fn records(&self) -> impl Iterator<Item = (&NodeName, &NodeRecord)> {
        self.records.iter()
    }
    /// Whether the node was lost when its record was last written.
    pub(in crate::core) fn was_lost(&self, name: &NodeName) -> bool {
        self.records.get(name).is_some_and(|record| record.lost)
    }
    /// Returns whether the node had no record.
    pub(in crate::core) fn put_record(&mut self, name: NodeName, record: NodeRecord) -> bool {
        self.records.insert(name, record).is_none()
    }
    /// Notes in the record that the node is lost. Returns the record if that changed it.
    pub(in crate::core) fn mark_lost(&mut self, name: &NodeName) -> Option<&NodeRecord> {
        let record = self.records.get_mut(name).filter(|record| !record.lost)?;
        record.lost = true;
        Some(record)
    }
    /// Notes in the record when the engine was reported as away. Returns the record if that changed it.
    pub(in crate::core) fn set_engine_reported_at(&mut self, name: &NodeName, at: Timestamp) -> Option<&NodeRecord> {
        let record = self.records.get_mut(name).filter(|record| record.engine_reported_at != at)?;
        record.engine_reported_at = at;
        Some(record)
    }

    pub(in crate::core) fn intent(&self, name: &NodeName) -> Option<&NodeIntent> {
        self.intents.get(name)
    }
    /// Nodes that are forgotten once nothing is placed there.
    pub(in crate::core) fn removing(&self) -> &BTreeSet<NodeName> {
        &self.removing
    }
    fn put_intent(&mut self, name: &NodeName, intent: NodeIntent) {
        if intent.removing {
            self.removing.insert(name.clone());
        } else {
            self.removing.remove(name);
        }
        if intent.is_empty() {
            self.intents.remove(name);
        } else {
            self.intents.insert(name.clone(), intent);
        }
    }

    /// The facts of a node with the labels it has in the end.
    pub(super) fn labelled<'f>(&self, name: &NodeName, own: &'f NodeFacts) -> Cow<'f, NodeFacts> {
        match self.intents.get(name).filter(|intent| !intent.labels.is_empty()) {
            // Most nodes: nothing is copied for each of their reports.
            None => Cow::Borrowed(own),
            Some(intent) => Cow::Owned(NodeFacts { labels: intent.labels_over(&own.labels), ..own.clone() }),
        }
    }
    /// Why nothing new goes to the node, and whether it will not return.
    pub(super) fn cordon_of(&self, name: &NodeName) -> (Option<String>, bool) {
        let Some(intent) = self.intents.get(name) else { return (None, false) };
        (intent.cordon.as_ref().map(contract::node::Cordon::reason), intent.removing)
    }

    /// The node obeys a foreign store. Returns whether that is new.
    pub(in crate::core) fn mark_foreign(&mut self, name: &NodeName) -> bool {
        self.foreign.insert(name.clone())
    }
    /// The node obeys this store. Returns whether it obeyed a foreign one before.
    pub(in crate::core) fn mark_own(&mut self, name: &NodeName) -> bool {
        self.foreign.remove(name)
    }
    /// How many nodes belong to another store.
    pub(in crate::core) fn foreign_count(&self) -> usize {
        self.foreign.len()
    }
}

impl Deref for Nodes {
    type Target = BTreeMap<NodeName, Candidate>;
    fn deref(&self) -> &Self::Target {
        &self.by_name
    }
}

impl State {
    /// Changes the operator's settings of a node; `own` are the facts that its agent reports.
    pub(in crate::core) fn set_intent(&mut self, name: &NodeName, intent: NodeIntent, own: Option<&NodeFacts>) {
        self.nodes.put_intent(name, intent);
        let (cordon, decommissioned) = self.nodes.cordon_of(name);
        let Some(host) = self.nodes.get_mut(name) else { return };
        (host.cordon, host.decommissioned) = (cordon, decommissioned);
        let engine = host.engine;
        if let Some(own) = own {
            self.put_node(name, own, engine);
        }
    }
}
