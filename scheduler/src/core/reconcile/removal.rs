//! Removes groups: what becomes of their containers and when their name is free.
//!
//! In the foreground a name is free when the last container is gone, in the background at once. An orphan's containers stay
//! as they are: its record and slots are parked, users do not see it, and nodes are told to leave it alone, which reaches
//! them in the same order that takes its pods away. Whoever creates a group of that name adopts them.
//!
//! Stateful instances leave tombstones, as in a scale-in: the name is not free until each of their nodes confirmed that they
//! are gone, or was removed from the cluster. Otherwise the next group of that name would start a second copy of an instance
//! that a silent node still runs.

use std::collections::BTreeSet;
use std::sync::Arc;

use contract::command::{Operation, Refusal, Removal};
use contract::keys;
use contract::name::{GroupName, NodeName};
use contract::query::Liveness;
use contract::record::{Filling, GroupRecord, OperationRecord, Slot};
use planner::group::{GroupPlan, tombstones};

use crate::core::commit::{Bundle, OrderChange};
use crate::core::events::placement::moves;
use crate::core::io::{Mutant, Write};
use crate::core::leader::Leading;
use crate::core::state::Group;
use crate::core::state::quarantine::Object;
use crate::core::timers::Alarm;

/// What is left of instances that are taken from their nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::core) enum Keep {
    /// Which nodes have to confirm that they are gone.
    Tombstones,
    Nothing,
}

