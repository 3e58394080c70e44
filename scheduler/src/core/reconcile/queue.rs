//! The queue of groups to reconcile.
//!
//! Only marked groups are reconciled, a bounded number of instances per input, so that a takeover of 10,000 groups does not
//! delay reports and queries. A slow sweep marks one group after the other, so a lost mark costs time but not correctness.

use std::ops::Bound;
use std::time::Duration;

use contract::name::{GroupName, NodeName};
use contract::record::Slot;
use planner::group::plan_group;

use crate::core::commands;
use crate::core::leader::{Leading, SWEEP_EVERY};
use crate::core::state::quarantine::Object;
use crate::core::timers::Timer;

use super::input::{self, GroupInput};
use super::{apply, dependencies, removal};

/// Unschedulable groups are tried again this long after capacity may have appeared: many changes, one attempt.
const RETRY_UNSCHEDULABLE_AFTER: Duration = Duration::from_millis(500);
/// Instances planned per input. The last group may exceed it.
const INSTANCES_PER_INPUT: usize = 8192;
/// A group without instances counts as this many.
const SMALLEST_COST: usize = 16;

impl Leading<'_> {
    /// Reconciles marked groups, a bounded number of them.
    pub(in crate::core) fn reconcile_groups(&mut self) {
        if commands::cluster::is_paused(self) {
            return;
        }
        let mut planned = 0;
        while planned < INSTANCES_PER_INPUT {
            let Some(name) = self.lead.to_reconcile.pop_first() else { return };
            self.reconcile(&Object::Group(name.clone()), |leading| leading.reconcile_group(&name));
            let instances = self.state.groups.get(&name).map_or(0, |group| group.slots().len());
            planned += instances.max(SMALLEST_COST);
        }
    }

    /// A node reported something about the group: it is reconciled now, or later together with the next reports.
    pub(super) fn reconcile_soon(&mut self, name: GroupName) {
        if !self.state.groups.contains_key(&name) {
            return;
        }
        match self.lead.rate_limit.delayed_until(self.now) {
            Some(later) => self.lead.timers.set_earlier(Timer::Group(name), later),
            None => drop(self.lead.to_reconcile.insert(name)),
        }
    }

    /// Marks the next group of the slow sweep.
    pub(in crate::core) fn sweep(&mut self) {
        let groups = &self.state.groups;
        let after = self.lead.swept.take().map_or(Bound::Unbounded, Bound::Excluded);
        let next = groups.range((after, Bound::Unbounded)).next().or_else(|| groups.iter().next());
        self.lead.swept = next.map(|(name, _)| name.clone());
        self.lead.to_reconcile.extend(self.lead.swept.clone());
        dependencies::sweep_dependencies(self);
        self.lead.timers.set(Timer::Sweep, Some(self.now + SWEEP_EVERY));
    }

    fn reconcile_group(&mut self, name: &GroupName) {
        removal::evict(self, name);
        let Some(group) = self.state.groups.get(name) else {
            self.lead.unschedulable.remove(name);
            return self.lead.timers.set(Timer::Group(name.clone()), None);
        };
        if group.is_orphan() {
            return self.lead.timers.set(Timer::Group(name.clone()), None);
        }
        let need = group.need(group.record.spec.version);
        self.state.nodes.prepare(need);
        let Some(group) = self.state.groups.get(name) else { return };
        let surplus = input::terminating(self, name, group);
        let faults = self.settings.faults;
        let sight = faults.reported_pods(self.reports, name, group);
        let record = faults.falsify_record(&group.record);
        let scene = GroupInput {
            state: self.state,
            settings: self.settings,
            sight,
            surplus: &surplus,
            vacated: input::confirmed_gone(self, name, group.slots()),
            lingers: input::is_lingering(self, name, group),
            known: self.lead.commit_times.of(name),
            standings: Some(&self.state.nodes.standings),
        };
        faults.panic_on(&group.record.spec.pod, group.is_removing());
        let plan = scene.look(group, &record, |facts| plan_group(facts, self.now));
        let plan = faults.falsify_plan(&group.record, plan);
        self.lead.timers.set(Timer::Group(name.clone()), plan.wake_at);
        let (removing, before) = (group.is_removing(), nodes_left(group.slots()));
        self.lead.rate_limit.planned(group.slots().len(), self.now);
        if removing {
            removal::finish_removal(self, name, &plan);
        } else {
            apply::conclude(self, name, plan);
        }
        for node in surplus.nodes {
            self.lead.waiting_on_node.entry(node).or_default().insert(name.clone());
        }
        input::await_confirmations(self, name, &before);
    }
}

/// The node each instance leaves.
fn nodes_left(slots: &[Slot]) -> Vec<Option<NodeName>> {
    slots.iter().map(|slot| slot.leaves.clone()).collect()
}

impl Leading<'_> {
    /// Capacity may have appeared: unschedulable groups are tried again soon.
    pub(in crate::core) fn retry_unschedulable(&mut self) {
        if !self.lead.unschedulable.is_empty() {
            self.lead.timers.set_once(Timer::Unschedulable, self.now + RETRY_UNSCHEDULABLE_AFTER);
        }
    }
}
