//! The state that all folders share: groups, nodes, dependency pods, outcomes, switches, quarantine. Nothing here decides.
//!
//! `load` and `mirror` fill it from the store, `commands` and `reconcile` change it together with the bundle that stores the
//! change. [`State::set_instances`] is the only place that changes instances, because the instances, the used capacity of nodes and
//! the index of assigned pods must change together.
//!
//! Example: a plan moves instance 2 of `web` from node-1 to node-2. `set_instances` stores the new instance, subtracts its need from
//! node-1, adds it to node-2, and moves the pod in `assigned`.

mod access;
mod cluster;
pub(in crate::core) mod dependencies;
mod group;
mod joins;
pub(in crate::core) mod load;
mod mirror;
pub(in crate::core) mod nodes;
mod outcomes;
mod policies;
pub(in crate::core) mod quarantine;
pub(in crate::core) mod revisions;
mod store;

pub(in crate::core) use self::group::{Group, is_removal, pod_id, pods_of};

use std::collections::{BTreeMap, BTreeSet};

use contract::name::{GroupName, NodeName};
use contract::node::NodeIntent;
use contract::pod_id::PodId;
use contract::query::Liveness;
use contract::record::{GroupRecord, Instance};
use contract::report::{EngineState, NodeFacts};
use contract::spec::PodSpec;
use planner::placement::{Candidate, Need, PlacedPods};
use planner::ports::PortClaims;

use crate::core::observe::history::Histories;
use crate::core::reconcile::ports;

use self::access::Access;
use self::cluster::Cluster;
use self::dependencies::Dependencies;
use self::group::is_as_placed;
use self::joins::Joins;
use self::nodes::Nodes;
use self::outcomes::Outcomes;
use self::policies::Policies;
use self::quarantine::Quarantine;
use self::store::StoreState;

/// Intents, placements and nodes.
#[derive(Debug, Default)]
pub(in crate::core) struct State {
    pub(in crate::core) groups: BTreeMap<GroupName, Group>,
    pub(in crate::core) nodes: Nodes,
    /// Which pods are placed on which node, and the version each of them has: not always the one in its name.
    assigned: BTreeMap<NodeName, BTreeMap<PodId, u32>>,
    pub(in crate::core) store: StoreState,
    /// Problems of the control plane itself, for `deployctl status`.
    warnings: BTreeMap<Warning, String>,
    /// Groups whose record or placement cannot be read: they exist, and agents spare their containers.
    spared: BTreeSet<GroupName>,
    pub(in crate::core) dependencies: Dependencies,
    pub(in crate::core) cluster: Cluster,
    pub(in crate::core) policies: Policies,
    pub(in crate::core) access: Access,
    pub(in crate::core) joins: Joins,
    /// Which groups own stream ports and which wait for them; follows from the records.
    claims: PortClaims,
    /// When containers started and stopped.
    pub(in crate::core) histories: Histories,
    pub(in crate::core) outcomes: Outcomes,
    /// Objects that the leader does not reconcile because of an error.
    pub(in crate::core) quarantine: Quarantine,
}

/// What may be wrong with the control plane itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::core) enum Warning {
    /// The store came back with an older state.
    StoreBehind,
    /// This scheduler's clock and that of NATS differ.
    Clock,
    /// The record of the constraints cannot be read.
    ConstraintsUnread,
    /// The record of the callbacks cannot be read.
    CallbacksUnread,
    /// The store has no space left and refuses every write.
    StoreFull,
}

impl State {
    /// Adds a group, or gives the group of that name another record.
    pub(in crate::core) fn put_group(&mut self, name: &GroupName, record: GroupRecord, quota_cores: u32) {
        let before = self.groups.get(name).cloned();
        self.drop_group(name);
        if let Some(claim) = ports::claim(&record) {
            self.claims.set(name, claim);
        }
        let mut group = match before {
            Some(before) => before.with_record(record, quota_cores),
            None => Group::new(record, quota_cores),
        };
        let instances = std::mem::take(&mut group.instances);
        self.groups.insert(name.clone(), group);
        self.set_instances(name, instances);
    }

    /// Changes the record of a group. Specs and port claims are derived again only if they changed.
    pub(in crate::core) fn set_record(&mut self, name: &GroupName, record: GroupRecord, quota_cores: u32) {
        let same = |group: &Group| {
            let before = &group.record;
            (&before.spec.pod, before.spec.version, &before.former, &before.taken_ports)
                == (&record.spec.pod, record.spec.version, &record.former, &record.taken_ports)
        };
        match self.groups.get_mut(name) {
            Some(group) if same(group) && !is_removal(&group.record) && !is_removal(&record) => group.record = record,
            Some(_) | None => self.put_group(name, record, quota_cores),
        }
    }

    /// Forgets a group and gives back what it used.
    pub(in crate::core) fn drop_group(&mut self, name: &GroupName) {
        self.set_instances(name, Vec::new());
        self.claims.cancel(name);
        self.groups.remove(name);
    }

