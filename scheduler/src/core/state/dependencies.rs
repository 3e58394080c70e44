//! Dependency pods: their records, the instances that need them, and where they run.
//!
//! The needs follow from the instances of groups and change together with them ([`State::set_instances`] calls
//! [`Dependencies::set_uses`]), so they cannot diverge. The name of a dependency pod on a node is composed of three names, and
//! two different triples may give the same name; a place whose name is taken is refused.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use contract::dependency::Place;
use contract::keys;
use contract::layout::{self, Owner};
use contract::name::{GroupName, NodeName};
use contract::order::Assignment;
use contract::record::{DependencyRecord, Instance, Pair};
use contract::spec::PodSpec;
use contract::state::{DependencyPolicy, RestartPolicy, TargetState};
use contract::time::Timestamp;
use planner::dependency::place_of;
use planner::placement::Need;

use crate::core::commit::{self, OrderChange};
use crate::core::io::Write;

use super::{Group, State};

/// What one group needs: which dependency pod where.
type Uses = BTreeSet<(GroupName, Place)>;

/// All dependency pods.
#[derive(Debug, Default)]
pub(in crate::core) struct Dependencies {
    entries: BTreeMap<GroupName, Dependency>,
    /// Dependency pods whose record or pairs cannot be read: agents spare them.
    spared: BTreeSet<GroupName>,
    /// What each group needs.
    uses: BTreeMap<GroupName, Uses>,
    /// For each dependency pod, existing or not, the groups that need it at each place.
    users: BTreeMap<GroupName, BTreeMap<Place, BTreeSet<GroupName>>>,
    /// Their pods on each node, by the pods' names.
    pods_by_node: BTreeMap<NodeName, BTreeMap<GroupName, DependencyPod>>,
    /// Those being removed.
    removing: BTreeSet<GroupName>,
    /// Dependency pods to reconcile.
    to_reconcile: BTreeSet<GroupName>,
    /// The dependency pod that the slow sweep marked last.
    swept: Option<GroupName>,
}

/// One dependency pod.
#[derive(Debug, Clone)]
pub(in crate::core) struct Dependency {
    pub(in crate::core) record: DependencyRecord,
    /// Where it runs, in the order of places.
    pub(in crate::core) pairs: Vec<Pair>,
    /// When this leader last planned it.
    pub(in crate::core) planned_at: Timestamp,
    /// Nodes that had it when its removal began. Until each of them applied its newest order, pods may still start there.
    pub(in crate::core) waits_for: BTreeSet<NodeName>,
    /// Refused places that were reported.
    pub(in crate::core) refused: BTreeSet<Place>,
}

/// A dependency pod on a node.
#[derive(Debug, Clone)]
struct DependencyPod {
    dependency: GroupName,
    need: Need,
    containers: usize,
}

impl Dependency {
    pub(in crate::core) fn new(record: DependencyRecord, pairs: Vec<Pair>) -> Self {
        let planned_at = Timestamp::NEVER;
        Self { record, pairs, planned_at, waits_for: BTreeSet::new(), refused: BTreeSet::new() }
    }
    /// It only waits for its last containers to go; to users it does not exist.
    pub(in crate::core) fn is_removing(&self) -> bool {
        self.record.removing_since.is_some()
    }
    /// The spec of a version; the present one when that version is not known any more.
    fn spec(&self, version: u32) -> &PodSpec {
        self.record.former.get(&version).unwrap_or(&self.record.spec)
    }
    pub(in crate::core) fn is_outdated(&self) -> bool {
        self.pairs.iter().any(|pair| pair.version != self.record.spec.version)
    }
}

