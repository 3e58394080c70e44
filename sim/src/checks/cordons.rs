//! The cordons that accepted commands request, compared with what is stored, and pods that a leader placed on cordoned nodes.

use std::collections::{BTreeMap, BTreeSet};

use contract::keys;
use contract::name::NodeName;
use contract::node::{NodeChange, NodeIntent};
use contract::record::Instance;
use contract::rollout::UpdatePolicy;
use contract::spec::PodSpec;
use testkit::store::FakeStore;

use crate::checks::commit_changes::{Change, identity};

/// The reason of each cordon.
#[derive(Debug, Default)]
pub struct Cordons {
    reasons: BTreeMap<NodeName, String>,
    /// Nodes that were cordoned all the time since the previous commit: the decision knew of these.
    cordoned: BTreeSet<NodeName>,
}

impl Cordons {
    pub fn begin_commit(&mut self) {
        self.cordoned = self.reasons.keys().cloned().collect();
    }

    /// None if the leader cannot have accepted the command.
    pub fn apply(&mut self, node: &NodeName, change: &NodeChange) -> Option<()> {
        match change {
            NodeChange::Cordon { why } | NodeChange::Drain { why, .. } => {
                let reason = self.reasons.entry(node.clone()).or_insert_with(|| why.clone());
                if !why.is_empty() {
                    reason.clone_from(why);
                }
            }
            NodeChange::Uncordon => {
                self.reasons.remove(node);
                self.cordoned.remove(node);
            }
            // The workload does not change labels, which are units, and neither approves nor removes nodes.
            NodeChange::Label { .. } | NodeChange::Approve | NodeChange::Remove { .. } => return None,
        }
        Some(())
    }

    pub fn differs(&self, node: &NodeName, store: &FakeStore) -> Option<String> {
        let stored: Option<NodeIntent> = store.read(&keys::node_intent(node));
        let why = stored.as_ref().and_then(|intent| intent.cordon.as_ref()).map(|cordon| &cordon.why);
        (why != self.reasons.get(node))
            .then(|| format!("{node} is stored as {stored:?}, commands request {:?}", self.reasons.get(node)))
    }

    pub fn nodes(&self) -> impl Iterator<Item = &NodeName> {
        self.reasons.keys()
    }

    /// A pod that was placed on a cordoned node. A stateful pod may be recreated on its node, and a pod may be updated in place.
    pub fn placed_on_cordoned(&self, change: &Change) -> Option<String> {
        for (number, instance) in (1..).zip(&change.is.instances).filter(|_| !self.cordoned.is_empty()) {
            let before = change.was.instances.get(number - 1);
            for pod in instance.pods() {
                let Some(node) = pod.node.as_ref().filter(|node| self.cordoned.contains(*node)) else { continue };
                let had = || before.into_iter().flat_map(Instance::pods);
                let is_known = had().any(|had| identity(had) == identity(pod));
                let stays = had().any(|had| had.node == pod.node && may_stay(change, had, pod));
                if !is_known && !stays {
                    let group = &change.group;
                    return Some(format!("{group}/{number} is placed on {node}: {before:?} became {instance:?}"));
                }
            }
        }
        None
    }
}

fn may_stay(change: &Change, had: &Instance, pod: &Instance) -> bool {
    let is_bound = |instance: &Instance| change.spec(instance.version).is_some_and(PodSpec::is_stateful);
    let spec = &change.is.record.spec;
    let is_in_place = spec.has_strategy() && spec.update_policy != UpdatePolicy::ReCreate;
    is_in_place || (is_bound(had) && is_bound(pod))
}