    /// Changes where a group's instances are, and every index with it.
    pub(in crate::core) fn set_instances(&mut self, name: &GroupName, instances: Vec<Instance>) {
        let Some(group) = self.groups.get_mut(name) else { return };
        let before = std::mem::replace(&mut group.instances, instances);
        let mut moved = false;
        // A plan changes few of many instances: only those are updated in the indexes.
        for index in 0..before.len().max(group.instances.len()) {
            let (old, new) = (before.get(index), group.instances.get(index));
            if old.zip(new).is_some_and(|(old, new)| is_as_placed(old, new)) {
                continue;
            }
            moved = true;
            for pod in old.into_iter().flat_map(Instance::pods) {
                let Some(node) = &pod.node else { continue };
                if let Some(pods) = self.assigned.get_mut(node) {
                    pods.remove(&pod_id(name, index, pod));
                }
                if let Some(host) = self.nodes.get_mut(node) {
                    host.used = host.used.minus(group.need(pod.version));
                }
            }
            for pod in new.into_iter().flat_map(Instance::pods) {
                let Some(node) = &pod.node else { continue };
                self.assigned.entry(node.clone()).or_default().insert(pod_id(name, index, pod), pod.version);
                if let Some(host) = self.nodes.get_mut(node) {
                    host.used = host.used.plus(group.need(pod.version));
                }
            }
        }
        if moved {
            self.dependencies.set_uses(name, group);
        }
    }

    /// Updates what a node has, and makes it known if it was not. Returns whether anything changed.
    pub(in crate::core) fn put_node(&mut self, name: &NodeName, facts: &NodeFacts, engine: EngineState) -> bool {
        let facts = self.nodes.labelled(name, facts);
        if self.nodes.get(name).is_some_and(|host| host.facts == *facts && host.engine == engine) {
            // As with nearly every report: the order of the nodes is not touched.
            return false;
        }
        let facts = facts.into_owned();
        if let Some(host) = self.nodes.get_mut(name) {
            (host.facts, host.engine) = (facts, engine);
            return true;
        }
        let (cordon, decommissioned) = self.nodes.cordon_of(name);
        let (used, liveness) = (self.used_on(name), Liveness::Unknown);
        let host = Candidate { facts, used, liveness, engine, cordon, decommissioned };
        self.nodes.insert(name.clone(), host);
        true
    }

    fn used_on(&self, name: &NodeName) -> Need {
        let pods = self.pods_on(name);
        let needs = pods.filter_map(|(pod, version)| Some(self.groups.get(&pod.group)?.need(*version)));
        needs.fold(self.dependencies.used_on(name), Need::plus)
    }

    /// The pods of groups that are placed on the node, with the version of each.
    pub(in crate::core) fn pods_on(&self, node: &NodeName) -> impl Iterator<Item = (&PodId, &u32)> {
        self.assigned.get(node).into_iter().flatten()
    }

    pub(in crate::core) fn is_placed_on(&self, node: &NodeName, pod: &PodId) -> bool {
        self.assigned.get(node).is_some_and(|pods| pods.contains_key(pod))
    }

    /// Forgets a removed node and the operator's settings of it.
    pub(in crate::core) fn forget_node(&mut self, node: &NodeName) {
        self.set_intent(node, NodeIntent::default(), None);
        self.nodes.remove(node);
        self.assigned.remove(node);
    }

    /// Which groups own stream ports, and which wait for them.
    pub(in crate::core) fn claims(&self) -> &PortClaims {
        &self.claims
    }

    /// Groups whose record or placement cannot be read.
    pub(in crate::core) fn spared(&self) -> &BTreeSet<GroupName> {
        &self.spared
    }

    /// Shows the warning in `deployctl status` until it ends.
    pub(in crate::core) fn warn(&mut self, warning: Warning, text: &str) {
        self.warnings.insert(warning, text.to_owned());
    }

    pub(in crate::core) fn end_warning(&mut self, warning: Warning) {
        self.warnings.remove(&warning);
    }

    pub(in crate::core) fn warns_of(&self, warning: Warning) -> bool {
        self.warnings.contains_key(&warning)
    }

    pub(in crate::core) fn warnings(&self) -> impl Iterator<Item = &String> {
        self.warnings.values()
    }

    /// The groups with an instance placed on the node.
    pub(in crate::core) fn groups_on(&self, node: &NodeName) -> BTreeSet<GroupName> {
        self.pods_on(node).map(|(pod, _)| pod.group.clone()).collect()
    }

    /// Groups that agents spare: unreadable ones and orphans.
    pub(in crate::core) fn untouchable(&self) -> BTreeSet<GroupName> {
        let orphans = self.groups.iter().filter(|(_, group)| group.is_orphan()).map(|(name, _)| name);
        self.spared.iter().chain(self.dependencies.spared()).chain(orphans).cloned().collect()
    }
}

impl PlacedPods for State {
    fn visit(&self, node: &NodeName, see: &mut dyn FnMut(&PodId, &PodSpec)) {
        for (pod, version) in self.pods_on(node) {
            if let Some(spec) = self.groups.get(&pod.group).and_then(|group| group.pod(*version)) {
                see(pod, spec);
            }
        }
    }
}