/// The writes that lead from one record of a dependency pod to another, with the pod specs they refer to.
pub(in crate::core) fn record_writes(
    name: &GroupName,
    before: Option<&DependencyRecord>,
    after: Option<&DependencyRecord>,
) -> Vec<Write> {
    fn specs(record: Option<&DependencyRecord>) -> Vec<&PodSpec> {
        record.into_iter().flat_map(|record| record.former.values().chain([&record.spec])).collect()
    }
    let owner = Owner::Dependency(name);
    // All of them, as an older version may have stored them under other digests; what is stored already is not written again.
    let (puts, _) = layout::spec_changes(owner, &[], &specs(after));
    let (_, deletes) = layout::spec_changes(owner, &specs(before), &specs(after));
    let deletes = deletes.into_iter().map(|key| Write::Delete { key });
    let mut writes: Vec<Write> = puts.into_iter().map(commit::put_entry).chain(deletes).collect();
    writes.push(match after {
        Some(after) => commit::put_entry(layout::put_dependency(name, after)),
        None => Write::Delete { key: keys::dependency(name) },
    });
    writes
}

/// The orders that lead from one set of pairs to another of the same dependency pod.
pub(in crate::core) fn order_changes(name: &GroupName, before: &[Pair], after: &Dependency) -> Vec<OrderChange> {
    let versions =
        |pairs: &[Pair]| -> BTreeMap<Place, u32> { pairs.iter().map(|pair| (place_of(pair), pair.version)).collect() };
    let (old, new) = (versions(before), versions(&after.pairs));
    let differs = |other: &BTreeMap<Place, u32>, place: &Place, version: u32| other.get(place) != Some(&version);
    let gone = old.iter().filter(|(place, version)| differs(&new, place, **version)).filter_map(|(place, version)| {
        let pod = place.pod_id(name, *version).ok()?;
        Some(OrderChange { node: place.node.clone(), pod, what: None })
    });
    let puts = new.iter().filter(|(place, version)| differs(&old, place, **version)).filter_map(|(place, version)| {
        let pod = place.pod_id(name, *version).ok()?;
        let spec = PodSpec { version: *version, ..place.pod_spec(after.spec(*version)) };
        let (target, restart_policy) = (TargetState::Run, RestartPolicy::Always);
        let assignment = Assignment { target, restart_policy, ..Assignment::default() };
        Some(OrderChange { node: place.node.clone(), pod, what: Some((assignment, Arc::new(spec))) })
    });
    gone.chain(puts).collect()
}

/// The dependency pods that a group needs and where: on the node of every placed instance.
fn uses_of(group: &Group) -> Uses {
    let mut uses = Uses::new();
    if group.revisions.values().all(|revision| revision.pod.dependencies.is_empty()) {
        return uses;
    }
    for instance in group.instances().iter().flat_map(Instance::pods) {
        let (Some(node), Some(pod)) = (&instance.node, group.pod(instance.version)) else { continue };
        for dependency in &pod.dependencies {
            // An invalid name matches no dependency pod.
            let Ok(name) = dependency.pod_name.parse() else { continue };
            let namespace = match dependency.policy {
                DependencyPolicy::Namespace => pod.namespace.clone(),
                DependencyPolicy::Node => node.to_string(),
            };
            uses.insert((name, Place { node: node.clone(), namespace }));
        }
    }
    uses
}

/// What is known of dependency pods.
impl Dependencies {
    pub(in crate::core) fn get(&self, name: &GroupName) -> Option<&Dependency> {
        self.entries.get(name)
    }

    pub(in crate::core) fn names(&self) -> impl Iterator<Item = &GroupName> {
        self.entries.keys()
    }

    /// The groups that need a dependency pod, by place.
    pub(in crate::core) fn users_of(&self, name: &GroupName) -> impl Iterator<Item = (&Place, &BTreeSet<GroupName>)> {
        self.users.get(name).into_iter().flatten()
    }

    /// The dependency pod that has a pod of this name on the node.
    pub(in crate::core) fn owner_of(&self, node: &NodeName, pod: &GroupName) -> Option<&GroupName> {
        self.pods_by_node.get(node)?.get(pod).map(|placed| &placed.dependency)
    }

    /// Changes what the leader remembers of a dependency pod whose record and pairs stay as they are.
    pub(in crate::core) fn note_planned(&mut self, name: &GroupName, entry: Dependency) {
        self.entries.insert(name.clone(), entry);
    }

