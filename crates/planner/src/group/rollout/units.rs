//! Determines the deployment units of a group and the unit of each pod.
//!
//! Declared units come first, in their order; then units that are no longer declared but still have instances. A pod whose
//! unit is not declared belongs to the unit of its node, so it does not move without need.

use std::collections::BTreeSet;

use contract::record::{Instance, Presence};

use super::super::Planning;

impl Planning<'_> {
    /// Assigns pods without a declared unit to the unit of their node.
    pub(super) fn assign_units(&mut self) {
        let declared: BTreeSet<String> = self.declared_units().into_iter().map(str::to_owned).collect();
        for index in 0..self.plan.instances.len() {
            let instance = &self.plan.instances[index];
            let unit = self.node_unit(instance, &declared);
            let surge = instance.next.as_deref().and_then(|next| self.node_unit(next, &declared));
            let instance = &mut self.plan.instances[index];
            let next_moved = surge.is_some_and(|unit| instance.next.as_mut().is_some_and(|it| set_unit(it, unit)));
            if unit.is_some_and(|unit| set_unit(instance, unit)) || next_moved {
                // The controller counts it in another unit from now on.
                self.wake(self.now);
            }
        }
    }

    /// The unit of its node for a pod whose unit is not declared; none if it keeps its unit.
    fn node_unit(&self, instance: &Instance, declared: &BTreeSet<String>) -> Option<String> {
        if declared.contains(&instance.unit) || instance.presence == Presence::Free {
            return None;
        }
        let Some(topology) = self.record.spec.topology.as_ref().filter(|it| !it.values.is_empty()) else {
            return Some(String::new());
        };
        let labels =
            instance.node.as_ref().and_then(|node| self.candidate(node)).map(|candidate| &candidate.facts.labels);
        labels.and_then(|labels| labels.get(topology.label())).filter(|unit| declared.contains(*unit)).cloned()
    }

    /// The declared units; one without a name if there are none.
    pub(super) fn declared_units(&self) -> Vec<&str> {
        let values = self.record.spec.topology.iter().flat_map(|topology| &topology.values);
        let values: Vec<&str> = values.map(String::as_str).collect();
        if values.is_empty() { vec![""] } else { values }
    }

    /// The declared units, then the others that still have instances.
    pub(super) fn all_units(&self) -> Vec<String> {
        let declared = self.declared_units();
        let instances = self.plan.instances.iter().filter(|instance| instance.presence != Presence::Free);
        let pods = instances.flat_map(|instance| [Some(instance), instance.next.as_deref()]).flatten();
        let left: BTreeSet<&str> = pods.map(|pod| pod.unit.as_str()).filter(|unit| !declared.contains(unit)).collect();
        declared.iter().copied().chain(left).map(str::to_owned).collect()
    }
}

/// Sets the unit of a pod; true if it changed.
fn set_unit(instance: &mut Instance, unit: String) -> bool {
    let is_other = instance.unit != unit;
    instance.unit = unit;
    is_other
}