impl Leading<'_> {
    /// The group goes; its instances leave their nodes with its next plan, or stay without it.
    pub(in crate::core) fn remove_group(&mut self, name: &GroupName, removal: Removal) -> Result<Bundle, Refusal> {
        let unread = Object::Group(name.clone());
        if self.is_unread(&unread) {
            // What is not known cannot be kept for a later group.
            let reason =
                "its record cannot be read, so its containers cannot be adopted later: remove it without orphan";
            return match removal {
                Removal::Orphan => Err(Refusal::Unfit { reason: reason.to_owned() }),
                Removal::Foreground | Removal::Background => Ok(self.remove_unread(&unread)),
            };
        }
        let record = match self.state.groups.get(name).filter(|group| group.is_orphan()) {
            // To users it is gone; to who knows that its containers are not, it can be removed for good.
            Some(_) if removal == Removal::Orphan => return Err(Refusal::GroupUnknown),
            Some(orphan) => orphan.record.clone(),
            None => self.admission().removable(name)?,
        };
        let was_orphan = record.removal == Removal::Orphan;
        let before = if was_orphan { self.pods_withdrawn(name) } else { Vec::new() };
        self.lead.waiting.remove(name);
        let operation = match removal {
            Removal::Foreground | Removal::Background => Some(OperationRecord::new(Operation::Removing, self.now)),
            Removal::Orphan => None,
        };
        let last_error = String::new();
        let record = GroupRecord { operation, removal, updated_at: self.now, last_error, drifts: Vec::new(), ..record };
        let mut bundle = self.change_record(name, record);
        bundle.changes.extend(before);
        let is_orphaned = removal == Removal::Orphan && !self.has_mutant(Mutant::SweepsOrphans);
        if was_orphan || is_orphaned {
            bundle.spared = Some(Arc::new(self.state.untouchable()));
        }
        Ok(bundle)
    }

    /// Says once more that a group's pods are to go, for nodes that were told to leave them alone.
    fn pods_withdrawn(&self, name: &GroupName) -> Vec<OrderChange> {
        let group = self.state.groups.get(name);
        let placed = group.into_iter().flat_map(|group| group.placed(name));
        placed.map(|(node, pod, _)| OrderChange { node: node.clone(), pod, what: None }).collect()
    }

    /// The instances of a group that is being removed leave their nodes.
    pub(in crate::core) fn vacate(&mut self, name: &GroupName) {
        let Some(group) = self.state.groups.get(name).filter(|group| group.is_removing()) else { return };
        if group.slots().iter().any(|slot| slot.filling != Filling::Nothing) {
            let bundle = self.vacated_bundle(name, Keep::Tombstones);
            return self.decide(bundle);
        }
        self.drop_tombstones(name);
        self.note_drained(name);
    }

    /// Takes every instance of a group from its node.
    pub(in crate::core) fn vacated_bundle(&mut self, name: &GroupName, keep: Keep) -> Bundle {
        let Some(group) = self.state.groups.get_mut(name) else { return Bundle::default() };
        let placed = group.slots().iter().flat_map(Slot::pods).filter_map(|pod| pod.node.clone());
        let left = group.slots().iter().filter_map(|slot| slot.leaves.clone());
        let nodes: Vec<NodeName> = placed.chain(left).collect();
        group.draining.extend(nodes);
        let effects = moves(name, group.slots(), &[], self.now);
        let is_stateful = |version| group.pod(version).is_some_and(|pod| pod.is_stateful());
        let tombstones = group.slots().iter().map(|slot| match keep {
            // Of the others, too, the next leader knows which nodes had them.
            Keep::Tombstones => tombstones::of(slot, is_stateful).or_else(|| tombstones::of(slot, |_| true)),
            Keep::Nothing => None,
        });
        let tombstones = tombstones::trimmed(tombstones);
        let mut bundle = Bundle { effects, ..Bundle::default() };
        bundle.put_slots(name, &tombstones);
        let before = self.state.assignments(name);
        self.state.set_slots(name, tombstones);
        bundle.changes = before.changes_to(&self.state.assignments(name));
        self.room_appeared();
        bundle
    }

    /// Drops the tombstones of instances whose node confirmed that they are gone, or is not waited for any longer.
    fn drop_tombstones(&mut self, name: &GroupName) {
        let Some(group) = self.state.groups.get(name).filter(|group| !group.slots().is_empty()) else { return };
        let is_waited_for = |slot: &Slot| {
            let host = slot.leaves.as_ref().and_then(|node| self.state.hosts.get(node));
            let is_stateful = || group.pod(slot.version).is_some_and(|pod| pod.is_stateful());
            host.is_some_and(|host| host.liveness != Liveness::Lost || (!host.decommissioned && is_stateful()))
        };
        let confirmed = self.vacated(name, group.slots());
        let left = group.slots().iter().zip(confirmed);
        let left = left.map(|(slot, is_confirmed)| (!is_confirmed && is_waited_for(slot)).then(|| slot.clone()));
        let left = tombstones::trimmed(left);
        if left.as_slice() != group.slots() {
            let mut bundle = Bundle::default();
            bundle.put_slots(name, &left);
            self.state.set_slots(name, left);
            self.decide(bundle);
        }
    }

    /// Forgets a group whose last container is gone.
    pub(in crate::core) fn conclude_removal(&mut self, name: &GroupName, plan: &GroupPlan) {
        if !plan.gone {
            return;
        }
        self.note_specs(name);
        self.state.drop_group(name);
        self.lead.alarms.set(Alarm::Group(name.clone()), None);
        let mut writes = self.forget_history(name);
        writes.extend([keys::group(name), keys::release(name)].map(|key| Write::Delete { key }));
        let complete = vec![keys::placements(name), keys::revisions(name), keys::group_specs(name)];
        self.decide(Bundle { writes, complete, ..Bundle::default() });
    }
}

/// The nodes that have to confirm that they have nothing of a group that is being removed. Its tombstones name them; without any,
/// an older version removed it, and every node must say that it obeys.
pub(in crate::core) fn nodes_of_removed(group: &Group, all: &[NodeName]) -> BTreeSet<NodeName> {
    let named = group.slots().iter().flat_map(|slot| slot.leaves.iter().chain(&slot.node)).cloned();
    let named: BTreeSet<NodeName> = named.collect();
    if named.is_empty() { all.iter().cloned().collect() } else { named }
}