    /// Notes the refused places. Returns those that were refused before.
    pub(in crate::core) fn set_refused(
        &mut self,
        name: &GroupName,
        places: BTreeSet<Place>,
    ) -> Option<BTreeSet<Place>> {
        self.entries.get_mut(name).map(|entry| std::mem::replace(&mut entry.refused, places))
    }

    pub(super) fn spare(&mut self, name: GroupName) {
        self.spared.insert(name);
    }

    pub(super) fn end_sparing(&mut self, name: &GroupName) {
        self.spared.remove(name);
    }

    pub(super) fn spared(&self) -> impl Iterator<Item = &GroupName> {
        self.spared.iter()
    }

    pub(in crate::core) fn is_spared(&self, name: &GroupName) -> bool {
        self.spared.contains(name)
    }
}

/// Which dependency pods are reconciled.
impl Dependencies {
    pub(in crate::core) fn mark(&mut self, name: GroupName) {
        self.to_reconcile.insert(name);
    }

    pub(in crate::core) fn unmark(&mut self, name: &GroupName) {
        self.to_reconcile.remove(name);
    }

    pub(in crate::core) fn take_marked(&mut self) -> Option<GroupName> {
        self.to_reconcile.pop_first()
    }

    /// Nothing is left to reconcile.
    pub(in crate::core) fn is_settled(&self) -> bool {
        self.to_reconcile.is_empty()
    }

    /// Starts a leadership over these nodes: marks all.
    pub(in crate::core) fn mark_all(&mut self, nodes: &BTreeSet<NodeName>) {
        for (name, entry) in &mut self.entries {
            self.to_reconcile.insert(name.clone());
            if entry.is_removing() {
                // The nodes that had it are not stored: every node must confirm its newest order.
                entry.waits_for.clone_from(nodes);
            }
        }
    }

    /// Marks the one after the one that the last sweep marked.
    pub(in crate::core) fn mark_next(&mut self) {
        let after = self.swept.take().map_or(Bound::Unbounded, Bound::Excluded);
        let next = self.entries.range((after, Bound::Unbounded)).next().or_else(|| self.entries.iter().next());
        self.swept = next.map(|(name, _)| name.clone());
        self.to_reconcile.extend(self.swept.clone());
    }

    /// Marks the removals that wait for the node.
    pub(in crate::core) fn mark_removals_from(&mut self, node: &NodeName) {
        let waits = |name: &&GroupName| self.entries.get(*name).is_some_and(|entry| entry.waits_for.contains(node));
        self.to_reconcile.extend(self.removing.iter().filter(waits).cloned());
    }

    /// Marks those with a pod on the node, and all removals.
    pub(in crate::core) fn mark_on(&mut self, node: &NodeName) {
        let pods = self.pods_by_node.get(node).into_iter().flat_map(BTreeMap::values);
        self.to_reconcile.extend(pods.map(|placed| placed.dependency.clone()));
        self.to_reconcile.extend(self.removing.iter().cloned());
    }
}

/// Indexes of needs and pods.
impl Dependencies {
    /// The instances of a group changed: marks the dependency pods that it needs now and did not before, or the reverse.
    pub(super) fn set_uses(&mut self, name: &GroupName, group: &Group) {
        let after = uses_of(group);
        let before = if after.is_empty() {
            self.uses.remove(name).unwrap_or_default()
        } else {
            self.uses.insert(name.clone(), after.clone()).unwrap_or_default()
        };
        for (dependency, place) in before.difference(&after) {
            self.to_reconcile.insert(dependency.clone());
            let Some(places) = self.users.get_mut(dependency) else { continue };
            if let Some(groups) = places.get_mut(place) {
                groups.remove(name);
                if groups.is_empty() {
                    places.remove(place);
                }
            }
            if places.is_empty() {
                self.users.remove(dependency);
            }
        }
        for (dependency, place) in after.difference(&before) {
            self.to_reconcile.insert(dependency.clone());
            let places = self.users.entry(dependency.clone()).or_default();
            places.entry(place.clone()).or_default().insert(name.clone());
        }
    }

