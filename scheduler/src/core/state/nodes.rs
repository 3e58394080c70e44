//! Every node as a candidate for placement, sorted for it.
//!
//! Code that changes the capacity or the use of a node goes through [`Nodes::get_mut`], so the sorted order stays correct.
//! Liveness is not part of the order: placement checks it for each candidate.
//!
//! The facts of a node are those that its agent reports, with the labels and the cordon that operators set on top, so placement,
//! constraints, rollouts and views see the same.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Deref;

use contract::name::NodeName;
use contract::node::NodeIntent;
use contract::report::NodeFacts;
use planner::placement::{Candidate, LoadRanking, Need};

use super::State;

/// The nodes.
#[derive(Debug, Default)]
pub(in crate::core) struct Nodes {
    by_name: BTreeMap<NodeName, Candidate>,
    pub(in crate::core) standings: LoadRanking,
}

impl Nodes {
    /// A node, to change anything about it.
    pub(in crate::core) fn get_mut(&mut self, name: &NodeName) -> Option<&mut Candidate> {
        self.standings.touch(name);
        self.by_name.get_mut(name)
    }
    /// The liveness of a node, to change it.
    pub(in crate::core) fn hear(&mut self, name: &NodeName) -> Option<&mut contract::query::Liveness> {
        self.by_name.get_mut(name).map(|host| &mut host.liveness)
    }
    /// A node is known from now on.
    pub(in crate::core) fn insert(&mut self, name: NodeName, host: Candidate) {
        self.standings.forget();
        self.by_name.insert(name, host);
    }
    /// A node is not known any longer.
    pub(in crate::core) fn remove(&mut self, name: &NodeName) {
        self.standings.forget();
        self.by_name.remove(name);
    }
    /// Brings the order for one need up to date.
    pub(in crate::core) fn prepare(&mut self, need: Need) {
        self.standings.prepare(&self.by_name, need);
    }
}

impl Deref for Nodes {
    type Target = BTreeMap<NodeName, Candidate>;
    fn deref(&self) -> &Self::Target {
        &self.by_name
    }
}

impl State {
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

    /// Changes the operator's settings of a node; `own` are the facts that its agent reports.
    pub(in crate::core) fn set_intent(&mut self, name: &NodeName, intent: NodeIntent, own: Option<&NodeFacts>) {
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
        let (cordon, decommissioned) = self.cordon_of(name);
        let Some(host) = self.nodes.get_mut(name) else { return };
        (host.cordon, host.decommissioned) = (cordon, decommissioned);
        let engine = host.engine;
        if let Some(own) = own {
            self.put_node(name, own, engine);
        }
    }
}
