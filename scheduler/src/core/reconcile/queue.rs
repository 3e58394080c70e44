//! The queue of groups to reconcile, and what marks a group.
//!
//! Only marked groups are reconciled, a bounded number of instances per input, so that a takeover of 10,000 groups does not
//! delay reports and queries. A slow sweep marks one group after the other, so a lost mark costs time but not correctness.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::time::Duration;

use contract::name::{GroupName, NodeName};
use contract::record::Instance;
use planner::group::plan_group;

use crate::core::commands;
use crate::core::leader::{Leading, SWEEP_EVERY};
use crate::core::state::Group;
use crate::core::state::quarantine::Object;
use crate::core::timers::Timer;

use super::input::{self, GroupInput};
use super::rate_limit::RateLimit;
use super::{apply, removal};

/// Unschedulable groups are tried again this long after capacity may have appeared: many changes, one attempt.
const RETRY_UNSCHEDULABLE_AFTER: Duration = Duration::from_millis(500);
/// Instances planned per input. The last group may exceed it.
const INSTANCES_PER_INPUT: usize = 8192;
/// A group without instances counts as this many.
const SMALLEST_COST: usize = 16;

/// The groups to reconcile, and the groups that an event will mark. Only a leader has them.
#[derive(Debug)]
pub(in crate::core) struct Queue {
    marked: BTreeSet<GroupName>,
    /// Delays reconciliation that reports request.
    rate_limit: RateLimit,
    /// For each starting group, how many of its instances were not pending at the last check.
    arrived: BTreeMap<GroupName, usize>,
    /// Groups with an instance that found no place.
    unschedulable: BTreeSet<GroupName>,
    /// The group that the slow sweep marked last.
    swept: Option<GroupName>,
    /// For each node, the groups that are reconciled again when it reports or acknowledges an order.
    waiting_on_node: BTreeMap<NodeName, BTreeSet<GroupName>>,
    /// A group returned stream ports since ports were last granted.
    ports_freed: bool,
}

impl Queue {
    /// The queue of a new leader, which grants free ports with its first input.
    pub(in crate::core) fn new() -> Self {
        Self {
            marked: BTreeSet::new(),
            rate_limit: RateLimit::default(),
            arrived: BTreeMap::new(),
            unschedulable: BTreeSet::new(),
            swept: None,
            waiting_on_node: BTreeMap::new(),
            ports_freed: true,
        }
    }

    pub(in crate::core) fn mark(&mut self, group: GroupName) {
        self.marked.insert(group);
    }

    pub(in crate::core) fn mark_all(&mut self, groups: impl IntoIterator<Item = GroupName>) {
        self.marked.extend(groups);
    }

    pub(in crate::core) fn is_empty(&self) -> bool {
        self.marked.is_empty()
    }

    pub(in crate::core) fn mark_all_unschedulable(&mut self) {
        self.marked.extend(self.unschedulable.iter().cloned());
    }

    pub(super) fn set_unschedulable(&mut self, group: &GroupName, is_unschedulable: bool) {
        if is_unschedulable {
            self.unschedulable.insert(group.clone());
        } else {
            self.unschedulable.remove(group);
        }
    }

    /// The group is reconciled again when the node reports or acknowledges an order.
    pub(super) fn wait_for(&mut self, node: NodeName, group: &GroupName) {
        self.waiting_on_node.entry(node).or_default().insert(group.clone());
    }

    pub(in crate::core) fn waiting_on(&self, node: &NodeName) -> impl Iterator<Item = &GroupName> {
        self.waiting_on_node.get(node).into_iter().flatten()
    }

    pub(super) fn take_waiting_on(&mut self, node: &NodeName) -> BTreeSet<GroupName> {
        self.waiting_on_node.remove(node).unwrap_or_default()
    }

    /// The node is lost: the groups that wait for it are reconciled, and still wait.
    pub(in crate::core) fn mark_waiting_on(&mut self, node: &NodeName) {
        self.marked.extend(self.waiting_on_node.get(node).into_iter().flatten().cloned());
    }

    /// The node is removed: the groups that wait for it are reconciled, and wait no longer.
    pub(in crate::core) fn release_waiting_on(&mut self, node: &NodeName) {
        let waiting = self.take_waiting_on(node);
        self.marked.extend(waiting);
    }

    /// Notes how many instances of a starting group are not pending. Returns how many more than at the last check.
    pub(super) fn note_arrived(&mut self, group: &GroupName, arrived: usize) -> usize {
        let before = self.arrived.insert(group.clone(), arrived).unwrap_or(0);
        arrived.saturating_sub(before)
    }

