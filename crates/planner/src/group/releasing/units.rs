//! Knows which deployment units a group has and which one each pod is in.
//!
//! Those it declares come first, in their order; then those that instances are still in though they are not declared any
//! more. The surprise: a pod in no declared unit belongs to the one its node is in, so that nobody moves without need.

use std::collections::BTreeSet;

use contract::record::{Filling, Slot};

use super::super::Planning;

impl Planning<'_> {
    /// Every pod is in the unit its node is in, when its own is not declared.
    pub(super) fn settle_units(&mut self) {
        for index in 0..self.plan.slots.len() {
            let slot = &self.plan.slots[index];
            let (unit, beside) = (self.home(slot), slot.next.as_deref().map(|next| self.home(next)));
            let slot = &mut self.plan.slots[index];
            let next_moved = beside.is_some_and(|unit| slot.next.as_mut().is_some_and(|it| enter(it, unit)));
            if enter(slot, unit) || next_moved {
                // The conductor counts it elsewhere from now on.
                self.wake(self.now);
            }
        }
    }

    /// The unit an instance belongs to: its own, or when the group does not have that one, the one its node is in.
    fn home(&self, slot: &Slot) -> String {
        let units = self.declared_units();
        if units.contains(&slot.unit.as_str()) || slot.filling == Filling::Nothing {
            return slot.unit.clone();
        }
        let Some(topology) = self.record.spec.topology.as_ref().filter(|it| !it.values.is_empty()) else {
            return String::new();
        };
        let labels = slot.node.as_ref().and_then(|node| self.host(node)).map(|host| &host.facts.labels);
        let found =
            labels.and_then(|labels| labels.get(topology.label())).filter(|unit| units.contains(&unit.as_str()));
        found.unwrap_or(&slot.unit).clone()
    }

    /// Units the group declares; one without a name when it declares none.
    pub(super) fn declared_units(&self) -> Vec<&str> {
        let values = self.record.spec.topology.iter().flat_map(|topology| &topology.values);
        let values: Vec<&str> = values.map(String::as_str).collect();
        if values.is_empty() { vec![""] } else { values }
    }

    /// Every unit there is: those declared, then those instances are still in.
    pub(super) fn all_units(&self) -> Vec<String> {
        let declared = self.declared_units();
        let instances = self.plan.slots.iter().filter(|slot| slot.filling != Filling::Nothing);
        let pods = instances.flat_map(|slot| [Some(slot), slot.next.as_deref()]).flatten();
        let left: BTreeSet<&str> = pods.map(|pod| pod.unit.as_str()).filter(|unit| !declared.contains(unit)).collect();
        declared.iter().copied().chain(left).map(str::to_owned).collect()
    }
}

/// Puts a pod into a unit; true when it was in another.
fn enter(slot: &mut Slot, unit: String) -> bool {
    let is_other = slot.unit != unit;
    slot.unit = unit;
    is_other
}
