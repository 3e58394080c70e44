//! Removes groups.
//!
//! After a removal in the foreground the name is free when the last container is gone, in the background immediately. The
//! containers of an orphan keep running: its record and instances stay stored, users do not see it, and agents spare it, which
//! reaches them in the same order that removes its pods. Creating a group of that name adopts the containers.
//!
//! Stateful instances leave tombstones, as in a scale-in: the name is not free until each of their nodes confirmed that they are
//! gone or was removed from the cluster. Otherwise the next group of that name would start a second copy of an instance that a
//! silent node still runs.

use std::collections::BTreeSet;
use std::sync::Arc;

use contract::command::{Operation, Refusal, Removal};
use contract::keys;
use contract::name::{GroupName, NodeName};
use contract::query::Liveness;
use contract::record::{GroupRecord, Instance, OperationRecord, Presence};
use planner::group::{GroupPlan, tombstones};

use crate::core::commit::{Bundle, OrderChange};
use crate::core::events::placement::moves;
use crate::core::io::{Mutant, Write};
use crate::core::leader::Leading;
use crate::core::observe;
use crate::core::state::Group;
use crate::core::state::quarantine::Object;
use crate::core::timers::Timer;

use super::input;

/// What is left of instances that are taken from their nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::core) enum Keep {
    /// Which nodes have to confirm that they are gone.
    Tombstones,
    Nothing,
}

/// Marks the group as removed. Its next plan removes the instances, unless it is an orphan.
pub(in crate::core) fn remove_group(
    leading: &mut Leading<'_>,
    name: &GroupName,
    removal: Removal,
) -> Result<Bundle, Refusal> {
    let unread = Object::Group(name.clone());
    if leading.is_unread(&unread) {
        // Containers of an unknown record cannot be adopted later.
        let reason = "its record cannot be read, so its containers cannot be adopted later: remove it without orphan";
        return match removal {
            Removal::Orphan => Err(Refusal::Unfit { reason: reason.to_owned() }),
            Removal::Foreground | Removal::Background => Ok(leading.remove_unread(&unread)),
        };
    }
    let record = match leading.state.groups.get(name).filter(|group| group.is_orphan()) {
        // Users do not see an orphan, but may remove its containers.
        Some(_) if removal == Removal::Orphan => return Err(Refusal::GroupUnknown),
        Some(orphan) => orphan.record.clone(),
        None => leading.admission().removable(name)?,
    };
    let was_orphan = record.removal == Removal::Orphan;
    let before = if was_orphan { pods_withdrawn(leading, name) } else { Vec::new() };
    leading.lead.queue.set_unschedulable(name, false);
    let operation = match removal {
        Removal::Foreground | Removal::Background => Some(OperationRecord::new(Operation::Removing, leading.now)),
        Removal::Orphan => None,
    };
    let last_error = String::new();
    let record = GroupRecord { operation, removal, updated_at: leading.now, last_error, drifts: Vec::new(), ..record };
    let mut bundle = leading.change_record(name, record);
    bundle.changes.extend(before);
    let is_orphaned = removal == Removal::Orphan && !leading.has_mutant(Mutant::RemovesOrphans);
    if was_orphan || is_orphaned {
        bundle.spared = Some(Arc::new(leading.state.untouchable()));
    }
    Ok(bundle)
}

/// Removes a group's pods from orders that spared them.
fn pods_withdrawn(leading: &Leading<'_>, name: &GroupName) -> Vec<OrderChange> {
    let group = leading.state.groups.get(name);
    let placed = group.into_iter().flat_map(|group| group.placed(name));
    placed.map(|(node, pod, _)| OrderChange { node: node.clone(), pod, what: None }).collect()
}

/// The instances of a group that is being removed leave their nodes.
pub(super) fn evict(leading: &mut Leading<'_>, name: &GroupName) {
    let Some(group) = leading.state.groups.get(name).filter(|group| group.is_removing()) else { return };
    if group.instances().iter().any(|instance| instance.presence != Presence::Free) {
        let bundle = evict_all(leading, name, Keep::Tombstones);
        return leading.decide(bundle);
    }
    drop_tombstones(leading, name);
    input::note_confirmed(leading, name);
}

