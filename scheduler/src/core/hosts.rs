//! Every node as a place to run, with the order placement takes them in.
//!
//! Whoever may change what a node has or has given away goes through [`Hosts::get_mut`], so the order cannot miss it. That a
//! node is alive is not part of the order: placement asks for it when the node's turn comes.

use std::collections::BTreeMap;
use std::ops::Deref;

use contract::name::NodeName;
use planner::placement::{Candidate, LoadRanking, Need};

/// The nodes.
#[derive(Debug, Default)]
pub(super) struct Hosts {
    by_name: BTreeMap<NodeName, Candidate>,
    pub(super) standings: LoadRanking,
}

impl Hosts {
    /// A node, to change anything about it.
    pub(super) fn get_mut(&mut self, name: &NodeName) -> Option<&mut Candidate> {
        self.standings.touch(name);
        self.by_name.get_mut(name)
    }
    /// A node, to change whether it is heard.
    pub(super) fn hear(&mut self, name: &NodeName) -> Option<&mut contract::query::Liveness> {
        self.by_name.get_mut(name).map(|host| &mut host.liveness)
    }
    /// A node is known from now on.
    pub(super) fn insert(&mut self, name: NodeName, host: Candidate) {
        self.standings.forget();
        self.by_name.insert(name, host);
    }
    /// A node is not known any longer.
    pub(super) fn remove(&mut self, name: &NodeName) {
        self.standings.forget();
        self.by_name.remove(name);
    }
    /// Brings the order for one need up to date.
    pub(super) fn prepare(&mut self, need: Need) {
        self.standings.prepare(&self.by_name, need);
    }
}

impl Deref for Hosts {
    type Target = BTreeMap<NodeName, Candidate>;
    fn deref(&self) -> &Self::Target {
        &self.by_name
    }
}
