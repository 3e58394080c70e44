//! Removes groups: what becomes of their containers and when their name is free.
//!
//! In the foreground a name is free when the last container is gone, in the background at once. An orphan's containers stay
//! as they are: its record and slots are parked, users do not see it, and nodes are told to leave it alone, which reaches
//! them in the same order that takes its pods away. Whoever creates a group of that name adopts them.

use std::sync::Arc;

use contract::command::{Operation, Refusal, Removal};
use contract::keys;
use contract::name::{GroupName, NodeName};
use contract::record::{GroupRecord, OperationRecord, Slot};
use planner::group::GroupPlan;

use super::alarms::Alarm;
use super::commit::{Bundle, OrderChange};
use super::io::{Mutant, Write};
use super::leader::Leading;
use super::moves::moves;

impl Leading<'_> {
    /// The group goes; its instances leave their nodes with its next plan, or stay without it.
    pub(super) fn remove_group(&mut self, name: &GroupName, removal: Removal) -> Result<Bundle, Refusal> {
        let record = match self.state.groups.get(name).filter(|group| group.is_orphan()) {
            // To users it is gone; to who knows that its containers are not, it can be removed for good.
            Some(_) if removal == Removal::Orphan => return Err(Refusal::GroupUnknown),
            Some(orphan) => orphan.record.clone(),
            None => self.admission().unlocked(name)?,
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
    pub(super) fn vacate(&mut self, name: &GroupName) {
        let Some(group) = self.state.groups.get(name).filter(|group| group.is_removing()) else { return };
        if group.slots().is_empty() {
            return self.note_drained(name);
        }
        let bundle = self.vacated_bundle(name);
        self.decide(bundle);
    }

    /// Takes every instance of a group from its node.
    pub(super) fn vacated_bundle(&mut self, name: &GroupName) -> Bundle {
        let Some(group) = self.state.groups.get_mut(name) else { return Bundle::default() };
        let placed = group.slots().iter().flat_map(Slot::pods).filter_map(|pod| pod.node.clone());
        let left = group.slots().iter().filter_map(|slot| slot.leaves.clone());
        let nodes: Vec<NodeName> = placed.chain(left).collect();
        group.draining.extend(nodes);
        let effects = moves(name, group.slots(), &[], self.now);
        let before = self.state.assignments(name);
        self.state.set_slots(name, Vec::new());
        let changes = before.changes_to(&self.state.assignments(name));
        self.room_appeared();
        Bundle { complete: vec![keys::placements(name)], effects, changes, ..Bundle::default() }
    }

    /// Forgets a group whose last container is gone.
    pub(super) fn conclude_removal(&mut self, name: &GroupName, plan: &GroupPlan) {
        if !plan.gone {
            return;
        }
        self.note_specs(name);
        self.state.drop_group(name);
        self.lead.alarms.set(Alarm::Group(name.clone()), None);
        let mut writes = self.forget_history(name);
        writes.extend([keys::group(name), keys::release(name)].map(|key| Write::Delete { key }));
        let complete = vec![keys::placements(name), keys::revisions(name)];
        self.decide(Bundle { writes, complete, ..Bundle::default() });
    }
}