/// Takes every instance of a group from its node.
pub(in crate::core) fn evict_all(leading: &mut Leading<'_>, name: &GroupName, keep: Keep) -> Bundle {
    let Some(group) = leading.state.groups.get_mut(name) else { return Bundle::default() };
    let placed = group.instances().iter().flat_map(Instance::pods).filter_map(|pod| pod.node.clone());
    let left = group.instances().iter().filter_map(|instance| instance.leaves.clone());
    let nodes: Vec<NodeName> = placed.chain(left).collect();
    group.unconfirmed_nodes.extend(nodes);
    let effects = moves(name, group.instances(), &[], leading.now);
    let is_stateful = |version| group.pod(version).is_some_and(|pod| pod.is_stateful());
    let tombstones = group.instances().iter().map(|instance| match keep {
        // Stateless instances get tombstones too, so that the next leader knows their nodes.
        Keep::Tombstones => tombstones::of(instance, is_stateful).or_else(|| tombstones::of(instance, |_| true)),
        Keep::Nothing => None,
    });
    let tombstones = tombstones::trimmed(tombstones);
    let mut bundle = Bundle { effects, ..Bundle::default() };
    bundle.put_instances(name, &tombstones);
    let before = leading.state.assignments(name);
    leading.state.set_instances(name, tombstones);
    bundle.changes = before.changes_to(&leading.state.assignments(name));
    leading.retry_unschedulable();
    bundle
}

/// Drops the tombstones of instances whose node confirmed that they are gone, or is not waited for any longer.
fn drop_tombstones(leading: &mut Leading<'_>, name: &GroupName) {
    let Some(group) = leading.state.groups.get(name).filter(|group| !group.instances().is_empty()) else { return };
    let is_waited_for = |instance: &Instance| {
        let host = instance.leaves.as_ref().and_then(|node| leading.state.nodes.get(node));
        let is_stateful = || group.pod(instance.version).is_some_and(|pod| pod.is_stateful());
        host.is_some_and(|host| host.liveness != Liveness::Lost || (!host.decommissioned && is_stateful()))
    };
    let confirmed = input::confirmed_gone(leading, name, group.instances());
    let left = group.instances().iter().zip(confirmed);
    let left =
        left.map(|(instance, is_confirmed)| (!is_confirmed && is_waited_for(instance)).then(|| instance.clone()));
    let left = tombstones::trimmed(left);
    if left.as_slice() != group.instances() {
        let mut bundle = Bundle::default();
        bundle.put_instances(name, &left);
        leading.state.set_instances(name, left);
        leading.decide(bundle);
    }
}

/// Forgets a group whose last container is gone.
pub(super) fn finish_removal(leading: &mut Leading<'_>, name: &GroupName, plan: &GroupPlan) {
    if !plan.gone {
        return;
    }
    leading.note_specs(name);
    leading.state.drop_group(name);
    leading.lead.timers.set(Timer::Group(name.clone()), None);
    let mut writes = observe::history::forget_history(leading, name);
    writes.extend([keys::group(name), keys::release(name)].map(|key| Write::Delete { key }));
    let complete = vec![keys::placements(name), keys::revisions(name), keys::group_specs(name)];
    leading.decide(Bundle { writes, complete, ..Bundle::default() });
}

/// The nodes that must confirm that nothing of a removed group is left. Its tombstones name them. Without tombstones an older
/// version removed the group, and every node must confirm its newest order.
pub(in crate::core) fn nodes_of_removed(group: &Group, all: &[NodeName]) -> BTreeSet<NodeName> {
    let named = group.instances().iter().flat_map(|instance| instance.leaves.iter().chain(&instance.node)).cloned();
    let named: BTreeSet<NodeName> = named.collect();
    if named.is_empty() { all.iter().cloned().collect() } else { named }
}