    /// Forgets what a group needs, and everything about it that other sets hold.
    pub(super) fn forget_uses(&mut self, name: &GroupName) {
        self.uses.remove(name);
        for (dependency, places) in &mut self.users {
            for groups in places.values_mut() {
                if groups.remove(name) {
                    self.to_reconcile.insert(dependency.clone());
                }
            }
            places.retain(|_, groups| !groups.is_empty());
        }
        self.users.retain(|_, places| !places.is_empty());
    }

    /// Forgets a dependency pod and its pods on every node.
    pub(super) fn purge(&mut self, name: &GroupName) {
        self.entries.remove(name);
        self.removing.remove(name);
        for pods_by_node in self.pods_by_node.values_mut() {
            pods_by_node.retain(|_, placed| placed.dependency != *name);
        }
        self.pods_by_node.retain(|_, pods_by_node| !pods_by_node.is_empty());
    }

    /// Whether a dependency pod on some node has this name. A group must not have it too.
    pub(in crate::core) fn is_derived(&self, name: &GroupName) -> bool {
        self.pods_by_node.values().any(|pods_by_node| pods_by_node.contains_key(name))
    }

    /// The spec of a dependency pod as it is now.
    pub(in crate::core) fn spec_of(&self, name: &GroupName) -> Option<&PodSpec> {
        self.entries.get(name).map(|entry| &entry.record.spec)
    }

    /// What dependency pods take of a node.
    pub(super) fn used_on(&self, node: &NodeName) -> Need {
        self.pods_on(node).map(|placed| placed.need).fold(Need::default(), Need::plus)
    }
    /// How many of a node's containers are of dependency pods.
    pub(in crate::core) fn containers_on(&self, node: &NodeName) -> usize {
        self.pods_on(node).map(|placed| placed.containers).sum()
    }
    fn pods_on(&self, node: &NodeName) -> impl Iterator<Item = &DependencyPod> {
        self.pods_by_node.get(node).into_iter().flat_map(BTreeMap::values)
    }
}

impl State {
    /// Adds a dependency pod as it is stored.
    pub(super) fn put_dependency(&mut self, name: &GroupName, record: DependencyRecord, pairs: Vec<Pair>, cores: u32) {
        self.set_dependency(name, Dependency::new(record, pairs), cores);
    }

    /// Forgets a dependency pod and gives back what it used.
    pub(in crate::core) fn drop_dependency(&mut self, name: &GroupName) {
        self.clear_dependency(name);
        self.dependencies.entries.remove(name);
        self.dependencies.removing.remove(name);
    }

    /// Changes what is known of a dependency pod, and every index with it.
    pub(in crate::core) fn set_dependency(&mut self, name: &GroupName, entry: Dependency, quota_cores: u32) {
        self.clear_dependency(name);
        for pair in &entry.pairs {
            let Ok(pod) = place_of(pair).pod_name(name) else { continue };
            let spec = entry.spec(pair.version);
            let need = Need::of(spec, quota_cores);
            let placed = DependencyPod { dependency: name.clone(), need, containers: spec.containers.len() };
            self.dependencies.pods_by_node.entry(pair.node.clone()).or_default().insert(pod, placed);
            if let Some(host) = self.nodes.get_mut(&pair.node) {
                host.used = host.used.plus(need);
            }
        }
        if entry.is_removing() {
            self.dependencies.removing.insert(name.clone())
        } else {
            self.dependencies.removing.remove(name)
        };
        self.dependencies.entries.insert(name.clone(), entry);
        self.dependencies.to_reconcile.insert(name.clone());
    }

    fn clear_dependency(&mut self, name: &GroupName) {
        let pairs = self.dependencies.entries.get(name).map(|entry| entry.pairs.as_slice()).unwrap_or_default();
        for pair in pairs {
            let Ok(pod) = place_of(pair).pod_name(name) else { continue };
            let Some(pods_by_node) = self.dependencies.pods_by_node.get_mut(&pair.node) else { continue };
            if let (Some(placed), Some(host)) = (pods_by_node.remove(&pod), self.nodes.get_mut(&pair.node)) {
                host.used = host.used.minus(placed.need);
            }
            if pods_by_node.is_empty() {
                self.dependencies.pods_by_node.remove(&pair.node);
            }
        }
    }
}