    pub(super) fn forget_arrived(&mut self, group: &GroupName) {
        self.arrived.remove(group);
    }

    pub(super) fn note_ports_freed(&mut self) {
        self.ports_freed = true;
    }

    /// Whether ports were returned since the last call.
    pub(super) fn take_ports_freed(&mut self) -> bool {
        std::mem::take(&mut self.ports_freed)
    }

    /// Marks the group after the one that the last sweep marked.
    fn mark_next(&mut self, groups: &BTreeMap<GroupName, Group>) {
        let after = self.swept.take().map_or(Bound::Unbounded, Bound::Excluded);
        let next = groups.range((after, Bound::Unbounded)).next().or_else(|| groups.iter().next());
        self.swept = next.map(|(name, _)| name.clone());
        self.marked.extend(self.swept.clone());
    }
}

impl Leading<'_> {
    /// Reconciles marked groups, a bounded number of them.
    pub(in crate::core) fn reconcile_groups(&mut self) {
        if commands::cluster::is_paused(self) {
            return;
        }
        let mut planned = 0;
        while planned < INSTANCES_PER_INPUT {
            let Some(name) = self.lead.queue.marked.pop_first() else { return };
            self.reconcile(&Object::Group(name.clone()), |leading| leading.reconcile_group(&name));
            let instances = self.state.groups.get(&name).map_or(0, |group| group.instances().len());
            planned += instances.max(SMALLEST_COST);
        }
    }

    /// A node reported something about the group: it is reconciled now, or later together with the next reports.
    pub(super) fn reconcile_soon(&mut self, name: GroupName) {
        if !self.state.groups.contains_key(&name) {
            return;
        }
        match self.lead.queue.rate_limit.delayed_until(self.now) {
            Some(later) => self.lead.timers.set_earlier(Timer::Group(name), later),
            None => self.lead.queue.mark(name),
        }
    }

    /// Marks the next group of the slow sweep.
    pub(in crate::core) fn sweep(&mut self) {
        self.lead.queue.mark_next(&self.state.groups);
        self.state.dependencies.mark_next();
        self.lead.timers.set(Timer::Sweep, Some(self.now + SWEEP_EVERY));
    }

    fn reconcile_group(&mut self, name: &GroupName) {
        removal::evict(self, name);
        let Some(group) = self.state.groups.get(name) else {
            self.lead.queue.set_unschedulable(name, false);
            return self.lead.timers.set(Timer::Group(name.clone()), None);
        };
        if group.is_orphan() {
            return self.lead.timers.set(Timer::Group(name.clone()), None);
        }
        let need = group.need(group.record.spec.version);
        self.state.nodes.prepare(need);
        let Some(group) = self.state.groups.get(name) else { return };
        let terminating = input::terminating(self, name, group);
        let faults = self.settings.faults;
        let sight = faults.reported_pods(self.reports, name, group);
        let record = faults.falsify_record(&group.record);
        let input = GroupInput {
            state: self.state,
            settings: self.settings,
            sight,
            terminating: &terminating,
            vacated: input::confirmed_gone(self, name, group.instances()),
            has_leftovers: input::is_lingering(self, name, group),
            known: self.lead.commit_times.of(name),
            ranking: Some(self.state.nodes.ranking()),
        };
        faults.panic_on(&group.record.spec.pod, group.is_removing());
        let plan = input.plan_with(group, &record, |facts| plan_group(facts, self.now));
        let plan = faults.falsify_plan(&group.record, plan);
        self.lead.timers.set(Timer::Group(name.clone()), plan.wake_at);
        let (removing, before) = (group.is_removing(), nodes_left(group.instances()));
        self.lead.queue.rate_limit.planned(group.instances().len(), self.now);
        if removing {
            removal::finish_removal(self, name, &plan);
        } else {
            apply::conclude(self, name, plan);
        }
        for node in terminating.nodes {
            self.lead.queue.wait_for(node, name);
        }
        input::await_confirmations(self, name, &before);
    }
}

/// The node each instance leaves.
fn nodes_left(instances: &[Instance]) -> Vec<Option<NodeName>> {
    instances.iter().map(|instance| instance.leaves.clone()).collect()
}

impl Leading<'_> {
    /// Capacity may have appeared: unschedulable groups are tried again soon.
    pub(in crate::core) fn retry_unschedulable(&mut self) {
        if !self.lead.queue.unschedulable.is_empty() {
            self.lead.timers.set_once(Timer::Unschedulable, self.now + RETRY_UNSCHEDULABLE_AFTER);
        }
    }
}
