//! Plans groups that something happened to, and turns plans into decisions.
//!
//! Only groups marked dirty are planned, a bounded number per input so that a takeover of ten thousand groups does not keep
//! reports and questions waiting; behind that a slow sweep visits every group, so that a lost mark costs time, not truth.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use contract::brakes::Constraint;
use contract::command::Operation;
use contract::keys;
use contract::name::{GroupName, NodeName};
use contract::notice::Incident;
use contract::order::Assignment;
use contract::pod_id::PodId;
use contract::query::Liveness;
use contract::record::{PlacementRecord, Slot};
use contract::report::PodFacts;
use contract::spec::PodSpec;
use planner::group::{GroupFacts, GroupPlan, plan_group};
use planner::notices::{self, Happening};

use super::alarms::Alarm;
use super::commit::{self, Bundle, OrderChange};
use super::io::{Effect, Mutant, Write};
use super::leader::{Leading, SWEEP_EVERY};
use super::state::{Group, State, pod_id};

/// Groups planned per input.
const MOST_PLANS: usize = 64;
/// A group of more instances is large: planning it costs milliseconds, and its instances report one by one.
const LARGE: usize = 200;
/// A large group is planned for reports at most once in so long.
const LARGE_EVERY: Duration = Duration::from_millis(200);

/// What a group's placement means for the orders of its nodes.
#[derive(Debug, Default)]
pub(super) struct Assignments {
    pods: BTreeMap<(NodeName, PodId), Assignment>,
    spec: Option<Arc<PodSpec>>,
}

/// The assignments of a group as it stands.
pub(super) fn assignments(name: &GroupName, group: &Group) -> Assignments {
    let restart_policy = group.record.spec.restart_policy;
    let placed = group.slots().iter().enumerate().filter_map(|(index, slot)| {
        let assignment = Assignment { target: slot.target, restart_policy };
        Some(((slot.node.clone()?, pod_id(name, index, slot)), assignment))
    });
    Assignments { pods: placed.collect(), spec: Some(Arc::clone(&group.pod)) }
}

impl Assignments {
    /// What turns these into `after`; none means no assignments at all.
    pub(super) fn changes_to(&self, after: Option<&Self>) -> Vec<OrderChange> {
        let gone = self.pods.keys().filter(|key| after.is_none_or(|after| !after.pods.contains_key(*key)));
        let gone = gone.map(|(node, pod)| OrderChange { node: node.clone(), pod: pod.clone(), what: None });
        let puts = after.into_iter().flat_map(|after| {
            let changed = after.pods.iter().filter(|(key, assignment)| self.pods.get(*key) != Some(*assignment));
            changed.filter_map(|((node, pod), assignment)| {
                let what = Some((*assignment, Arc::clone(after.spec.as_ref()?)));
                Some(OrderChange { node: node.clone(), pod: pod.clone(), what })
            })
        });
        gone.chain(puts).collect()
    }

    /// Every assignment, for a desk that starts from nothing.
    pub(super) fn all(&self) -> Vec<OrderChange> {
        Self::default().changes_to(Some(self))
    }
}

