//! Plans groups that something happened to, and turns plans into decisions.
//!
//! Only groups marked dirty are planned, a bounded number per input so that a takeover of ten thousand groups does not keep
//! reports and questions waiting; behind that a slow sweep visits every group, so that a lost mark costs time, not truth.

use std::ops::Bound;
use std::time::Duration;

use contract::brakes::Constraint;
use contract::keys;
use contract::name::{GroupName, NodeName};
use contract::record::{GroupRecord, PlacementRecord, Slot};
use contract::report::PodFacts;
use contract::state::TargetState;
use planner::group::{GroupFacts, GroupPlan, Patience, plan_group};

use super::alarms::Alarm;
use super::commit::{self, Bundle};
use super::io::{Mutant, Write};
use super::leader::{Leading, SWEEP_EVERY};
use super::moves::moves;
use super::state::pod_id;

/// Groups planned per input.
const MOST_PLANS: usize = 64;
/// A group of more instances is large: planning it costs milliseconds, and its instances report one by one.
const LARGE: usize = 200;
/// A large group is planned for reports at most once in so long.
const LARGE_EVERY: Duration = Duration::from_millis(200);

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
        self.sweep_dependencies();
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
            record: &group.record,
            revisions: &group.revisions,
            patience: Patience { operation: self.settings.operation_limit, health_poll: self.settings.health_poll },
            slots: group.slots(),
            seen: &seen,
            vacated: &self.vacated(name, group.slots()),
            lingers: self.lingers(name, group),
            guarding: self.state.engine.guarding,
            constraints: &constraints,
            hosts: &self.state.hosts,
            tenants: &*self.state,
        };
        let plan = self.spoiled(&group.record, plan_group(&facts, self.now));
        self.lead.alarms.set(Alarm::Group(name.clone()), plan.wake_at);
        let (removing, before) = (group.is_removing(), left(group.slots()));
        if let Some(group) = self.state.groups.get_mut(name) {
            group.planned_at = self.now;
        }
        if removing {
            self.conclude_removal(name, &plan);
        } else {
            self.conclude(name, plan);
        }
        self.expect_vacancies(name, &before);
    }

    /// The plan without one of the planner's guards, for the simulator.
    fn spoiled(&self, before: &GroupRecord, mut plan: GroupPlan) -> GroupPlan {
        if self.has_mutant(Mutant::ForgetsStops) {
            let upgraded = plan.slots.iter_mut().filter(|slot| slot.version > 0 && slot.version == before.spec.version);
            upgraded.for_each(|slot| slot.target = TargetState::Run);
        }
        if let Some((record, proven)) = plan.record.as_mut().zip(before.proven)
            && self.has_mutant(Mutant::VersionGoesBack)
            && record.spec.version > before.spec.version
        {
            (record.spec.version, record.spec.pod.version) = (proven, proven);
        }
        plan
    }

    /// The instances of a group that is being removed leave their nodes.
    fn vacate(&mut self, name: &GroupName) {
        let Some(group) = self.state.groups.get_mut(name).filter(|group| group.is_removing()) else { return };
        if group.slots().is_empty() {
            return self.note_drained(name);
        }
        let had = |slot: &Slot| [slot.node.clone(), slot.leaves.clone()];
        let nodes: Vec<NodeName> = group.slots().iter().flat_map(had).flatten().collect();
        group.draining.extend(nodes);
        let effects = moves(name, group.slots(), &[], self.now);
        let writes = vec![commit::put(keys::placement(name), &PlacementRecord::default())];
        let before = self.state.assignments(name);
        self.state.set_slots(name, Vec::new());
        let changes = before.changes_to(&self.state.assignments(name));
        self.room_appeared();
        self.decide(Bundle { writes, effects, changes, ..Bundle::default() });
    }

    fn conclude_removal(&mut self, name: &GroupName, plan: &GroupPlan) {
        if !plan.gone {
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
        let effects = self.plan_told(name, &plan);
        let mut bundle = Bundle { effects, ..Bundle::default() };
        if plan.record.is_some() || plan.store {
            let before = self.state.assignments(name);
            if let Some(record) = plan.record {
                if record.operation.is_none() && !record.drifts.is_empty() {
                    // The lock is free for who waited for it.
                    self.lead.dirty.insert(name.clone());
                }
                bundle.writes.push(self.set_record(name, record));
            }
            if plan.store {
                bundle.writes.push(commit::put(keys::placement(name), &to_store(&plan.slots)));
                self.room_appeared();
            }
            self.state.set_slots(name, plan.slots);
            bundle.changes = before.changes_to(&self.state.assignments(name));
        } else if self.state.groups.get(name).is_some_and(|group| group.slots() != plan.slots) {
            self.state.set_slots(name, plan.slots);
        }
        if !bundle.writes.is_empty() || !bundle.effects.is_empty() {
            self.decide(bundle);
        }
    }

    /// Changes a group's record; the write that stores it. Ports it does not claim any longer are free.
    pub(super) fn set_record(&mut self, name: &GroupName, record: GroupRecord) -> Write {
        let write = commit::put(keys::group(name), &record);
        let before = self.state.claims.of(name).cloned();
        self.state.set_record(name, record, self.settings.quota_cores);
        self.lead.ports_freed |= before.as_ref() != self.state.claims.of(name);
        write
    }
}

/// The node each instance leaves.
fn left(slots: &[Slot]) -> Vec<Option<NodeName>> {
    slots.iter().map(|slot| slot.leaves.clone()).collect()
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