impl Leading<'_> {
    /// Plans dirty groups, a bounded number of them.
    pub(super) fn plan_dirty(&mut self) {
        if !self.state.engine.running && !self.has_mutant(Mutant::NoBrakes) {
            return;
        }
        for _ in 0..MOST_PLANS {
            let Some(name) = self.lead.dirty.pop_first() else { return };
            self.plan_one(&name);
        }
    }

    /// A node reported something about the group: it is planned, a large one together with what is reported next.
    pub(super) fn reported(&mut self, name: GroupName) {
        let Some(group) = self.state.groups.get(&name) else { return };
        let not_before = group.planned_at + LARGE_EVERY;
        if group.slots().len() > LARGE && self.now < not_before {
            self.lead.alarms.set_earlier(Alarm::Group(name), not_before);
        } else {
            self.lead.dirty.insert(name);
        }
    }

    /// Marks the next group of the slow sweep.
    pub(super) fn sweep(&mut self) {
        let groups = &self.state.groups;
        let after = self.lead.swept.take().map_or(Bound::Unbounded, Bound::Excluded);
        let next = groups.range((after, Bound::Unbounded)).next().or_else(|| groups.iter().next());
        self.lead.swept = next.map(|(name, _)| name.clone());
        self.lead.dirty.extend(self.lead.swept.clone());
        self.lead.alarms.set(Alarm::Sweep, Some(self.now + SWEEP_EVERY));
    }

    fn plan_one(&mut self, name: &GroupName) {
        self.vacate(name);
        let Some(group) = self.state.groups.get(name) else {
            self.lead.waiting.remove(name);
            return self.lead.alarms.set(Alarm::Group(name.clone()), None);
        };
        let constraints: Vec<String> = self.state.constraints.values().map(Constraint::expression).collect();
        let seen: Vec<Option<&PodFacts>> = (group.slots().iter().enumerate())
            .map(|(index, slot)| self.ears.pod(slot.node.as_ref()?, &pod_id(name, index, slot)))
            .collect();
        let facts = GroupFacts {
            spec: &group.record.spec,
            need: group.need,
            operation: group.record.operation.as_ref(),
            operation_limit: self.settings.operation_limit,
            slots: group.slots(),
            seen: &seen,
            lingers: self.lingers(name, group),
            guarding: self.state.engine.guarding,
            constraints: &constraints,
            blocked: !group.record.taken_ports.is_empty(),
            hosts: &self.state.hosts,
            tenants: &*self.state,
        };
        let plan = plan_group(&facts, self.now);
        self.lead.alarms.set(Alarm::Group(name.clone()), plan.wake_at);
        let removing = group.is_removing();
        if let Some(group) = self.state.groups.get_mut(name) {
            group.planned_at = self.now;
        }
        if removing {
            self.conclude_removal(name, &plan);
        } else {
            self.conclude(name, plan);
        }
    }

    /// The instances of a group that is being removed leave their nodes.
    fn vacate(&mut self, name: &GroupName) {
        let Some(group) = self.state.groups.get_mut(name) else { return };
        if !group.is_removing() || group.slots().is_empty() {
            return;
        }
        let nodes: Vec<NodeName> = group.slots().iter().filter_map(|slot| slot.node.clone()).collect();
        group.draining.extend(nodes);
        let writes = vec![commit::put(keys::placement(name), &PlacementRecord::default())];
        let changes = replace_slots(self.state, name, Vec::new());
        self.room_appeared();
        self.decide(Bundle { writes, changes, ..Bundle::default() });
    }

    /// Whether a node that is not lost still has, or may still get, pods of the group that must go.
    fn lingers(&self, name: &GroupName, group: &Group) -> bool {
        let reachable =
            |node: &NodeName| self.state.hosts.get(node).is_some_and(|host| host.liveness != Liveness::Lost);
        let wanted = u32::try_from(group.record.spec.num_instances).unwrap_or(0);
        match group.record.operation.as_ref().map(|operation| operation.kind) {
            None | Some(Operation::Deploying) => false,
            Some(Operation::Scheduling) => {
                let mut nodes = self.ears.sightings(name).filter(|node| reachable(node));
                nodes.any(|node| self.ears.has_beyond(node, name, wanted))
            }
            Some(Operation::Removing) => {
                self.ears.sightings(name).any(reachable) || group.draining.iter().any(reachable)
            }
        }
    }

    fn conclude_removal(&mut self, name: &GroupName, plan: &GroupPlan) {
        if !plan.finished {
            return;
        }
        self.state.drop_group(name);
        self.lead.alarms.set(Alarm::Group(name.clone()), None);
        let mut writes = self.forget_history(name);
        writes.extend([keys::group(name), keys::placement(name)].map(|key| Write::Delete { key }));
        self.decide(Bundle { writes, ..Bundle::default() });
    }

    fn conclude(&mut self, name: &GroupName, plan: GroupPlan) {
        if plan.waiting {
            self.lead.waiting.insert(name.clone())
        } else {
            self.lead.waiting.remove(name)
        };
        let effects = self.notices(name, &plan);
        let Some(group) = self.state.groups.get_mut(name) else { return };
        let mut bundle = Bundle { effects, ..Bundle::default() };
        if plan.finished {
            group.record.operation = None;
            group.record.updated_at = self.now;
            bundle.writes.push(commit::put(keys::group(name), &group.record));
        }
        if plan.store {
            bundle.writes.push(commit::put(keys::placement(name), &to_store(&plan.slots)));
            bundle.changes = replace_slots(self.state, name, plan.slots);
            self.room_appeared();
        } else if group.slots() != plan.slots {
            self.state.set_slots(name, plan.slots);
        }
        if !bundle.writes.is_empty() || !bundle.effects.is_empty() {
            self.decide(bundle);
        }
    }

    fn notices(&self, name: &GroupName, plan: &GroupPlan) -> Vec<Effect> {
        let Some(group) = self.state.groups.get(name).filter(|_| !self.state.callbacks.is_empty()) else {
            return Vec::new();
        };
        let tell = |(instance, incident): &(u32, Incident)| {
            let pod = PodId { group: name.clone(), instance: *instance, version: 0, drift: 0 };
            let happening = Happening { incident: *incident, at: self.now };
            let body = notices::body(&group.record.spec.namespace, &pod, happening);
            Effect::Notify { callbacks: self.state.callbacks.iter().cloned().collect(), body }
        };
        plan.incidents.iter().map(tell).collect()
    }
}

fn replace_slots(state: &mut State, name: &GroupName, slots: Vec<Slot>) -> Vec<OrderChange> {
    let before = state.groups.get(name).map(|group| assignments(name, group)).unwrap_or_default();
    state.set_slots(name, slots);
    let after = state.groups.get(name).map(|group| assignments(name, group));
    before.changes_to(after.as_ref())
}

/// The slots as stored: a thousand instances without a place have one reason, and it is kept once.
fn to_store(slots: &[Slot]) -> PlacementRecord {
    let mut last_reason = "";
    let mut kept = slots.to_vec();
    for (slot, kept) in slots.iter().zip(&mut kept) {
        if slot.node.is_none() && slot.why == last_reason {
            kept.why.clear();
        }
        last_reason = &slot.why;
    }
    PlacementRecord { slots: kept }
}
